"""Rows of scores in falling order, and what follows from the order alone: exact counts, and the items of each grade.

Compiled kernels. A *place* is a position in a sorted row.
Only the first ``number[r]`` places of row r are defined.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hiertree.jit import Array, Bools, Bytes, Floats, Int32s, Ints, jit

from .base import StepParameters

_LONGEST_INSERTION = 128
_WIDEST = 1200.0  # in τ: e to the power of half of it is finite
_LOG2_E = 1 / math.log(2)
_LOG_2_HIGH, _LOG_2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10  # log 2, its first half free of rounding
_TAYLOR = tuple(1 / math.factorial(degree) for degree in range(14))


class SortedRows(NamedTuple):
    """The valid items of r rows by falling score."""

    values: Array  # (r, M) the scores, float32 or float64
    items: Int32s  # (r, M) where they come from
    number: Ints  # (r,)
    ends: Int32s  # (r, 2·M + 1) how many items lie in each interval of the score and above it
    scale: Floats  # (r,) intervals in a unit of score, counted from the highest one down

    @classmethod
    def empty(cls, scores: Array) -> SortedRows:
        """Room for these scores (r, M)."""
        rows, items = scores.shape
        places, ends = np.empty((rows, items), np.int32), np.empty((rows, 2 * items + 1), np.int32)
        return cls(np.empty_like(scores), places, np.empty(rows, np.int64), ends, np.empty(rows))


class GradedItems(NamedTuple):
    """A grade of each item of sorted rows: which targets are higher than which candidates."""

    grades: Bytes  # (r, M) by place in the row
    places: Int32s  # (r, M) grade by grade, rising in each
    start: Int32s  # (r, G + 2) where in ``places`` each of the grades 0 … G begins, and the end of the last


class Decays(NamedTuple):
    """e^{−(x − middle)/τ} of each item of sorted rows: it makes the sigmoid of a pair without an exponential."""

    values: Floats  # (r, M) by place; unset in a row that is not narrow
    middle: Floats  # (r,) half way between the highest and the lowest score
    narrow: Bools  # (r,) whether the exponentials of the row are finite


class StepSums(NamedTuple):
    """Sums of a step of x_j − y_k over the candidates j of lower grades than the target k."""

    ranking: SortedRows
    decays: Decays
    candidates: GradedItems
    targets: GradedItems
    step: StepParameters


@jit
def sort_rows(scores: Array, valid: Bools, result: SortedRows) -> None:
    """Sort by buckets: as many equal intervals of the score as there are items, then insertion.

    A few passes for scores that spread, where comparisons would need log2 M; rows that crowd into few intervals are
    sorted by comparison.
    """
    num_items = scores.shape[1]
    bucket = np.empty(num_items, np.uint32)  # unsigned: no check for a negative index
    for row in range(len(scores)):
        own, values, items, ends = scores[row], result.values[row], result.items[row], result.ends[row]
        top, scale = _intervals(own, valid[row])
        ends[:] = 0
        values[0] = 0.0  # in a row without a valid item too, that what reads its ends finds numbers
        for item in range(num_items):
            if valid[row, item]:
                bucket[item] = np.int32((top - own[item]) * scale)
                ends[bucket[item] + np.uint32(1)] += np.int32(1)
        fullest, number = np.int32(0), np.int32(0)
        for interval in range(2 * num_items + 1):
            fullest = max(fullest, ends[interval])
            number += ends[interval]
            ends[interval] = number
        for item in range(num_items):
            if valid[row, item]:
                place = np.uint32(ends[bucket[item]])
                ends[bucket[item]] += np.int32(1)
                values[place], items[place] = own[item], item
        result.number[row], result.scale[row] = number, scale
        if fullest <= _LONGEST_INSERTION:
            _insert(values[:number], items[:number])
        else:
            order = np.argsort(-values[:number])
            values[:number], items[:number] = values[:number][order], items[:number][order]


@jit
def _intervals(scores: Array, valid: Bools) -> tuple[float, float]:
    """The highest score, and how many intervals make up a unit of score; 0 where all are one."""
    low, top = np.inf, -np.inf
    for item in range(len(scores)):
        if valid[item]:
            low, top = min(low, np.float64(scores[item])), max(top, np.float64(scores[item]))
    scale = (2 * len(scores) - 1) / (top - low) if top > low else 0.0
    return top, scale if np.isfinite(scale) else 0.0


@jit
def _insert(values: Array, items: Int32s) -> None:
    """Insertion sort of nearly sorted items, in descending order."""
    for end in range(1, len(values)):
        value = values[end]
        if value > values[end - 1]:
            item, place = items[end], end
            while place > 0 and values[place - 1] < value:
                values[place], items[place] = values[place - 1], items[place - 1]
                place -= 1
            values[place], items[place] = value, item


@jit
def exponentiate(ranking: SortedRows, tau: float, result: Decays) -> None:
    """Exponentials by Taylor's series around the multiples of log 2, many at once, which ``math.exp`` is not."""
    exponents = np.empty(ranking.values.shape[1], np.int64)
    powers = exponents.view(np.float64)
    for row in range(len(ranking.values)):
        number, values, decay = ranking.number[row], ranking.values[row], result.values[row]
        span = np.float64(values[0]) - np.float64(values[number - 1]) if number else 0.0
        result.middle[row] = middle = values[0] - span / 2 if number else 0.0
        result.narrow[row] = span <= _WIDEST * tau
        if not result.narrow[row]:
            continue
        for place in range(number):
            power = (middle - np.float64(values[place])) / tau
            doublings = math.floor(power * _LOG2_E + 0.5)
            exponents[place] = (np.int64(doublings) + 1023) << np.int64(52)  # the bits of 2^doublings
            decay[place] = _near_0((power - doublings * _LOG_2_HIGH) - doublings * _LOG_2_LOW)
        for place in range(number):
            decay[place] *= powers[place]


