r"""Pairs on a CPU, compiled, row by row: the algorithm of :mod:`.sorted_pairs` without torch's operations in between.

The sums at the readers i of a row over its sources j, Σ_j mass_j·weight·step(x_j − x_i), have three parts: exact counts
by one pass over the falling scores; σ by the cells of :mod:`.sigmoid_grid`, with powers of the place in a cell for
polynomials; and what lies beyond the margin by sums that run along the row, of exponentials relative to an anchor that
moves with it. The gradient is the same sums, read from the end of the row: targets are its sources.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from hiertree.jit import Array, Bools, Bytes, Floats, Ints, jit, reordering_jit

from .base import PairKernel, StepParameters
from .margin import ERROR, LARGEST_POWER, decay_series

TERMS = 8  # of a polynomial: a constant for the compiler, by which cells are as narrow as a type demands
CELL_SIZE = {torch.float32: (1.25, 15), torch.float64: (0.35, 104)}
"""The width of a cell in τ, and how many cells away σ is 0 or 1."""


class SortedRows(NamedTuple):
    """The valid items of rows by falling score; a row's first ``number`` places are in use."""

    number: Ints  # (B,)
    items: Ints  # (B, M) where they come from
    scores: Floats  # (B, M)
    levels: Bytes  # (B, M)


class Curves(NamedTuple):
    """A step function, made ready: its σ for cells, and its decays beyond the margin."""

    step: StepParameters
    width: float  # of a cell
    transfer: Floats  # (2, terms, (2·reach + 1)·terms) from moments of near cells to σ and σ(1 − σ) in the middle one
    beyond: Floats  # (2, terms) 1 − σ and σ(1 − σ) as series in e^{−t/τ}; none without a margin


class NumbaPairs(PairKernel):
    """See :class:`hiertree.losses.kernels.base.PairKernel`; for float32 and float64 of a CPU."""

    def __init__(self, scores: Tensor, levels: Tensor, valid: Tensor, num_levels: int, span: float) -> None:  # noqa: ARG002
        self._scores, self._num_levels = scores.detach(), num_levels
        order = self._scores.neg().masked_fill_(~valid, torch.inf).numpy().argsort(axis=1)
        sorted_levels = np.empty(order.shape, np.uint8)
        self._rows = SortedRows(valid.sum(dim=1).numpy(), order, np.empty(order.shape), sorted_levels)
        _fill(self._scores.contiguous().numpy(), levels.contiguous().numpy(), self._rows)

    def ahead(self, weights: Tensor) -> Tensor:
        """Counts."""
        sums = torch.zeros_like(self._scores)
        _count(self._rows, self._of_targets(weights), sums.numpy())
        return sums

    def steps(self, weights: Tensor, step: StepParameters) -> tuple[Tensor, tuple[Floats, Tensor, Curves]]:
        """Sums over steps, and what the gradient needs."""
        sums, slopes = torch.zeros_like(self._scores), torch.zeros_like(self._scores)
        of_targets, curves = self._of_targets(weights), curves_of(step, self._scores.dtype)
        masses = torch.ones_like(self._scores[:1]).numpy()
        _add_rows(self._rows, masses, of_targets, curves, 0, sums.numpy(), slopes.numpy())
        return sums, (of_targets, slopes, curves)

    def backward(self, upstream: Tensor, context: tuple[Floats, Tensor, Curves]) -> Tensor:
        """The gradient with respect to the scores."""
        weights, slopes, curves = context
        gradient, masses = (upstream * slopes).neg_(), upstream.contiguous().numpy()
        by_candidate = weights.transpose(0, 2, 1).copy()
        _add_rows(self._rows, masses, by_candidate, curves, 1, gradient.numpy(), gradient.numpy())
        return gradient

    def _of_targets(self, weights: Tensor) -> Floats:
        """(B, L+1, L+1) weights that are 0 for targets of level 0."""
        result: Floats = weights.double().expand(len(self._scores), -1, -1).numpy().copy()
        result[:, 0] = 0
        return result


