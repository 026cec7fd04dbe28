r"""Step sums of a row in time linear in its items, for many targets and many candidates.

The sum over candidates is a convolution of their scores with the step, asked for at the targets. Its smooth part,
σ(t/τ), is evaluated on a regular grid: each candidate is *spread* onto the eight nodes around it by Lagrange's weights,
the grid is convolved once with the tabulated sigmoid (and with its derivative), and each target *gathers* from the
eight nodes around it. The weights are polynomials of the place between two nodes, so an item costs eight products: its
powers are added to the moments of its interval, or the interval's polynomial is evaluated at it, and only the few
intervals meet the eight-by-eight weights. σ is analytic up to ±iπτ: eight nodes at a spacing of τ/4 leave an error near
1e-7, at τ/16 near 1e-12.

The rest of the step is exact: its jump at 0 by counting, its line beyond δ by running sums, and what the sigmoid gives
too much there by σ(t/τ) − 1 = −e^{−t/τ} + e^{−2t/τ} − …, whose sums decay from target to target.

The gradient is the transpose: spread the upstream gradients of the targets, convolve, gather at the candidates.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hiertree.metrics._jit import jit, reordering_jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.losses._sorted_rows import Chosen
    from hiertree.losses._steps import Pieces

NODES = 8
_BEFORE = NODES // 2 - 1  # nodes at −3 … 4 around a place in [0, 1)


def _lagrange() -> NDArray[np.float64]:
    """(8, 8): row m holds the coefficients of f^m in the weights of the nodes, for a place f in [0, 1)."""
    nodes = np.arange(NODES) - _BEFORE
    coefficients = np.zeros((NODES, NODES))
    for node in range(NODES):
        others = np.delete(nodes, node)
        coefficients[:, node] = np.poly(others)[::-1] / np.prod(nodes[node] - others)
    return coefficients


_COEFFICIENTS = _lagrange()


class Grid(NamedTuple):
    """How the smooth part is tabulated; everything in units of τ.

    Attributes:
        per_tau: nodes in τ.
        sigmoid: σ at −reach … reach, one value a node.
        bell: σ·(1 − σ) at the same places.
        terms: terms of the series of σ beyond δ.
    """

    per_tau: float
    sigmoid: NDArray[np.float64]
    bell: NDArray[np.float64]
    terms: int


@cache
def tabulate(per_tau: int, reach: float, terms: int) -> Grid:
    """The tables for a spacing of τ / per_tau."""
    half = math.ceil(reach * per_tau)
    sigmoid = 1.0 / (1.0 + np.exp(-np.arange(-half, half + 1) / per_tau))
    return Grid(float(per_tau), sigmoid, sigmoid * sigmoid[::-1], terms)


@jit
def forward(
    rows: NDArray[np.int64],
    candidates: Chosen,
    targets: Chosen,
    step: Pieces,
    grid: Grid,
    sums: NDArray[Any],
    slopes: NDArray[np.float64],
) -> None:
    """Write Σ_j step(x_j − y_k) to ``sums[row, item of k]`` and Σ_j slope(x_j − y_k) to ``slopes[row, k]``."""
    for row in rows:
        scores = candidates.values[row, : candidates.number[row]]
        wanted = targets.values[row, : targets.number[row]]
        origin, scale, num_nodes = _layout(scores, wanted, step.tau, grid.per_tau)
        source = np.zeros(num_nodes + len(grid.bell) - 1)
        _spread(scores, np.ones(len(scores)), origin, scale, source[len(grid.bell) // 2 :])
        smooth = _gather(wanted, origin, scale, _convolve(source, grid.sigmoid, 1.0))
        bells = _gather(wanted, origin, scale, _convolve(source, grid.bell, 0.0))
        _finish_forward(scores, wanted, step, grid.terms, smooth, bells)
        for k in range(len(wanted)):
            sums[row, targets.items[row, k]] = smooth[k]
            slopes[row, k] = bells[k]


@jit
def backward(
    rows: NDArray[np.int64],
    candidates: Chosen,
    targets: Chosen,
    step: Pieces,
    grid: Grid,
    upstream: NDArray[Any],
    slopes: NDArray[np.float64],
    gradient: NDArray[Any],
) -> None:
    """Add upstream_k·slope(x_j − y_k), summed over k, at every j, and take it away, summed over j, at every k."""
    for row in rows:
        scores = candidates.values[row, : candidates.number[row]]
        wanted = targets.values[row, : targets.number[row]]
        weights = np.empty(len(wanted))
        for k in range(len(wanted)):
            item = targets.items[row, k]
            weights[k] = upstream[row, item]
            gradient[row, item] -= weights[k] * slopes[row, k]
        origin, scale, num_nodes = _layout(scores, wanted, step.tau, grid.per_tau)
        source = np.zeros(num_nodes + len(grid.bell) - 1)
        _spread(wanted, weights, origin, scale, source[len(grid.bell) // 2 :])
        received = _gather(scores, origin, scale, _convolve(source, grid.bell, 0.0))
        _finish_backward(scores, wanted, weights, step, grid.terms, received)
        for j in range(len(scores)):
            gradient[row, candidates.items[row, j]] += received[j]


@jit
def _layout(
    scores: NDArray[np.float64], wanted: NDArray[np.float64], tau: float, per_tau: float
) -> tuple[float, float, int]:
    """Score of the first node, nodes in a unit of score, and how many nodes there are."""
    low, top = min(scores[-1], wanted[-1]), max(scores[0], wanted[0])
    scale = per_tau / tau
    return low - NODES / scale, scale, int((top - low) * scale) + 2 * NODES + 1


@reordering_jit
def _spread(
    values: NDArray[np.float64], masses: NDArray[np.float64], origin: float, scale: float, nodes: NDArray[np.float64]
) -> None:
    """Share each mass out over the nodes around its value."""
    intervals = int((values[0] - origin) * scale) + 1
    moments = np.zeros((intervals, NODES))
    for item in range(len(values)):
        position = (values[item] - origin) * scale
        interval = int(position)
        place, power = position - interval, masses[item]
        own = moments[interval]
        for degree in range(NODES):
            own[degree] += power
            power *= place
    for interval in range(int((values[-1] - origin) * scale), intervals):
        for degree in range(NODES):
            for node in range(NODES):
                nodes[interval - _BEFORE + node] += _COEFFICIENTS[degree, node] * moments[interval, degree]


@reordering_jit
def _gather(
    values: NDArray[np.float64], origin: float, scale: float, nodes: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Interpolate between the nodes, at each value."""
    intervals = int((values[0] - origin) * scale) + 1
    polynomials = np.zeros((intervals, NODES))
    for interval in range(int((values[-1] - origin) * scale), intervals):
        for degree in range(NODES):
            for node in range(NODES):
                polynomials[interval, degree] += _COEFFICIENTS[degree, node] * nodes[interval - _BEFORE + node]
    result = np.empty(len(values))
    for item in range(len(values)):
        position = (values[item] - origin) * scale
        interval = int(position)
        place, own = position - interval, polynomials[interval]
        total = own[NODES - 1]
        for degree in range(NODES - 2, -1, -1):
            total = total * place + own[degree]
        result[item] = total
    return result


