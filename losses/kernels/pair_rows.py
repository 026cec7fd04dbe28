r"""Step sums of a row pair by pair, for few targets or few candidates.

With u = e^{−x/τ}, σ((x_j − y_k)/τ) = 1/(1 + u_j/u_k): one exponential an item, none a pair. A target passes over the
row once: beyond δ the step is a line, and inside the sigmoid's window a candidate is a multiplication and a division;
what is no candidate counts 0, so that nothing branches.
"""

from __future__ import annotations

import math

import numpy as np

from hiertree.jit import Array, Bools, Bytes, Floats, Ints, jit, reordering_jit

from .sorted_rows import Decays, StepSums


@jit
def forward(rows: Ints, by_pairs: Bools, pairs: StepSums, reach: float, sums: Array, slopes: Array) -> None:
    """Add Σ_j (step less its jump at 0) to ``sums[row, item of k]``, and Σ_j slope to ``slopes`` there.

    For the targets k of the grades ``by_pairs[row]``, over the candidates j of lower grades.
    """
    ranking, decays, candidates, targets, step = pairs
    for row in rows:
        scores = ranking.values[row, : ranking.number[row]].astype(np.float64)
        grades = candidates.grades[row]
        for grade in range(1, by_pairs.shape[1]):
            if not by_pairs[row, grade]:
                continue
            beyond, end = 0, 0
            for k in targets.places[row, targets.start[row, grade] : targets.start[row, grade + 1]]:
                beyond, end = _window(scores, k, beyond, end, step.margin, reach)
                number, line = _line(scores[:beyond], grades[:beyond], grade, scores[k] + step.margin)
                decay, scale = _decays_in(scores, decays, row, k, beyond, end, step.tau)
                sigmoids, bells = _sigmoid_sums(decay, grades[beyond:end], grade, scale)
                item = ranking.items[row, k]
                sums[row, item] += step.rho * line + (step.offset - step.start) * number + sigmoids
                slopes[row, item] += step.rho * number + bells / step.tau


@jit
def backward(rows: Ints, by_pairs: Bools, pairs: StepSums, reach: float, upstream: Array, gradient: Array) -> None:
    """Add Σ_k upstream_k·slope to the gradient at every candidate j of those targets k."""
    ranking, decays, candidates, targets, step = pairs
    for row in rows:
        scores = ranking.values[row, : ranking.number[row]].astype(np.float64)
        grades, items = candidates.grades[row], ranking.items[row]
        received = np.zeros(len(scores))
        for grade in range(1, by_pairs.shape[1]):
            if not by_pairs[row, grade]:
                continue
            beyond, end = 0, 0
            for k in targets.places[row, targets.start[row, grade] : targets.start[row, grade + 1]]:
                weight = np.float64(upstream[row, items[k]])
                beyond, end = _window(scores, k, beyond, end, step.margin, reach)
                _add(received[:beyond], grades[:beyond], grade, weight * step.rho)
                decay, scale = _decays_in(scores, decays, row, k, beyond, end, step.tau)
                _add_bells(received[beyond:end], decay, grades[beyond:end], grade, scale, weight / step.tau)
        for j in range(len(scores)):
            gradient[row, items[j]] += received[j]


@jit
def _window(scores: Floats, k: int, beyond: int, end: int, margin: float, reach: float) -> tuple[int, int]:
    """How many items have t > δ, and where t ≤ −reach begins, from the answers for a target before."""
    while beyond < len(scores) and scores[beyond] - scores[k] > margin:
        beyond += 1
    while end < len(scores) and scores[k] - scores[end] < reach:
        end += 1
    return beyond, max(beyond, end)


@jit
def _decays_in(
    scores: Floats, decays: Decays, row: int, k: int, first: int, end: int, tau: float
) -> tuple[Floats, float]:
    """Numbers in the ratio of e^{−x/τ}, and their factor to e^{−t/τ}; of a wide row, computed for this target."""
    if decays.narrow[row]:
        return decays.values[row, first:end], math.exp((scores[k] - decays.middle[row]) / tau)
    own = np.empty(end - first)
    for j in range(first, end):
        own[j - first] = math.exp((scores[k] - scores[j]) / tau)
    return own, 1.0


@reordering_jit
def _line(scores: Floats, grades: Bytes, grade: int, start: float) -> tuple[float, float]:
    """How many candidates there are, and Σ (x − start) over them."""
    number, line = 0.0, 0.0
    for j in range(len(scores)):
        counted = 1.0 if grades[j] < grade else 0.0
        number += counted
        line += counted * (scores[j] - start)
    return number, line


@reordering_jit
def _sigmoid_sums(decay: Floats, grades: Bytes, grade: int, scale: float) -> tuple[float, float]:
    """Σσ and Σσ(1 − σ)."""
    sigmoids, bells = 0.0, 0.0
    for j in range(len(decay)):
        ratio = decay[j] * scale
        sigmoid = (1.0 if grades[j] < grade else 0.0) / (1.0 + ratio)
        sigmoids += sigmoid
        bells += ratio * sigmoid * sigmoid
    return sigmoids, bells


@reordering_jit
def _add(received: Floats, grades: Bytes, grade: int, weight: float) -> None:
    for j in range(len(received)):
        received[j] += weight if grades[j] < grade else 0.0


@reordering_jit
def _add_bells(received: Floats, decay: Floats, grades: Bytes, grade: int, scale: float, weight: float) -> None:
    for j in range(len(received)):
        ratio = decay[j] * scale
        sigmoid = 1.0 / (1.0 + ratio)
        received[j] += (weight if grades[j] < grade else 0.0) * (ratio * sigmoid * sigmoid)
