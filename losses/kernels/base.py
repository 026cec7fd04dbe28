"""The interface of the kernels: types shared by the implementations and their users."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor

from hiertree import level_counts
from hiertree import levels as shared_levels

Backend: TypeAlias = Literal["auto", "torch", "numba", "triton"]


class StepParameters(NamedTuple):
    """The parameters of a step function: σ(t/τ) + start·[t ≥ 0] for t ≤ margin, rho·(t − margin) + offset beyond."""

    tau: float
    rho: float
    margin: float  # infinite for a sigmoid alone
    start: float
    offset: float

    def value(self, differences: Tensor) -> Tensor:
        """σ(min(t, δ)/τ) + start·[t ≥ 0] + ρ·max(t − δ, 0) + (offset − start − σ(δ/τ))·[t > δ]; 0 at −∞."""
        value = differences.clamp(max=self.margin).mul_(1 / self.tau).sigmoid_()
        if self.margin == math.inf:
            return value
        value.add_((differences - self.margin).clamp_(min=0), alpha=self.rho)
        value.add_(differences.clone().ge_(0), alpha=self.start)  # in place: a boolean result is far slower on a CPU
        at_margin = logistic(self.margin / self.tau)
        if self.offset != at_margin + self.start:  # not continuous at δ
            value.add_(differences.clone().gt_(self.margin), alpha=self.offset - self.start - at_margin)
        return value

    def slope(self, differences: Tensor) -> Tensor:
        """σ·(1 − σ)/τ for t ≤ δ, ρ beyond; the jumps have none. 0 at −∞."""
        sigmoid = differences.clamp(max=self.margin).mul_(1 / self.tau).sigmoid_()
        slope = sigmoid.addcmul_(sigmoid, sigmoid, value=-1.0).mul_(1 / self.tau)
        if self.margin == math.inf:
            return slope
        at_margin = logistic(self.margin / self.tau)
        beyond = differences.clone().gt_(self.margin)
        return slope.add_(beyond, alpha=self.rho - at_margin * (1 - at_margin) / self.tau)


def logistic(t: float) -> float:
    """σ(t)."""
    return 1 / (1 + math.exp(-t))


class BlockPlan(NamedTuple):
    """How a kernel divides the queries of a batch."""

    rows: int  # queries of a block
    threads: int  # blocks computed at the same time


class PairKernel(Protocol):
    """Counts and sums over the valid pairs of some queries.

    Levels and counts are those of torch, on any device, unless a kernel has its own.
    A sum has a value for each target k: out(q, k) = Σ step(s_qj − s_qk) over candidates j ≠ k. Its gradient is, for
    upstream gradients g, Σ_k g_k·slope(s_j − s_k) for j as a candidate, minus the same over j for k as a target. Ranks
    at an item that is no positive are finite and have no meaning.
    """

    @staticmethod
    def plan(num_candidates: int, device: torch.device) -> BlockPlan:
        """The blocks for queries with a given number of candidates."""

    @staticmethod
    def levels(query_paths: Tensor, candidate_paths: Tensor) -> Tensor:
        """(B, M) uint8, the leading columns that paths (B, L) and (M, L) int64 share."""
        shared: Tensor = shared_levels(query_paths, candidate_paths)
        return shared

    @staticmethod
    def counts(levels: Tensor, valid: Tensor, num_levels: int) -> Tensor:
        """(B, L+1) int64, valid candidates at each level, for what ``__init__`` takes."""
        counts: Tensor = level_counts(levels, num_levels, valid=valid)
        return counts

    def __init__(self, scores: Tensor, levels: Tensor, valid: Tensor, num_levels: int) -> None:
        """Read (B, M) float scores, (B, M) uint8 levels 0 … num_levels and (B, M) booleans."""

    def not_below(self) -> Tensor:
        """(B, M) rank⁺(k): candidates of its level or finer with s_j ≥ s_k, itself included; ≥ 1 everywhere."""

    def shared_relevance(self, table: Tensor) -> Tensor:
        """(B, M) H-rank⁺(k): Σ min(rel_j, rel_k) over the positives with s_j ≥ s_k; 0 where there is no positive.

        The table (B, L+1) is 0 at level 0.
        """

    def rank(self, step: StepParameters) -> tuple[Tensor, Any]:
        """(B, M) rank⁺(k) + Σ step(s_j − s_k) over candidates of lower levels, ≥ 1 everywhere, and what to save."""

    def forward(self, candidates: Tensor, targets: Tensor, step: StepParameters) -> tuple[Tensor, Any]:
        """(B, M) sums of step(s_j − s_k) over candidates j ≠ k, 0 where there is no target, and what to save."""

    def backward(self, upstream: Tensor, saved: Any) -> Tensor:
        """(B, M) gradient with respect to the scores, for the gradient with respect to a rank or a sum."""
