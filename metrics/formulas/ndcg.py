"""Discounted cumulative gain, exact under ties: each member of a tie group gets the mean discount of its places.

McSherry & Najork, ECIR 2008; Eq. 7 of He et al., CVPR 2018. Places beyond the cut-off have discount 0. Under ``paper``
each member gets the discount of the last place.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hiertree.jit import Floats, Ints, jit

from ..ranking.ranked import number_within, ratio
from ..request import MOST_RANKS

if TYPE_CHECKING:
    from ..ranking.ranked import Ranked, RankedLists, TieGroups
    from ..request import Metric

_RUN = 512  # ranks whose discounts are summed beforehand


def compute(lists: RankedLists, metric: Metric) -> Floats:
    """DCG over the best that the gallery allows, or the retrieved top k where the rules say so."""
    cutoff, reachable = metric.cutoff or MOST_RANKS, lists.totals
    gains = np.exp2(np.arange(reachable.shape[1], dtype=np.float64)) - 1.0
    sums, ideal = np.empty(len(lists)), np.empty(len(lists))
    discount = _discounts(max(lists.num_ranks, int(lists.num_positives(1).max(initial=0))))
    within = number_within(lists.ranked, np.full(len(lists), cutoff))
    _cumulative_gains(lists.ranked, within, lists.tie_groups, gains, discount, cutoff, lists.counts_ties_ahead, sums)
    if metric.cutoff and lists.request.rules.ideal == "retrieved":
        reachable = np.zeros_like(reachable)
        _levels_within(lists.ranked, cutoff, reachable)
    _ideal_gains(reachable, gains, discount, cutoff, ideal)
    return ratio(sums, ideal)


class _Discounts(NamedTuple):
    """1 / log2(1 + rank), read-only."""

    at: Floats  # (n,) of rank = 1 … n
    of_run: Floats  # (n // _RUN,) sums over as many ranks


@lru_cache(maxsize=1)
def _discounts(num_items: int) -> _Discounts:
    discount = 1.0 / np.log2(np.arange(2, num_items + 2))
    of_run = discount[: num_items // _RUN * _RUN].reshape(-1, _RUN).sum(axis=1)
    discount.flags.writeable = of_run.flags.writeable = False
    return _Discounts(discount, of_run)


@jit
def _total(discount: _Discounts, start: int, stop: int) -> float:
    """The sum of a range, by whole runs where it holds some."""
    first, last = -(-start // _RUN), stop // _RUN
    if last <= first:
        return _sum(discount.at, start, stop)
    ends = _sum(discount.at, start, first * _RUN) + _sum(discount.at, last * _RUN, stop)
    return ends + _sum(discount.of_run, first, last)


@jit
def _sum(values: Floats, start: int, stop: int) -> float:
    """The sum of a range; four sums take turns, since an addition waits for the one before it."""
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    whole = start + (stop - start) // 4 * 4
    for place in range(start, whole, 4):
        first += values[place]
        second += values[place + 1]
        third += values[place + 2]
        fourth += values[place + 3]
    for place in range(whole, stop):
        first += values[place]
    return first + second + (third + fourth)


@jit
def _cumulative_gains(
    ranked: Ranked,
    within: Ints,
    ties: TieGroups,
    gains: Floats,
    discount: _Discounts,
    cutoff: int,
    paper: bool,
    sums: Floats,
) -> None:
    """Expected DCG@cutoff of each row, to which ``within`` positives add; ``gains`` has one value a level."""
    for row in range(len(sums)):
        level, before, size = ranked.level[row], ranked.before[row], ranked.size[row]
        number, total, item, groups = within[row], 0.0, 0, 0
        while True:
            alone = min(ties.first[row, groups], number)
            for place in range(item, alone):
                total += gains[level[place]] * discount.at[np.uint32(before[place])]
            if alone == number:
                break
            item, start, n, gain = ties.stop[row, groups], before[alone], size[alone], 0.0
            for depth in range(1, len(gains)):
                gain += gains[depth] * ties.members[row, groups, depth]
            stop = min(start + n, cutoff)
            if not paper:
                total += gain * (_total(discount, start, stop) / n)
            elif start + n <= cutoff:
                total += gain * discount.at[start + n - 1]
            groups += 1
        sums[row] = total


@jit
def _ideal_gains(totals: Ints, gains: Floats, discount: _Discounts, cutoff: int, sums: Floats) -> None:
    """The best DCG@cutoff that the items of each row allow; ``totals`` counts them by level."""
    for row in range(len(sums)):
        total, rank = 0.0, 0
        for level in range(totals.shape[1] - 1, 0, -1):
            total += gains[level] * _total(discount, min(rank, cutoff), min(rank + totals[row, level], cutoff))
            rank += totals[row, level]
        sums[row] = total


@jit
def _levels_within(ranked: Ranked, cutoff: int, counts: Ints) -> None:
    """Count the items of each level ≥ 1 in the top ``cutoff`` of rows without tie groups; ``counts`` comes zeroed."""
    for row in range(len(counts)):
        for item in range(ranked.number[row]):
            counts[row, ranked.level[row, item]] += ranked.before[row, item] < cutoff
