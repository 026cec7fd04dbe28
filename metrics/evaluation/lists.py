"""Ranked lists made elsewhere, with their levels: from gallery indices, or from a run and its judgements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hiertree.arrays import as_paths, to_numpy
from hiertree.errors import OptionError, PathError, ShapeError

from ..conventions.request import Plan
from ..engine.blocks import for_row_ranges
from ..formulas.values import measure
from ..ranking.masks import said_of_distractors, with_distractors
from .runs import as_qrels, as_run
from .scores import checked_num_levels
from .triples import Triples

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..conventions.rules import Rules
    from ..ranking.masks import Mask


class RankedLists(NamedTuple):
    r"""Ranked lists with their levels, padded to one length.

    Attributes:
        scores: (Q, K) falling along each list; equal where the list leaves the order open.
        levels: (Q, K) uint8.
        excluded: (Q, K), True for padding and for what is left out.
        totals: (Q, L+1) items of each level that exist, listed or not; level 0 counts only what is known.
        counts: (Q, L+1) what H-AP's relevance counts.
        query_ids: Q ids.
        self_rule: for the convention card, as are
        source: what was ranked by, and
        counted: what \|Ω^(l)\| counts.
        query_paths: (Q, L) where they are known.
    """

    scores: NDArray[Any]
    levels: NDArray[np.uint8]
    excluded: NDArray[np.bool_]
    totals: NDArray[np.int64]
    counts: NDArray[np.int64]
    query_ids: Sequence[Any]
    self_rule: str
    source: str
    counted: str
    query_paths: NDArray[np.int64] | None = None

    def values(self, plan: Plan) -> NDArray[np.float64]:
        """(Q, M) values of the metrics."""
        from ..ranking.ranked import placed_matrix

        values = np.empty((len(self.totals), len(plan.metrics)))

        def work(rows: slice) -> None:
            placed = placed_matrix(self.scores[rows], self.levels[rows], self.excluded[rows], ties=plan.ties)
            values[rows] = measure(placed, self.totals[rows], plan, counts=self.counts[rows])

        for_row_ranges(work, len(values), row_bytes=40 * max(self.scores.shape[1], 1))
        return values


def as_indices(run: Any) -> NDArray[np.int64]:
    """Check (Q, K) integers."""
    indices = to_numpy(run)
    if indices.ndim != 2 or indices.dtype.kind not in "iu":
        raise ShapeError(f"a run of shape {indices.shape} and type {indices.dtype}", expected="(Q, K) gallery indices")
    return indices.astype(np.int64, copy=False)


def paths_of_lists(
    indices: NDArray[np.int64], query_paths: Any, gallery_paths: Any, distractors: Any
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Check paths, the gallery's being the queries' unless given, and that lists hold items of the gallery, each once.

    Raises:
        ShapeError: paths of another number of queries, or of two numbers of levels; not one boolean an item.
        OptionError: distractors in self-retrieval.
        PathError: an index outside the gallery, or twice in a list.
    """
    queries = as_paths(query_paths, name="query_paths", num_items=len(indices))
    items = queries
    if gallery_paths is not None:
        items = with_distractors(gallery_paths, distractors, len(to_numpy(gallery_paths)))
    elif distractors is not None:
        raise OptionError("distractors in self-retrieval", expected="a separate gallery: a query needs a label")
    if items.shape[1] != queries.shape[1]:
        raise ShapeError(f"gallery_paths of {items.shape[1]} levels", expected=f"the queries' {queries.shape[1]}")
    outside = np.flatnonzero(((indices < -1) | (indices >= len(items))).any(axis=1))
    if len(outside):
        raise PathError(f"row {outside[0]} of the run", expected=f"indices from 0 to {len(items) - 1}, or −1 for none")
    ordered = np.sort(indices, axis=1)
    twice = np.flatnonzero(((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(axis=1))
    if len(twice):
        raise PathError(f"row {twice[0]} of the run", expected="no index twice")
    return queries, items


def lists_of_indices(
    indices: NDArray[np.int64],
    queries: NDArray[np.int64],
    items: NDArray[np.int64],
    mask: Mask,
    rules: Rules,
    *,
    scores: NDArray[Any] | None = None,
    source: str = "ranked lists",
) -> RankedLists:
    """Lists of gallery indices, by the places in them or by scores.

    Args:
        indices: (Q, K), −1 where a list ends.
        queries: (Q, L) paths.
        items: (N, L) paths.
        mask: what is left out; the first hit too, if it says so.
        rules: what H-AP's relevance counts.
        scores: (Q, K); unless given the place in the list ranks.
        source: for the convention card.
    """
    from ..ranking.tree_order import tree_order

    agree, levels = np.ones(indices.shape, np.bool_), np.zeros(indices.shape, np.uint8)
    for column in range(items.shape[1]):
        agree &= items[indices, column] == queries[:, None, column]
        levels += agree
    totals = tree_order(queries, items).totals() - mask.counts(queries, items)
    counts = tree_order(queries, queries).totals() if rules.counts == "official" else totals
    rows, masked = mask.pairs(slice(0, len(queries)))
    places = np.arange(len(queries))[:, None] * len(items)
    excluded = (indices < 0) | np.isin(places + indices, rows * len(items) + masked)
    if mask.place == "first":
        _drop_first(levels, excluded, totals)
    if scores is None:
        scores = np.broadcast_to(-np.arange(indices.shape[1], dtype=np.float64), indices.shape)
    said = mask.rule + said_of_distractors(items)
    return RankedLists(scores, levels, excluded, totals, counts, range(len(indices)), said, source, rules.counted)


def _drop_first(levels: NDArray[np.uint8], excluded: NDArray[np.bool_], totals: NDArray[np.int64]) -> None:
    """Leave out the first item of each list that has one."""
    rows = np.flatnonzero(~excluded.all(axis=1))
    columns = excluded[rows].argmin(axis=1)
    excluded[rows, columns] = True
    totals[rows, levels[rows, columns]] -= 1


def lists_of_names(run: Any, qrels: Any, num_levels: int | None, unjudged: str) -> RankedLists:
    """A run and its judgements, in any form."""
    listed, judged = as_run(run), as_qrels(qrels)
    rows = {name: row for row, name in enumerate(judged.queries)}
    if not any(name in rows for name in listed.queries):
        raise OptionError("run and qrels without a shared query", expected="the same query names in both")
    for name in listed.queries:
        rows.setdefault(name, len(rows))
    row = np.array([rows[name] for name in listed.queries], np.int64)[listed.query]
    level = _levels_of_listed(listed, judged, row)
    if unjudged == "error":
        advice = "pass unjudged='irrelevant' to count such items at level 0"
        listed.refuse(level < 0, "no judgement", expected="a level for every item", kind=PathError, remedy=advice)
    depth = checked_num_levels(num_levels, deepest=int(judged.value.max(initial=0)))
    order = np.argsort(row, kind="stable")
    lengths = np.bincount(row, minlength=len(rows))
    row, place = row[order], np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    shape = (len(rows), int(lengths.max(initial=0)))
    scores, levels, excluded = np.zeros(shape), np.zeros(shape, np.uint8), np.ones(shape, np.bool_)
    scores[row, place], levels[row, place], excluded[row, place] = listed.value[order], level[order].clip(min=0), False
    cells = judged.query * (depth + 1) + judged.value.astype(np.int64)
    totals = np.bincount(cells, minlength=len(rows) * (depth + 1)).reshape(len(rows), depth + 1)
    unknown = f"{int((level < 0).sum())} listed items without judgement at level 0"
    counted = f"strict: as judged by {judged.source}; "
    counted += "every listed item has a judgement" if unjudged == "error" else unknown
    self_rule = "every item as listed"
    return RankedLists(scores, levels, excluded, totals, totals, [*rows], self_rule, listed.source, counted)


def _levels_of_listed(listed: Triples, judged: Triples, row: NDArray[np.int64]) -> NDArray[np.int64]:
    """The level of each row of a run, −1 without a judgement; ``row`` numbers its queries as the judgements do."""
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
