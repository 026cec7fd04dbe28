"""Ranked lists made elsewhere, with their levels: of gallery indices, or of names with judgments or label paths."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from numbers import Number
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hiertree.arrays import shared_paths, to_numpy
from hiertree.errors import OptionError, PathError, ShapeError
from hiertree.level_columns import LabelNames

from ..engine.retrieval import Retrieval, ScoredLists
from ..ranking.gallery import labeled_gallery
from ..runs import as_qrels, as_run
from ..trec_reading import NegativeQrels, Triples, rows_of_names
from .inputs import MaskOptions, checked_num_levels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..request import MetricRequest
    from .inputs import Labels


class IndexLists(NamedTuple):
    """Lists of indices, and what labels them."""

    indices: NDArray[np.int64]  # (Q, K) rows of the gallery, −1 where a list ends
    scores: NDArray[np.float64] | None  # (Q, K), larger being better; None where the order of each list ranks
    query_paths: Any  # (Q, L) labels
    gallery_paths: Any  # (N, L) labels, or None in self-retrieval
    masks: MaskOptions
    query_names: Sequence[Hashable] | None = None  # for a run of names, as the next
    label_names: LabelNames | None = None


def lists_of_indices(run: Any, query_paths: Any, gallery_paths: Any, masks: MaskOptions) -> IndexLists:
    """A run of integers (Q, K), not yet compared with the gallery."""
    indices = to_numpy(run)
    if indices.ndim != 2 or indices.dtype.kind not in "iu":
        remedy = "pass the second part of what faiss returns" if indices.ndim == 3 and len(indices) == 2 else None
        given = f"a run of shape {indices.shape} and type {indices.dtype}"
        raise ShapeError(given, expected="(Q, K) gallery indices", remedy=remedy)
    if gallery_paths is not None and np.ndim(to_numpy(gallery_paths, name="gallery_paths")) == 0:
        gallery_paths = np.atleast_1d(to_numpy(gallery_paths))
    return IndexLists(indices.astype(np.int64, copy=False), None, query_paths, gallery_paths, masks)


def lists_of_names(
    run: Any, query_paths: Any, gallery_paths: Any, query_names: Any, gallery_names: Any, *, unjudged: str
) -> IndexLists:
    """A run of names whose labels are known: without a gallery the queries are those of the run, and all are items."""
    if (gallery_paths is None) != (gallery_names is None):
        raise OptionError("gallery_paths or gallery_names alone", expected="both or neither")
    sides = {"query_paths": query_paths} | ({} if gallery_paths is None else {"gallery_paths": gallery_paths})
    numbered, label_names = shared_paths(sides)
    queries, gallery = numbered["query_paths"], numbered.get("gallery_paths", numbered["query_paths"])
    row_of_query = rows_of_names(query_names, "query_names", len(queries))
    row_of_item = row_of_query if gallery_paths is None else rows_of_names(gallery_names, "gallery_names", len(gallery))
    listed = as_run(run)
    listed.refuse(
        np.array([name not in row_of_query for name in listed.queries], np.bool_)[listed.query],
        "a query without a label",
        expected="every query of the run among query_names",
        kind=PathError,
    )
    unknown = [name for name in listed.items if name not in row_of_item]
    if unknown and len(unknown) == len(listed.items):
        given = f"a run of items such as {unknown[0]!r}"
        raise OptionError(given, expected=f"items that have labels, such as {next(iter(row_of_item))!r}")
    if unknown and unjudged == "error":
        listed.refuse(
            np.isin(listed.item, [number for number, name in enumerate(listed.items) if name not in row_of_item]),
            "an item without a label",
            expected="a label for every item",
            kind=PathError,
            remedy="pass unjudged='irrelevant' to count such items at level 0",
        )
    rows = row_of_item | {name: len(gallery) + number for number, name in enumerate(unknown)}
    chosen = [*row_of_query] if gallery_paths is not None else [*listed.queries]
    place = {name: number for number, name in enumerate(chosen)}
    query = np.array([place[name] for name in listed.queries], np.int64)[listed.query]
    item = np.array([rows[name] for name in listed.items], np.int64)[listed.item]
    indices, scores = _padded(query, len(chosen), (item, -1), (listed.value, 0.0))
    own = None if gallery_paths is not None else np.array([row_of_query[name] for name in chosen], np.int64)
    paths = queries[[row_of_query[name] for name in chosen]]
    masks = MaskOptions(
        query_ids=own,
        gallery_ids=None if own is None else np.arange(len(rows)),
        distractors=np.arange(len(rows)) >= len(gallery) if unknown else None,
    )
    filled = np.concatenate([gallery, np.zeros((len(unknown), gallery.shape[1]), np.int64)])
    return IndexLists(indices, scores, paths, filled, masks, chosen, label_names)


def check_indices(indices: NDArray[np.int64], num_items: int) -> None:
    """Refuse an index outside the gallery, and one that a list holds twice, with a PathError that names the row."""
    outside = np.flatnonzero(((indices < -1) | (indices >= num_items)).any(axis=1))
    if len(outside):
        raise PathError(f"row {outside[0]} of the run", expected=f"indices from 0 to {num_items - 1}, or −1 for none")
    ordered = np.sort(indices, axis=1)
    twice = np.flatnonzero(((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(axis=1))
    if len(twice):
        raise PathError(f"row {twice[0]} of the run", expected="no index twice")


def retrieval_of_indices(
    indices: NDArray[np.int64],
    labels: Labels,
    request: MetricRequest,
    *,
    scores: NDArray[Any] | None = None,
) -> Retrieval[ScoredLists]:
    """Lists (Q, K) of gallery indices, −1 where one ends, ranked by scores (Q, K) or else by their order."""
    queries, items, mask = labels.query_paths, labels.gallery_paths, labels.mask
    gallery = labeled_gallery(queries, items, mask, request.rules)
    agree, levels = np.ones(indices.shape, np.bool_), np.zeros(indices.shape, np.uint8)
    for column in range(items.shape[1]):
        agree &= items[indices, column] == queries[:, None, column]
        levels += agree
    rows, masked = mask.pairs(slice(0, len(queries)))
    firsts = np.arange(len(queries))[:, None] * len(items)
    excluded = (indices < 0) | np.isin(firsts + indices, rows * len(items) + masked)
    if mask.place == "first":
        _drop_first(levels, excluded, gallery.totals)
    if scores is None:
        scores = np.broadcast_to(-np.arange(indices.shape[1], dtype=np.float64), indices.shape)
    card = request.convention(self_rule=mask.rule, scores="ranked lists; unlisted positives count as never found")
    lists = ScoredLists(scores, levels, excluded)
    return Retrieval(lists, request, gallery.totals, gallery.counts, card, range(len(queries)), queries)


def _drop_first(levels: NDArray[np.uint8], excluded: NDArray[np.bool_], totals: NDArray[np.int64]) -> None:
    rows = np.flatnonzero(~excluded.all(axis=1))
    columns = excluded[rows].argmin(axis=1)
    excluded[rows, columns] = True
    totals[rows, levels[rows, columns]] -= 1


class NamedLists(NamedTuple):
    """A run with the levels of its items."""

    lists: ScoredLists  # padded to one length
    totals: NDArray[np.int64]  # (Q, L+1) items that are judged to be of each level
    query_ids: Sequence[Any]  # names, the judged queries first
    num_judged: int
    source: str  # what the items were ranked by, for the convention card
    counted: str  # what |Ω^(l)| counts, for the card

    @property
    def num_levels(self) -> int:
        """L."""
        return int(self.totals.shape[1]) - 1

    def retrieval(self, request: MetricRequest) -> Retrieval[ScoredLists]:
        """The lists, and what is asked of them."""
        scores = f"{self.source}; unlisted positives count as never found"
        card = request.convention(self_rule="every item as listed", scores=scores, counts=self.counted)
        return Retrieval(self.lists, request, self.totals, None, card, self.query_ids)


def named_lists(
    run: Any, qrels: Any, num_levels: int | None, unjudged: str, negative_qrels: NegativeQrels = "error"
) -> NamedLists:
    """A run and its judgments, each in any form."""
    listed, judged = as_run(run), as_qrels(qrels, negative=negative_qrels)
    numbers = {name: number for number, name in enumerate(judged.queries)}
    if not any(name in numbers for name in listed.queries):
        examples = " and ".join(map(_example, (listed.queries, judged.queries)))
        given = f"run ({listed.source}) and qrels ({judged.source}) without a shared query: {examples}"
        raise OptionError(given, expected="the same query names in both")
    _check_same_names(listed.items, judged.items)
    for name in listed.queries:
        numbers.setdefault(name, len(numbers))
    row = np.array([numbers[name] for name in listed.queries], np.int64)[listed.query]
    level = _levels_of_listed(listed, judged, row)
    if unjudged == "error":
        advice = "pass unjudged='irrelevant' to count such items at level 0"
        listed.refuse(level < 0, "no judgment", expected="a level for every item", kind=PathError, remedy=advice)
    depth = checked_num_levels(num_levels, deepest=int(judged.value.max(initial=0)))
    cells = judged.query * (depth + 1) + judged.value.astype(np.int64)
    totals = np.bincount(cells, minlength=len(numbers) * (depth + 1)).reshape(len(numbers), depth + 1)
    unknown = f"{int((level < 0).sum())} listed items without judgment at level 0"
    counted = f"strict: as judged by {judged.source}; "
    counted += "every listed item has a judgment" if unjudged == "error" else unknown
    columns = (listed.value, 0.0), (level.clip(min=0).astype(np.uint8), 0), (np.zeros(len(row), np.bool_), True)
    lists = ScoredLists(*_padded(row, len(numbers), *columns))
    return NamedLists(lists, totals, [*numbers], len(judged.queries), listed.source, counted)


def _example(names: Sequence[Hashable]) -> str:
    return f"such as {names[0]!r}" if len(names) else "none"


def _check_same_names(listed: Sequence[Hashable], judged: Sequence[Hashable]) -> None:
    """Refuse items of other types than the judged ones: 7 and '7' are never equal."""
    kinds = [
        {next((kind for kind in (str, Number) if isinstance(name, kind)), type(name)) for name in names}
        for names in (listed, judged)
    ]
    if kinds[0] and kinds[1] and not kinds[0] & kinds[1]:
        given = f"a run of items {_example(listed)}"
        raise OptionError(given, expected=f"names of the type of the judged items, {_example(judged)}")


def _padded(row: NDArray[np.int64], number: int, *columns: tuple[NDArray[Any], Any]) -> list[NDArray[Any]]:
    """(Q, K) of each column of triples, in their order within a row; lists that end earlier hold the fill."""
    order, lengths = np.argsort(row, kind="stable"), np.bincount(row, minlength=number)
    row = row[order]
    place = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    padded = []
    for values, fill in columns:
        cells = np.full((number, int(lengths.max(initial=0))), fill, values.dtype)
        cells[row, place] = values[order]
        padded.append(cells)
    return padded


def _levels_of_listed(listed: Triples, judged: Triples, row: NDArray[np.int64]) -> NDArray[np.int64]:
    """The level of each item of a run, −1 without a judgment; ``row`` is the place of each query in the judgments."""
    numbers = {name: number for number, name in enumerate(judged.items)}
    item = np.array([numbers.get(name, -1) for name in listed.items], np.int64)[listed.item]
    known = (item >= 0) & (row < len(judged.queries))
    order = np.argsort(judged.pairs())
    pairs = judged.pairs()[order]
    wanted = row * max(len(judged.items), 1) + item
    place = np.searchsorted(pairs, wanted).clip(max=max(len(pairs) - 1, 0))
    if len(pairs):
        known &= pairs[place] == wanted
    level = np.full(len(row), -1, np.int64)
    level[known] = judged.value[order][place[known]].astype(np.int64)
    return level
