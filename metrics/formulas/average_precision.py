"""Average precision: AP at a level, and of the top of the list mAP@R and mAP@k."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..ranking.ranked_lists import WHOLE_LIST, ratio
from .precision_sums import precision_sums, precision_sums_by_level, trapezoid_or_sum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..conventions.names import Metric
    from ..ranking.ranked_lists import RankedLists


def compute(lists: RankedLists, metric: Metric) -> NDArray[np.float64]:
    """Precision summed over the positives, or those in the top, / how many these could be."""
    positives = lists.num_positives(metric.level)
    if metric.kind == "AP":
        sums = lists.shared(precision_sums_by_level)[:, metric.level - 1]
        return ratio(trapezoid_or_sum(sums, lists, lists.ranked, metric.level), positives)
    cutoffs = positives if metric.kind == "mAP@R" else np.full(len(lists), metric.cutoff or WHOLE_LIST)
    sums = np.empty(len(lists))
    precision_sums(lists.ranked, metric.level, np.ascontiguousarray(cutoffs), lists.counts_ties_ahead, sums)
    return ratio(sums, np.minimum(positives, cutoffs))
