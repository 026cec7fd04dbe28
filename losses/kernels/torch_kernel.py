"""Pairs in plain torch, on any device, each one evaluated: the reference of the other kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from .base import BlockPlan, PairKernel, StepParameters

PAIRS_AT_ONCE = 1 << 18  # a few megabytes of temporaries: they stay in the cache of a CPU; no tensor has B³ numbers
SCORES_AT_ONCE = {"cpu": 1 << 17, "cuda": 1 << 24}  # of a batch: what a CPU's cache holds, what keeps a GPU busy


class SavedPairs(NamedTuple):
    """Saved for the backward pass of a step sum."""

    candidates: Tensor
    targets: Tensor
    step: StepParameters


class TorchKernel(PairKernel):
    """A :class:`~hiertree.losses.kernels.base.PairKernel` over rows of (query, target), a bounded number at a time.

    The gradient is the same bit for bit each time; on CUDA under ``torch.use_deterministic_algorithms(True)``.
    """

    @staticmethod
    def plan(num_candidates: int, device: torch.device) -> BlockPlan:
        """Large blocks in turn: torch's own operations use all threads, or a GPU."""
        at_once = SCORES_AT_ONCE.get(device.type, SCORES_AT_ONCE["cuda"])
        return BlockPlan(max(1, at_once // num_candidates), threads=1)

    def __init__(self, scores: Tensor, levels: Tensor, valid: Tensor, num_levels: int) -> None:
        self._scores, self._valid, self._num_levels = scores.detach(), valid, num_levels
        self._levels = levels.masked_fill(~valid, 0)
        masked = self._scores.masked_fill(~valid, -torch.inf).contiguous()
        ascending, order = masked.sort(dim=1)
        self._first_not_below = torch.searchsorted(ascending, masked)
        self._sorted_levels = self._levels.gather(1, order)

    def not_below(self) -> Tensor:
        """rank⁺."""
        return self._weighted(lambda level: self._levels <= level).clamp(min=1)

    def shared_relevance(self, table: Tensor) -> Tensor:
        """H-rank⁺."""
        own = table.gather(1, self._levels.long())
        return self._weighted(lambda level: torch.minimum(own, table[:, level, None]))

    def rank(self, step: StepParameters) -> tuple[Tensor, list[SavedPairs]]:
        """rank⁺ plus the step sums over lower levels, level by level, and the state for the backward pass."""
        rank, saved = self.not_below(), list[SavedPairs]()
        for level in range(1, self._num_levels + 1):
            targets = self._valid & (self._levels == level)
            if targets.any():
                sums, of_level = self.forward(self._valid & (self._levels < level), targets, step)
                rank, saved = rank + sums, [*of_level, *saved]
        return rank, saved

    def forward(self, candidates: Tensor, targets: Tensor, step: StepParameters) -> tuple[Tensor, list[SavedPairs]]:
        """Step sums, and the state for the backward pass."""
        saved = SavedPairs(candidates, targets, step)
        sums = torch.zeros_like(self._scores)
        for query, target, differences in self._differences(saved):
            sums[query, target] = step.value(differences).sum(dim=1)
        return sums, [saved]

    def backward(self, upstream: Tensor, saved: list[SavedPairs]) -> Tensor:
        """Gradient with respect to the scores."""
        gradients = (self._gradient(upstream, each) for each in saved)
        gradient = next(gradients, torch.zeros_like(self._scores))
        for other in gradients:
            gradient += other
        return gradient

    def _gradient(self, upstream: Tensor, saved: SavedPairs) -> Tensor:
        gradient = torch.zeros_like(self._scores)
        for query, target, differences in self._differences(saved):
            slopes = saved.step.slope(differences).mul_(upstream[query, target][:, None])
            gradient.index_add_(0, query, slopes)
            gradient[query, target] -= slopes.sum(dim=1)  # no (query, target) occurs twice
        return gradient

    def _weighted(self, weight: Callable[[int], Tensor]) -> Tensor:
        """Σ_{l ≥ 1} weight(l)·(candidates of level l with s_j ≥ s_k); one sort a query, then O(L) a candidate."""
        total = torch.zeros_like(self._scores)
        for level in range(1, self._num_levels + 1):
            members = self._sorted_levels == level
            up_to = members.cumsum(dim=1, dtype=torch.int32)
            before = up_to - members.int()
            total += weight(level) * (up_to[:, -1:] - before.gather(1, self._first_not_below))
        return total

    def _differences(self, saved: SavedPairs) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Some (query, target) pairs and their (rows, M) differences s_j − s_k; −∞ where j is no candidate or is k."""
        candidate_scores = self._scores.masked_fill(~saved.candidates, -torch.inf)
        queries, all_targets = saved.targets.nonzero(as_tuple=True)
        rows = max(1, PAIRS_AT_ONCE // self._scores.shape[1])
        for query, target in zip(torch.split(queries, rows), torch.split(all_targets, rows), strict=True):
            differences = candidate_scores.index_select(0, query).sub_(self._scores[query, target][:, None])
            differences.scatter_(1, target[:, None], -torch.inf)
            yield query, target, differences
