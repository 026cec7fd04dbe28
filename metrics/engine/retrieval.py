"""A checked retrieval: its source of rankings, its item counts and the requested metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from hiertree import level_counts
from hiertree.evaluation_options import Ties
from hiertree.jit import Array, Bools, Bytes, Floats, Ints

from ..conventions import MetricRequest
from ..formulas import FORMULAS
from ..ranking.ranked import Ranked, RankedLists, rank_matrix, ranked_positives
from ..ranking.sorted_positives import BYTES_OF_A_POSITIVE, SortedPositives
from .blocks import for_each, row_ranges

# Kinds that always leave out queries without positives: AP# as its authors do, distances because 0 is their best.
_LEAVES_OUT = ("AP#", "HD", "mistake-severity")
_ITEM_BYTES = 40  # per item while a list is ranked
Source = TypeVar("Source")


@dataclass(frozen=True, eq=False)
class Retrieval(Generic[Source]):
    """A source of rankings and the metrics to compute from them."""

    source: Source  # embeddings, binary codes or lists
    request: MetricRequest
    totals: Ints  # (Q, L+1) items of each level that a list could hold; level 0 counts only what is known
    counts: Ints | None  # (Q, L+1) |Ω^(l)| as the relevance of H-AP counts it; None for the totals
    num_ranks: int  # the length of the lists

    def __len__(self) -> int:
        return len(self.totals)

    def relevances(self) -> list[Floats]:
        """(Q, L+1) the relevance of each level, for each of the H-APs."""
        counts = self.totals if self.counts is None else self.counts
        alphas = (metric.parameters for metric in self.request.metrics if metric.kind == "H-AP")
        return [self.request.table(counts, slice(None), **alpha) for alpha in alphas]

    def values(
        self, rank: Callable[[Ties, Floats], Ranked], rows: slice | Ints, *, totals: Ints | None = None
    ) -> Floats:
        """(r, M) values for some queries; NaN, or 0 by the rules, where a query has no positive for a metric.

        ``rank`` ranks them as :class:`RankedLists` asks it to; ``totals`` (r, L+1) are given where lists lost items.
        """
        lists = self.lists(rank, rows, totals)
        values = np.empty((len(lists), len(self.request.metrics)))
        for column, metric in enumerate(self.request.metrics):
            values[:, column] = FORMULAS[metric.kind](lists, **metric.options)
            if self.request.rules.empty_queries == "zero" and metric.kind not in _LEAVES_OUT:
                values[np.isnan(values[:, column]), column] = 0.0
        return values

    def lists(
        self, rank: Callable[[Ties, Floats], Ranked], rows: slice | Ints, totals: Ints | None = None
    ) -> RankedLists:
        """The ranked lists of some queries, of which ``rank`` and ``totals`` are as in :meth:`values`."""
        row_totals = self.totals[rows] if totals is None else totals
        counts = row_totals if self.counts is None else self.counts[rows]
        return RankedLists(rank, self.request, rows, row_totals, counts, self.num_ranks)

    def values_of_positives(self, rows: Ints, positives: SortedPositives) -> Floats:
        """The values of queries from their sorted positives and the counts of other items."""
        values = np.empty((len(rows), len(self.request.metrics)))

        def work(block: slice) -> None:
            values[block] = self.values(partial(ranked_positives, positives.rows(block)), rows[block])

        row_bytes = 4 * BYTES_OF_A_POSITIVE * max(positives.score.shape[1], 1)
        for_each(work, *row_ranges(len(rows), row_bytes=row_bytes))
        return values


class ScoredLists(NamedTuple):
    """Lists of equal length with given scores and levels: a score matrix, or ranked lists from elsewhere."""

    scores: Array  # (Q, K) float32 or float64 without NaN, larger being better
    levels: Bytes  # (Q, K)
    excluded: Bools  # (Q, K) True where a list has no item or leaves it out

    def totals(self, num_levels: int) -> Ints:
        """(Q, L+1) items of each level in each list."""
        totals = np.empty((len(self.scores), num_levels + 1), np.int64)

        def count(rows: slice) -> None:
            totals[rows] = level_counts(self.levels[rows], num_levels, valid=~self.excluded[rows])

        for_each(count, *row_ranges(len(totals), row_bytes=_ITEM_BYTES * max(self.scores.shape[1], 1)))
        return totals


def values_of_lists(
    retrieval: Retrieval[ScoredLists], formula: Callable[[RankedLists], Floats] | None = None
) -> Floats:
    """(Q, M) values of the metrics; those of a formula, (Q, 1), if it is given."""
    lists = retrieval.source
    values = np.empty((len(retrieval), 1 if formula else len(retrieval.request.metrics)))

    def work(rows: slice) -> None:
        matrix = lists.scores[rows], lists.levels[rows], lists.excluded[rows]
        rank = rank_matrix(*matrix, ties=retrieval.request.ties)
        values[rows] = formula(retrieval.lists(rank, rows))[:, None] if formula else retrieval.values(rank, rows)

    for_each(work, *row_ranges(len(values), row_bytes=_ITEM_BYTES * max(retrieval.num_ranks, 1)))
    return values
