"""How severe errors are: the first wrong item, heights of the lowest common ancestor, and the order of all levels.

An item at level l has height L − l, that of the lowest common ancestor of its class and the query's.
"""

from __future__ import annotations

import numpy as np

from hiertree.jit import Bytes, Floats, Int32s, Ints, jit

from ..conventions import MOST_RANKS
from ..ranking.ranked import Ranked, RankedLists
from .ndcg import level_sums


def distance(lists: RankedLists, *, k: int) -> Floats:
    """The mean height over the first k places; one without an item has height L."""
    heights = lists.request.num_levels - level_sums(lists, k=k) / k
    return np.where(lists.num_positives(1) > 0, heights, np.nan)


def mistake_severity(lists: RankedLists) -> Floats:
    """The height of the first item if it is wrong, that is, below level L."""
    heights = np.empty(len(lists))
    _first_heights(lists.ranked, lists.request.num_levels, heights)
    return np.where(lists.totals[:, -1] > 0, heights, np.nan)


@jit
def _first_heights(ranked: Ranked, num_levels: int, heights: Floats) -> None:
    """Write the mean height of the wrong items among those that share the first place; NaN where none is wrong."""
    for row in range(len(heights)):
        num_positives, level, offset = ranked.num_positives[row], ranked.level[row], ranked.offset[row]
        wrong, members, levels = ranked.size[row, 0] if num_positives and offset[0] == 0 else 1, 0, 0
        while members < num_positives and offset[members] == 0:
            if level[members] == num_levels:
                wrong -= 1
            else:
                levels += level[members]
            members += 1
        heights[row] = num_levels - levels / wrong if wrong else np.nan


def preference_order(lists: RankedLists, *, k: int | None = None) -> Floats:
    """HOPS: 1 − the weighted differences between the ideal order of the levels and this one, over those of its reverse.

    Levels that the gallery has are numbered from the deepest: e(i) is the number at place i of the ideal order, o(i) of
    this one. The weights w(i) fall linearly from 2^−e to 2^−(e+1) among the places of a level, and those of the last
    level to 0; those of the first are 1. The reverse turns round the first k places of the ideal order.
    """
    values = np.empty(len(lists))
    _order_scores(lists.ranked, lists.totals, k or MOST_RANKS, values)
    return values


@jit
def _order_scores(ranked: Ranked, totals: Ints, cutoff: int, values: Floats) -> None:
    """Write HOPS@cutoff of each row; NaN where the first places of the ideal order are of one level."""
    num_levels = totals.shape[1] - 1
    for row in range(len(values)):
        stops, index_of_level = np.zeros(num_levels + 2, np.int64), np.zeros(num_levels + 1, np.int64)
        size = 0  # of the levels that exist
        for level in range(num_levels, -1, -1):
            index_of_level[level] = size
            if totals[row, level]:
                stops[size + 1] = stops[size] + totals[row, level]
                size += 1
        stops = stops[: size + 1]
        num_ranks = min(stops[size], cutoff)
        worst, error = 0.0, _differences(index_of_level[0], 0, num_ranks, stops)
        for block in range(size):
            start, stop = min(stops[block], num_ranks), min(stops[block + 1], num_ranks)
            worst += _differences(block, num_ranks - stop, num_ranks - start, stops)
        num_positives, item, members = ranked.num_positives[row], 0, np.zeros(num_levels + 1, np.int64)
        while item < num_positives:
            first, n = ranked.offset[row, item], ranked.size[row, item]
            members[:] = 0
            while item < num_positives and ranked.offset[row, item] == first:
                members[ranked.level[row, item]] += 1
                item += 1
            start, stop = min(first, num_ranks), min(first + n, num_ranks)
            wrong = _differences(index_of_level[0], start, stop, stops)
            for level in range(1, num_levels + 1):
                if members[level]:
                    error -= members[level] * (wrong - _differences(index_of_level[level], start, stop, stops)) / n
        values[row] = max(1.0 - error / worst, 0.0) if worst > 0.0 else np.nan


@jit
def _differences(level_index: int, first: int, end: int, stops: Ints) -> float:
    """Σ of w(i) |e(i) − level_index| over ranks ``first`` … ``end``; block b of the ideal begins at stops[b]."""
    total, size = 0.0, len(stops) - 1
    for block in range(size):
        start, stop = max(first, stops[block]), min(end, stops[block + 1])
        if start < stop:
            weight = 2.0**-block
            fall = weight if block == size - 1 else weight / 2 if block else 0.0
            mean_step = (start + stop - 1) / 2 - stops[block]
            mean = weight - fall * mean_step / (stops[block + 1] - stops[block])
            total += abs(block - level_index) * mean * (stop - start)
    return total


def first_error(lists: RankedLists, *, level: int) -> Floats:
    """The probability that the first item below level L in the best |Ω^(L)| places is at the level asked for."""
    finest, probabilities = np.ascontiguousarray(lists.totals[:, -1]), np.empty(lists.totals.shape)
    _first_errors(lists.ranked, finest, probabilities)
    return np.where(finest > 0, probabilities[:, level], np.nan)


@jit
def _first_errors(ranked: Ranked, finest: Ints, probabilities: Floats) -> None:
    """Write the probability of each level of the first wrong item, (r, L+1); column L is that of no wrong item."""
    num_levels = probabilities.shape[1] - 1
    for row in range(len(probabilities)):
        num_positives, chances = ranked.num_positives[row], probabilities[row]
        level, offset, size = ranked.level[row, :num_positives], ranked.offset[row], ranked.size[row]
        chances[:] = 0.0
        right = 0
        while right < num_positives and offset[right] == right:
            stop = right
            while stop < num_positives and offset[stop] == right and level[stop] == num_levels:
                stop += 1
            if stop - right < size[right]:
                break
            right = stop
        if right == finest[row]:
            chances[num_levels] = 1.0
        elif right == num_positives or offset[right] > right:
            chances[0] = 1.0
        else:
            _share_group(right, level, offset, size, finest[row], chances)


@jit
def _share_group(first: int, level: Bytes, offset: Int32s, size: Int32s, finest: int, chances: Floats) -> None:
    """Share 1 out among the levels of the tie group of the ``first`` positive, with only finest items ahead of it.

    If the group holds every finest item that is left, m of n items, these come first with probability 1 / C(n, m).
    """
    num_levels = len(chances) - 1
    n, start, item = size[first], offset[first], first
    while item < len(level) and offset[item] == start:
        chances[level[item]] += 1.0
        item += 1
    chances[0] = n - (item - first)
    members = chances[num_levels]
    luck = 1.0 if members == finest - start else 0.0
    for draw in range(int(members)):
        luck *= (members - draw) / (n - draw)
    chances[:num_levels] *= (1.0 - luck) / (n - members)
    chances[num_levels] = luck
