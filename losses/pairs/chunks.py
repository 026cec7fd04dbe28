"""Losses of many queries without any matrix of all their scores: scores, gradient and products, some queries at a time.

Only the gradient with respect to the vectors is kept of a batch: (B, d) and (M, d).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..kernels.choice import kernel_for
from ..kernels.gradients import first_derivative
from .blocks import LossPerQuery, Objective, empty_losses, loss_and_gradient
from .threads import ranges, sharing

if TYPE_CHECKING:
    from .pairs import VectorPairs

SCORES_KEPT = {"cpu": 1 << 20, "cuda": 1 << 26}  # whose gradients wait for the products with the queries


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
    values, counted = empty_losses(queries)
    gradients: dict[int, Tensor] = {}

    def evaluate(rows: slice) -> None:
        losses, gradient = loss_and_gradient(objective, pairs.compared(rows), rows, with_gradient=any(wanted))
        values[rows], counted[rows] = losses
        if gradient is None:
            return
        gradients[rows.start] = gradient if weights is None else gradient.mul_(weights[rows, None])
        if by_queries is not None:
            with torch.autocast(queries.device.type, enabled=False):
                torch.mm(gradient, candidates, out=by_queries[rows])

    def add_by_candidates(columns: slice) -> None:
        if by_candidates is None:
            return
        with torch.autocast(queries.device.type, enabled=False):
            for first in sorted(gradients):
                gradient = gradients[first]
                by_candidates[columns].addmm_(gradient[:, columns].T, queries[first : first + len(gradient)])

    rows_at_once, threads = kernel_for(pairs.backend, candidates.device).plan(len(candidates), candidates.device)
    at_once = SCORES_KEPT.get(candidates.device.type, SCORES_KEPT["cuda"])
    kept_at_once = max(at_once // len(candidates), rows_at_once * threads)
    with sharing(threads) as for_each:
        for chunk in ranges(0, len(queries), kept_at_once):
            gradients.clear()
            for_each(evaluate, ranges(chunk.start, chunk.stop, rows_at_once))
            for_each(add_by_candidates, ranges(0, len(candidates), math.ceil(len(candidates) / threads)))
    return values, counted, by_queries, by_candidates
