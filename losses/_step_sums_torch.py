"""Step sums in plain torch, on any device: rows of (query, target), a bounded number of pairs at a time."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from hiertree.losses._steps import Step

PAIRS_AT_ONCE = 1 << 18  # a few megabytes of temporaries: they stay in the cache of a CPU, and B³ is never seen


def forward(scores: Tensor, candidates: Tensor, targets: Tensor, weights: Tensor | None, step: Step) -> Tensor:
    """(B, M) sums; see :func:`hiertree.losses._step_sums.step_sums`."""
    sums = torch.zeros_like(scores)
    for query, target, differences in _rows(scores, candidates, targets):
        values = step.value(differences)
        if weights is not None:
            values.mul_(_pair_weights(weights, query, target))
        sums[query, target] = values.sum(dim=1)
    return sums


def backward(
    upstream: Tensor, scores: Tensor, candidates: Tensor, targets: Tensor, weights: Tensor | None, step: Step
) -> Tensor:
    """(B, M) gradient with respect to the scores, for the gradient of the sums.

    On a CPU it is the same bit for bit each time; on CUDA under ``torch.use_deterministic_algorithms(True)``.
    """
    gradient = torch.zeros_like(scores)
    for query, target, differences in _rows(scores, candidates, targets):
        slopes = step.slope(differences).mul_(upstream[query, target][:, None])
        if weights is not None:
            slopes.mul_(_pair_weights(weights, query, target))
        gradient.index_add_(0, query, slopes)
        gradient[query, target] -= slopes.sum(dim=1)  # no (query, target) comes twice
    return gradient


def _rows(scores: Tensor, candidates: Tensor, targets: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Some (query, target) pairs and their (rows, M) differences s_j − s_k; −∞ where j is no candidate or is k."""
    candidate_scores = scores.masked_fill(~candidates, -torch.inf)
    queries, all_targets = targets.nonzero(as_tuple=True)
    rows_at_once = max(1, PAIRS_AT_ONCE // scores.shape[1])
    for query, target in zip(torch.split(queries, rows_at_once), torch.split(all_targets, rows_at_once), strict=True):
        differences = candidate_scores.index_select(0, query).sub_(scores[query, target][:, None])
        differences.scatter_(1, target[:, None], -torch.inf)
        yield query, target, differences


def _pair_weights(weights: Tensor, query: Tensor, target: Tensor) -> Tensor:
    return torch.minimum(weights.index_select(0, query), weights[query, target][:, None])
