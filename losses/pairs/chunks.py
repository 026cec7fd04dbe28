"""Losses of many queries without any matrix of all their scores: scores, gradient and products, some queries at a time.

Only the gradient with respect to the vectors is kept of a batch: (B, d) and (M, d).
"""

from __future__ import annotations

import math
from functools import partial
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
        itself, queries = pairs.candidates is pairs.queries, queries.detach()
        ctx.pairs = pairs._replace(queries=queries, candidates=queries if itself else candidates.detach())
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
    """Values, which of them count, and the gradient of their weighted sum by the queries and by the candidates.

    Where these are the same vectors, the first is the gradient by both, and there is no second.
    """
    dtype = torch.promote_types(pairs.queries.dtype, pairs.candidates.dtype)
    queries, candidates = pairs.queries.to(dtype), pairs.candidates.to(dtype)
    itself = pairs.candidates is pairs.queries
    by_queries = torch.zeros_like(queries) if wanted[0] else None
    by_candidates = by_queries if itself else torch.zeros_like(candidates) if wanted[1] else None
    values, counted = empty_losses(queries)
    rows_at_once, threads = kernel_for(pairs.backend, candidates.device).plan(len(candidates), candidates.device)
    at_once = SCORES_KEPT.get(candidates.device.type, SCORES_KEPT["cuda"])
    kept_at_once = min(max(at_once // len(candidates), rows_at_once * threads), len(queries))
    kept = queries.new_empty(kept_at_once if any(wanted) else 0, len(candidates))
    in_one_product = itself and any(wanted) and kept_at_once == len(queries)

    def gradient_of(rows: slice) -> Tensor:
        first = rows.start % kept_at_once
        return kept[first : first + rows.stop - rows.start]

    def evaluate(rows: slice) -> None:
        losses, gradient = loss_and_gradient(objective, pairs.compared(rows), rows, with_gradient=any(wanted))
        values[rows], counted[rows] = losses
        if gradient is not None:
            gradient_of(rows).copy_(gradient if weights is None else gradient.mul_(weights[rows, None]))
            if not in_one_product:
                add_by_queries(rows)

    def add_by_queries(rows: slice) -> None:
        _add_product(by_queries, rows, gradient_of(rows), candidates)

    def add_by_candidates(columns: slice, chunk: slice) -> None:
        _add_product(by_candidates, columns, gradient_of(chunk)[:, columns].T, queries[chunk])

    with sharing(threads) as for_each:
        for chunk in ranges(0, len(queries), kept_at_once):
            for_each(evaluate, ranges(chunk.start, chunk.stop, rows_at_once))
            if in_one_product:
                kept += kept.T.contiguous()
                for_each(add_by_queries, ranges(0, len(queries), rows_at_once))
            elif by_candidates is not None:
                columns = ranges(0, len(candidates), math.ceil(len(candidates) / threads))
                for_each(partial(add_by_candidates, chunk=chunk), columns)
    return values, counted, by_queries, None if itself else by_candidates


def _add_product(sums: Tensor | None, rows: slice, left: Tensor, right: Tensor) -> None:
    """Add a product to some rows, if they are wanted at all; autocast would compute it in half precision."""
    if sums is not None:
        with torch.autocast(sums.device.type, enabled=False):
            sums[rows].addmm_(left, right)
