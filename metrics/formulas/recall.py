"""R@k, TR@k and P@k: the positives in the top k, and whether there is any, in expectation over tied orders.

Of a tie group that straddles the cut, with n members, c of them positive, u of them within it, the number of positives
within is hypergeometric: its mean is u·c/n, and it is 0 with probability Π_{t<u} (n−c−t)/(n−t).
The last of c positives stands at place t of the last such group with probability C(t−1, c−1) / C(n, c).
Under ``paper`` every member stands at the last place of its group, so such a group lies beyond the cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hiertree.jit import jit

from ..ranking.ranked_lists import WHOLE_LIST, ratio

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..conventions.names import Metric
    from ..ranking.ranked import Ranked
    from ..ranking.ranked_lists import RankedLists


def compute(lists: RankedLists, metric: Metric) -> NDArray[np.float64]:
    """R@k, TR@k or P@k, by the rules for their divisors."""
    positives, cutoff = lists.num_positives(metric.level), metric.cutoff or WHOLE_LIST
    hits, some = np.empty(len(lists)), np.empty(len(lists))
    _top_k(lists.ranked, metric.level, cutoff, lists.counts_ties_ahead, hits, some)
    if metric.kind == "R":
        if lists.request.rules.recall == "share":
            return ratio(hits, positives)
        return np.where(positives > 0, some, np.nan)
    if metric.kind == "TR":
        return ratio(hits, np.minimum(cutoff, positives))
    return np.where(positives > 0, _precision(lists, metric.level, cutoff, hits), np.nan)


def _precision(lists: RankedLists, level: int, cutoff: int, hits: NDArray[np.float64]) -> NDArray[np.float64]:
    """P@k by the rule for its divisor."""
    rule = lists.request.rules.precision
    precision: NDArray[np.float64] = hits / cutoff
    if rule == "list":
        precision = hits / np.minimum(cutoff, lists.totals.sum(axis=1).clip(min=1))
    elif rule == "last positive":
        gains = np.empty(len(lists))
        _gains_of_shorter_lists(lists.ranked, level, cutoff, lists.counts_ties_ahead, gains)
        precision += gains
    return precision


@jit
def _top_k(
    ranked: Ranked, wanted: int, cutoff: int, paper: bool, hits: NDArray[np.float64], some: NDArray[np.float64]
) -> None:
    """Expected number of positives (level ≥ wanted) in the top ``cutoff`` of each row, and P(at least one)."""
    for row in range(len(hits)):
        number = ranked.number[row]
        level, before, size = ranked.level[row], ranked.before[row], ranked.size[row]
        found, none, item = 0.0, 1.0, 0
        while item < number and before[item] < cutoff:
            start, n, members = before[item], size[item], 0
            while item < number and before[item] == start:
                members += level[item] >= wanted
                item += 1
            places = min(n, cutoff - start)
            if paper and places < n:
                break
            found += members * (places / n)
            for t in range(places):
                none *= max(n - members - t, 0) / (n - t)
        hits[row] = found
        some[row] = 1.0 - none


@jit
def _gains_of_shorter_lists(ranked: Ranked, wanted: int, cutoff: int, paper: bool, sums: NDArray[np.float64]) -> None:
    """Expected Σ over the positives of 1/m − 1/cutoff where the last of them stands at a rank m < cutoff."""
    for row in range(len(sums)):
        level, before, size = ranked.level[row], ranked.before[row], ranked.size[row]
        start, n, members, found = -1, 0, 0, 0
        for item in range(ranked.number[row]):
            if level[item] >= wanted:
                members = members + 1 if before[item] == start else 1
                start, n, found = before[item], size[item], found + 1
        total, chance = 0.0, members / max(n, 1)
        for place in range(n, max(members, 1) - 1, -1):
            if start + place < cutoff:
                total += (1.0 if paper else chance) * (1.0 / (start + place) - 1.0 / cutoff)
            if paper:
                break
            chance *= (place - members) / max(place - 1, 1)
        sums[row] = found * total
