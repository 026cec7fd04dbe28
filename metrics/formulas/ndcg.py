"""Discounted cumulative gain, exact under ties: each member of a tie group gets the mean discount of its places.

McSherry & Najork, ECIR 2008; Eq. 7 of He et al., CVPR 2018. Places beyond the cut-off have discount 0. Under ``paper``
each member gets the discount of the last place.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from hiertree.jit import Floats, Ints, jit

from ..conventions import MOST_RANKS
from ..ranking.ranked import Ranked, RankedLists, TieGroups, count_within, ratio

_MANY = 256  # least ranks whose sum is taken as a difference


def compute(lists: RankedLists, *, k: int | None = None) -> Floats:
    """DCG over the ideal of the gallery, or of the retrieved top k under rules that say so."""
    gains = np.exp2(np.arange(lists.totals.shape[1], dtype=np.float64)) - 1.0
    discount = _discounts(max(lists.num_ranks, int(lists.num_positives(1).max(initial=0))))
    return _normalized(lists, k, gains, discount, of_retrieved=lists.request.rules.ideal == "retrieved")


def hierarchical_precision(lists: RankedLists, *, k: int) -> Floats:
    """HP@k: Σ of l / L over the first k items, over the largest sum that k items of the gallery have."""
    gains, discount = _levels_as_gains(lists)
    return _normalized(lists, k, gains, discount, of_retrieved=False)


def average_hierarchical_precision(lists: RankedLists, *, k: int | None = None) -> Floats:
    """AHP@k: the mean of HP@1 … HP@k; without k, of as many as there are items."""
    sizes, values = lists.totals.sum(axis=1), np.empty(len(lists))
    cutoffs = sizes if k is None else np.full(len(lists), k)
    _mean_precisions(lists.ranked, lists.totals, np.minimum(sizes, cutoffs), cutoffs, lists.paper, values)
    return np.where(lists.num_positives(1) > 0, values, np.nan)


@jit
def _mean_precisions(ranked: Ranked, totals: Ints, lengths: Ints, cutoffs: Ints, paper: bool, values: Floats) -> None:
    """Write the mean of HP over ranks up to the cut-off; beyond the length of a list its last value stays."""
    rises = np.empty(lengths.max() + 1)  # of the expected level, from rank to rank
    for row in range(len(values)):
        num_ranks = lengths[row]
        rises[:] = 0.0
        num_positives, item = ranked.num_positives[row], 0
        while item < num_positives:
            first, levels = ranked.offset[row, item], 0  # a sum of integers: of a tie, whatever the order
            stop = first + ranked.size[row, item]
            while item < num_positives and ranked.offset[row, item] == first:
                levels += ranked.level[row, item]
                item += 1
            start = stop - 1 if paper else first
            rises[min(start, num_ranks)] += levels / (stop - start)
            rises[min(stop, num_ranks)] -= levels / (stop - start)
        ideal, num_ideal = totals.shape[1] - 1, 0  # the level at this rank of the ideal order, and its items so far
        level, level_sum, ideal_sum, precisions = 0.0, 0.0, 0.0, 0.0
        for rank in range(num_ranks):
            while num_ideal == totals[row, ideal]:
                ideal, num_ideal = ideal - 1, 0
            num_ideal += 1
            level += rises[rank]
            level_sum, ideal_sum = level_sum + level, ideal_sum + ideal
            precisions += level_sum / max(ideal_sum, 1.0)
        precisions += (cutoffs[row] - num_ranks) * level_sum / max(ideal_sum, 1.0)
        values[row] = precisions / max(cutoffs[row], 1)


def level_sums(lists: RankedLists, *, k: int) -> Floats:
    """The expected Σ of l over the first k items."""
    return _top_sums(lists, k, *_levels_as_gains(lists))


def _levels_as_gains(lists: RankedLists) -> tuple[Floats, _Discounts]:
    """A gain of l, the same at every rank."""
    ones = np.ones(max(lists.num_ranks, int(lists.num_positives(1).max(initial=0))))
    return np.arange(lists.totals.shape[1], dtype=np.float64), _summed(ones)


def _top_sums(lists: RankedLists, k: int | None, gains: Floats, discount: _Discounts) -> Floats:
    """The expected Σ of discounted gains over the first k items."""
    cutoff = k or MOST_RANKS
    num_counted = count_within(lists.ranked, np.full(len(lists), cutoff))
    return _cumulative_gains(lists.ranked, num_counted, lists.tie_groups, gains, discount, cutoff, lists.paper)


def _normalized(
    lists: RankedLists, k: int | None, gains: Floats, discount: _Discounts, *, of_retrieved: bool
) -> Floats:
    """Discounted gains of the top k over the best that k items reach."""
    cutoff, reachable = k or MOST_RANKS, lists.totals
    if k and of_retrieved:
        num_counted = count_within(lists.ranked, np.full(len(lists), cutoff))
        retrieved = np.arange(lists.ranked.level.shape[1]) < num_counted[:, None]
        levels = range(reachable.shape[1])
        reachable = np.stack([(retrieved & (lists.ranked.level == level)).sum(axis=1) for level in levels], axis=1)
    return ratio(_top_sums(lists, k, gains, discount), _ideal_gains(reachable, gains, discount, cutoff))


class _Discounts(NamedTuple):
    """The discounts of ranks, read-only."""

    at: Floats  # (n,) of rank = 1 … n
    summed: Floats  # (n + 1,) over the first ranks


def _summed(discount: Floats) -> _Discounts:
    discounts = _Discounts(discount, np.concatenate([[0.0], np.cumsum(discount)]))
    for values in discounts:
        values.flags.writeable = False
    return discounts


@lru_cache(maxsize=1)
def _discounts(num_items: int) -> _Discounts:
    """1 / log2(1 + rank)."""
    return _summed(1.0 / np.log2(np.arange(2, num_items + 2)))


@jit
def _total(discount: _Discounts, start: int, stop: int) -> float:
    """The sum of a range, for many ranks as a difference of two sums."""
    total: float = discount.summed[stop] - discount.summed[start]
    if stop - start <= _MANY:
        total = 0.0
        for rank in range(start, stop):
            total += discount.at[rank]
    return total


@jit
def _cumulative_gains(
    ranked: Ranked, num_counted: Ints, ties: TieGroups, gains: Floats, discount: _Discounts, cutoff: int, paper: bool
) -> Floats:
    """Expected DCG@cutoff of each row, to which ``num_counted`` positives add; ``gains`` has one value per level."""
    sums = np.empty(len(num_counted))
    for row in range(len(sums)):
        level, offset, size = ranked.level[row], ranked.offset[row], ranked.size[row]
        num_positives, total, item, groups = num_counted[row], 0.0, 0, 0
        while True:
            untied_stop = min(ties.first[row, groups], num_positives)
            for rank in range(item, untied_stop):
                total += gains[level[rank]] * discount.at[np.uint32(offset[rank])]
            if untied_stop == num_positives:
                break
            item, start, n, gain = ties.stop[row, groups], offset[untied_stop], size[untied_stop], 0.0
            for depth in range(1, len(gains)):
                gain += gains[depth] * ties.members[row, groups, depth]
            stop = min(start + n, cutoff)
            if not paper:
                total += gain * (_total(discount, start, stop) / n)
            elif start + n <= cutoff:
                total += gain * discount.at[start + n - 1]
            groups += 1
        sums[row] = total
    return sums


@jit
def _ideal_gains(totals: Ints, gains: Floats, discount: _Discounts, cutoff: int) -> Floats:
    """The best DCG@cutoff that the items of each row allow; ``totals`` counts them by level."""
    sums = np.zeros(len(totals))
    for row in range(len(sums)):
        rank = 0
        for level in range(totals.shape[1] - 1, 0, -1):
            sums[row] += gains[level] * _total(discount, min(rank, cutoff), min(rank + totals[row, level], cutoff))
            rank += totals[row, level]
    return sums