@cache
def curves_of(step: StepParameters, dtype: torch.dtype) -> Curves:
    """The tables of a step function."""
    width, reach = CELL_SIZE[dtype]
    has_margin = step.margin < math.inf
    series = decay_series(step.margin / step.tau, ERROR[dtype]) if has_margin else [(), ()]
    return Curves(step, width * step.tau, transfer_matrix(width, reach), np.array(series))


@cache
def transfer_matrix(width: float, reach: int) -> Floats:
    """From the moments of the cells around one to its polynomials of σ and σ(1 − σ); places run from −1 to 1."""
    nodes = np.cos((np.arange(TERMS) + 0.5) * np.pi / TERMS)
    fit = np.linalg.inv(np.vander(nodes, TERMS, increasing=True))  # from values at the nodes to coefficients
    distance = np.arange(reach, -reach - 1, -1)[:, None, None]  # of the reader's cell below that of the source
    sigmoid = 1 / (1 + np.exp(-width * (distance + (nodes[:, None] - nodes) / 2)))
    curves = np.stack([sigmoid, sigmoid * (1 - sigmoid)])
    return np.ascontiguousarray((fit @ curves @ fit.T).transpose(0, 2, 1, 3)).reshape(2, TERMS, -1)


@jit
def _fill(scores: Array, levels: Bytes, rows: SortedRows) -> None:
    for row in range(len(scores)):
        for place in range(rows.number[row]):
            item = rows.items[row, place]
            rows.scores[row, place] = scores[row, item]
            rows.levels[row, place] = levels[row, item]


@jit
def _count(rows: SortedRows, weights: Floats, sums: Array) -> None:
    """Add the weights of all items as high as each, itself too."""
    for row in range(len(sums)):
        scores, levels, items = rows.scores[row], rows.levels[row], rows.items[row]
        counts, first = np.zeros(weights.shape[1]), 0
        while first < rows.number[row]:
            end = first
            while end < rows.number[row] and scores[end] == scores[first]:
                counts[levels[end]] += 1
                end += 1
            for place in range(first, end):
                for level in range(len(counts)):
                    sums[row, items[place]] += weights[row, levels[place], level] * counts[level]
            first = end


@jit
def _add_rows(
    rows: SortedRows, masses: Array, weights: Floats, curves: Curves, first_curve: int, sums: Array, slopes: Array
) -> None:
    """Add Σ mass·weight·step and its slope at every item; with ``first_curve`` 1 the slope alone, from the end."""
    for row in range(len(sums)):
        number = rows.number[row]
        if number == 0:
            continue
        scores, levels = rows.scores[row, :number].copy(), rows.levels[row, :number].copy()
        items, results = rows.items[row, :number].copy(), np.zeros((2, number))
        if first_curve:
            scores, levels, items = -scores[::-1], levels[::-1].copy(), items[::-1].copy()
        row_masses = masses[row % len(masses)][items].astype(np.float64)
        _add_sigmoids(scores, levels, row_masses, weights[row], curves, first_curve, results)
        if curves.beyond.shape[1]:
            _add_beyond(scores, levels, row_masses, weights[row], curves, results)
        for place in range(number):
            if not first_curve:
                sums[row, items[place]] += results[0, place]
            slopes[row, items[place]] += results[1, place]


@jit
def _add_sigmoids(
    scores: Floats, levels: Bytes, masses: Floats, weights: Floats, curves: Curves, first_curve: int, sums: Floats
) -> None:
    places = (scores[0] - scores) / curves.width
    cells = places.astype(np.int64)
    places = 2 * (places - cells) - 1
    moments = np.zeros((len(weights), cells[-1] + 1, TERMS))
    _spread(cells, places, levels, masses, moments)
    num_items, polynomials = np.bincount(levels, minlength=len(weights)), np.zeros((2, cells[-1] + 1, TERMS))
    for level in np.flatnonzero(num_items):
        sources = np.flatnonzero(weights[level] * num_items)
        if len(sources) == 0:
            continue
        weighted = np.zeros(moments.shape[1:])
        for source in sources:
            weighted += weights[level, source] * moments[source]
        _convolve(weighted, curves.transfer, first_curve, polynomials)
        _evaluate(cells, places, levels == level, polynomials, sums)
    sums[1] /= curves.step.tau


