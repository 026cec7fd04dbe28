r"""Σ_j m_j·σ((s_j − s_k)/τ) of sorted rows for every item k, in time linear in the items.

The scores are divided into cells of 2τ. With u ∈ [−1, 1] an item's place in its cell, the sigmoid of a pair is
Σ_{mn} c_mn·u_jᵐ·u_kⁿ: Chebyshev's fit in powers of u, with coefficients c that depend on the two cells' distance alone.
So the items of a cell act through their moments Σ_j m_j·u_jᵐ, a product with a constant matrix turns the moments
of near cells into the polynomial of each cell, and item k evaluates the one of its own. σ is analytic up to ±iπτ: the
error falls by 6.4 with each polynomial. Cells further away than ``reach`` count as 0 or 1.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding_bag

WIDTH = 2.0  # of a cell, in τ


class GridAccuracy(NamedTuple):
    """What makes the sums as exact as a floating-point type."""

    terms: int  # polynomials
    reach: int  # cells: e^{−2·reach} is nothing beside 1


ACCURACY = {torch.float32: GridAccuracy(9, 8), torch.float64: GridAccuracy(16, 16)}


class ItemsInCells(NamedTuple):
    """Candidates, or targets."""

    cells: Tensor  # (B, M) of each item
    first: Tensor  # (B, cells) of the row's items in each cell
    basis: Tensor  # (B·M, terms) powers of the item's place in its cell


class SigmoidGrid:
    """The cells of sorted rows.

    Args:
        depth: (B, M) float64, in rising order: how far each item is below the first of its row.
        targets: (B, T) the places of the targets among them, in rising order.
        tau: τ.
        span: the largest depth.
        dtype: what the sums are as exact as.
    """

    def __init__(self, depth: Tensor, targets: Tensor, tau: float, span: float, dtype: torch.dtype) -> None:
        self._tau, self._accuracy, self._num_cells = tau, ACCURACY[dtype], num_cells(tau, span, dtype)
        position = depth / (WIDTH * tau)
        cells = position.long().clamp_(max=self._num_cells - 1)
        basis = powers(position.sub_(cells).mul_(2).sub_(1).to(dtype), self._accuracy.terms)
        index = targets + torch.arange(0, depth.numel(), depth.shape[1], device=depth.device)[:, None]
        self._candidates = self._in_cells(cells, basis)
        self._targets = self._in_cells(cells.gather(1, targets), basis.index_select(0, index.view(-1)))

    def sigmoids(self, masses: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """(B, T) Σ_j m_j·σ and Σ_j m_j·σ(1 − σ)/τ; target k reads row ``rows[b, k]`` of the masses (B, R, M)."""
        moments = self._moments(self._candidates, masses)
        polynomials, bells = (self._polynomials(moments, curve) for curve in (0, 1))
        # groups of cells that are two above, or more, add their mass
        polynomials[:, 2:, :, 0] += moments[..., 0].sum(dim=2).cumsum(dim=1)[:, :-2, None]
        sums, slopes = self._read([polynomials, bells], self._targets, rows)
        return sums, slopes.mul_(1 / self._tau)

    def bells(self, masses: Tensor, rows: Tensor) -> Tensor:
        """(B, M) Σ_k m_k·σ(1 − σ)/τ; candidate j reads row ``rows[b, j]`` of the masses (B, R, T) of targets."""
        polynomials = self._polynomials(self._moments(self._targets, masses), 1)
        return self._read([polynomials], self._candidates, rows)[0].mul_(1 / self._tau)

    def _in_cells(self, cells: Tensor, basis: Tensor) -> ItemsInCells:
        edges = torch.arange(self._num_cells, device=cells.device).expand(len(cells), -1)
        return ItemsInCells(cells, torch.searchsorted(cells, edges.contiguous()), basis)

    def _moments(self, items: ItemsInCells, masses: Tensor) -> Tensor:
        """(B·R, groups, cells of a group, terms) Σ_j m_j·uⁿ of the items of each cell."""
        num_rows, per_row, num_items = masses.shape
        index = torch.arange(num_rows * num_items, device=masses.device).view(num_rows, 1, num_items)
        starts = torch.arange(num_rows * per_row, device=masses.device).view(num_rows, per_row, 1) * num_items
        moments = embedding_bag(
            index.expand(-1, per_row, -1).reshape(-1),
            items.basis,
            (starts + items.first[:, None]).view(-1),
            mode="sum",
            per_sample_weights=masses.reshape(-1),
        )
        return moments.view(num_rows * per_row, -1, self._accuracy.reach, self._accuracy.terms)

    def _polynomials(self, moments: Tensor, curve: int) -> Tensor:
        """(B·R, groups, cells of a group, terms) the coefficients in each cell: near groups act through a matrix."""
        from_above, from_same, from_below = near_cells(*self._accuracy, moments.dtype, moments.device)[curve]
        groups, num_rows = moments.flatten(2).transpose(0, 1).flatten(0, 1), len(moments)
        polynomials: Tensor = groups @ from_same
        polynomials[num_rows:].addmm_(groups[:-num_rows], from_above)
        polynomials[:-num_rows].addmm_(groups[num_rows:], from_below)
        return polynomials.view(-1, num_rows, groups.shape[1]).transpose(0, 1).contiguous().view_as(moments)

    def _read(self, polynomials: list[Tensor], items: ItemsInCells, rows: Tensor) -> list[Tensor]:
        """The value of each at every item."""
        first = torch.arange(0, len(polynomials[0]), len(polynomials[0]) // len(rows), device=rows.device)[:, None]
        index = (first + rows).mul_(self._num_cells).add_(items.cells).view(-1)
        ones = torch.ones(self._accuracy.terms, dtype=items.basis.dtype, device=rows.device)
        coefficients = (each.view(-1, self._accuracy.terms).index_select(0, index) for each in polynomials)
        return [(each.mul_(items.basis) @ ones).view_as(rows) for each in coefficients]


def num_cells(tau: float, span: float, dtype: torch.dtype) -> int:
    """How many cells cover a span, a multiple of the reach."""
    group_size = ACCURACY[dtype].reach
    return group_size * math.ceil((span / (WIDTH * tau) + 1) / group_size)


def powers(position: Tensor, terms: int) -> Tensor:
    """(n, terms) 1, u, u² … of each place u from −1 to 1."""
    basis = position.new_empty(position.numel(), terms)
    basis[:, 0] = 1
    basis[:, 1:] = position.view(-1, 1)
    return basis.cumprod_(dim=1)


@cache
def near_cells(terms: int, group_size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """(2, 3, group_size·terms, group_size·terms) of σ and of σ(1 − σ).

    They lead from the moments of the group of cells above, the same and the one below to the polynomials of a group.
    """
    nodes = np.cos((np.arange(terms) + 0.5) * np.pi / terms)
    fit = np.polynomial.chebyshev.chebvander(nodes, terms - 1).T * 2 / terms  # from values at the nodes to coefficients
    fit[0] /= 2
    to_powers = chebyshev_coefficients(terms)
    distance = (
        np.arange(group_size) - np.arange(-group_size, 2 * group_size)[:, None]
    )  # of the cell of k below that of j
    difference = WIDTH * distance[..., None, None] + WIDTH / 2 * (nodes - nodes[:, None])
    sigmoid = 1 / (1 + np.exp(-difference))
    curves = np.stack([sigmoid, sigmoid * (1 - sigmoid)])
    chebyshev = np.einsum("ma,cijab,nb->cijmn", fit, curves, fit)
    coefficients = np.einsum("mp,cijmn,nq->cipjq", to_powers, chebyshev, to_powers)
    return torch.from_numpy(coefficients.reshape(2, 3, group_size * terms, -1)).to(device, dtype)


def chebyshev_coefficients(terms: int) -> NDArray[np.float64]:
    """(terms, terms) T_m in powers of u."""
    coefficients = np.eye(terms)
    for m in range(2, terms):
        coefficients[m] = 2 * np.roll(coefficients[m - 1], 1) - coefficients[m - 2]
    return coefficients
