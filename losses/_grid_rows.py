r"""Step sums of a row in time linear in its items, for many targets and many candidates.

The sum over candidates is a convolution of their scores with the step, asked for at the targets. Its smooth part,
σ(t/τ), is evaluated on a regular grid: each candidate is *spread* onto the eight nodes around it by Lagrange's weights,
the grid is convolved once with the tabulated sigmoid (and with its derivative), and each target *gathers* from the
eight nodes around it. The weights are polynomials of the place between two nodes, so an item costs eight products: its
powers are added to the moments of its interval, or the interval's polynomial is evaluated at it, and only the few
intervals meet the eight-by-eight weights. σ is analytic up to ±iπτ: eight nodes at a spacing of τ/4 leave an error near
1e-7, at τ/16 near 1e-12.

All this is linear in the candidates: the targets of a grade see those of the grade before, whose moments stay, and what
has been spread since. The rest of the step is exact: its line beyond δ by running sums, and what the sigmoid gives too
much there by σ(t/τ) − 1 = −e^{−t/τ} + e^{−2t/τ} − …, each term a running sum too.

The gradient is the transpose: spread the upstream gradients of the targets, highest grade first, convolve, gather at
the candidates.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hiertree.metrics._jit import jit, reordering_jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.losses._sorted_rows import Decays, Graded, SortedRows
    from hiertree.losses._steps import Pieces

NODES = 8
SIDE_BY_SIDE = 3  # terms of a series that are summed at once
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
    by_grid: NDArray[np.bool_],
    ranking: SortedRows,
    decays: Decays,
    candidates: Graded,
    targets: Graded,
    step: Pieces,
    grid: Grid,
    sums: NDArray[Any],
    slopes: NDArray[Any],
) -> None:
    """As ``_pair_rows.forward``, for the grades ``by_grid[row]``."""
    for row in rows:
        if not by_grid[row].any():
            continue
        scores, decay = ranking.values[row, : ranking.number[row]].astype(np.float64), decays.values[row]
        positions, num_nodes = _layout(scores, grid.per_tau / step.tau)
        moments, spread, ones = np.zeros((num_nodes, NODES)), 0, np.ones(len(scores))
        for grade in range(1, by_grid.shape[1]):
            if not by_grid[row, grade]:
                continue
            start = candidates.start[row]
            _spread(positions, ones, candidates.places[row, start[spread] : start[grade]], moments)
            spread = grade
            source = _to_nodes(moments, len(grid.bell))
            sigmoid = _polynomials(_convolve(source, grid.sigmoid, 1.0))
            ahead = candidates.grades[row, : len(scores)] < grade
            wanted = targets.places[row, targets.start[row, grade] : targets.start[row, grade + 1]]
            beyond = _count_beyond(scores, wanted, step.margin)
            number, line, sigmoids, bells = _beyond(scores, decay, ahead, wanted, beyond, step.margin, grid.terms)
            for t in range(len(wanted)):
                k = wanted[t]
                smooth, fall = _evaluate(sigmoid, positions[k])
                beyond_it = step.rho * line[t] + (step.offset - step.start - 1.0) * number[t] - sigmoids[t]
                sums[row, ranking.items[row, k]] += smooth + beyond_it
                slopes[row, k] = step.rho * number[t] - (fall * grid.per_tau + bells[t]) / step.tau


@jit
def backward(
    rows: NDArray[np.int64],
    by_grid: NDArray[np.bool_],
    ranking: SortedRows,
    decays: Decays,
    candidates: Graded,
    targets: Graded,
    step: Pieces,
    grid: Grid,
    upstream: NDArray[Any],
    slopes: NDArray[Any],
    gradient: NDArray[Any],
) -> None:
    """As ``_pair_rows.backward``, for the grades ``by_grid[row]``."""
    for row in rows:
        if not by_grid[row].any():
            continue
        scores, items = ranking.values[row, : ranking.number[row]].astype(np.float64), ranking.items[row]
        positions, num_nodes = _layout(scores, grid.per_tau / step.tau)
        moments, weights = np.zeros((num_nodes, NODES)), np.zeros(len(scores))
        grade = by_grid.shape[1] - 1
        while grade > 0:
            if not by_grid[row, grade]:
                grade -= 1
                continue
            wanted = targets.places[row, targets.start[row, grade] : targets.start[row, grade + 1]]
            for k in wanted:
                weights[k] = upstream[row, items[k]]
                gradient[row, items[k]] -= weights[k] * slopes[row, k]
            _spread(positions, weights, wanted, moments)
            bell = _polynomials(_convolve(_to_nodes(moments, len(grid.bell)), grid.bell, 0.0))
            lowest = grade
            while lowest > 0 and (lowest == grade or not by_grid[row, lowest]):
                lowest -= 1
            receiving = candidates.places[row, candidates.start[row, lowest] : candidates.start[row, grade]]
            grade = lowest
            behind = _first_behind(scores, receiving, step.margin)
            weight, bells = _behind(decays.values[row], weights, receiving, behind, grid.terms)
            for r in range(len(receiving)):
                j = receiving[r]
                received = (_evaluate(bell, positions[j])[0] - bells[r]) / step.tau + step.rho * weight[r]
                gradient[row, items[j]] += received


@jit
def _layout(scores: NDArray[np.float64], scale: float) -> tuple[NDArray[np.float64], int]:
    """Where each score lies, in nodes, and how many nodes there are."""
    positions = np.empty(len(scores))
    for item in range(len(scores)):
        positions[item] = (scores[item] - scores[-1]) * scale + NODES
    return positions, int(positions[0]) + NODES + 1


@reordering_jit
def _spread(
    positions: NDArray[np.float64], masses: NDArray[np.float64], items: NDArray[np.int32], moments: NDArray[np.float64]
) -> None:
    """Add the mass of each item, times the powers of its place, to the moments of its interval."""
    for item in items:
        interval = int(positions[item])
        place, power, own = positions[item] - interval, masses[item], moments[interval]
        square = place * place
        for degree in range(0, NODES, 2):
            own[degree] += power
            own[degree + 1] += power * place
            power *= square


@reordering_jit
def _to_nodes(moments: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """The mass at each node, with room for half a table on both sides."""
    nodes = np.zeros(len(moments) + width - 1)
    for interval in range(_BEFORE, len(moments) - _BEFORE - 1):
        first = width // 2 + interval - _BEFORE
        own, around = moments[interval], nodes[first : first + NODES]
        for node in range(NODES):
            mass = 0.0
            for degree in range(NODES):
                mass += _COEFFICIENTS[degree, node] * own[degree]
            around[node] += mass
    return nodes


@reordering_jit
def _polynomials(nodes: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each interval, the polynomial through the eight nodes around it."""
    result = np.zeros((len(nodes), NODES))
    for interval in range(_BEFORE, len(nodes) - _BEFORE - 1):
        around, own = nodes[interval - _BEFORE : interval - _BEFORE + NODES], result[interval]
        for degree in range(NODES):
            coefficient = 0.0
            for node in range(NODES):
                coefficient += _COEFFICIENTS[degree, node] * around[node]
            own[degree] = coefficient
    return result


