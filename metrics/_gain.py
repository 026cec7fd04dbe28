"""Discounted cumulative gain, exact under ties.

Each member of a tie group gets the mean discount of the group's places (McSherry & Najork, ECIR 2008; Eq. 7 of
He et al., CVPR 2018), those beyond the cut-off having discount 0. Under ``paper`` each gets that of the last place.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from hiertree.metrics._jit import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.metrics._ranked import Ranked


@lru_cache(maxsize=1)
def discounts(num_items: int) -> NDArray[np.float64]:
    """1 / log2(1 + rank) for rank = 1 … num_items, read-only."""
    discount = 1.0 / np.log2(np.arange(2, num_items + 2))
    discount.flags.writeable = False
    return discount


@jit
def _total(values: NDArray[np.float64], start: int, stop: int) -> float:
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
def cumulative_gains(
    ranked: Ranked,
    gains: NDArray[np.float64],
    discount: NDArray[np.float64],
    cutoff: int,
    paper: bool,
    sums: NDArray[np.float64],
) -> None:
    """Expected DCG@cutoff of each row; ``gains`` has one value a level."""
    for row in range(len(sums)):
        number = ranked.number[row]
        level, before, size = ranked.level[row], ranked.before[row], ranked.size[row]
        total, item = 0.0, 0
        while item < number and before[item] < cutoff:
            start, n, gain = before[item], size[item], 0.0
            if n == 1:
                total += gains[level[item]] * discount[start]
                item += 1
                continue
            while item < number and before[item] == start:
                gain += gains[level[item]]
                item += 1
            stop = min(start + n, cutoff)
            if not paper:
                total += gain * (_total(discount, start, stop) / n)
            elif start + n <= cutoff:
                total += gain * discount[start + n - 1]
        sums[row] = total


@jit
def ideal_gains(
    totals: NDArray[np.int64],
    gains: NDArray[np.float64],
    discount: NDArray[np.float64],
    cutoff: int,
    sums: NDArray[np.float64],
) -> None:
    """The best DCG@cutoff that the items of each row allow; ``totals`` counts them by level."""
    for row in range(len(sums)):
        total, rank = 0.0, 0
        for level in range(totals.shape[1] - 1, 0, -1):
            for place in range(rank, min(rank + totals[row, level], cutoff)):
                total += gains[level] * discount[place]
            rank += totals[row, level]
        sums[row] = total
