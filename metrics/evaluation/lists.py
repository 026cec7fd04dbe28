"""Ranked lists made elsewhere, with their levels: from gallery indices, or from a run and its judgments."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from numbers import Number
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hiertree.arrays import to_numpy
from hiertree.errors import OptionError, PathError, ShapeError

from ..engine.retrieval import Retrieval, ScoredLists
from ..ranking.gallery import labeled_gallery
from ..trec.forms import as_qrels, as_run
from .inputs import checked_num_levels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..conventions.request import MetricRequest
    from ..trec.triples import NegativeQrels, Triples
    from .inputs import Labels


def as_indices(run: Any) -> NDArray[np.int64]:
    """Check (Q, K) integers."""
    indices = to_numpy(run)
    if indices.ndim != 2 or indices.dtype.kind not in "iu":
        remedy = "pass the second part of what faiss returns" if indices.ndim == 3 and len(indices) == 2 else None
        given = f"a run of shape {indices.shape} and type {indices.dtype}"
        raise ShapeError(given, expected="(Q, K) gallery indices", remedy=remedy)
    return indices.astype(np.int64, copy=False)


def check_indices(indices: NDArray[np.int64], num_items: int) -> None:
    """Refuse an index outside the gallery, and one that a list holds twice.

    Raises:
        PathError: there is one; the message names the row.
    """
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
    """Lists of gallery indices, ranked by scores or by their order.

    Args:
        indices: (Q, K), −1 where a list ends.
        labels: paths of queries and gallery, and what lists leave out.
        request: what to compute.
        scores: (Q, K), larger being better; unless given the order of each list ranks.
    """
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
    """Leave out the first item of each list that has one."""
    rows = np.flatnonzero(~excluded.all(axis=1))
    columns = excluded[rows].argmin(axis=1)
    excluded[rows, columns] = True
    totals[rows, levels[rows, columns]] -= 1


class NamedLists(NamedTuple):
    r"""A run with the levels of its items.

    Attributes:
        lists: padded to one length.
        totals: (Q, L+1) items that are judged to be of each level.
        query_ids: the names of the queries, the judged ones first.
        num_judged: how many of them are judged.
        source: what the items were ranked by, for the convention card.
        counted: what \|Ω^(l)\| counts, for the convention card.
    """

    lists: ScoredLists
    totals: NDArray[np.int64]
    query_ids: Sequence[Any]
    num_judged: int
    source: str
    counted: str

    @property
    def num_levels(self) -> int:
        """L."""
        return int(self.totals.shape[1]) - 1

    def retrieval(self, request: MetricRequest) -> Retrieval[ScoredLists]:
        """With what is asked for."""
        scores = f"{self.source}; unlisted positives count as never found"
        card = request.convention(self_rule="every item as listed", scores=scores, counts=self.counted)
        return Retrieval(self.lists, request, self.totals, None, card, self.query_ids)


def named_lists(
    run: Any, qrels: Any, num_levels: int | None, unjudged: str, negative_qrels: NegativeQrels = "error"
) -> NamedLists:
    """A run and its judgments, in any form."""
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
    lists = _padded(row, listed.value, level.clip(min=0), len(numbers))
    return NamedLists(lists, totals, [*numbers], len(judged.queries), listed.source, counted)


def _example(names: Sequence[Hashable]) -> str:
    return f"such as {names[0]!r}" if len(names) else "none"


def _check_same_names(listed: Sequence[Hashable], judged: Sequence[Hashable]) -> None:
    """Refuse items of other types than the judged ones, such as 7 and '7', which are never equal."""
    kinds = [
        {next((kind for kind in (str, Number) if isinstance(name, kind)), type(name)) for name in names}
        for names in (listed, judged)
    ]
    if kinds[0] and kinds[1] and not kinds[0] & kinds[1]:
        given = f"a run of items {_example(listed)}"
        raise OptionError(given, expected=f"names of the type of the judged items, {_example(judged)}")


def _padded(row: NDArray[np.int64], value: NDArray[np.float64], level: NDArray[np.int64], number: int) -> ScoredLists:
    """Items, each with the row of its list, as lists of one length."""
    order, lengths = np.argsort(row, kind="stable"), np.bincount(row, minlength=number)
    row, place = row[order], np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    shape = (number, int(lengths.max(initial=0)))
    scores, levels, excluded = np.zeros(shape), np.zeros(shape, np.uint8), np.ones(shape, np.bool_)
    scores[row, place], levels[row, place], excluded[row, place] = value[order], level[order], False
    return ScoredLists(scores, levels, excluded)


def _levels_of_listed(listed: Triples, judged: Triples, row: NDArray[np.int64]) -> NDArray[np.int64]:
    """The level of each item of a run, −1 without a judgment; ``row`` numbers its queries as the judgments do."""
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
