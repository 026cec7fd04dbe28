"""Every pair, a bounded number at a time: for few items, and for scores that differ by many thousand τ."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from .base import PairKernel, StepParameters

PAIRS_AT_ONCE = {"cpu": 1 << 17, "cuda": 1 << 26}  # what a CPU's cache holds, what keeps a GPU busy


class SavedPairs(NamedTuple):
    """Saved for the backward pass of a sum over steps."""

    weights: Tensor
    step: StepParameters


class AllPairs(PairKernel):
    """See :class:`hiertree.losses.kernels.base.PairKernel`."""

    def __init__(self, scores: Tensor, levels: Tensor, valid: Tensor, num_levels: int, span: float) -> None:  # noqa: ARG002
        self._scores = scores.detach().masked_fill(~valid, 0)
        self._levels, self._valid = levels.masked_fill(~valid, 0).long(), valid
        self._num_levels = num_levels

    def ahead(self, weights: Tensor) -> Tensor:
        """Counts."""
        return self._sums(weights, lambda differences: (differences >= 0).to(differences.dtype))

    def steps(self, weights: Tensor, step: StepParameters) -> tuple[Tensor, SavedPairs]:
        """Sums over steps, and what the gradient needs."""
        return self._sums(weights, step.value), SavedPairs(weights, step)

    def backward(self, upstream: Tensor, context: SavedPairs) -> Tensor:
        """The gradient with respect to the scores."""
        weights = self._by_candidate(context.weights)
        gradient = torch.zeros_like(self._scores)
        for rows, targets in self._parts():
            slopes = context.step.slope(self._differences(rows, targets)).mul_(self._of_pairs(weights, rows, targets))
            slopes *= upstream[rows, targets, None]
            gradient[rows] += slopes.sum(dim=1)
            gradient[rows, targets] -= slopes.sum(dim=2)
        return gradient

    def _sums(self, weights: Tensor, step: Callable[[Tensor], Tensor]) -> Tensor:
        weights, sums = self._by_candidate(weights), torch.empty_like(self._scores)
        for rows, targets in self._parts():
            values = step(self._differences(rows, targets)).mul_(self._of_pairs(weights, rows, targets))
            torch.sum(values, dim=2, out=sums[rows, targets])
        return sums

    def _parts(self) -> list[tuple[slice, slice]]:
        """Some queries with all targets, or one query with some."""
        num_rows, num_items = self._scores.shape
        at_once = PAIRS_AT_ONCE.get(self._scores.device.type, PAIRS_AT_ONCE["cuda"])
        targets = min(num_items, max(1, at_once // num_items))
        rows = max(1, at_once // (num_items * targets))
        return [
            (slice(row, row + rows), slice(target, target + targets))
            for row in range(0, num_rows, rows)
            for target in range(0, num_items, targets)
        ]

    def _differences(self, rows: slice, targets: slice) -> Tensor:
        """(rows, targets, M) s_j − s_k."""
        return self._scores[rows, None] - self._scores[rows, targets, None]

    def _by_candidate(self, weights: Tensor) -> Tensor:
        """(B, L+1, M) the weight of each candidate for the targets of each level: none for level 0."""
        weights = weights.expand(len(self._levels), -1, -1).to(self._scores.dtype)
        weights = weights.gather(2, self._levels[:, None].expand(-1, self._num_levels + 1, -1)) * self._valid[:, None]
        weights[:, 0] = 0
        return weights

    def _of_pairs(self, weights: Tensor, rows: slice, targets: slice) -> Tensor:
        """(rows, targets, M) the weight of each pair."""
        levels = self._levels[rows, targets]
        return weights[rows][torch.arange(len(levels), device=levels.device)[:, None], levels]
