"""The positives of each query sorted by score, with every other item counted among them.

Another item matters only through the positives that it precedes or ties with, so it is counted at the first
positive whose score does not exceed its own. Counts of parts of a gallery add up.

Sorting and lookup share one table: equal intervals of the score, a few times as many as positives. The same
rounded arithmetic maps equal scores to one interval and a larger score never to a later one. Within an interval scores
are compared, so that the result is exact wherever the intervals lie.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hiertree.jit import Array, Bools, Bytes, Int32s, Ints, Words, jit, jit_without_nan

_INTERVALS = 3  # of the table per positive
BYTES_OF_A_POSITIVE = 8 + 1 + 8 + 4 * _INTERVALS
_AT_ONCE = 512
_LEVEL_BITS = np.uint64(8)
_LEVEL_MASK, _LAST = np.uint64(255), np.uint64(2**64 - 1)
_SIGN = np.uint64(2**31)
_ONE, _FOUR = (np.uint32(count) for count in (1, 4))  # unsigned: no check for a negative index
_MOST_TALLIED = 2**13  # most positives whose four tallies fit into the L2 cache
_BELOW_SIGN = np.uint64(2**31 - 1)


class SortedPositives(NamedTuple):
    """The positives of r queries, best first; row i holds ``num_positives[i]`` of them."""

    score: Array  # (r, P) float32 or float64
    level: Bytes  # (r, P) from 1
    num_positives: Ints  # (r,)
    negatives: Int32s  # (r, P+1, 2) negatives between i − 1 and i, and with the score of i if i is the first of it
    first: Int32s  # (r, T) of each interval of scores twice the first positive not in an earlier one, + 1 if in it
    top: Array  # (r,) the score at which the intervals begin
    scale: Array  # (r,) intervals for each unit of score

    def rows(self, block: slice) -> SortedPositives:
        """Some of the queries, as views."""
        return SortedPositives._make(field[block] for field in self)


def empty_positives(num_rows: int, num_positives: int, dtype: np.dtype[Any]) -> SortedPositives:
    """An empty :class:`SortedPositives` with room for a number of positives in each row."""
    return SortedPositives(
        np.empty((num_rows, num_positives), dtype),
        np.empty((num_rows, num_positives), np.uint8),
        np.zeros(num_rows, np.int64),
        np.zeros((num_rows, num_positives + 1, 2), np.int32),
        np.empty((num_rows, _INTERVALS * num_positives + 4), np.int32),
        np.zeros(num_rows, dtype),
        np.zeros(num_rows, dtype),
    )


@jit
def gather(scores: Array, low: Ints, high: Ints, positives: SortedPositives) -> None:
    """Append the positives of a part of the gallery.

    ``low`` and ``high`` are the columns where each level's range begins and ends. A score of −inf is left out.
    """
    num_levels = low.shape[1]
    for row in range(len(scores)):
        score, level = positives.score[row], positives.level[row]
        target = positives.num_positives[row]
        for step in range(2 * num_levels - 1):  # from the widest range to the deepest and back, level by level
            depth = min(step, 2 * num_levels - 2 - step)
            begin = low[row, step] if step < num_levels else high[row, depth + 1]
            end = low[row, step + 1] if step < num_levels - 1 else high[row, depth]
            for column in range(begin, end):
                if scores[row, column] > -np.inf:
                    score[target] = scores[row, column]
                    level[target] = depth + 1
                    target += 1
        positives.num_positives[row] = target


@jit
def split(
    scores: Array,
    levels: Bytes,
    excluded: Bools,
    positives: SortedPositives,
    negatives: Array,
    num_others: Ints,
) -> None:
    """Split the items of a score matrix into positives and the scores of others."""
    for row in range(len(scores)):
        num_positives, num_negatives = 0, 0
        for column in range(scores.shape[1]):
            if excluded[row, column]:
                continue
            if levels[row, column] > 0:
                positives.score[row, num_positives] = scores[row, column]
                positives.level[row, num_positives] = levels[row, column]
                num_positives += 1
            else:
                negatives[row, num_negatives] = scores[row, column]
                num_negatives += 1
        positives.num_positives[row] = num_positives
        num_others[row] = num_negatives


def sort(positives: SortedPositives) -> None:
    """Sort the positives and build the tables; equal scores are ordered by level."""
    if positives.score.dtype == np.float32:
        keys = np.empty(positives.score.shape, np.uint64)
        _write_keys(positives.score, positives.level, positives.num_positives, keys)
        keys.sort(axis=1)
        _read_keys(keys, positives.num_positives, positives.score, positives.level)
    else:
        for row, num_positives in enumerate(positives.num_positives):
            score, level = positives.score[row, :num_positives], positives.level[row, :num_positives]
            order = np.lexsort((level, -score))
            score[:], level[:] = score[order], level[order]
    _fill_tables(positives)


@jit_without_nan
def _intervals(scores: Array, top: Any, scale: Any, last: int, interval: Int32s) -> None:
    """The interval of each score, 0 … last. One kernel, so that every caller uses the same arithmetic."""
    for item in range(len(scores)):
        scaled = (top - scores[item]) * scale
        interval[item] = np.int32(min(max(scaled, -np.float32(1)), np.float32(last - 1)) + np.float32(1))


@jit
def _bounds(score: Array, num_positives: int) -> tuple[float, float]:
    """The upper end of the intervals and their number per unit of score, from the finite scores."""
    top, low = -np.inf, np.inf
    for item in range(num_positives):
        if -np.inf < score[item] < np.inf:
            top, low = max(top, score[item]), min(low, score[item])
    if top < low:
        return 0.0, 1e-37
    scale = (_INTERVALS * num_positives - 1) / (top - low)
    return top, scale if 1e-37 < scale < 1e37 else 1e-37  # not 0: 0 times an infinite score is NaN


@jit
def _write_keys(score: Array, level: Bytes, num_positives: Ints, keys: Words) -> None:
    """Keys of the score's bit pattern, which decrease as scores increase (−0 is 0), and the level; others are last."""
    for row in range(len(keys)):
        for item in range(num_positives[row]):
            pattern = np.uint64(np.float32(score[row, item] + np.float32(0.0)).view(np.uint32))
            key = pattern if pattern & _SIGN else pattern ^ _BELOW_SIGN
            keys[row, item] = (key << _LEVEL_BITS) | np.uint64(level[row, item])
        keys[row, num_positives[row] :] = _LAST