@jit
def _convolve(source: NDArray[np.float64], table: NDArray[np.float64], saturated: float) -> NDArray[np.float64]:
    """Σ_y source(y)·table(y − x) at every node x; ``saturated`` is the table's value to its right."""
    width = len(table)
    result = np.empty(len(source) - width + 1)
    right = 0.0
    for node in range(len(result) - 1, -1, -1):
        result[node] = _dot(source[node : node + width], table) + saturated * right
        right += source[node + width - 1]
    return result


@reordering_jit
def _dot(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    total = 0.0
    for place in range(left.shape[0]):
        total += left[place] * right[place]
    return total


@jit
def _finish_forward(
    scores: NDArray[np.float64],
    wanted: NDArray[np.float64],
    step: Pieces,
    terms: int,
    smooth: NDArray[np.float64],
    bells: NDArray[np.float64],
) -> None:
    """From Σσ and Σσ(1 − σ) to the sums of the step and of its slope."""
    series = np.zeros(terms)
    not_below, beyond, line = 0, 0, 0.0
    for k in range(len(wanted)):
        if beyond:
            line += beyond * (wanted[k - 1] - wanted[k])
            _decay(series, math.exp((wanted[k] - wanted[k - 1]) / step.tau))
        while not_below < len(scores) and scores[not_below] >= wanted[k]:
            not_below += 1
        while beyond < len(scores) and scores[beyond] - wanted[k] > step.margin:
            line += scores[beyond] - wanted[k] - step.margin
            _add_powers(series, math.exp((wanted[k] - scores[beyond]) / step.tau), 1.0)
            beyond += 1
        sigmoids, bells_beyond = _sum(series)
        smooth[k] += step.rho * line + step.offset * beyond + step.start * (not_below - beyond) - (beyond + sigmoids)
        bells[k] = (bells[k] - bells_beyond) / step.tau + step.rho * beyond


@jit
def _finish_backward(
    scores: NDArray[np.float64],
    wanted: NDArray[np.float64],
    weights: NDArray[np.float64],
    step: Pieces,
    terms: int,
    received: NDArray[np.float64],
) -> None:
    """From Σ_k w_k·σ(1 − σ) to Σ_k w_k·slope, candidates rising."""
    series = np.zeros(terms)
    beyond, total = len(wanted), 0.0
    for j in range(len(scores) - 1, -1, -1):
        if beyond < len(wanted):
            _decay(series, math.exp((scores[j + 1] - scores[j]) / step.tau))
        while beyond > 0 and scores[j] - wanted[beyond - 1] > step.margin:
            beyond -= 1
            total += weights[beyond]
            _add_powers(series, math.exp((wanted[beyond] - scores[j]) / step.tau), weights[beyond])
        bells_beyond = _sum(series)[1]
        received[j] = (received[j] - bells_beyond) / step.tau + step.rho * total


@jit
def _decay(series: NDArray[np.float64], factor: float) -> None:
    """Multiply the sum of the m-th powers by factor^m."""
    power = factor
    for term in range(len(series)):
        series[term] *= power
        power *= factor


@jit
def _add_powers(series: NDArray[np.float64], ratio: float, mass: float) -> None:
    """Add mass·(−ratio)^m to the sum of the m-th powers."""
    power = -mass * ratio
    for term in range(len(series)):
        series[term] += power
        power *= -ratio


@jit
def _sum(series: NDArray[np.float64]) -> tuple[float, float]:
    """Σ(σ − 1) and Σσ(1 − σ)."""
    sigmoids, bells = 0.0, 0.0
    for term in range(len(series)):
        sigmoids += series[term]
        bells -= (term + 1) * series[term]
    return sigmoids, bells