@reordering_jit
def _evaluate(polynomials: NDArray[np.float64], position: float) -> tuple[float, float]:
    """The polynomial of the interval there, and its derivative by the position."""
    interval = int(position)
    place, own = position - interval, polynomials[interval]
    value, slope = own[NODES - 1], 0.0
    for degree in range(NODES - 2, -1, -1):
        slope = slope * place + value
        value = value * place + own[degree]
    return value, slope


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
def _count_beyond(scores: NDArray[np.float64], wanted: NDArray[np.int32], margin: float) -> NDArray[np.int64]:
    """How many items have t > δ, for each of some targets of one grade."""
    counts = np.empty(len(wanted), np.int64)
    beyond = 0
    for t in range(len(wanted)):
        while scores[beyond] - scores[wanted[t]] > margin:
            beyond += 1
        counts[t] = beyond
    return counts


@jit
def _first_behind(scores: NDArray[np.float64], receiving: NDArray[np.int32], margin: float) -> NDArray[np.int64]:
    """From which place on t > δ, for each of some candidates, grade by grade."""
    places = np.empty(len(receiving), np.int64)
    behind = 0
    for r in range(len(receiving)):
        if r and receiving[r] < receiving[r - 1]:
            behind = 0
        while behind < len(scores) and scores[receiving[r]] - scores[behind] <= margin:
            behind += 1
        places[r] = behind
    return places


