"""Where the ties of a ranking are, so that a metric can read the positives between them without checking for ties."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hiertree.jit import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .ranked import Ranked

_GLANCE = 64  # positives whose sizes are added up at once


def tie_groups(ranked: Ranked) -> NDArray[np.int32]:
    """For each row the first positive of each tie group of several items, then the number of positives; (r, P+1)."""
    first = np.empty((len(ranked.number), ranked.level.shape[1] + 1), np.int32)
    _find(ranked, first)
    return first


@jit
def _find(ranked: Ranked, first: NDArray[np.int32]) -> None:
    for row in range(len(first)):
        number, before, size = ranked.number[row], ranked.before[row], ranked.size[row]
        item, found = 0, 0
        while item < number:
            stop = min(item + _GLANCE, number)
            if _all_alone(size[item:stop]):
                item = stop
                continue
            while size[item] == 1:
                item += 1
            first[row, found] = item
            found += 1
            start = before[item]
            while item < number and before[item] == start:
                item += 1
        first[row, found] = number


@jit
def _all_alone(size: NDArray[np.int32]) -> bool:
    summed = 0
    for item in range(len(size)):
        summed += size[item]
    return summed == len(size)
