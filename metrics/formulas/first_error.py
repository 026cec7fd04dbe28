r"""The first wrong item of a ranking: the first below level L in its \|Ω^(L)\| best places, in expectation over ties.

In the tie group where it stands, n items of which c_l are at level l, all orders are equally likely, so it is at level
l < L with probability c_l / (n − c_L). If the group holds every finest item that is left, m = c_L of them, these may
come first by luck, with probability 1 / C(n, m); then no item is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hiertree.jit import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..conventions.names import Metric
    from ..ranking.ranked import Ranked
    from ..ranking.ranked_lists import RankedLists


def compute(lists: RankedLists, metric: Metric) -> NDArray[np.float64]:
    """The probability that the first wrong item is at the level asked for."""
    finest, shares = np.ascontiguousarray(lists.totals[:, -1]), np.empty(lists.totals.shape)
    _first_errors(lists.ranked, finest, shares)
    return np.where(finest > 0, shares[:, metric.level], np.nan)


@jit
def _first_errors(ranked: Ranked, finest: NDArray[np.int64], shares: NDArray[np.float64]) -> None:
    """Write the probability of each level of the first wrong item, (r, L+1); column L is that of no wrong item.

    ``finest`` is |Ω^(L)|. What lies beyond the end of a list that is cut short counts as irrelevant.
    """
    num_levels = shares.shape[1] - 1
    for row in range(len(shares)):
        number, share = ranked.number[row], shares[row]
        level, before, size = ranked.level[row, :number], ranked.before[row], ranked.size[row]
        share[:] = 0.0
        right = 0
        while right < number and before[right] == right and _finest(right, level, before, num_levels) == size[right]:
            right += size[right]
        if right == finest[row]:
            share[num_levels] = 1.0
        elif right == number or before[right] > right:
            share[0] = 1.0
        else:
            _share_group(right, level, before, size, finest[row], share)


@jit
def _finest(first: int, level: NDArray[np.uint8], before: NDArray[np.int32], num_levels: int) -> int:
    """How many members of the tie group of the ``first`` positive are at level L."""
    item, members = first, 0
    while item < len(level) and before[item] == before[first]:
        members += level[item] == num_levels
        item += 1
    return members


@jit
def _share_group(
    first: int,
    level: NDArray[np.uint8],
    before: NDArray[np.int32],
    size: NDArray[np.int32],
    finest: int,
    share: NDArray[np.float64],
) -> None:
    """Share 1 out among the levels of the tie group of the ``first`` positive, with only finest items ahead of it."""
    num_levels = len(share) - 1
    n, start, item = size[first], before[first], first
    while item < len(level) and before[item] == start:
        share[level[item]] += 1.0
        item += 1
    share[0] = n - (item - first)
    members = share[num_levels]
    luck = 1.0 if members == finest - start else 0.0
    for place in range(int(members)):
        luck *= (members - place) / (n - place)
    share[:num_levels] *= (1.0 - luck) / (n - members)
    share[num_levels] = luck
