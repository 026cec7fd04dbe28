r"""What a step has beyond δ, in place of its sigmoid, for many targets and many candidates of a row.

Over the candidates with t = x_j − y_k > δ: Σ(ρ·(t − δ) + offset − start − σ(t/τ)), exactly. They are the first of the
row, so that running sums hold all of it: how many they are, Σ x_j, and each term of
σ(t/τ) = 1 − e^{−t/τ} + e^{−2t/τ} − …, whose exponentials are products of one factor of j and one of k. The gradient has
running sums from the other end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.jit import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..base import StepParameters
    from .sorted_rows import Decays, GradedItems, SortedRows

SIDE_BY_SIDE = 4  # sums that run at once, none waiting for another


@jit
def forward(
    rows: NDArray[np.int64],
    by_grid: NDArray[np.bool_],
    ranking: SortedRows,
    decays: Decays,
    candidates: GradedItems,
    targets: GradedItems,
    step: StepParameters,
    terms: int,
    sums: NDArray[Any],
    slopes: NDArray[Any],
) -> None:
    """Add it to ``sums[row, item of k]``, and its slope to ``slopes`` there.

    For the targets k of the grades ``by_grid[row]``, over the candidates j of lower grades; ``terms`` of σ, from 1 on.
    """
    acting = np.empty((3, ranking.values.shape[1] + 1))  # of each candidate: score, decay, power of the decay
    for row in rows:
        number, values, decay, items = ranking.number[row], ranking.values[row], decays.values[row], ranking.items[row]
        for grade in range(1, by_grid.shape[1]):
            wanted = targets.places[row, targets.start[row, grade] : targets.start[row, grade + 1]]
            if not by_grid[row, grade] or not np.float64(values[0]) - values[wanted[-1]] > step.margin:
                continue
            following = 0
            for place in range(number):
                acting[0, following], acting[1, following], acting[2, following] = values[place], decay[place], 1.0
                following += candidates.grades[row, place] < grade
            acting[0, following] = -np.inf
            for term in range(0, terms, SIDE_BY_SIDE):
                beyond, total, running = 0, 0.0, (0.0, 0.0, 0.0, 0.0)
                for target in wanted:
                    k = np.uint32(target)  # an index that might be negative takes longer
                    score = np.float64(values[k])
                    while acting[0, beyond] - score > step.margin:
                        total += acting[0, beyond] - values[0]
                        running, acting[2, beyond] = _with_powers(running, acting[2, beyond], acting[1, beyond])
                        beyond += 1
                    if beyond == 0:
                        continue
                    sigmoids, bells = _series(running, term, 1.0 / decay[k])
                    value, slope = -sigmoids, -bells / step.tau
                    if term == 0:
                        line = total - beyond * (score - values[0] + step.margin)
                        value += step.rho * line + (step.offset - step.start) * beyond
                        slope += step.rho * beyond
                    sums[row, np.uint32(items[k])] += value
                    slopes[row, np.uint32(items[k])] += slope


@jit
def backward(
    rows: NDArray[np.int64],
    by_grid: NDArray[np.bool_],
    ranking: SortedRows,
    decays: Decays,
    candidates: GradedItems,
    targets: GradedItems,
    step: StepParameters,
    terms: int,
    upstream: NDArray[Any],
    gradient: NDArray[Any],
) -> None:
    """Add Σ_k upstream_k·slope at every candidate j, over the targets k with t > δ."""
    acting = np.empty((3, ranking.values.shape[1] + 1))  # of each target: score, 1/decay, power of it times upstream
    for row in rows:
        number, values, decay, items = ranking.number[row], ranking.values[row], decays.values[row], ranking.items[row]
        if not by_grid[row].any() or not np.float64(values[0]) - values[number - 1] > step.margin:
            continue
        for lower in range(by_grid.shape[1] - 1):
            receiving = candidates.places[row, candidates.start[row, lower] : candidates.start[row, lower + 1]]
            if len(receiving) == 0 or not by_grid[row, lower + 1 :].any():
                continue
            following = 0
            for place in range(number - 1, -1, -1):
                grade, weight = targets.grades[row, place], np.float64(upstream[row, np.uint32(items[place])])
                acting[0, following], acting[1, following], acting[2, following] = values[place], decay[place], weight
                following += (grade > lower) & by_grid[row, grade]
            acting[0, following] = np.inf
            for own in range(following):
                acting[1, own] = 1.0 / acting[1, own]
            for term in range(0, terms, SIDE_BY_SIDE):
                behind, running = 0, (0.0, 0.0, 0.0, 0.0)
                for candidate in receiving[::-1]:
                    j = np.uint32(candidate)
                    score = np.float64(values[j])
                    while score - acting[0, behind] > step.margin:
                        running, acting[2, behind] = _with_powers(running, acting[2, behind], acting[1, behind])
                        behind += 1
                    slope = -_series(running, term, decay[j])[1] / step.tau
                    if term == 0:
                        slope += step.rho * running[0]
                    gradient[row, np.uint32(items[j])] += slope


@jit
def _with_powers(
    running: tuple[float, float, float, float], power: float, factor: float
) -> tuple[tuple[float, float, float, float], float]:
    """The sums of four successive powers with those of one more item, and the power that follows."""
    second = power * factor
    third = second * factor
    fourth = third * factor
    return (running[0] + power, running[1] + second, running[2] + third, running[3] + fourth), fourth * factor


@jit
def _series(sums: tuple[float, float, float, float], term: int, factor: float) -> tuple[float, float]:
    """The terms of Σσ and of Σσ(1 − σ) from ``term`` on; ``sums`` holds those of the other side's powers."""
    sigmoids, bells, power = 0.0, 0.0, 1.0
    for _ in range(term):
        power *= -factor
    for more in range(SIDE_BY_SIDE):
        part = power * sums[more]
        sigmoids += part
        bells -= (term + more) * part
        power *= -factor
    return sigmoids, bells
