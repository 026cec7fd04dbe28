r"""What a step has beyond δ, in place of its sigmoid, for many targets and many candidates of a row.

Over the candidates with t = x_j − y_k > δ: Σ(ρ·(t − δ) + offset − start − σ(t/τ)), exactly. They are the first of the
row, so that running sums hold all of it: how many they are, Σ x_j, and each term of
σ(t/τ) = 1 − e^{−t/τ} + e^{−2t/τ} − …, whose exponentials are products of one factor of j and one of k. The gradient has
running sums from the other end. Where they end is looked up in the intervals by which the row was sorted: a walk along
candidates and targets would branch by chance at each of them.
"""

from __future__ import annotations

import numpy as np

from hiertree.jit import Array, Bools, Floats, Int32s, Ints, jit

from .sorted_rows import StepSums

SIDE_BY_SIDE = 4  # sums that run at once, none waiting for another
_LIKELY, _CROWDED = 3, 16  # items of an interval: looked at in any case, without a branch; halved until there are fewer


@jit
def forward(rows: Ints, by_grid: Bools, pairs: StepSums, terms: int, beyond: Array, sums: Array, slopes: Array) -> None:
    """Add it to ``sums[row, item of k]``, and its slope to ``slopes`` there; set how many items are ``beyond`` δ of k.

    For the targets k of the grades ``by_grid[row]``, over the candidates j of lower grades; ``terms`` of σ, from 1 on.
    """
    ranking, decays, candidates, targets, step = pairs
    most = ranking.values.shape[1]
    powers, running = np.empty(most), np.empty((most + 1, SIDE_BY_SIDE + 1))
    for row in rows:
        number, values, items, decay = ranking.number[row], ranking.values[row], ranking.items[row], decays.values[row]
        for grade in range(1, by_grid.shape[1]):
            if not by_grid[row, grade]:
                continue
            wanted = targets.places[row, targets.start[row, grade] : targets.start[row, grade + 1]]
            _count_beyond(values[:number], ranking.ends[row], ranking.scale[row], wanted, step.margin, beyond[row])
            if beyond[row, wanted[-1]] == 0:
                continue
            for place in range(number):
                powers[place] = np.float64(candidates.grades[row, place] < grade)
            for term in range(0, terms, SIDE_BY_SIDE):
                _run(values[:number], powers, decay, 1, running)
                for target in wanted:
                    k = np.uint32(target)  # unsigned: no check for a negative index
                    end, item = beyond[row, k], np.uint32(items[k])
                    sigmoids, bells = _series(running, end, term, 1.0 / decay[k])
                    value, slope = -sigmoids, -bells / step.tau
                    if term == 0:
                        count = running[end, 0]
                        line = running[end, SIDE_BY_SIDE] - count * (np.float64(values[k]) - values[0] + step.margin)
                        value += step.rho * line + (step.offset - step.start) * count
                        slope += step.rho * count
                    sums[row, item] += value
                    slopes[row, item] += slope


@jit
def backward(
    rows: Ints, by_grid: Bools, pairs: StepSums, terms: int, beyond: Array, upstream: Array, gradient: Array
) -> None:
    """Add Σ_k upstream_k·slope at every candidate j, over the targets k with t > δ."""
    ranking, decays, candidates, targets, step = pairs
    most = ranking.values.shape[1]
    powers, growths = np.empty(most), np.empty(most)
    behind, running = np.empty(most + 2, np.uint32), np.empty((most + 1, SIDE_BY_SIDE + 1))
    for row in rows:
        number, values, items, decay = ranking.number[row], ranking.values[row], ranking.items[row], decays.values[row]
        if not np.float64(values[0]) - values[number - 1] > step.margin:
            continue
        highest = 0
        for grade in range(by_grid.shape[1]):
            highest = grade if by_grid[row, grade] else highest
        for place in range(number):
            growths[place] = 1.0 / decay[place]
        for lower in range(highest):
            receiving = candidates.places[row, candidates.start[row, lower] : candidates.start[row, lower + 1]]
            if len(receiving) == 0:
                continue
            behind[:] = 0
            for place in range(number - 1, -1, -1):
                k = np.uint32(place)
                grade, end = targets.grades[row, k], beyond[row, k]
                counted = (grade > lower) & by_grid[row, grade]
                powers[k] = np.float64(upstream[row, np.uint32(items[k])]) * counted  # a choice would branch
                behind[end if counted else np.uint32(most + 1)] = number - place
            for place in range(number - 1, 0, -1):
                behind[place] = max(behind[place], behind[place + 1])
            for term in range(0, terms, SIDE_BY_SIDE):
                _run(values[:number], powers, growths, -1, running)
                for candidate in receiving:
                    j = np.uint32(candidate)
                    end = behind[j + np.uint32(1)]
                    slope = -_series(running, end, term, decay[j])[1] / step.tau
                    if term == 0:
                        slope += step.rho * running[end, 0]
                    gradient[row, np.uint32(items[j])] += slope


@jit
def _count_beyond(values: Array, ends: Int32s, scale: float, wanted: Int32s, margin: float, beyond: Array) -> None:
    """How many items have t > δ for each wanted target: those in the intervals above x_k + δ, and some in its own."""
    highest = np.float64(values[0])
    for target in wanted:
        k = np.uint32(target)
        score, number = np.float64(values[k]), np.int32(0)
        if highest - score > margin:
            interval = np.uint32(np.int32((highest - (score + margin)) * scale))
            number, end = ends[interval - np.uint32(1)] if interval else number, ends[interval]
            while end - number > _CROWDED:
                middle = (number + end) // np.int32(2)
                is_beyond = np.float64(values[np.uint32(middle)]) - score > margin
                number, end = (middle, end) if is_beyond else (number, middle)
            for _ in range(_LIKELY):
                number += np.int32(np.float64(values[np.uint32(number)]) - score > margin)
            while number > 0 and not np.float64(values[np.uint32(number - 1)]) - score > margin:
                number -= np.int32(1)
            while np.float64(values[np.uint32(number)]) - score > margin:
                number += np.int32(1)
        beyond[k] = number


@jit
def _run(values: Array, powers: Floats, factors: Floats, way: int, running: Floats) -> None:
    """``running[n]``: of the first n items, or the last if ``way`` is −1, Σ power, Σ power·factor, … and Σ power·x.

    Each power becomes that of the next term. The highest x counts as 0.
    """
    first = 0 if way == 1 else len(values) - 1
    one, two, three, four, line = 0.0, 0.0, 0.0, 0.0, 0.0
    for passed in range(len(values) + 1):
        number = np.uint32(passed)
        running[number, 0], running[number, 1], running[number, 2] = one, two, three
        running[number, 3], running[number, 4] = four, line
        if passed < len(values):
            place = np.uint32(first + way * passed)
            power, factor = powers[place], factors[place]
            one, line = one + power, line + power * (np.float64(values[place]) - values[0])
            power *= factor
            two += power
            power *= factor
            three += power
            power *= factor
            four += power
            powers[place] = power * factor


@jit
def _series(running: Floats, end: int, term: int, factor: float) -> tuple[float, float]:
    """The terms of Σσ and of Σσ(1 − σ) from ``term`` on; ``running[end]`` holds the powers of the other side."""
    sigmoids, bells, power = 0.0, 0.0, 1.0
    for _ in range(term):
        power *= -factor
    for more in range(SIDE_BY_SIDE):
        part = power * running[end, np.uint32(more)]
        sigmoids += part
        bells -= (term + more) * part
        power *= -factor
    return sigmoids, bells
