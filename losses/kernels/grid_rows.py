r"""Σ_j σ((x_j − y_k)/τ) of a row in time linear in its items, for many targets k and many candidates j.

The sum is a convolution of the candidates' scores with the sigmoid, asked for at the targets. It is evaluated on a
regular grid: each candidate is *spread* onto the eight nodes around it by Lagrange's weights, the grid is convolved
once with the sigmoid, and each target *gathers* from the eight nodes around it, where the slope of the interpolating
polynomial is the slope of the sum. The sigmoid is tabulated near 0; further away it is a short series in e^{−|t|/τ},
whose sums run along the grid. The weights are polynomials of the place between two nodes, so an item takes eight
products: its powers are added to the moments of its interval, or the interval's polynomial is evaluated at it, and only
the few intervals meet the eight-by-eight weights. σ is analytic up to ±iπτ: eight nodes at a spacing of τ/4 leave an
error near 1e-6 of the largest slope, at τ/20 near 1e-11.

All this is linear in the candidates: the targets of a grade see those of the grade before, whose moments stay, and what
has been spread since. The gradient is the transpose: spread the upstream gradients of the targets, highest grade first,
convolve with σ·(1 − σ), gather at the candidates. The parts of a step other than its sigmoid: see ``line_rows``.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np

from hiertree.jit import Array, Bools, Floats, Int32s, Ints, jit, reordering_jit

from .sorted_rows import StepSums

NODES = 8
_PAIRS = NODES // 2
_TAPS = 4  # table entries taken at once
Series: TypeAlias = tuple[float, float, float, float, float]


def _lagrange() -> Floats:
    """(8, 4): row m holds the coefficients of f^m in the weights of the nodes at ½, 1½, 2½, 3½, for a place f in ±½.

    In those of the nodes at −½, −1½, −2½, −3½ they are the same if m is even, else their negatives.
    """
    nodes = np.arange(NODES) - (NODES - 1) / 2
    coefficients = np.zeros((NODES, NODES))
    for node in range(NODES):
        others = np.delete(nodes, node)
        coefficients[:, node] = np.poly(others)[::-1] / np.prod(nodes[node] - others)
    return np.ascontiguousarray(coefficients[:, _PAIRS:])


_WEIGHTS = _lagrange()


class Curve(NamedTuple):
    """A function of t that is a short series in e^{−|t|} where |t| is large; t in units of τ."""

    near: Floats  # its values on the nodes from −half to half − 1
    left: Series  # the coefficients of 1, e^{−|t|}, …, e^{−4|t|} to the left of these
    right: Series  # the same to their right


class Grid(NamedTuple):
    """σ and its derivative on a grid."""

    per_tau: float  # nodes in τ
    sigmoid: Curve  # σ
    bell: Curve  # σ·(1 − σ)


@cache
def tabulate(per_tau: int, exponents: float) -> Grid:
    """The curves for a spacing of τ / per_tau; their series leave out less than e^−exponents."""
    half = _TAPS * math.ceil(exponents / 5 * per_tau / _TAPS)
    sigmoid = 1.0 / (1.0 + np.exp(-np.arange(-half, half) / per_tau))
    bell = (0.0, 1.0, -2.0, 3.0, -4.0)
    return Grid(
        float(per_tau),
        Curve(sigmoid, left=(0.0, 1.0, -1.0, 1.0, -1.0), right=(1.0, -1.0, 1.0, -1.0, 1.0)),
        Curve(sigmoid * (1.0 - sigmoid), left=bell, right=bell),
    )


@jit
def forward(rows: Ints, by_grid: Bools, pairs: StepSums, grid: Grid, sums: Array, slopes: Array) -> None:
    """Add Σ_j σ to ``sums[row, item of k]``, and Σ_j σ(1 − σ)/τ to ``slopes`` there.

    For the targets k of the grades ``by_grid[row]``, over the candidates j of lower grades.
    """
    ranking, _, candidates, targets, step = pairs
    for row in rows:
        positions, num_nodes = _layout(ranking.values[row, : ranking.number[row]], grid.per_tau / step.tau)
        start, ones = candidates.start[row], np.ones(len(positions))
        moments, spread = np.zeros((NODES, num_nodes)), 0
        for grade in range(1, by_grid.shape[1]):
            if not by_grid[row, grade]:
                continue
            _spread(positions, ones, candidates.places[row, start[spread] : start[grade]], moments)
            spread = grade
            polynomials = _polynomials(_convolve(moments, grid.sigmoid, grid.per_tau))
            for k in targets.places[row, targets.start[row, grade] : targets.start[row, grade + 1]]:
                value, fall = _evaluate(polynomials, positions[np.uint32(k)])
                item = np.uint32(ranking.items[row, np.uint32(k)])
                sums[row, item] += value
                slopes[row, item] -= fall * grid.per_tau / step.tau


@jit
def backward(rows: Ints, by_grid: Bools, pairs: StepSums, grid: Grid, upstream: Array, gradient: Array) -> None:
    """Add Σ_k upstream_k·σ(1 − σ)/τ at every candidate j of those targets k."""
    ranking, _, candidates, targets, step = pairs
    for row in rows:
        positions, num_nodes = _layout(ranking.values[row, : ranking.number[row]], grid.per_tau / step.tau)
        items, moments, weights = ranking.items[row], np.zeros((NODES, num_nodes)), np.empty(len(positions))
        received_from = by_grid.shape[1]
        for grade in range(by_grid.shape[1] - 1, -1, -1):
            if grade and not by_grid[row, grade]:
                continue
            if received_from < by_grid.shape[1]:
                polynomials = _polynomials(_convolve(moments, grid.bell, grid.per_tau))
                start = candidates.start[row]
                for j in candidates.places[row, start[grade] : start[received_from]]:
                    item = np.uint32(items[np.uint32(j)])
                    gradient[row, item] += _evaluate(polynomials, positions[np.uint32(j)])[0] / step.tau
            wanted = targets.places[row, targets.start[row, grade] : targets.start[row, grade + 1]]
            for k in wanted:
                weights[np.uint32(k)] = upstream[row, np.uint32(items[np.uint32(k)])]
            _spread(positions, weights, wanted, moments)
            received_from = grade


@jit
def _layout(scores: Array, scale: float) -> tuple[Floats, int]:
    """Where each score lies, in nodes, and how many nodes there are."""
    positions, lowest = np.empty(len(scores)), np.float64(scores[-1])
    for item in range(len(scores)):
        positions[item] = (np.float64(scores[item]) - lowest) * scale + NODES
    return positions, int(positions[0]) + NODES + 1


@reordering_jit
def _spread(positions: Floats, masses: Floats, items: Int32s, moments: Floats) -> None:
    """Add the mass of each item, times the powers of its place, to the moments of its interval."""
    for listed in items:
        item = np.uint32(listed)  # unsigned: no check for a negative index
        interval = np.uint32(np.int32(positions[item]))
        place, power = positions[item] - interval - 0.5, masses[item]
        square = place * place
        for degree in range(0, NODES, 2):
            moments[degree, interval] += power
            moments[degree + 1, interval] += power * place
            power *= square


@jit
def _convolve(moments: Floats, curve: Curve, per_tau: float) -> Floats:
    """Σ_y mass(y)·curve(y − x) at every node x."""
    num_nodes, width = moments.shape[1], len(curve.near)
    masses, result = np.zeros(num_nodes + width), np.zeros(num_nodes)
    _add_masses(moments, masses[width // 2 : width // 2 + num_nodes])
    _add_far(masses, curve, per_tau, result)
    _correlate(masses, curve.near, result)
    return result


@reordering_jit
def _add_masses(moments: Floats, masses: Floats) -> None:
    """What the eight nodes around each interval have of its items; the fourth is its left end, the fifth its right."""
    num_nodes = len(masses)
    right, left = np.empty((_PAIRS, num_nodes)), np.empty((_PAIRS, num_nodes))
    for x in range(num_nodes):
        zero, one, two, three = moments[0, x], moments[1, x], moments[2, x], moments[3, x]
        four, five, six, seven = moments[4, x], moments[5, x], moments[6, x], moments[7, x]
        for pair in range(_PAIRS):
            even = (_WEIGHTS[0, pair] * zero + _WEIGHTS[2, pair] * two) + (
                _WEIGHTS[4, pair] * four + _WEIGHTS[6, pair] * six
            )
            odd = (_WEIGHTS[1, pair] * one + _WEIGHTS[3, pair] * three) + (
                _WEIGHTS[5, pair] * five + _WEIGHTS[7, pair] * seven
            )
            right[pair, x], left[pair, x] = even + odd, even - odd
    for x in range(_PAIRS, num_nodes - _PAIRS + 1):
        from_left = (right[0, x - 1] + right[1, x - 2]) + (right[2, x - 3] + right[3, x - 4])
        masses[x] += from_left + ((left[0, x] + left[1, x + 1]) + (left[2, x + 2] + left[3, x + 3]))


@reordering_jit
def _add_far(masses: Floats, curve: Curve, per_tau: float, result: Floats) -> None:
    """Add the curve's series at each node, for the masses further away than its table reaches; both ways at once."""
    num_nodes, width = len(result), len(curve.near)
    decay = math.exp(-1.0 / per_tau)
    entry, entry_above = math.exp(-(width // 2 + 1) / per_tau), math.exp(-(width // 2) / per_tau)
    below, above = (0.0, 0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0, 0.0)
    for passed in range(num_nodes):
        node, opposite = np.uint32(passed), np.uint32(num_nodes - 1 - passed)
        result[node] += _far(curve.left, below)
        below = _further(below, masses[node], decay, entry)
        above = _further(above, masses[opposite + np.uint32(width)], decay, entry_above)
        result[opposite] += _far(curve.right, above)


@reordering_jit
def _further(sums: Series, mass: float, decay: float, entry: float) -> Series:
    """Σ mass·e^{−n·distance} for n = 0 … 4, one node further, with one more mass."""
    total, first, second, third, fourth = sums
    decay_2, entry_2 = decay * decay, entry * entry
    first = first * decay + mass * entry
    second = second * decay_2 + mass * entry_2
    third = third * (decay_2 * decay) + mass * (entry_2 * entry)
    return total + mass, first, second, third, fourth * (decay_2 * decay_2) + mass * (entry_2 * entry_2)


@reordering_jit
def _far(series: Series, sums: Series) -> float:
    """The series, of the sums."""
    odd, even = series[1] * sums[1] + series[3] * sums[3], series[2] * sums[2] + series[4] * sums[4]
    return series[0] * sums[0] + odd + even


@reordering_jit
def _polynomials(nodes: Floats) -> Floats:
    """(8, intervals): the coefficients of the polynomial through the eight nodes around each interval with items."""
    result = np.empty((NODES, len(nodes)))
    for x in range(_PAIRS - 1, len(nodes) - _PAIRS):
        first, second = nodes[x + 1] + nodes[x], nodes[x + 2] + nodes[x - 1]
        third, fourth = nodes[x + 3] + nodes[x - 2], nodes[x + 4] + nodes[x - 3]
        rise, second_rise = nodes[x + 1] - nodes[x], nodes[x + 2] - nodes[x - 1]
        third_rise, fourth_rise = nodes[x + 3] - nodes[x - 2], nodes[x + 4] - nodes[x - 3]
        for degree in range(0, NODES, 2):
            even, odd = _WEIGHTS[degree], _WEIGHTS[degree + 1]
            result[degree, x] = (even[0] * first + even[1] * second) + (even[2] * third + even[3] * fourth)
            result[degree + 1, x] = (odd[0] * rise + odd[1] * second_rise) + (
                odd[2] * third_rise + odd[3] * fourth_rise
            )
    return result


@reordering_jit
def _correlate(source: Floats, table: Floats, result: Floats) -> None:
    """Add Σ_i table[i]·source[x + i] to every x of the result."""
    length = len(result)
    for tap in range(0, len(table), _TAPS):
        a, b, c, d = table[tap], table[tap + 1], table[tap + 2], table[tap + 3]
        first, second = source[tap : tap + length], source[tap + 1 : tap + 1 + length]
        third, fourth = source[tap + 2 : tap + 2 + length], source[tap + 3 : tap + 3 + length]
        for x in range(length):
            result[x] += (a * first[x] + b * second[x]) + (c * third[x] + d * fourth[x])


@reordering_jit
def _evaluate(polynomials: Floats, position: float) -> tuple[float, float]:
    """The polynomial of the interval there, and its derivative by the position."""
    interval = np.uint32(np.int32(position))
    place, value, slope = position - interval - 0.5, polynomials[NODES - 1, interval], 0.0
    for degree in range(NODES - 2, -1, -1):
        slope = slope * place + value
        value = value * place + polynomials[degree, interval]
    return value, slope