@jit
def _near_0(power: float) -> float:
    total = _TAYLOR[13]
    for degree in range(12, -1, -1):
        total = total * power + _TAYLOR[degree]
    return total


@jit
def grade_rows(ranking: SortedRows, grades: Bytes, result: GradedItems) -> None:
    """Sort the places of each row by the grade of their items."""
    for row in range(len(grades)):
        start, number = result.start[row], ranking.number[row]
        own = result.grades[row]
        for place in range(number):
            own[place] = grades[row, np.uint32(ranking.items[row, place])]
        start[0] = 0
        for grade in range(len(start) - 1):
            counted = np.int32(0)
            for place in range(number):
                counted += np.int32(own[place] == grade)
            start[grade + 1] = start[grade] + counted
        following = start.copy()
        for place in range(number):
            grade = result.grades[row, place]
            result.places[row, following[grade]] = place
            following[grade] += 1


@jit
def sum_not_below(
    ranking: SortedRows, candidates: GradedItems, targets: GradedItems, weights: Floats, sums: Array
) -> None:
    """For each target of grade ≥ 1, Σ weights[grade of j, its own] over the items j as high, itself too."""
    for row in range(len(sums)):
        _sum_row(row, ranking, candidates, targets, weights, sums[row])


@jit
def sum_shared_relevance(ranking: SortedRows, levels: GradedItems, table: Array, sums: Array) -> None:
    """For each item of level ≥ 1, Σ min(its relevance, theirs) over the items as high, itself too."""
    num_levels = table.shape[1]
    shared = np.empty((num_levels, num_levels))
    for row in range(len(sums)):
        for level in range(num_levels):
            for other in range(num_levels):
                shared[level, other] = min(table[row, level], table[row, other])
        _sum_row(row, ranking, levels, levels, shared, sums[row])


@jit
def _sum_row(
    row: int, ranking: SortedRows, candidates: GradedItems, targets: GradedItems, weights: Floats, sums: Array
) -> None:
    """One running sum for each grade of targets, read at the last place of a target's score."""
    number, items = ranking.number[row], ranking.items[row]
    last, running = np.empty(number, np.int32), np.empty(number)
    end = number - 1
    for place in range(number - 1, -1, -1):
        end = place if ranking.values[row, place] > ranking.values[row, end] else end
        last[place] = end
    for grade in range(1, weights.shape[1]):
        wanted = targets.places[row, targets.start[row, grade] : targets.start[row, grade + 1]]
        if len(wanted) == 0:
            continue
        added, total = weights[:, grade].copy(), 0.0
        for place in range(number):
            total += added[candidates.grades[row, place]]
            running[place] = total
        for place in wanted:
            sums[np.uint32(items[np.uint32(place)])] = running[np.uint32(last[np.uint32(place)])]


@jit
def count_levels(levels: Bytes, valid: Bools, counts: Ints) -> None:
    """``counts[row, level]``: the valid items of each level."""
    for row in range(len(levels)):
        for level in range(counts.shape[1]):
            number = np.int32(0)
            for item in range(levels.shape[1]):
                number += np.int32(valid[row, item] & (levels[row, item] == level))
            counts[row, level] = number


@jit
def count_shared(query_paths: Ints, candidate_columns: Ints, levels: Bytes) -> None:
    """``levels[row, item]``: how many leading columns of two paths are equal; the candidates' lie column by column."""
    for row in range(len(levels)):
        shared = levels[row]
        shared[:] = 0
        for column in range(query_paths.shape[1]):
            own, others = query_paths[row, column], candidate_columns[column]
            for item in range(len(shared)):
                shared[item] += np.uint8((shared[item] == column) & (others[item] == own))
