"""Pairs of rows that are sorted once: a time near linear in the scores for all of their sums."""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from .base import PairKernel, StepParameters
from .margin import BeyondMargin, reader
from .sigmoid_grid import SigmoidGrid


class SavedSums(NamedTuple):
    """Saved for the backward pass of a sum over steps."""

    weights: Tensor
    slopes: Tensor
    grid: SigmoidGrid
    beyond: BeyondMargin | None


class SortedPairs(PairKernel):
    """See :class:`hiertree.losses.kernels.base.PairKernel`."""

    def __init__(self, scores: Tensor, levels: Tensor, valid: Tensor, num_levels: int, span: float) -> None:
        self._falling, self._order = torch.where(valid, -scores.detach(), torch.inf).sort(dim=1)
        self._num_levels, self._span, self._dtype = num_levels, span, scores.dtype
        self._levels = torch.where(valid, levels.long(), num_levels + 1).gather(1, self._order)  # above L: not valid
        self._is_target = (self._levels > 0) & (self._levels <= num_levels)
        self._target_rows = self._levels.clamp(1, num_levels) - 1

    @cached_property
    def _num_not_behind(self) -> Tensor:
        differs = (self._falling.diff(dim=1, append=self._falling.new_full((len(self._falling), 1), torch.nan))) != 0
        num_items = self._falling.shape[1]
        ends = torch.arange(1, num_items + 1, device=self._falling.device)
        return torch.where(differs, ends, num_items).flip(1).cummin(dim=1).values.flip(1)

    def ahead(self, weights: Tensor) -> Tensor:
        """Counts."""
        masses = self._masses(self._padded(weights)[:, 1:-1])
        return self._unsorted(reader(self._target_rows, self._num_not_behind)(masses) * self._is_target)

    def steps(self, weights: Tensor, step: StepParameters) -> tuple[Tensor, SavedSums]:
        """Sums over steps, and what the gradient needs."""
        weights = self._padded(weights)
        masses = self._masses(weights[:, 1:-1])
        grid, beyond_margin = SigmoidGrid(self._falling, step.tau, self._span), None
        sums, slopes = grid.sigmoids(masses, self._target_rows)
        if step.margin < math.inf:
            beyond_margin = BeyondMargin(self._falling, step, self._span)
            rest, rest_slopes = beyond_margin.sums(masses, self._target_rows)
            sums, slopes = sums + rest, slopes + rest_slopes
        return self._unsorted(sums * self._is_target), SavedSums(weights, slopes, grid, beyond_margin)

    def backward(self, upstream: Tensor, context: SavedSums) -> Tensor:
        """The gradient with respect to the scores."""
        upstream = upstream.gather(1, self._order) * self._is_target
        candidate_levels = self._num_levels + (context.beyond is None)  # a step with a margin: of lower levels
        masses = self._masses(context.weights.transpose(1, 2)[:, :candidate_levels]) * upstream[:, None]
        rows = self._levels.clamp(max=candidate_levels - 1)
        slopes = context.grid.bells(masses, rows)
        if context.beyond is not None:
            slopes += context.beyond.slopes(masses, rows)
        slopes *= self._levels < candidate_levels
        return self._unsorted(slopes.addcmul_(upstream, context.slopes, value=-1))

    def _padded(self, weights: Tensor) -> Tensor:
        """(B, L+2, L+2) weights that are 0 for targets of level 0 and for items that are not valid."""
        return pad(weights[:, 1:].to(self._dtype), (0, 1, 1, 1)).expand(len(self._levels), -1, -1)

    def _masses(self, weights: Tensor) -> Tensor:
        """(B, R, M) the weight of each item in each row of weights (B, R, L+2)."""
        return weights.gather(2, self._levels[:, None].expand(-1, weights.shape[1], -1))

    def _unsorted(self, values: Tensor) -> Tensor:
        return torch.empty_like(values).scatter_(1, self._order, values)
