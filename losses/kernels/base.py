"""What evaluates pairs of queries and candidates takes and gives, and the step functions of score differences."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

from torch import Tensor


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