@jit
def _beyond(
    scores: NDArray[np.float64],
    decay: NDArray[np.float64],
    ahead: NDArray[np.bool_],
    wanted: NDArray[np.int32],
    beyond: NDArray[np.int64],
    margin: float,
    terms: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """For each target, of the candidates with t > δ: how many, Σ(t − δ), Σ(σ − 1) and Σσ(1 − σ)."""
    result = np.zeros((4, len(wanted)))
    last = beyond[-1] if len(beyond) else 0
    powers, sums, line = np.empty(last), np.empty(last), np.empty(last)
    count, total = 0.0, 0.0
    for place in range(last):
        if place:
            total += count * (scores[place - 1] - scores[place])
        powers[place] = 1.0 if ahead[place] else 0.0
        count += powers[place]
        sums[place], line[place] = count, total
    for t in range(len(wanted)):
        if beyond[t]:
            place = beyond[t] - 1
            result[0, t] = sums[place]
            result[1, t] = line[place] + sums[place] * (scores[place] - scores[wanted[t]] - margin)
    factors, own = np.empty(len(wanted)), np.ones(len(wanted))
    for t in range(len(wanted)):
        factors[t] = -1.0 / decay[wanted[t]]
    three = np.empty((last, SIDE_BY_SIDE))
    for term in range(1, terms + 1, SIDE_BY_SIDE):
        _running_sums(powers, decay, three)
        for t in range(len(wanted)):
            if beyond[t]:
                for more in range(SIDE_BY_SIDE):
                    own[t] *= factors[t]
                    part = own[t] * three[beyond[t] - 1, more]
                    result[2, t] += part
                    result[3, t] -= (term + more) * part
    return result[0], result[1], result[2], result[3]


@jit
def _running_sums(powers: NDArray[np.float64], factors: NDArray[np.float64], sums: NDArray[np.float64]) -> None:
    """Raise each power by one, two and three, and add them up from the front: three sums at once wait for none."""
    first, second, third = 0.0, 0.0, 0.0
    for place in range(len(powers)):
        power, factor = powers[place] * factors[place], factors[place]
        first += power
        power *= factor
        second += power
        power *= factor
        third += power
        powers[place] = power
        sums[place, 0], sums[place, 1], sums[place, 2] = first, second, third


@jit
def _behind(
    decay: NDArray[np.float64],
    weights: NDArray[np.float64],
    receiving: NDArray[np.int32],
    behind: NDArray[np.int64],
    terms: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For each candidate, over the targets k with t > δ: Σ_k w_k and Σ_k w_k·σ(1 − σ)."""
    result = np.zeros((2, len(receiving)))
    number = len(weights)
    total, sums = 0.0, np.zeros(number + 1)
    powers, factors = np.empty(number), np.empty(number)
    for place in range(number):
        powers[place] = weights[number - 1 - place]
        factors[place] = 1.0 / decay[number - 1 - place]
        total += powers[place]
        sums[place + 1] = total
    for r in range(len(receiving)):
        result[0, r] = sums[number - behind[r]]
    own, three = np.full(len(receiving), -1.0), np.zeros((number + 1, SIDE_BY_SIDE))
    for term in range(1, terms + 1, SIDE_BY_SIDE):
        _running_sums(powers, factors, three[1:])
        for r in range(len(receiving)):
            for more in range(SIDE_BY_SIDE):
                own[r] *= -decay[receiving[r]]
                result[1, r] += (term + more) * own[r] * three[number - behind[r], more]
    return result[0], result[1]
