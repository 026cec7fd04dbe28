"""Where the ties of a ranking are, so that a metric can read the positives between them without checking for ties."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hiertree.jit import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .ranked import Ranked

_GLANCE = 64  # positives whose sizes are added up at once
_FEW = 32  # members that are counted one by one


class TieGroups(NamedTuple):
    """The tie groups of several items that hold a positive; row i has some, and then one that begins at its end.

    Attributes:
        first: (r, G+1) int32, the first positive of each.
        stop: (r, G) int32, one past its last.
        members: (r, G, L+1) int64, its positives of each level.
    """

    first: NDArray[np.int32]
    stop: NDArray[np.int32]
    members: NDArray[np.int64]


@jit
def tie_groups(ranked: Ranked, num_levels: int) -> TieGroups:
    """The tie groups of each row; levels are 0 … L."""
    num_rows, most = len(ranked.number), 0
    for row in range(num_rows):
        number, before, size = ranked.number[row], ranked.before[row], ranked.size[row]
        item, found = _next_group(size, 0, number), 0
        while item < number:
            found += 1
            item = _next_group(size, _end(before, item, number), number)
        most = max(most, found)
    first, stop = np.empty((num_rows, most + 1), np.int32), np.empty((num_rows, most), np.int32)
    members = np.zeros((num_rows, most, num_levels + 1), np.int64)
    for row in range(num_rows):
        number, before, size = ranked.number[row], ranked.before[row], ranked.size[row]
        item, found = _next_group(size, 0, number), 0
        while item < number:
            first[row, found], stop[row, found] = item, _end(before, item, number)
            _count_levels(ranked.level[row, item : stop[row, found]], members[row, found])
            item = _next_group(size, stop[row, found], number)
            found += 1
        first[row, found] = number
    return TieGroups(first, stop, members)


@jit
def _next_group(size: NDArray[np.int32], item: int, number: int) -> int:
    """The first positive from ``item`` on that is tied, or their number."""
    while item < number:
        stop = min(item + _GLANCE, number)
        if not _all_alone(size[item:stop]):
            while size[item] == 1:
                item += 1
            break
        item = stop
    return item


@jit
def _all_alone(size: NDArray[np.int32]) -> bool:
    summed = 0
    for item in range(len(size)):
        summed += size[item]
    return summed == len(size)


@jit
def _end(before: NDArray[np.int32], item: int, number: int) -> int:
    """One past the last positive that is tied with one, in steps that grow and then shrink."""
    start, step = before[item], 1
    while item + step < number and before[item + step] == start:
        item += step
        step *= 2
    while step > 0:
        if item + step < number and before[item + step] == start:
            item += step
        step //= 2
    return item + 1


@jit
def _count_levels(level: NDArray[np.uint8], members: NDArray[np.int64]) -> None:
    """Add up the items of each level; many are compared with one level at a time, several at once."""
    if len(level) <= _FEW:
        for item in range(len(level)):
            members[level[item]] += 1
        return
    for own in range(len(members)):
        found = 0
        for item in range(len(level)):
            found += level[item] == own
        members[own] = found
