"""Count the other items among the sorted positives by one of three methods with equal results.

With few positives, every item is compared with every positive. With so many that each lookup waits for memory, items
are roughly sorted first. Otherwise items are looked up one by one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hiertree.jit import Array, Bytes, Int32s, Ints, jit, jit_without_nan

from .sorted_positives import SortedPositives, count_negatives

_FEW, _MANY = 32, 2**15
_AT_ONCE = 2048
_BUCKETS = 256


def count_among(scores: Array, low: Ints, high: Ints, positives: SortedPositives) -> None:
    """Count the items outside columns low … high of each row."""
    num_positives = positives.score.shape[1]
    if num_positives <= _FEW:
        _count_among_few(scores, low, high, positives.score, positives.number, positives.negatives)
    elif num_positives < _MANY:
        count_negatives(scores, low, high, np.full(len(scores), scores.shape[1]), positives)
    else:
        rough_order, none = np.empty((1, scores.shape[1]), scores.dtype), np.zeros(1, np.int64)
        for row in range(len(scores)):
            only_row = slice(row, row + 1)
            row_positives = positives.rows(only_row)
            _order_roughly(
                scores[only_row], low[only_row], high[only_row], row_positives.score, row_positives.number, rough_order
            )
            count_negatives(rough_order, none, none, low[only_row] + scores.shape[1] - high[only_row], row_positives)


@jit
def _count_among_few(scores: Array, low: Ints, high: Ints, positives: Array, number: Ints, negatives: Int32s) -> None:
    for row in range(len(scores)):
        for piece in range(2):
            start, stop = (0, low[row]) if piece == 0 else (high[row], scores.shape[1])
            for begin in range(start, stop, _AT_ONCE):
                part, num_ahead = scores[row, begin : min(begin + _AT_ONCE, stop)], 0
                for item in range(number[row]):
                    if item == 0 or positives[row, item] < positives[row, item - 1]:
                        num_above, equal = _compare(part, positives[row, item])
                        negatives[row, item, 0] += num_above - num_ahead
                        negatives[row, item, 1] += equal
                        num_ahead = num_above + equal


@jit
def _compare(scores: Array, positive: Any) -> tuple[int, int]:
    num_above, equal = np.int32(0), np.int32(0)
    for item in range(len(scores)):
        num_above += np.int32(scores[item] > positive)
        equal += np.int32(scores[item] == positive)
    return num_above, equal


@jit
def _order_roughly(scores: Array, low: Ints, high: Ints, positives: Array, number: Ints, rough_order: Array) -> None:
    """Write the items outside columns low … high of each row in roughly descending order."""
    width = scores.shape[1]
    bucket, place = np.empty(width, np.uint8), np.empty(_BUCKETS + 1, np.int64)
    for row in range(len(scores)):
        top, bottom = positives[row, 0], positives[row, max(number[row] - 1, 0)]
        if number[row] == 0:
            top, bottom = scores.dtype.type(1), scores.dtype.type(-1)
        _fill_buckets(scores[row], top, scores.dtype.type(_BUCKETS / max(float(top - bottom), 1e-30)), bucket)
        place[:] = 0
        for piece in range(2):
            for column in range(0 if piece == 0 else high[row], low[row] if piece == 0 else width):
                place[bucket[column] + 1] += 1
        for follower in range(_BUCKETS):
            place[follower + 1] += place[follower]
        for piece in range(2):
            for column in range(0 if piece == 0 else high[row], low[row] if piece == 0 else width):
                rough_order[row, place[bucket[column]]] = scores[row, column]
                place[bucket[column]] += 1


@jit_without_nan
def _fill_buckets(scores: Array, top: Any, scale: Any, bucket: Bytes) -> None:
    """Assign scores to equal intervals; those beyond go into the first or the last."""
    for item in range(len(scores)):
        place = (top - scores[item]) * scale
        bucket[item] = np.uint8(min(max(place, np.float32(0)), np.float32(_BUCKETS - 1)))
