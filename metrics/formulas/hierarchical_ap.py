"""H-AP, and its parts by level (Ramzi et al., TPAMI 2025, Eq. 18–20)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..ranking.ranked_lists import ratio
from ..ranking.ties import tie_groups
from .precision_sums import hierarchical_sums, precision_sums_by_level, precision_sums_by_step

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..conventions.names import Metric
    from ..ranking.ranked_lists import RankedLists


def compute(lists: RankedLists, metric: Metric) -> NDArray[np.float64]:
    """Σ over the positives k of the relevance that k shares with itself and the items ahead / rank(k), over R."""
    table = lists.relevance(metric)
    total = (table * lists.totals).sum(axis=1)
    order = np.argsort(np.argsort(table, axis=1, kind="stable"), axis=1).astype(np.uint8)
    rising = bool((order == np.arange(table.shape[1])).all())
    ranked = lists.ranked
    if lists.request.ties in ("worst", "best") and not rising:
        ranked = lists.ranked_by(table)  # a deeper level may be worth less
    if metric.level:
        parts = np.empty(table.shape)
        hierarchical_sums(ranked, table, lists.counts_ties_ahead, parts)
        return ratio(parts[:, metric.level], total)
    precisions, wanted = np.empty(table.shape), np.ones(table.shape, np.bool_)
    if ranked is lists.ranked:
        precisions = lists.shared(precision_sums_by_level)
        wanted[:, 1:] = np.maximum.accumulate(order, axis=1)[:, :-1] > np.arange(table.shape[1] - 1)
    if not rising:  # only steps that are no level and all deeper ones have sums of their own
        precisions = precisions.copy()
        ties = lists.tie_groups if ranked is lists.ranked else tie_groups(ranked, table.shape[1] - 1)
        precision_sums_by_step(ranked, ties, order, wanted, lists.counts_ties_ahead, precisions)
    return ratio((np.diff(np.sort(table, axis=1), axis=1) * precisions[:, 1:]).sum(axis=1), total)
