"""Rows of scores in falling order, and what an order alone tells: exact counts, and the items of a step sum.

Compiled kernels; each takes the numbers of the rows it is to work on. ``number[r]`` items of row r take part, the
places behind them mean nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hiertree.metrics._jit import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LONGEST_INSERTION = 128


class SortedRows(NamedTuple):
    """The valid items of r rows by falling score.

    Attributes:
        values: (r, M) float32 or float64, the scores.
        items: (r, M) int32, where they come from.
        number: (r,) int64.
    """

    values: NDArray[Any]
    items: NDArray[np.int32]
    number: NDArray[np.int64]


class Chosen(NamedTuple):
    """Some of the items of sorted rows, still by falling score.

    Attributes:
        values: (r, M + 1) float64; the last column is never read.
        items: (r, M + 1) int32.
        number: (r,) int64.
    """

    values: NDArray[np.float64]
    items: NDArray[np.int32]
    number: NDArray[np.int64]


@jit
def sort_rows(rows: NDArray[np.int64], scores: NDArray[Any], valid: NDArray[np.bool_], result: SortedRows) -> None:
    """Sort by buckets: as many equal intervals of the score as there are items, then insertion.

    A few passes for scores that spread, where comparisons would need log2 M; rows that crowd into few intervals are
    sorted by comparison.
    """
    num_items = scores.shape[1]
    start, bucket = np.empty(num_items + 1, np.int32), np.empty(num_items, np.int32)
    for row in rows:
        own, values, items = scores[row], result.values[row], result.items[row]
        top, scale = _intervals(own, valid[row])
        start[:] = 0
        for item in range(num_items):
            if valid[row, item]:
                bucket[item] = np.int32((top - own[item]) * scale)
                start[bucket[item] + 1] += 1
        fullest = start.max()
        for place in range(num_items):
            start[place + 1] += start[place]
        number = start[num_items]
        for item in range(num_items):
            if valid[row, item]:
                place = start[bucket[item]]
                start[bucket[item]] += 1
                values[place], items[place] = own[item], item
        result.number[row] = number
        if fullest <= _LONGEST_INSERTION:
            _insert(values[:number], items[:number])
        else:
            order = np.argsort(-values[:number])
            values[:number], items[:number] = values[:number][order], items[:number][order]


@jit
def _intervals(scores: NDArray[Any], valid: NDArray[np.bool_]) -> tuple[float, float]:
    """The highest score, and how many intervals make up a unit of score; 0 where all are one."""
    low, top = np.inf, -np.inf
    for item in range(len(scores)):
        if valid[item]:
            low, top = min(low, np.float64(scores[item])), max(top, np.float64(scores[item]))
    scale = (len(scores) - 1) / (top - low) if top > low else 0.0
    return top, scale if np.isfinite(scale) else 0.0


@jit
def _insert(values: NDArray[Any], items: NDArray[np.int32]) -> None:
    """Sort what is nearly sorted, falling."""
    for end in range(1, len(values)):
        value = values[end]
        if value > values[end - 1]:
            item, place = items[end], end
            while place > 0 and values[place - 1] < value:
                values[place], items[place] = values[place - 1], items[place - 1]
                place -= 1
            values[place], items[place] = value, item


@jit
def choose(rows: NDArray[np.int64], ranking: SortedRows, mask: NDArray[np.bool_], chosen: Chosen) -> None:
    """The items under a mask, without a branch: each is written, the next overwrites it if it is not chosen."""
    for row in rows:
        found = 0
        for place in range(ranking.number[row]):
            item = ranking.items[row, place]
            chosen.values[row, found] = ranking.values[row, place]
            chosen.items[row, found] = item
            found += mask[row, item]
        chosen.number[row] = found


@jit
def count_not_below(
    rows: NDArray[np.int64], ranking: SortedRows, levels: NDArray[np.uint8], num_levels: int, counts: NDArray[Any]
) -> None:
    """For each positive, the items of its level or finer whose score is as high, itself included."""
    at_least = np.empty(num_levels + 1)
    for row in rows:
        at_least[:] = 0.0
        first = 0
        while first < ranking.number[row]:
            end = first
            while end < ranking.number[row] and ranking.values[row, end] == ranking.values[row, first]:
                for level in range(1, levels[row, ranking.items[row, end]] + 1):
                    at_least[level] += 1.0
                end += 1
            for place in range(first, end):
                item = ranking.items[row, place]
                if levels[row, item] > 0:
                    counts[row, item] = at_least[levels[row, item]]
            first = end


@jit
def sum_shared_relevance(
    rows: NDArray[np.int64], ranking: SortedRows, levels: NDArray[np.uint8], table: NDArray[Any], sums: NDArray[Any]
) -> None:
    """For each positive, Σ min(its relevance, theirs) over the positives whose score is as high, itself included."""
    count = np.empty(table.shape[1])
    for row in rows:
        count[:] = 0.0
        first = 0
        while first < ranking.number[row]:
            end = first
            while end < ranking.number[row] and ranking.values[row, end] == ranking.values[row, first]:
                count[levels[row, ranking.items[row, end]]] += 1.0
                end += 1
            for place in range(first, end):
                item = ranking.items[row, place]
                if levels[row, item] > 0:
                    own, shared = table[row, levels[row, item]], 0.0
                    for level in range(1, len(count)):
                        shared += min(own, table[row, level]) * count[level]
                    sums[row, item] = shared
            first = end
