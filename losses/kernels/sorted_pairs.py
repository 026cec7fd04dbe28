"""Pairs of rows that are sorted once: a time near linear in the scores for all of their sums."""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from .margin import BeyondMargin, running_sums
from .sigmoid_grid import SigmoidGrid
from .steps import PairKernel, StepParameters


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
