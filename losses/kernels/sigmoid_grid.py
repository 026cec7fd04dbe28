r"""Σ_j m_j·σ((s_j − s_k)/τ) of sorted rows for every item k, in time linear in the items.

The scores are divided into cells of 2τ. With u ∈ [−1, 1] an item's place in its cell, the sigmoid of a pair is
Σ_{mn} c_mn·T_m(u_j)·T_n(u_k): Chebyshev polynomials T, and coefficients c that depend on the two cells' distance alone.
So the items of a cell act through their moments Σ_j m_j·T_m(u_j), a product with a constant matrix turns the moments
of near cells into the polynomial of each cell, and item k evaluates the one of its own. σ is analytic up to ±iπτ: the
error falls by 6.4 with each polynomial. Cells further away than ``reach`` count as 0 or 1.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag, pad

WIDTH = 2.0  # of a cell, in τ


class GridAccuracy(NamedTuple):
    """What makes the sums as exact as a floating-point type."""

    terms: int  # polynomials
    reach: int  # cells: e^{−2·reach} is nothing beside 1


ACCURACY = {torch.float32: GridAccuracy(9, 8), torch.float64: GridAccuracy(16, 16)}


class SigmoidGrid:
    """The cells of sorted rows.

    Args:
        negated_scores: (B, M) −s in rising order; infinite for items that have no mass.
        tau: τ.
        span: how much the scores of a row differ at most.
    """

    def __init__(self, negated_scores: Tensor, tau: float, span: float) -> None:
        self._tau, self._accuracy = tau, ACCURACY[negated_scores.dtype]
        self._num_cells = num_cells(tau, span, negated_scores.dtype)
        num_rows, num_items = negated_scores.shape
        place = (negated_scores.double() - negated_scores[:, :1].double()) / (WIDTH * tau)
        place = torch.where(negated_scores < torch.inf, place, self._num_cells - 0.5)
        self._cells = place.long().clamp_(max=self._num_cells - 1)
        self._basis = chebyshev((2 * (place - self._cells) - 1).to(negated_scores.dtype), self._accuracy.terms)
        edges = torch.arange(self._num_cells, device=negated_scores.device).expand(num_rows, -1)
        self._first = torch.searchsorted(self._cells, edges.contiguous())
        self._items = torch.arange(num_rows * num_items, device=negated_scores.device).view(num_rows, 1, num_items)

    def sigmoids(self, masses: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """(B, M) Σ_j m_j·σ and Σ_j m_j·σ(1 − σ)/τ; item k reads row ``rows[b, k]`` of the masses (B, R, M)."""
        curves = near_cells(*self._accuracy, masses.dtype, masses.device, bell_alone=False)
        values, bells = self._read(self._polynomials(masses, curves, has_far=True), rows)
        return values, bells / self._tau

    def bells(self, masses: Tensor, rows: Tensor) -> Tensor:
        """(B, M) Σ_j m_j·σ(1 − σ)/τ."""
        curves = near_cells(*self._accuracy, masses.dtype, masses.device, bell_alone=True)
        return self._read(self._polynomials(masses, curves, has_far=False), rows)[0] / self._tau

    def _polynomials(self, masses: Tensor, curves: Tensor, *, has_far: bool) -> Tensor:
        """(B, R, cells, curves·terms) the coefficients in each cell, ``group_size`` cells taken together."""
        terms, group_size = self._accuracy
        (num_rows, per_row, num_items), groups = masses.shape, self._num_cells // group_size
        parts = torch.arange(num_rows * per_row, device=masses.device).view(num_rows, per_row, 1) * num_items
        moments = embedding_bag(
            self._items.expand(-1, per_row, -1).reshape(-1),
            self._basis,
            (parts + self._first[:, None]).view(-1),
            mode="sum",
            per_sample_weights=masses.reshape(-1),
        ).view(num_rows * per_row, groups, group_size * terms)
        near_moments = pad(moments, (0, 0, 1, 1)).unfold(1, 3, 1).transpose(2, 3).reshape(-1, 3 * group_size * terms)
        polynomials = (near_moments @ curves).view(num_rows * per_row, groups, group_size, -1)
        if has_far:  # groups of cells that are two above, or more, add their mass
            mass_above = moments.view(*polynomials.shape[:3], terms)[..., 0].sum(dim=2).cumsum(dim=1)
            polynomials[:, 2:, :, 0] += mass_above[:, :-2, None]
        return polynomials.view(num_rows, per_row, self._num_cells, -1)

    def _read(self, polynomials: Tensor, rows: Tensor) -> list[Tensor]:
        """The value of each curve at every item."""
        num_rows, per_row, num_cells, _ = polynomials.shape
        first = torch.arange(num_rows, device=rows.device)[:, None] * per_row
        coefficients = polynomials.view(num_rows * per_row * num_cells, -1)
        coefficients = coefficients.index_select(0, ((first + rows) * num_cells + self._cells).view(-1))
        curves = coefficients.view(len(coefficients), -1, self._accuracy.terms).unbind(dim=1)
        return [torch.linalg.vecdot(curve, self._basis).view_as(rows) for curve in curves]


def num_cells(tau: float, span: float, dtype: torch.dtype) -> int:
    """How many cells cover a span, a multiple of the reach."""
    group_size = ACCURACY[dtype].reach
    return group_size * math.ceil((span / (WIDTH * tau) + 1) / group_size)


def chebyshev(place: Tensor, terms: int) -> Tensor:
    """(n, terms) T_0 … at each place from −1 to 1."""
    place = place.reshape(-1)
    polynomials, double = [torch.ones_like(place), place], 2 * place
    while len(polynomials) < terms:
        polynomials.append(double * polynomials[-1] - polynomials[-2])
    return torch.stack(polynomials, dim=1)


@cache
def near_cells(terms: int, group_size: int, dtype: torch.dtype, device: torch.device, *, bell_alone: bool) -> Tensor:
    """(3·group_size·terms, group_size·curves·terms): from moments of three groups of cells to the middle one's cells.

    The curves are σ and σ(1 − σ), or the latter alone.
    """
    nodes = np.cos((np.arange(terms) + 0.5) * np.pi / terms)
    fit = np.polynomial.chebyshev.chebvander(nodes, terms - 1).T * 2 / terms  # from values at the nodes to coefficients
    fit[0] /= 2
    distance = (
        np.arange(group_size) - np.arange(-group_size, 2 * group_size)[:, None]
    )  # of the cell of k below that of j
    difference = WIDTH * distance[..., None, None] + WIDTH / 2 * (nodes - nodes[:, None])
    sigmoid = 1 / (1 + np.exp(-difference))
    bell = sigmoid * (1 - sigmoid)
    curves = np.stack([bell] if bell_alone else [sigmoid, bell], axis=2)
    coefficients = np.einsum("ma,ijcab,nb->imjcn", fit, curves, fit)
    return torch.from_numpy(coefficients.reshape(3 * group_size * terms, -1)).to(device, dtype)
