r"""What a step has beyond δ, in place of its sigmoid, for many targets and many candidates of a row.

Over the candidates with t = x_j − y_k > δ: Σ(ρ·(t − δ) + offset − start − σ(t/τ)), exactly. They are the first of the
row, so that running sums hold all of it: how many they are, Σ(t − δ), and each term of
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
    running = np.empty((ranking.values.shape[1], SIDE_BY_SIDE))
    powers, lines = np.empty(len(running)), np.empty(len(running))
    for row in rows:
        scores = ranking.values[row, : ranking.number[row]].astype(np.float64)
        decay, items, grades = decays.values[row], ranking.items[row], candidates.grades[row]
        for grade in range(1, by_grid.shape[1]):
            wanted = targets.places[row, targets.start[row, grade] : targets.start[row, grade + 1]]
            if not by_grid[row, grade] or not scores[0] - scores[wanted[-1]] > step.margin:
                continue
            for place in range(len(scores)):
                powers[place] = 1.0 if grades[place] < grade else 0.0
            for term in range(0, terms, SIDE_BY_SIDE):
                _run(powers[: len(scores)], decay, running)
                if term == 0:
                    _run_lines(scores, running, lines)
                beyond = 0
                for target in wanted:
                    k = np.uint32(target)  # an index that might be negative takes longer
                    while scores[beyond] - scores[k] > step.margin:
                        beyond += 1
                    if beyond == 0:
                        continue
                    sigmoids, bells = _series(running[beyond - 1], term, 1.0 / decay[k])
                    value, slope = -sigmoids, -bells / step.tau
                    if term == 0:
                        number = running[beyond - 1, 0]
                        line = lines[beyond - 1] + number * (scores[beyond - 1] - scores[k] - step.margin)
                        value += step.rho * line + (step.offset - step.start) * number
                        slope += step.rho * number
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
    running = np.empty((ranking.values.shape[1], SIDE_BY_SIDE))
    powers, growth, weights = np.empty(len(running)), np.empty(len(running)), np.empty(len(running))
    for row in rows:
        scores = ranking.values[row, : ranking.number[row]].astype(np.float64)
        if not by_grid[row].any() or not scores[0] - scores[-1] > step.margin:
            continue
        decay, items, number = decays.values[row], ranking.items[row], len(scores)
        for place in range(number):
            growth[number - 1 - place] = 1.0 / decay[place]
            weights[number - 1 - place] = upstream[row, np.uint32(items[place])]
        acts = by_grid[row].astype(np.float64)
        for lower in range(by_grid.shape[1] - 1):
            acts[lower] = 0.0
            receiving = candidates.places[row, candidates.start[row, lower] : candidates.start[row, lower + 1]]
            if len(receiving) == 0 or not acts.any():
                continue
            for place in range(number):
                powers[place] = acts[targets.grades[row, number - 1 - place]] * weights[place]
            for term in range(0, terms, SIDE_BY_SIDE):
                _run(powers[:number], growth, running)
                behind = 0
                for candidate in receiving:
                    j = np.uint32(candidate)
                    while behind < number and scores[j] - scores[behind] <= step.margin:
                        behind += 1
                    if behind == number:
                        continue
                    own = running[number - 1 - behind]
                    slope = -_series(own, term, decay[j])[1] / step.tau + (step.rho * own[0] if term == 0 else 0.0)
                    gradient[row, np.uint32(items[j])] += slope


@jit
def _run(powers: NDArray[np.float64], factors: NDArray[np.float64], running: NDArray[np.float64]) -> None:
    """Sums from the front of four successive powers of the factors; the powers go on where they ended."""
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    for place in range(len(powers)):
        power, factor = powers[place], factors[place]
        first += power
        power *= factor
        second += power
        power *= factor
        third += power
        power *= factor
        fourth += power
        powers[place] = power * factor
        running[place, 0], running[place, 1], running[place, 2], running[place, 3] = first, second, third, fourth


@jit
def _run_lines(scores: NDArray[np.float64], running: NDArray[np.float64], lines: NDArray[np.float64]) -> None:
    """At each place, Σ (x_j − x) over the candidates before it."""
    line = 0.0
    for place in range(len(scores)):
        if place:
            line += running[place - 1, 0] * (scores[place - 1] - scores[place])
        lines[place] = line


@jit
def _series(sums: NDArray[np.float64], term: int, factor: float) -> tuple[float, float]:
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
