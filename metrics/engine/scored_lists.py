"""Lists whose scores and levels are given: a score matrix, or ranked lists made elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hiertree import level_counts

from ..ranking.ranked import sort_matrix
from .blocks import for_row_ranges

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .retrieval import Retrieval

_ITEM_BYTES = 40  # while its list is ranked


class ScoredLists(NamedTuple):
    """Lists of one length.

    Attributes:
        scores: (Q, K) float32 or float64 without NaN, larger being better.
        levels: (Q, K) uint8.
        excluded: (Q, K) booleans, True where a list has no item or leaves it out.
    """

    scores: NDArray[Any]
    levels: NDArray[np.uint8]
    excluded: NDArray[np.bool_]

    def totals(self, num_levels: int) -> NDArray[np.int64]:
        """(Q, L+1) items of each level in each list."""
        totals = np.empty((len(self.scores), num_levels + 1), np.int64)

        def count(rows: slice) -> None:
            totals[rows] = level_counts(self.levels[rows], num_levels, valid=~self.excluded[rows])

        for_row_ranges(count, len(totals), row_bytes=_ITEM_BYTES * max(self.scores.shape[1], 1))
        return totals


def values_of_lists(retrieval: Retrieval[ScoredLists]) -> NDArray[np.float64]:
    """(Q, M) values of the metrics."""
    lists = retrieval.source
    values = np.empty((len(retrieval), len(retrieval.request.metrics)))

    def work(rows: slice) -> None:
        matrix = lists.scores[rows], lists.levels[rows], lists.excluded[rows]
        values[rows] = retrieval.values_of(sort_matrix(*matrix, ties=retrieval.request.ties), rows)

    for_row_ranges(work, len(values), row_bytes=_ITEM_BYTES * max(lists.scores.shape[1], 1))
    return values
