"""Sort whole lists of scores with their levels: the fastest way if much of a gallery is positive.

A float32 cosine is 0 or has an absolute value from 2⁻³¹ to 2, which takes 29 bits; its level takes the 3 bits below.
numpy sorts such keys with vector instructions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hiertree.evaluation_options import Ties
from hiertree.jit import Array, Bytes, Int32s, Ints, jit

from .ranked import Ranked

_GLANCE = 64  # items that are searched for ties at once
_KEYS_AT_ONCE = 2**19  # they stay in the cache from one step to the next
WORTHWHILE = 4  # a full sort pays if at least one item in four is positive
_LEVEL_BITS, _LEVELS = np.uint32(3), np.uint32(7)
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
    num_rows = max(_KEYS_AT_ONCE // max(scores.shape[1], 1), 1)
    keys = np.empty((num_rows, scores.shape[1]), np.uint32)
    for rows in (slice(start, start + num_rows) for start in range(0, len(scores), num_rows)):
        row_keys = keys[: len(scores[rows])]
        if not _write_keys(scores[rows], low[rows], high[rows], row_keys):
            return None
        row_keys.sort(axis=1)
        _fill(row_keys, Ranked._make(field[rows] for field in ranked))
    return ranked


@jit
def _write_keys(scores: Array, low: Ints, high: Ints, keys: NDArray[np.uint32]) -> bool:
    """Write keys, which decrease as scores increase; return whether every score has one."""
    num_levels, misfits = low.shape[1], 0
    for row in range(len(scores)):
        misfits += _write(scores[row, : low[row, 0]], 0, keys[row, : low[row, 0]])
        misfits += _write(scores[row, high[row, 0] :], 0, keys[row, high[row, 0] :])
        for step in range(2 * num_levels - 1):  # from the widest range to the deepest and back, level by level
            depth = min(step, 2 * num_levels - 2 - step)
            begin = low[row, step] if step < num_levels else high[row, depth + 1]
            end = low[row, step + 1] if step < num_levels - 1 else high[row, depth]
            misfits += _write(scores[row, begin:end], depth + 1, keys[row, begin:end])
    return misfits == 0


@jit
def _write(score: Array, level: int, keys: NDArray[np.uint32]) -> int:
    misfits = 0
    for item in range(len(score)):
        bits = np.float32(score[item]).view(np.uint32)
        size = np.int32(bits & _SIZE)
        left_out = score[item] == -np.inf
        misfits += ((size < _SMALLEST) & (size > 0) | (size > _LARGEST)) & (not left_out)
        magnitude = max(size - _SMALLEST + np.int32(1), np.int32(0))
        key = _ZERO + magnitude if bits & _SIGN else _ZERO - magnitude
        keys[item] = _LEFT_OUT if left_out else (np.uint32(key) << _LEVEL_BITS) | np.uint32(level)
    return misfits


@jit
def _fill(order: NDArray[np.uint32], ranked: Ranked) -> None:
    """Fill ``ranked`` from sorted keys."""
    for row in range(len(order)):
        ranked.num_positives[row] = _write_positives(order[row], ranked.level[row], ranked.offset[row])
        ranked.size[row, : ranked.num_positives[row]] = 1
        _group_ties(order[row], ranked.offset[row], ranked.size[row], ranked.num_positives[row])


@jit
def _write_positives(order: NDArray[np.uint32], level: Bytes, offset: Int32s) -> int:
    """Write the level and place of each positive; return their number. Excluded items are last."""
    num_items = np.searchsorted(order, _LEFT_OUT)
    column = np.uint64(0)
    for item in range(num_items):
        item_level = order[item] & _LEVELS
        level[column], offset[column] = item_level, item
        column += np.uint64(item_level > 0)
    return int(column)


@jit
def _group_ties(order: NDArray[np.uint32], offset: Int32s, size: Int32s, num_positives: int) -> None:
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
                positive = np.searchsorted(offset[:num_positives], begin)
                while positive < num_positives and offset[positive] < item:
                    offset[positive], size[positive] = begin, item - begin
                    positive += 1


@jit
def _has_ties(order: NDArray[np.uint32]) -> bool:
    ties = np.uint32(0)
    for item in range(len(order) - 1):
        ties |= np.uint32((order[item] ^ order[item + 1]) <= _LEVELS)
    return bool(ties > 0)
