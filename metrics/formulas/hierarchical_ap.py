"""H-AP, and its parts by level (Ramzi et al., TPAMI 2025, Eq. 18–20)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..ranking.ranked_lists import ratio
from ..ranking.ties import tie_groups
from .precision_sums import hierarchical_sums, precision_sums_by_level, precision_sums_of_sets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..conventions.names import Metric
    from ..ranking.ranked import Ranked
    from ..ranking.ranked_lists import RankedLists


def compute(lists: RankedLists, metric: Metric) -> NDArray[np.float64]:
    """Σ over the positives k of the relevance that k shares with itself and the items ahead / rank(k), over R."""
    table = lists.relevance(metric)
    total = (table * lists.totals).sum(axis=1)
    table = np.where(lists.totals > 0, table, np.maximum.accumulate(table, axis=1))  # nothing is at the others
    rising = bool((np.diff(table, axis=1) >= 0).all())
    ranked = lists.ranked
    if lists.request.ties in ("worst", "best") and not rising:
        ranked = lists.ranked_by(table)  # a deeper level may be worth less
    if metric.level:
        parts = np.empty(table.shape)
        hierarchical_sums(ranked, table, lists.counts_ties_ahead, parts)
        return ratio(parts[:, metric.level], total)
    precisions = _precision_sums(lists, ranked, table)
    return ratio((np.diff(np.sort(table, axis=1), axis=1) * precisions).sum(axis=1), total)


def _precision_sums(lists: RankedLists, ranked: Ranked, table: NDArray[np.float64]) -> NDArray[np.float64]:
    """(r, L) precision, summed over the positives of the L most relevant levels, of the L − 1 most, and so on."""
    order, levels = np.argsort(np.argsort(table, axis=1, kind="stable"), axis=1), np.arange(table.shape[1])
    sets, paper = order[:, :, None] >= levels[1:], lists.counts_ties_ahead
    if ranked is not lists.ranked:
        return precision_sums_of_sets(ranked, tie_groups(ranked, table.shape[1] - 1), sets, paper)
    by_level = (sets == (levels[:, None] >= levels[1:])).all(axis=1)  # a level and all deeper ones
    sums = lists.shared(precision_sums_by_level)
    if by_level.all():
        return sums
    others = precision_sums_of_sets(ranked, lists.tie_groups, sets & ~by_level[:, None], paper)
    return np.where(by_level, sums, others)
