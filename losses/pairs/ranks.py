"""Ranks of the positives, differentiable in the scores: the Sup and the Smooth family.

For a positive k of a query, with step functions H, H⁻ and σ:

* rank⁺(k) = 1 + Σ_{j ≠ k, level_j ≥ level_k} H(s_j − s_k), without gradient;
* rank⁻(k) = Σ_{level_j < level_k} H⁻(s_j − s_k), which carries the gradient; rank = rank⁺ + rank⁻;
* H-rank⁺(k) = rel(k) + Σ_{j ≠ k, j ∈ Ω⁺} min(rel(k), rel(j))·H(s_j − s_k), without gradient.

The Smooth family has σ in every place, and its gradient flows through all of them.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from ..kernels.sums import step_sums, sup_ranks
from .pairs import ScoredPairs
from .steps import Sigmoid, SupStep


class SoftRanks(Protocol):
    """Ranks of one batch."""

    def rank(self) -> Tensor:
        """(B, M) rank of each positive; finite and ≥ 1, without meaning, for other items."""

    def hierarchical_rank(self, table: Tensor) -> Tensor:
        """(B, M) H-rank⁺ of each positive, for the relevance (B, L+1) of levels; 0 for other items."""


def soft_ranks(pairs: ScoredPairs, step: SupStep | Sigmoid) -> SoftRanks:
    """The ranks that belong to a step function."""
    return SupRanks(pairs, step) if isinstance(step, SupStep) else SmoothRanks(pairs, step)


class SupRanks:
    """Exact counts of items at least as relevant; an upper bound, with a gradient, for less relevant ones."""

    def __init__(self, pairs: ScoredPairs, step: SupStep) -> None:
        self._pairs, self._step, self._kernel = pairs, step, pairs.kernel()

    def rank(self) -> Tensor:
        """rank⁺ + rank⁻."""
        return sup_ranks(self._pairs.scores, self._step, self._kernel)

    def hierarchical_rank(self, table: Tensor) -> Tensor:
        """H-rank⁺; the kernel's sum includes the term of k itself."""
        return self._kernel.shared_relevance(table)


class SmoothRanks:
    """The sigmoid everywhere."""

    def __init__(self, pairs: ScoredPairs, step: Sigmoid) -> None:
        self._pairs, self._step, self._kernel = pairs, step, pairs.kernel()
        self._positives = pairs.valid & (pairs.levels > 0)

    def rank(self) -> Tensor:
        """1 + Σ_{j ≠ k} σ((s_j − s_k)/τ)."""
        return 1 + step_sums(self._pairs.scores, self._pairs.valid, self._positives, self._step, self._kernel)

    def hierarchical_rank(self, table: Tensor) -> Tensor:
        """rel(k) + Σ_{j ≠ k} min(rel(k), rel(j))·σ((s_j − s_k)/τ).

        Relevance has one value a level, so min(a, b) is a sum of layers: of each rise of the sorted table, where both
        a and b reach its top.
        """
        rank = relevance = self._pairs.by_item(table)
        heights = table.sort(dim=1).values
        for layer in range(1, heights.shape[1]):
            top = heights[:, layer, None]
            rise = top - heights[:, layer - 1, None]
            members = self._positives & (relevance >= top) & (rise > 0)
            if members.any():
                rank = rank + rise * step_sums(self._pairs.scores, members, members, self._step, self._kernel)
        return rank
