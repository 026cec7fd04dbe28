"""Exact, tie-aware counts by sorting: the part of a rank that carries no gradient (H, the Heaviside step)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from hiertree.losses._pairs import Pairs


class ExactCounts:
    """How many candidates of each level have s_j ≥ s_k, for every candidate k (itself included).

    H(0) = 1: whatever ties with k counts as ahead of it. One sort a query, then O(L) a candidate.
    """

    def __init__(self, pairs: Pairs) -> None:
        scores = pairs.scores.detach().masked_fill(~pairs.valid, -torch.inf).contiguous()
        ascending, order = scores.sort(dim=1)
        self._dtype, self._num_levels = scores.dtype, pairs.num_levels
        self._first_not_below = torch.searchsorted(ascending, scores)
        self._sorted_levels = pairs.levels.masked_fill(~pairs.valid, 0).gather(1, order)

    def weighted(self, weight: Callable[[int], Tensor]) -> Tensor:
        """Σ_{l ≥ 1} weight(l)·count_l, with weight(l) of shape (B, M); meaningless where k is not valid."""
        total = torch.zeros_like(self._sorted_levels, dtype=self._dtype)
        for level in range(1, self._num_levels + 1):
            total += weight(level) * self._count(level)
        return total

    def _count(self, level: int) -> Tensor:
        members = self._sorted_levels == level
        up_to = members.cumsum(dim=1, dtype=torch.int32)
        before = up_to - members.int()
        return up_to[:, -1:] - before.gather(1, self._first_not_below)
