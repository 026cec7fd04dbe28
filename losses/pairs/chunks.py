"""Losses of many queries without any matrix of all their scores: scores, gradient and products, some queries at a time.

Only the gradient with respect to the vectors is kept of a batch: (B, d) and (M, d).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..kernels.gradients import first_derivative
from .blocks import LossPerQuery, Objective, evaluate

if TYPE_CHECKING:
    from .pairs import VectorPairs

SCORES_AT_ONCE = {"cpu": 1 << 20, "cuda": 1 << 26}  # large enough for products at full speed


def in_chunks(objective: Objective, pairs: VectorPairs) -> LossPerQuery:
    """Evaluate an objective chunk by chunk; differentiable in the vectors, once (no double backward).

    Args:
        objective: takes the pairs of some queries, and which ones they are.
        pairs: queries and candidates.
    """
    anchor = pairs.queries[:1, :1] + pairs.candidates[:1, :1]
    return LossPerQuery(*_InChunks.apply(pairs.queries, pairs.candidates, anchor, pairs, objective))


class _InChunks(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, queries: Tensor, candidates: Tensor, anchor: Tensor, pairs: VectorPairs, objective: Objective
    ) -> tuple[Tensor, Tensor]:
        ctx.pairs = pairs._replace(queries=queries.detach(), candidates=candidates.detach())
        ctx.objective = objective
        values, counted, *gradients = _contracted(objective, ctx.pairs, ctx.needs_input_grad[:2])
        ctx.mark_non_differentiable(counted)
        ctx.save_for_backward(anchor, *gradients)
        return values, counted

    @staticmethod
    def backward(ctx: Any, upstream: Tensor, _: None) -> tuple[Tensor | None, ...]:
        anchor, *gradients = ctx.saved_tensors
        weight = upstream[:1]
        if upstream.stride() != (0,) and bool((upstream != weight).any()):  # not a mean
            gradients = list(_contracted(ctx.objective, ctx.pairs, ctx.needs_input_grad[:2], upstream)[2:])
            weight = torch.ones_like(weight)
        by_vectors = [None if each is None else first_derivative(each * weight, anchor) for each in gradients]
        return (*by_vectors, None, None, None)


def _contracted(
    objective: Objective, pairs: VectorPairs, wanted: tuple[bool, bool], weights: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Values, which of them count, and the gradient of their weighted sum by the queries and by the candidates."""
    dtype = torch.promote_types(pairs.queries.dtype, pairs.candidates.dtype)
    queries, candidates = pairs.queries.to(dtype), pairs.candidates.to(dtype)
    by_queries = torch.empty_like(queries) if wanted[0] else None
    by_candidates = torch.zeros_like(candidates) if wanted[1] else None
    values, counted = [], []
    for rows in _chunks(pairs):
        found, counts, gradient = evaluate(objective, pairs.compared(rows), with_gradient=any(wanted), first=rows.start)
        values.append(found)
        counted.append(counts)
        if gradient is None:
            continue
        if weights is not None:
            gradient *= weights[rows, None]
        with torch.autocast(queries.device.type, enabled=False):
            if by_queries is not None:
                torch.mm(gradient, candidates, out=by_queries[rows])
            if by_candidates is not None:
                by_candidates.addmm_(gradient.T, queries[rows])
    return torch.cat(values), torch.cat(counted), by_queries, by_candidates


def _chunks(pairs: VectorPairs) -> Iterator[slice]:
    at_once = SCORES_AT_ONCE.get(pairs.queries.device.type, SCORES_AT_ONCE["cuda"])
    rows, number = max(1, at_once // len(pairs.candidates)), len(pairs.queries)
    for first in range(0, number, rows):
        yield slice(first, min(first + rows, number))
