r"""Pairs of rows that are sorted once: a time near linear in the scores for all of their sums.

What a step has beyond its margin δ in place of its sigmoid is, over the candidates with t = s_j − s_k > δ, Σ_j
m_j·(ρ·(t − δ) + offset − start − σ(t/τ)). They are the first of the row, so that running sums hold all of it: Σ
m_j, Σ m_j·s_j, and 1 − σ(t/τ) as a polynomial in e^{−t/τ}, each of whose powers is a factor of j and a factor of k.
These are taken relative to the middle of a window of scores, in which none overflows: what vanishes there is too
far away to count.
"""

from __future__ import annotations

import math
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.polynomial import Chebyshev, Polynomial
from torch import Tensor
from torch.nn.functional import pad

from hiertree.jit import Floats

from .sigmoid_grid import SigmoidGrid
from .steps import PairKernel, StepParameters

LARGEST_POWER = 350.0  # e to this power, squared, is finite
ERROR = {torch.float32: 1e-6, torch.float64: 1e-14}  # of a sigmoid
MOST_TERMS = 40


class SavedSums(NamedTuple):
    """Saved for the backward pass of a sum over steps."""

    weights: Tensor
    slopes: Tensor
    grid: SigmoidGrid
    beyond: BeyondMargin | None


class SortedPairs(PairKernel):
    """See :class:`hiertree.losses.kernels.steps.PairKernel`."""

    def __init__(
        self, scores: Tensor, levels: Tensor, valid: Tensor, num_levels: int, span: float, num_targets: int
    ) -> None:
        negated_scores = -scores.detach()
        self._order = rising_order(negated_scores)
        self._falling = negated_scores.gather(1, self._order)
        self._num_levels, self._span, self._dtype = num_levels, span, scores.dtype
        levels = torch.where(valid, levels.short(), num_levels + 1)
        self._levels = levels.gather(1, self._order).long()
        self._targets, is_target = first_places((self._levels > 0) & (self._levels <= num_levels), num_targets)
        self.target_levels = self._levels.gather(1, self._targets).mul_(is_target)
        self._is_target = is_target.to(scores.dtype)
        self._target_rows = (self.target_levels - 1).clamp_(min=0)

    @cached_property
    def _num_not_behind(self) -> Tensor:
        differs = (self._falling.diff(dim=1, append=self._falling.new_full((len(self._falling), 1), torch.nan))) != 0
        num_items = self._falling.shape[1]
        ends = torch.arange(1, num_items + 1, device=self._falling.device)
        ends = torch.where(differs, ends, num_items).flip(1).cummin(dim=1).values.flip(1)
        return ends.gather(1, self._targets)

    def ahead(self, weights: Tensor) -> Tensor:
        """Counts."""
        masses = self._masses(self._padded(weights)[:, 1:-1])
        counts = running_sums(masses, masses[:, :0], self._target_rows, self._num_not_behind)
        return counts[:, 0].mul_(self._is_target)

    def steps(self, weights: Tensor, step: StepParameters) -> tuple[Tensor, SavedSums]:
        """Sums over steps, and what the gradient needs."""
        weights = self._padded(weights)
        masses = self._masses(weights[:, 1:-1])
        depth = self._falling.double()
        depth -= depth[:, :1].clone()
        grid, beyond_margin = SigmoidGrid(depth, self._targets, step.tau, self._span, self._dtype), None
        sums, slopes = grid.sigmoids(masses, self._target_rows)
        if step.margin < math.inf:
            beyond_margin = BeyondMargin(depth, self._targets, step, self._span, self._dtype)
            rest, rest_slopes = beyond_margin.sums(masses, self._target_rows)
            sums, slopes = sums.add_(rest), slopes.add_(rest_slopes)
        return sums.mul_(self._is_target), SavedSums(weights, slopes.mul_(self._is_target), grid, beyond_margin)

    def backward(self, upstream: Tensor, context: SavedSums) -> Tensor:
        """The gradient with respect to the scores."""
        candidate_levels = self._num_levels + (context.beyond is None)  # a step with a margin: of lower levels
        by_level = context.weights.transpose(1, 2)[:, :candidate_levels]
        levels = self.target_levels[:, None].expand(-1, candidate_levels, -1)  # 0 weighs nothing
        masses = by_level.gather(2, levels).mul_(upstream[:, None])
        rows = self._levels.clamp(max=candidate_levels - 1)
        slopes = context.grid.bells(masses, rows)
        if context.beyond is not None:
            slopes += context.beyond.slopes(masses, rows)
        slopes *= self._levels < candidate_levels
        slopes.scatter_add_(1, self._targets, (upstream * context.slopes).neg_())
        return torch.empty_like(slopes).scatter_(1, self._order, slopes)

    def _padded(self, weights: Tensor) -> Tensor:
        """(B, L+2, L+2) weights that are 0 for targets of level 0 and for items that are not valid."""
        return pad(weights[:, 1:].to(self._dtype), (0, 1, 1, 1)).expand(len(self._levels), -1, -1)

    def _masses(self, weights: Tensor) -> Tensor:
        """(B, R, M) the weight of each item in each row of weights (B, R, L+2)."""
        return weights.gather(2, self._levels[:, None].expand(-1, weights.shape[1], -1))


