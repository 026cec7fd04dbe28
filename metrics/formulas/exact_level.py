"""AP#l: average precision of the items at level l exactly, those of a deeper level taken out of the list."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hiertree.jit import jit

from ..ranking.ranked_lists import WHOLE_LIST, ratio
from .precision_sums import precision_sums, trapezoid_or_sum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..conventions.names import Metric
    from ..ranking.ranked import Ranked
    from ..ranking.ranked_lists import RankedLists


def compute(lists: RankedLists, metric: Metric) -> NDArray[np.float64]:
    """Precision summed over the items at the level / their number."""
    ranked, sums = _without_deeper(lists.ranked, metric.level), np.empty(len(lists))
    precision_sums(ranked, metric.level, np.full(len(lists), WHOLE_LIST), lists.counts_ties_ahead, sums)
    return ratio(trapezoid_or_sum(sums, lists, ranked, metric.level), lists.totals[:, metric.level])


def _without_deeper(ranked: Ranked, level: int) -> Ranked:
    """The ranked positives without the items deeper than ``level``; tie groups shrink accordingly."""
    kept = ranked._replace(
        level=np.empty_like(ranked.level),
        before=np.empty_like(ranked.before),
        size=np.empty_like(ranked.size),
        number=np.empty_like(ranked.number),
    )
    _close_ranks(ranked, level, kept)
    return kept


@jit
def _close_ranks(ranked: Ranked, wanted: int, kept: Ranked) -> None:
    for row in range(len(ranked.number)):
        number, level, before, size = ranked.number[row], ranked.level[row], ranked.before[row], ranked.size[row]
        found, removed, first = 0, 0, 0
        while first < number:
            last, deeper = first, 0
            while last < number and before[last] == before[first]:
                deeper += level[last] > wanted
                last += 1
            for item in range(first, last):
                if level[item] <= wanted:
                    kept.level[row, found] = level[item]
                    kept.before[row, found] = before[item] - removed
                    kept.size[row, found] = size[item] - deeper
                    found += 1
            removed += deeper
            first = last
        kept.number[row] = found
