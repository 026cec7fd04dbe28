r"""Step sums of a row pair by pair, for few targets or few candidates.

With u = e^{−x/τ}, σ((x_j − y_k)/τ) = 1/(1 + u_j/u_k): one exponential an item, none a pair. Scores are cut into cells
of 256 τ, each with its own origin, so that no exponential overflows however far they spread. Only pairs inside the
sigmoid's window are visited: beyond δ the step is a line, whose sum follows the targets down the ranking, and beyond
``reach`` the sigmoid is 0 or 1.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.metrics._jit import jit, reordering_jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.losses._sorted_rows import Chosen
    from hiertree.losses._steps import Pieces

_CELL = 256.0  # in τ: e^{256 + reach} is finite


@jit
def forward(
    rows: NDArray[np.int64],
    candidates: Chosen,
    targets: Chosen,
    step: Pieces,
    reach: float,
    sums: NDArray[Any],
    slopes: NDArray[np.float64],
) -> None:
    """Write Σ_j step(x_j − y_k) to ``sums[row, item of k]`` and Σ_j slope(x_j − y_k) to ``slopes[row, k]``."""
    for row in rows:
        scores = candidates.values[row, : candidates.number[row]]
        wanted = targets.values[row, : targets.number[row]]
        decay, origin, cell_end = _cells(scores, step.tau)
        not_below, beyond, first, end = _windows(scores, wanted, step.margin, reach)
        line, previous = 0.0, 0.0
        for k in range(len(wanted)):
            line += previous * (wanted[k - 1] - wanted[k]) if k else 0.0
            for j in range(int(previous), beyond[k]):
                line += scores[j] - wanted[k] - step.margin
            previous = float(beyond[k])
            value = step.rho * line + step.offset * previous + step.start * (not_below[k] - previous)
            value += first[k] - previous  # past the reach, before δ: σ is 1
            slope, j = 0.0, first[k]
            while j < end[k]:
                stop = min(cell_end[j], end[k])
                sigmoids, bells = _sigmoid_sums(decay[j:stop], math.exp((wanted[k] - origin[j]) / step.tau))
                value, slope, j = value + sigmoids, slope + bells, stop
            sums[row, targets.items[row, k]] = value
            slopes[row, k] = slope / step.tau + step.rho * previous


@jit
def backward(
    rows: NDArray[np.int64],
    candidates: Chosen,
    targets: Chosen,
    step: Pieces,
    reach: float,
    upstream: NDArray[Any],
    slopes: NDArray[np.float64],
    gradient: NDArray[Any],
) -> None:
    """Add upstream_k·slope(x_j − y_k), summed over k, at every j, and take it away, summed over j, at every k."""
    for row in rows:
        scores = candidates.values[row, : candidates.number[row]]
        wanted = targets.values[row, : targets.number[row]]
        decay, origin, cell_end = _cells(scores, step.tau)
        _, beyond, first, end = _windows(scores, wanted, step.margin, reach)
        received, weight_beyond = np.zeros(len(scores)), np.zeros(len(scores) + 1)
        for k in range(len(wanted)):
            item = targets.items[row, k]
            weight, j = np.float64(upstream[row, item]), first[k]
            gradient[row, item] -= weight * slopes[row, k]
            weight_beyond[beyond[k]] += weight
            while j < end[k]:
                stop = min(cell_end[j], end[k])
                scale = math.exp((wanted[k] - origin[j]) / step.tau)
                _add_bells(decay[j:stop], scale, weight / step.tau, received[j:stop])
                j = stop
        total = 0.0
        for j in range(len(scores) - 1, -1, -1):
            total += weight_beyond[j + 1]
            gradient[row, candidates.items[row, j]] += received[j] + step.rho * total


@jit
def _cells(
    scores: NDArray[np.float64], tau: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """For each item e^{−(x − origin)/τ}, the origin of its cell, and where the cell ends."""
    decay, origin = np.empty(len(scores)), np.empty(len(scores))
    end = np.empty(len(scores), np.int64)
    first = 0
    while first < len(scores):
        stop = first
        while stop < len(scores) and scores[first] - scores[stop] <= _CELL * tau:
            decay[stop] = math.exp((scores[first] - scores[stop]) / tau)
            stop += 1
        origin[first:stop] = scores[first]
        end[first:stop] = stop
        first = stop
    return decay, origin, end


@jit
def _windows(
    scores: NDArray[np.float64], wanted: NDArray[np.float64], margin: float, reach: float
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """For each target, how many items have t ≥ 0 and t > δ, and the range in which σ is neither 0, 1 nor cut off."""
    windows = np.empty((4, len(wanted)), np.int64)
    not_below, beyond, saturated, end = 0, 0, 0, 0
    for k in range(len(wanted)):
        while not_below < len(scores) and scores[not_below] >= wanted[k]:
            not_below += 1
        while beyond < len(scores) and scores[beyond] - wanted[k] > margin:
            beyond += 1
        while saturated < len(scores) and scores[saturated] - wanted[k] > reach:
            saturated += 1
        while end < len(scores) and wanted[k] - scores[end] < reach:
            end += 1
        windows[0, k], windows[1, k], windows[2, k], windows[3, k] = not_below, beyond, max(saturated, beyond), end
    return windows[0], windows[1], windows[2], windows[3]


@reordering_jit
def _sigmoid_sums(decay: NDArray[np.float64], scale: float) -> tuple[float, float]:
    """Σσ and Σσ(1 − σ)."""
    sigmoids, bells = 0.0, 0.0
    for item in range(len(decay)):
        ratio = decay[item] * scale
        sigmoid = 1.0 / (1.0 + ratio)
        sigmoids += sigmoid
        bells += ratio * sigmoid * sigmoid
    return sigmoids, bells


@reordering_jit
def _add_bells(decay: NDArray[np.float64], scale: float, weight: float, received: NDArray[np.float64]) -> None:
    for item in range(len(decay)):
        ratio = decay[item] * scale
        sigmoid = 1.0 / (1.0 + ratio)
        received[item] += weight * ratio * sigmoid * sigmoid