@jit
def _read_keys(keys: Words, num_positives: Ints, score: Array, level: Bytes) -> None:
    for row in range(len(keys)):
        for item in range(num_positives[row]):
            level[row, item] = keys[row, item] & _LEVEL_MASK
            key = keys[row, item] >> _LEVEL_BITS
            score[row, item] = np.uint32(key if key & _SIGN else key ^ _BELOW_SIGN).view(np.float32)


@jit
def _fill_tables(positives: SortedPositives) -> None:
    """Build the tables of sorted positives."""
    interval = np.empty(positives.score.shape[1], np.int32)
    for row in range(len(positives.num_positives)):
        num_positives, score, first = positives.num_positives[row], positives.score[row], positives.first[row]
        positives.top[row], positives.scale[row] = _bounds(score, num_positives)
        last = _INTERVALS * num_positives + 1
        _intervals(score[:num_positives], positives.top[row], positives.scale[row], last, interval)
        first[: last + 2] = 0
        for item in range(num_positives):
            first[np.uint32(interval[item])] += np.int32(1)
        start = np.int32(0)
        for index in range(last + 2):
            size = first[index]
            first[index] = np.int32(2) * start + np.int32(size > 0)
            start += size


@jit
def count_negatives(scores: Array, low: Ints, high: Ints, stop: Ints, positives: SortedPositives) -> None:
    """Count the items of level 0 of a part of the gallery: columns 0 … low and high … stop of each row.

    Items in an interval without a positive need no comparison; others are kept aside, without a branch. Additions to
    one counter wait for each other, so four tallies take turns where they stay in the cache.
    """
    interval, candidates = np.empty(_AT_ONCE, np.int32), np.empty(_AT_ONCE + 1, np.int32)
    tallies = np.zeros((_MOST_TALLIED + 1, 4), np.int32)
    for row in range(len(scores)):
        num_positives, first, negatives = positives.num_positives[row], positives.first[row], positives.negatives[row]
        if num_positives == 0:
            continue  # no positive to precede
        tally, turns = (tallies, np.uint32(3)) if num_positives <= _MOST_TALLIED else (negatives, np.uint32(0))
        for half in range(2):
            start, end = (0, low[row]) if half == 0 else (high[row], stop[row])
            for begin in range(start, end, _AT_ONCE):
                block = scores[row, begin : min(begin + _AT_ONCE, end)]
                _intervals(block, positives.top[row], positives.scale[row], _INTERVALS * num_positives + 1, interval)
                num_candidates = np.uint32(0)
                for item in range(len(block)):
                    code = np.uint32(first[np.uint32(interval[item])])
                    occupied = code & _ONE
                    tally[code >> _ONE, np.uint32(item) & turns] += np.int32(_ONE ^ occupied)
                    candidates[num_candidates] = item
                    num_candidates += occupied
                score = positives.score[row, :num_positives]
                _count_inside(block, interval, candidates[:num_candidates], first, score, tally, turns, negatives)
        for rank in range(num_positives + 1 if turns > 0 else 0):
            negatives[rank, 0] += tally[rank, 0] + tally[rank, 1] + tally[rank, 2] + tally[rank, 3]
            tally[rank] = 0


@jit
def _count_inside(
    scores: Array,
    interval: Int32s,
    candidates: Int32s,
    first: Int32s,
    positives: Array,
    tally: Int32s,
    turns: np.uint32,
    negatives: Int32s,
) -> None:
    at_end = np.uint32(len(positives) - 1)
    for turn in range(len(candidates)):
        item = np.uint32(candidates[turn])
        score, index = scores[item], np.uint32(interval[item])
        start, stop = np.uint32(first[index]) >> _ONE, np.uint32(first[index + _ONE]) >> _ONE
        rank = _first_not_above(positives, start, stop, score)
        if positives[min(rank, at_end)] == score:
            negatives[rank, 1] += np.int32(1)
        else:
            tally[rank, np.uint32(turn) & turns] += np.int32(1)


@jit
def _first_not_above(score: Array, start: np.uint32, stop: np.uint32, threshold: Any) -> np.uint32:
    """Bisect descending scores for the first that does not exceed ``threshold``; the last four are compared at once."""
    while stop - start > _FOUR:
        middle = (start + stop) >> _ONE
        if score[middle] > threshold:
            start = middle + _ONE
        else:
            stop = middle
    if len(score) < _FOUR:
        while start < stop and score[start] > threshold:
            start += _ONE
        return start
    start = min(start, np.uint32(len(score)) - _FOUR)
    rank = start
    for step in range(4):
        rank += np.uint32(score[start + np.uint32(step)] > threshold)
    return rank
