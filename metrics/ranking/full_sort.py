"""Sort whole lists of scores with their levels: the fastest way if much of a gallery is positive.

A float32 cosine is 0 or has an absolute value from 2⁻³¹ to 2, which takes 29 bits; its level takes the 3 bits below.
These keys are distributed over equal intervals of the score, about one per item. An odd-even transposition sort, which
vectorizes, then orders each interval.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiertree.jit import Array, Bytes, Int32s, Ints, jit, jit_without_nan

from ..conventions import Ties
from .ranked import Ranked

_INTERVALS = 1.25  # per item
_FEW = 256  # most items of an interval for which odd-even exchanges take less than half the time of a sort
_PIECE = 512  # items sorted together
_GLANCE = 64  # items that are searched for ties at once
_SAMPLE = 8  # every eighth item gives the range of the scores
WORTHWHILE = 4  # a full sort pays if at least one item in four is positive
_LEVEL_BITS, _LEVELS = np.uint32(3), np.uint32(7)
_ONE, _TWO = np.uint32(1), np.uint32(2)  # unsigned, since checking an index for a sign takes twice the time
_SIGN, _SIZE = np.uint32(2**31), np.uint32(2**31 - 1)
_SMALLEST, _LARGEST = (np.int32(np.float32(score).view(np.int32)) for score in (2.0**-31, 1.9))
_ZERO = np.int32(2**28)  # the key of score 0 without its level
_LEFT_OUT = np.uint32(2**32 - 1)


def rank_by_full_sort(scores: Array, low: Ints, high: Ints, *, ties: Ties) -> Ranked | None:
    """The ranked positives of r rows of scores, (r, N) in tree order, or None if keys do not fit.

    A score of −inf marks an item that is left out; ``low`` and ``high`` (r, L) are the ranges of the tree order.
    """
    num_positives = int((high[:, 0] - low[:, 0]).max(initial=0))
    if ties not in ("average", "paper") or scores.dtype != np.float32 or low.shape[1] > _LEVELS:
        return None
    shape = len(scores), num_positives + 1  # one extra cell, written but never read
    ranked = Ranked(
        np.empty(shape, np.uint8), np.empty(shape, np.int32), np.empty(shape, np.int32), np.empty(len(scores), np.int64)
    )
    return ranked if _rank(scores, low, high, ranked) else None


@jit
def _rank(scores: Array, low: Ints, high: Ints, ranked: Ranked) -> bool:
    """Fill ``ranked``; return whether every score has a key."""
    num_items = scores.shape[1]
    keys, order = np.empty(num_items, np.uint32), np.empty(num_items, np.uint32)
    interval, first = np.empty(num_items, np.int32), np.empty(int(num_items * _INTERVALS) + 3, np.int32)
    for row in range(len(scores)):
        if not _fill_keys(scores[row], low[row], high[row], keys):
            return False
        _sort(scores[row], keys, interval, first, order)
        ranked.number[row] = _number_positives(order, ranked.level[row], ranked.offset[row])
        ranked.size[row, : ranked.number[row]] = 1
        _group_ties(order, ranked.offset[row], ranked.size[row], ranked.number[row])
    return True


@jit
def _fill_keys(score: Array, low: Ints, high: Ints, keys: NDArray[np.uint32]) -> bool:
    """Write the keys of a list, which decrease as scores increase; return whether every score has one."""
    num_levels, all_fit = len(low), _write_keys(score[: low[0]], 0, keys[: low[0]])
    for step in range(2 * num_levels - 1):  # from the widest range to the deepest and back, level by level
        depth = min(step, 2 * num_levels - 2 - step)
        begin = low[step] if step < num_levels else high[depth + 1]
        end = low[step + 1] if step < num_levels - 1 else high[depth]
        all_fit &= _write_keys(score[begin:end], depth + 1, keys[begin:end])
    return all_fit & _write_keys(score[high[0] :], 0, keys[high[0] :])


@jit
def _write_keys(score: Array, level: int, keys: NDArray[np.uint32]) -> bool:
    misfits = 0
    for item in range(len(score)):
        bits = np.float32(score[item]).view(np.uint32)
        size = np.int32(bits & _SIZE)
        left_out = score[item] == -np.inf
        misfits += ((size < _SMALLEST) & (size > 0) | (size > _LARGEST)) & (not left_out)
        magnitude = max(size - _SMALLEST + np.int32(1), np.int32(0))
        key = _ZERO + magnitude if bits & _SIGN else _ZERO - magnitude
        keys[item] = _LEFT_OUT if left_out else (np.uint32(key) << _LEVEL_BITS) | np.uint32(level)
    return misfits == 0


@jit
def _sort(score: Array, keys: NDArray[np.uint32], interval: Int32s, first: Int32s, order: NDArray[np.uint32]) -> None:
    last = len(first) - 3
    top, low = _bounds(score)
    _intervals(score, top, np.float32(last) / max(top - low, np.float32(1e-30)), last, interval)
    first[:] = 0
    for item in range(len(keys)):
        first[np.uint32(interval[item]) + _TWO] += np.int32(1)
    largest_size = 0
    for place in range(last + 1):
        largest_size = max(largest_size, first[place + 2])
        first[place + 2] += first[place + 1]
    for item in range(len(keys)):
        cursor = np.uint32(interval[item]) + _ONE
        place = np.uint32(first[cursor])
        order[place] = keys[item]
        first[cursor] = place + _ONE
    if largest_size > _FEW:
        for place in range(last + 1):
            if first[place + 1] - first[place] > _FEW:
                order[first[place] : first[place + 1]].sort()
    _finish(order)


@jit
def _bounds(score: Array) -> tuple[np.float32, np.float32]:
    """The largest and the smallest score of a sample; scores beyond go into the outermost intervals."""
    top, low = np.float32(-2), np.float32(2)
    for item in range(0, len(score), _SAMPLE):
        if score[item] > -np.inf:
            top, low = max(top, score[item]), min(low, score[item])
    return top, low


@jit_without_nan
def _intervals(score: Array, top: Any, scale: Any, last: int, interval: Int32s) -> None:
    for item in range(len(score)):
        interval[item] = np.int32(min(max((top - score[item]) * scale, np.float32(0)), np.float32(last)))


@jit
def _finish(order: NDArray[np.uint32]) -> None:
    for start in range(0, len(order), _PIECE):
        piece = order[start : start + _PIECE]
        while _is_unsorted(piece):
            _exchange(piece)
            _exchange(piece[1:])
        item = start
        while 0 < item < len(order) and order[item - 1] > order[item]:  # across the border to the piece before
            key, place = order[item], item
            while place > 0 and order[place - 1] > key:
                order[place] = order[place - 1]
                place -= 1
            order[place] = key
            item += 1


@jit
def _is_unsorted(piece: NDArray[np.uint32]) -> bool:
    inversions = np.uint32(0)
    for item in range(len(piece) - 1):
        inversions |= np.uint32(piece[item] > piece[item + 1])
    return bool(inversions > 0)


@jit
def _exchange(piece: NDArray[np.uint32]) -> None:
    """Order every pair of neighbors: the first and second item, the third and fourth, and so on."""
    for pair in range(len(piece) // 2):
        left, right = piece[2 * pair], piece[2 * pair + 1]
        piece[2 * pair] = min(left, right)
        piece[2 * pair + 1] = max(left, right)


@jit
def _number_positives(order: NDArray[np.uint32], level: Bytes, offset: Int32s) -> int:
    """Write the level and place of each positive; return their number. Excluded items are last."""
    num_items = np.searchsorted(order, _LEFT_OUT)
    column = np.uint64(0)
    for item in range(num_items):
        item_level = order[item] & _LEVELS
        level[column], offset[column] = item_level, item
        column += np.uint64(item_level > 0)
    return int(column)


@jit
def _group_ties(order: NDArray[np.uint32], offset: Int32s, size: Int32s, number: int) -> None:
    """Write for each positive of a tie group the number of items ahead of the group, and its size."""
    item, last = 0, np.searchsorted(order, _LEFT_OUT) - 1
    while item < last:
        stop = min(item + _GLANCE, last)
        if not _has_ties(order[item : stop + 1]):
            item = stop
            continue
        while item < stop:
            begin = item
            while item < last and order[item] >> _LEVEL_BITS == order[item + 1] >> _LEVEL_BITS:
                item += 1
            item += 1
            if item - begin > 1:
                positive = np.searchsorted(offset[:number], begin)
                while positive < number and offset[positive] < item:
                    offset[positive], size[positive] = begin, item - begin
                    positive += 1


@jit
def _has_ties(order: NDArray[np.uint32]) -> bool:
    ties = np.uint32(0)
    for item in range(len(order) - 1):
        ties |= np.uint32((order[item] ^ order[item + 1]) <= _LEVELS)
    return bool(ties > 0)