@reordering_jit
def _spread(cells: Ints, places: Floats, levels: Bytes, masses: Floats, moments: Floats) -> None:
    for item in range(len(cells)):
        power = masses[item]
        for term in range(TERMS):
            moments[levels[item], cells[item], term] += power
            power *= places[item]


@reordering_jit
def _convolve(masses: Floats, transfer: Floats, first_curve: int, polynomials: Floats) -> None:
    """From moments (cells, terms) to the polynomials of the curves (2, cells, terms)."""
    moments, num_cells, reach, mass_above = masses.reshape(-1), len(masses), transfer.shape[2] // (2 * TERMS), 0.0
    for cell in range(num_cells):
        first, end = max(0, cell - reach), min(num_cells, cell + reach + 1)
        sources, skipped = moments[first * TERMS : end * TERMS], (first - cell + reach) * TERMS
        for curve in range(first_curve, 2):
            for term in range(TERMS):
                coefficients = transfer[curve, term, skipped : skipped + len(sources)]
                total = 0.0
                for source in range(len(sources)):
                    total += coefficients[source] * sources[source]
                polynomials[curve, cell, term] = total
        mass_above += masses[first - 1, 0] if first else 0.0
        polynomials[0, cell, 0] += mass_above


@reordering_jit
def _evaluate(cells: Ints, places: Floats, is_reader: Bools, polynomials: Floats, sums: Floats) -> None:
    for item in np.flatnonzero(is_reader):
        for curve in range(2):
            for term in range(TERMS - 1, -1, -1):
                sums[curve, item] = sums[curve, item] * places[item] + polynomials[curve, cells[item], term]


@reordering_jit
def _add_beyond(scores: Floats, levels: Bytes, masses: Floats, weights: Floats, curves: Curves, sums: Floats) -> None:
    """Add Σ mass·(ρ·(t − δ) + offset − start − σ(t/τ)) over the sources with t > δ, and its slope."""
    step, num_terms, anchor, source = curves.step, curves.beyond.shape[1], scores[0], 0
    numbers, lines, decays = np.zeros(len(weights)), np.zeros(len(weights)), np.zeros((len(weights), num_terms))
    farthest = LARGEST_POWER / num_terms * step.tau
    for item in range(len(scores)):
        if anchor - scores[item] > farthest:
            shift = math.exp((scores[item] - anchor) / step.tau)
            for term in range(num_terms):
                decays[:, term] *= shift ** (term + 1)
            lines += numbers * (anchor - scores[item])
            anchor = scores[item]
        while scores[source] - scores[item] > step.margin:
            growth = math.exp((anchor - scores[source]) / step.tau) if masses[source] else 0.0
            for level in range(len(weights)):
                power = mass = masses[source] * weights[level, levels[source]]
                if not mass:
                    continue
                numbers[level] += mass
                lines[level] += mass * (scores[source] - anchor)
                for term in range(num_terms):
                    power *= growth
                    decays[level, term] += power
            source += 1
        level = levels[item]
        if not (numbers[level] or lines[level] or decays[level, 0]):
            continue
        decay, value, slope, power = math.exp((scores[item] - anchor) / step.tau), 0.0, 0.0, 1.0
        for term in range(num_terms):
            power *= decay
            value += curves.beyond[0, term] * power * decays[level, term]
            slope += curves.beyond[1, term] * power * decays[level, term]
        line = lines[level] + numbers[level] * (anchor - scores[item] - step.margin)
        sums[0, item] += step.rho * line + (step.offset - step.start - 1) * numbers[level] + value
        sums[1, item] += step.rho * numbers[level] - slope / step.tau
