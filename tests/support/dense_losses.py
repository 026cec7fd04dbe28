"""The rank losses as the equations read: every (query, k, j) at once, in float64, differentiated by autograd."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def dense_losses(
    name: str,
    scores: Tensor,
    levels: Tensor,
    table: Tensor,
    valid: Tensor,
    *,
    tau: float = 0.01,
    rho: float = 100.0,
    delta: float | None = None,
    start: float = 0.5,
    offset: float | None = None,
) -> Tensor:
    """(B,) losses of (B, M) float64 scores, 0 for a query without a positive."""
    family, objective = name.split("_")
    if objective == "ap":
        levels = (levels == table.shape[1] - 1).long()
        table = torch.tensor([[0.0, 1.0]], dtype=torch.float64).expand(len(levels), 2)
    levels, table = levels.long() * valid, table.double()
    relevance = table.gather(1, levels) * valid
    differences = scores[:, None] - scores[:, :, None]
    pairs = valid[:, None] & ~torch.eye(scores.shape[1], dtype=torch.bool)
    sigmoid = torch.sigmoid(differences / tau)
    lower = levels[:, None] < levels[:, :, None]
    if family == "smooth":
        equal = unequal = sigmoid
    else:
        delta = tau * math.log(99) if delta is None else delta
        offset = 1 / (1 + math.exp(-delta / tau)) + start if offset is None else offset
        equal = (differences >= 0).double()
        near_excess = sigmoid + start * equal
        unequal = torch.where(differences > delta, rho * (differences - delta) + offset, near_excess)
    rank = 1 + (torch.where(lower, unequal, equal) * pairs).sum(dim=2)
    if objective == "ndcg":
        ranks = torch.arange(1, scores.shape[1] + 1, dtype=torch.float64)
        best = (relevance.sort(dim=1, descending=True).values / torch.log2(1 + ranks)).sum(dim=1)
        reached = (relevance / torch.log2(1 + rank)).sum(dim=1)
    else:
        best = relevance.sum(dim=1)
        shared_relevance = torch.minimum(relevance[:, None], relevance[:, :, None])
        reached = ((relevance + (shared_relevance * equal * pairs).sum(dim=2)) / rank).sum(dim=1)
    return torch.where(best > 0, 1 - reached / torch.where(best > 0, best, 1), 0)
