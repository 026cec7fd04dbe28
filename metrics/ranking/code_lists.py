"""The lists that binary codes rank: from the number of items of each level at each distance, or item by item."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..conventions.request import Plan
from ..formulas.values import Ranking, measure_ranking

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..conventions.names import Metric
    from .masks import Mask
    from .ranked import Ranked, Ties
    from .tree_order import TreeOrder


class Codes(NamedTuple):
    """Queries (Q, W) and a gallery in tree order (W, N), as uint64 words, with what is left out of each list.

    Attributes:
        queries: as are
        gallery: words.
        num_bits: the longest distance.
        tree: the gallery's order, and the positives' ranges in it.
        mask: what is left out.
        totals: (Q, L+1) items of each level in each list.
        counts: (Q, L+1) what H-AP's relevance counts; the totals if None.
    """

    queries: NDArray[np.uint64]
    gallery: NDArray[np.uint64]
    num_bits: int
    tree: TreeOrder
    mask: Mask
    totals: NDArray[np.int64]
    counts: NDArray[np.int64] | None

    def in_order(self, plan: Plan) -> bool:
        """Whether items must be put in order one by one."""
        return plan.ties == "index" or self.mask.place is not None

    def row_bytes(self, plan: Plan) -> int:
        """Memory for the list of one query."""
        if self.in_order(plan):
            return 32 * int(self.gallery.shape[1])
        return 32 * int(self.totals[:, 1:].sum(axis=1).max(initial=0)) + 8 * (self.num_bits + 1) * plan.num_levels


class _Lists(NamedTuple):
    """Lists of some queries: as metrics read them, with tie groups kept unless the index breaks ties, and sizes."""

    ranking: Ranking
    grouped: Callable[[], Ranked]
    totals: NDArray[np.int64]


def code_values(codes: Codes, rows: slice, plan: Plan, hashing: list[Metric]) -> NDArray[np.float64]:
    """(r, M + H) values of the plan's metrics, then of hashing's AP@k."""
    from ..formulas.hashing_ap import found_precisions

    lists = (_in_order if codes.in_order(plan) else _by_counting)(codes, rows, plan)
    counts = lists.totals if codes.counts is None else codes.counts[rows]
    columns = [measure_ranking(lists.ranking, lists.totals, counts, plan)]
    for metric in hashing:
        cutoff = min(metric.cutoff or lists.ranking.num_ranks, lists.ranking.num_ranks)
        found = found_precisions(lists.grouped(), metric.level, cutoff, plan.ties)
        empty = 0.0 if plan.rules.empty_queries == "zero" else np.nan
        columns.append(np.where(lists.totals[:, metric.level :].any(axis=1), found, empty)[:, None])
    return np.hstack(columns)


def _by_counting(codes: Codes, rows: slice, plan: Plan) -> _Lists:
    """Lists from the number of items of each level at each distance."""
    from .hamming import count_distances, count_positives, leave_out

    queries, tree = codes.queries[rows], codes.tree
    shape = (len(queries), codes.num_bits + 1)
    counts, positives = np.empty(shape, np.int64), np.empty((*shape, plan.num_levels + 1), np.int64)
    count_distances(queries, codes.gallery, counts)
    count_positives(queries, codes.gallery, tree.low[rows], tree.high[rows], positives)
    pair_rows, items = codes.mask.pairs(rows)
    places = tree.place[items]
    inside = (tree.low[rows][pair_rows] <= places[:, None]) & (places[:, None] < tree.high[rows][pair_rows])
    leave_out(queries, codes.gallery, pair_rows, places, inside.sum(axis=1), counts, positives)

    def ranked(preference: NDArray[np.float64]) -> Ranked:
        order = np.argsort(preference, axis=1, kind="stable")
        order = np.ascontiguousarray(order[:, ::-1]) if plan.ties == "best" else order
        return _ranked(counts, positives, order, keep_groups=plan.ties in ("average", "paper"))

    def grouped() -> Ranked:
        any_order = np.tile(np.arange(plan.num_levels + 1), (len(queries), 1))
        return _ranked(counts, positives, any_order, keep_groups=True)

    return _Lists(Ranking(ranked, codes.gallery.shape[1]), grouped, codes.totals[rows])


def _ranked(
    counts: NDArray[np.int64], positives: NDArray[np.int64], order: NDArray[np.int64], *, keep_groups: bool
) -> Ranked:
    from .hamming import rank_counts
    from .ranked import Ranked

    number = positives.sum(axis=(1, 2))
    shape = (len(counts), int(number.max(initial=0)))
    ranked = Ranked(np.empty(shape, np.uint8), np.empty(shape, np.int32), np.empty(shape, np.int32), number)
    rank_counts(counts, positives, order, keep_groups, ranked)
    return ranked


def _in_order(codes: Codes, rows: slice, plan: Plan) -> _Lists:
    """Lists item by item, where the smaller index comes first, or the first or last item of a list goes."""
    from .hamming import distances
    from .masks import drop_placed
    from .ranked import placed_matrix, ranked_positives
    from .tree_order import fill_levels

    found = np.empty((rows.stop - rows.start, codes.gallery.shape[1]), np.uint16)
    levels = np.empty(found.shape, np.uint8)
    distances(codes.queries[rows], codes.gallery, found)
    fill_levels(codes.tree.low[rows], codes.tree.high[rows], levels)
    place = codes.tree.place  # back to the order the user gave the gallery
    excluded = codes.mask.excluded(rows, place)[:, place]
    scores, levels, totals = -found[:, place].astype(np.float32), levels[:, place], codes.totals[rows]
    if codes.mask.place is not None:
        totals = drop_placed(codes.mask.place, scores, levels, excluded, np.arange(len(place)), totals)
    placed = placed_matrix(scores, levels, excluded, ties=plan.ties)

    def ranked(preference: NDArray[np.float64]) -> Ranked:
        return ranked_positives(placed, ties=plan.ties, preference=preference)

    def grouped() -> Ranked:
        keeping: Ties = "index" if plan.ties == "index" else "average"
        return ranked_positives(placed, ties=keeping, preference=np.zeros((len(found), plan.num_levels + 1)))

    return _Lists(Ranking(ranked, placed.num_ranks), grouped, totals)
