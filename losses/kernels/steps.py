"""Step functions of score differences, and their sums over pairs: what every kernel gives, and the plainest of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

PAIRS_AT_ONCE = {"cpu": 1 << 17, "cuda": 1 << 26}  # what a CPU's cache holds, what keeps a GPU busy


class Step(Protocol):
    """A function of score differences."""

    def value(self, differences: Tensor) -> Tensor:
        """Its values."""

    def slope(self, differences: Tensor) -> Tensor:
        """Its derivative."""


class StepParameters(NamedTuple):
    """The parameters of a step function: σ(t/τ) + start·[t ≥ 0] for t ≤ margin, rho·(t − margin) + offset beyond.

    Kernels evaluate it without its jump at 0, which is counted.
    """

    tau: float
    rho: float
    margin: float  # infinite for a sigmoid alone
    start: float
    offset: float

    def value(self, differences: Tensor) -> Tensor:
        """σ(min(t, δ)/τ) + ρ·max(t − δ, 0) + (offset − start − σ(δ/τ))·[t > δ]."""
        value = differences.clamp(max=self.margin).mul_(1 / self.tau).sigmoid_()
        if self.margin == math.inf:
            return value
        value.add_((differences - self.margin).clamp_(min=0), alpha=self.rho)
        jump = self.offset - self.start - logistic(self.margin / self.tau)
        return value.add_(differences > self.margin, alpha=jump) if jump else value

    def slope(self, differences: Tensor) -> Tensor:
        """σ·(1 − σ)/τ for t ≤ δ, ρ beyond; the jumps have none."""
        sigmoid = differences.clamp(max=self.margin).mul_(1 / self.tau).sigmoid_()
        slope = sigmoid.addcmul_(sigmoid, sigmoid, value=-1.0).mul_(1 / self.tau)
        return slope if self.margin == math.inf else slope.masked_fill_(differences > self.margin, self.rho)


def logistic(t: float) -> float:
    """σ(t)."""
    return 1 / (1 + math.exp(-t))


class PairKernel(Protocol):
    """Sums over the valid candidates j of a query for each of its targets k, the valid items of level 1 or finer.

    Weights (1 or B, L+1, L+1) depend on the query, the level of k and the level of j. Results (B, T) hold the targets
    of each query, in any order, and 0 where it has fewer. A step that has a margin takes weights that are 0 unless j is
    of a lower level.
    """

    target_levels: Tensor
    """(B, T) int64, 0 where a query has fewer targets."""

    def __init__(
        self, scores: Tensor, levels: Tensor, valid: Tensor, num_levels: int, span: float, num_targets: int
    ) -> None:
        """Read (B, M) scores, those of a query within ``span`` of each other, uint8 levels and booleans."""

    def ahead(self, weights: Tensor) -> Tensor:
        """Σ_j weight·[s_j ≥ s_k], j = k included."""

    def steps(self, weights: Tensor, step: StepParameters) -> tuple[Tensor, Any]:
        """Σ_j weight·step(s_j − s_k), without its jump at 0, j = k included; and what the gradient needs."""

    def backward(self, upstream: Tensor, context: Any) -> Tensor:
        """(B, M) the gradient with respect to the scores, for the gradient (B, T) with respect to these sums."""


class SavedPairs(NamedTuple):
    """Saved for the backward pass of a sum over steps."""

    weights: Tensor
    step: Step


class AllPairs(PairKernel):
    """Every pair, a bounded number at a time: for few positives, and for scores that differ by many thousand τ."""

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
        for rows, targets in self._blocks():
            slopes = context.step.slope(self._differences(rows, targets))
            block_upstream = upstream[rows, targets]
            of_targets[rows, targets] = self._of_levels(slopes, weights, rows, targets).mul_(block_upstream)
            by_level = block_upstream.new_zeros(len(slopes), self._num_levels + 1, slopes.shape[1])
            by_level.scatter_(1, self.target_levels[rows, None, targets], block_upstream[:, None])
            gradient[rows] += (by_level @ slopes).mul_(weights[rows]).sum(dim=1)
        return gradient.scatter_add_(1, self._targets, of_targets.neg_())

    def _sums(self, weights: Tensor, step: Callable[[Tensor], Tensor]) -> Tensor:
        weights, sums = self._by_candidate(weights), torch.empty_like(self._target_scores)
        for rows, targets in self._blocks():
            sums[rows, targets] = self._of_levels(step(self._differences(rows, targets)), weights, rows, targets)
        return sums

    def _blocks(self) -> list[tuple[slice, slice]]:
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
