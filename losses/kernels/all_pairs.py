"""Every pair, a bounded number at a time: for few positives, and for scores that differ by many thousand τ."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from .base import PairKernel, Step

PAIRS_AT_ONCE = {"cpu": 1 << 17, "cuda": 1 << 26}  # what a CPU's cache holds, what keeps a GPU busy


class SavedPairs(NamedTuple):
    """Saved for the backward pass of a sum over steps."""

    weights: Tensor
    step: Step


class AllPairs(PairKernel):
    """See :class:`hiertree.losses.kernels.base.PairKernel`."""

    def __init__(
        self,
        scores: Tensor,
        levels: Tensor,
        valid: Tensor,
        num_levels: int,
        span: float,  # noqa: ARG002
        num_targets: int,
    ) -> None:
        self._scores = scores.detach()
        self._levels, self._valid = levels.masked_fill(~valid, 0).long(), valid
        self._num_levels = num_levels
        positives_first = (self._levels == 0).to(torch.uint8).sort(dim=1, stable=True).indices
        self._targets = positives_first[:, :num_targets]
        self._target_scores = self._scores.gather(1, self._targets)
        self.target_levels = self._levels.gather(1, self._targets)

    def ahead(self, weights: Tensor) -> Tensor:
        """Counts."""
        return self._sums(weights, lambda differences: (differences >= 0).to(differences.dtype))

    def steps(self, weights: Tensor, step: Step) -> tuple[Tensor, SavedPairs]:
        """Sums over steps, and what the gradient needs."""
        return self._sums(weights, step.value), SavedPairs(weights, step)

    def backward(self, upstream: Tensor, context: SavedPairs) -> Tensor:
        """The gradient with respect to the scores."""
        weights = self._by_candidate(context.weights)
        gradient, of_targets = torch.zeros_like(self._scores), torch.empty_like(upstream)
        for rows, targets in self._parts():
            slopes = context.step.slope(self._differences(rows, targets))
            part_upstream = upstream[rows, targets]
            of_targets[rows, targets] = self._of_levels(slopes, weights, rows, targets).mul_(part_upstream)
            by_level = part_upstream.new_zeros(len(slopes), self._num_levels + 1, slopes.shape[1])
            by_level.scatter_(1, self.target_levels[rows, None, targets], part_upstream[:, None])
            gradient[rows] += (by_level @ slopes).mul_(weights[rows]).sum(dim=1)
        return gradient.scatter_add_(1, self._targets, of_targets.neg_())

    def _sums(self, weights: Tensor, step: Callable[[Tensor], Tensor]) -> Tensor:
        weights, sums = self._by_candidate(weights), torch.empty_like(self._target_scores)
        for rows, targets in self._parts():
            sums[rows, targets] = self._of_levels(step(self._differences(rows, targets)), weights, rows, targets)
        return sums

    def _parts(self) -> list[tuple[slice, slice]]:
        """Some queries with all targets, or one query with some."""
        (num_rows, num_items), num_targets = self._scores.shape, self._targets.shape[1]
        at_once = PAIRS_AT_ONCE.get(self._scores.device.type, PAIRS_AT_ONCE["cuda"])
        targets = max(1, min(num_targets, at_once // num_items))
        rows = max(1, at_once // (num_items * targets))
        return [
            (slice(row, row + rows), slice(target, target + targets))
            for row in range(0, num_rows, rows)
            for target in range(0, num_targets, targets)
        ]

    def _differences(self, rows: slice, targets: slice) -> Tensor:
        """(rows, targets, M) s_j − s_k."""
        return self._scores[rows, None] - self._target_scores[rows, targets, None]

    def _by_candidate(self, weights: Tensor) -> Tensor:
        """(B, L+1, M) the weight of each candidate for the targets of each level: none for level 0."""
        weights = weights.expand(len(self._levels), -1, -1).to(self._scores.dtype)
        weights = weights.gather(2, self._levels[:, None].expand(-1, self._num_levels + 1, -1)) * self._valid[:, None]
        weights[:, 0] = 0
        return weights

    def _of_levels(self, values: Tensor, weights: Tensor, rows: slice, targets: slice) -> Tensor:
        """(rows, targets) the values of the pairs (rows, targets, M), summed by the weights of each target's level."""
        sums = values @ weights[rows].transpose(1, 2)
        return sums.gather(2, self.target_levels[rows, targets, None]).squeeze(2)