def rising_order(values: Tensor) -> Tensor:
    """The indices that sort each row; on a CPU by numpy, which takes a fifth of torch's time."""
    if values.device.type == "cpu":
        return torch.from_numpy(np.argsort(values.numpy(), axis=1))
    return values.argsort(dim=1)


def first_places(flags: Tensor, num: int) -> tuple[Tensor, Tensor]:
    """(B, num) the places of the flags of each row (B, M), ``num`` at most, and which are; the others are the last."""
    rank, num_items = flags.cumsum(dim=1), flags.shape[1]
    columns = rank.new_full((len(flags), num + 1), num_items - 1)
    columns.scatter_(1, rank * flags, torch.arange(num_items, device=flags.device).expand_as(rank))
    return columns[:, 1:], torch.arange(num, device=flags.device) < rank[:, -1:]


class BeyondMargin:
    """The pairs of sorted rows whose scores differ by more than a margin.

    Args:
        depth: (B, M) float64, in rising order: how far each item is below the first of its row.
        targets: (B, T) the places of the targets among them, in rising order.
        step: the step function, with a finite margin.
        span: the largest depth.
        dtype: what the sums are as exact as.
    """

    def __init__(self, depth: Tensor, targets: Tensor, step: StepParameters, span: float, dtype: torch.dtype) -> None:
        target_depth = depth.gather(1, targets)
        self._target_depth, self._step, self._dtype = target_depth, step, dtype
        self._num_above = counts_below(depth, target_depth - step.margin)  # of each target's candidates: t > δ
        series = decay_series(step.margin / step.tau, ERROR[dtype])
        num_powers = len(series[0])
        half = LARGEST_POWER / num_powers  # of a window, in τ
        windows = int(1.001 * span / (2 * half * step.tau)) + 1
        center = (2 * torch.arange(windows, device=depth.device, dtype=depth.dtype)[:, None] + 1) * half
        shape = (len(depth), windows, num_powers)
        self._features = depth.new_empty(len(depth), 1 + windows * num_powers, depth.shape[1])
        self._features[:, 0] = depth
        offset = depth[:, None] / step.tau - center  # (B, windows, M)
        _powers_of_exp(offset.clamp_(max=half), self._features[:, 1:].view(*shape, -1))
        target_place = target_depth[:, None] / step.tau - center
        decay = depth.new_empty(*shape, targets.shape[1])
        _powers_of_exp(target_place.clamp(min=-half).neg_(), decay)
        if windows > 1:
            decay *= ((target_place >= -half) & (target_place < half))[:, :, None]
        self._decay = decay.flatten(1, 2)
        self._series = depth.new_tensor(series).repeat(1, windows)

    def sums(self, masses: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """(B, T) the sum and its slope; target k reads row ``rows[b, k]`` of the masses (B, R, M) of candidates."""
        step = self._step
        sums = running_sums(masses, self._features, rows, self._num_above)
        mass, line = sums[:, 0], sums[:, 0] * (self._target_depth - step.margin) - sums[:, 1]
        rest, bells = (self._series @ sums[:, 2:].mul_(self._decay)).unbind(dim=1)
        value = rest.add_(mass, alpha=step.offset - step.start - 1).add_(line, alpha=step.rho)
        return value.to(self._dtype), mass.mul_(step.rho).sub_(bells, alpha=1 / step.tau).to(self._dtype)

    def slopes(self, masses: Tensor, rows: Tensor) -> Tensor:
        """(B, M) the slope; candidate j reads row ``rows[b, j]`` of the masses (B, R, T) of targets, from the end."""
        ends = torch.zeros_like(rows).scatter_add_(1, (self._num_above - 1).clamp_(min=0), (self._num_above > 0).long())
        sums = running_sums(masses.flip(2), self._decay.flip(2), rows, ends.flip(1).cumsum(dim=1).flip(1))
        bells = self._series[1] @ sums[:, 1:].mul_(self._features[:, 1:])
        return sums[:, 0].mul_(self._step.rho).sub_(bells, alpha=1 / self._step.tau).to(self._dtype)


def counts_below(rising: Tensor, values: Tensor) -> Tensor:
    """(B, T) how many of each row are below each value; on a CPU by numpy, which takes half of torch's time."""
    if rising.device.type != "cpu":
        return torch.searchsorted(rising, values)
    pairs_of_rows = zip(rising.numpy(), values.numpy(), strict=True)
    return torch.from_numpy(np.stack([row.searchsorted(row_values) for row, row_values in pairs_of_rows]))


def _powers_of_exp(exponent: Tensor, powers: Tensor) -> None:
    """Write e^x, e^2x, … of (B, windows, n) exponents into (B, windows, powers, n)."""
    torch.exp(exponent, out=powers[:, :, 0])
    for power in range(1, powers.shape[2]):
        torch.mul(powers[:, :, power - 1], powers[:, :, 0], out=powers[:, :, power])


def running_sums(masses: Tensor, features: Tensor, rows: Tensor, ends: Tensor) -> Tensor:
    """(B, 1 + F, T) Σ mass and Σ mass·feature (B, F, M) before each end; it reads row ``rows[b, k]`` of the masses."""
    (num_rows, per_row, num_items), num_sums = masses.shape, 1 + features.shape[1]
    sums = features.new_zeros(num_rows, per_row, 1 + num_items)
    before_ends, index = features.new_empty(num_rows, num_sums, ends.shape[1]), rows * sums.shape[2] + ends
    masses = masses.to(features.dtype)  # once, for all products
    sums[..., 1:] = masses
    for column, feature in enumerate((*features.unbind(dim=1), None)):
        torch.gather(sums.cumsum_(dim=2).flatten(1), 1, index, out=before_ends[:, column])
        if feature is not None:
            torch.mul(masses, feature[:, None], out=sums[..., 1:])
    return before_ends


def _inverse_power(z: Floats, power: int) -> Floats:
    return (1 + z) ** -power


@cache
def decay_series(margin: float, error: float) -> list[tuple[float, ...]]:
    """The coefficients of z, z², … in 1 − σ(t) and in σ·(1 − σ)(t), for z = e^{−t} and every t beyond a margin."""
    largest = max(math.exp(-margin), 1e-9)
    z = np.linspace(0, largest, 999)
    for terms in range(1, MOST_TERMS):
        series = []
        for power in (1, 2):
            exact = _inverse_power(z, power)
            fit = Chebyshev.interpolate(_inverse_power, terms - 1, domain=[0, largest], args=(power,))
            polynomial = fit.convert(kind=Polynomial)
            if np.abs(z * (polynomial(z) - exact)).max() > error:
                break
            series.append(tuple(np.pad(polynomial.coef, (0, terms - len(polynomial.coef))).tolist()))
        else:
            break
    return series
