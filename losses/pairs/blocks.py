"""Losses of many queries, a block of queries at a time: what a block needs is freed before the next.

What is kept of a batch is one (B, M) gradient, computed together with the values, not the graph of every operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from ..kernels.gradients import first_derivative
from .threads import ranges, sharing

if TYPE_CHECKING:
    from .pairs import ScoredPairs


class LossPerQuery(NamedTuple):
    """One loss a query, and which queries have one."""

    values: Tensor
    """(B,) losses; 0 where there is none."""
    counted: Tensor
    """(B,) booleans; False for a query without a positive."""

    def mean(self) -> Tensor:
        """Mean over the queries that have a loss; 0, still with a graph, when none has."""
        return self.values.sum() / self.counted.sum().clamp(min=1)


Objective: TypeAlias = "Callable[[ScoredPairs, slice], LossPerQuery]"


def in_blocks(objective: Objective, pairs: ScoredPairs) -> LossPerQuery:
    """Evaluate an objective block by block; differentiable in the scores, once (no double backward).

    Args:
        objective: takes the pairs of some queries, and which ones they are.
        pairs: of all queries.
    """
    anchor = pairs.scores[:1, :1].clone()  # tied to the scores, without keeping them
    return LossPerQuery(*_InBlocks.apply(pairs.scores, anchor, pairs, objective))


class _InBlocks(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, anchor: Tensor, pairs: ScoredPairs, objective: Objective
    ) -> tuple[Tensor, Tensor]:
        with_gradient = ctx.needs_input_grad[0]
        gradient = torch.empty_like(scores) if with_gradient else None
        values, counted = empty_losses(scores)

        def evaluate(rows: slice) -> None:
            losses, of_block = loss_and_gradient(objective, pairs.of_queries(rows), rows, with_gradient=with_gradient)
            values[rows], counted[rows] = losses
            if gradient is not None and of_block is not None:
                gradient[rows] = of_block

        rows_at_once, threads = pairs.kernel_type().plan(scores.shape[1], scores.device)
        with sharing(threads) as for_each:
            for_each(evaluate, ranges(0, len(scores), rows_at_once))
        ctx.mark_non_differentiable(counted)
        if gradient is not None:
            ctx.save_for_backward(gradient, anchor)
        return values, counted

    @staticmethod
    def backward(ctx: Any, upstream: Tensor, _: None) -> tuple[Tensor, None, None, None]:
        gradient, anchor = ctx.saved_tensors
        return first_derivative(gradient * upstream[:, None], anchor), None, None, None


def empty_losses(queries: Tensor) -> LossPerQuery:
    """Room for one loss a query."""
    return LossPerQuery(queries.new_empty(len(queries)), queries.new_empty(len(queries), dtype=torch.bool))


def loss_and_gradient(
    objective: Objective, pairs: ScoredPairs, rows: slice, *, with_gradient: bool
) -> tuple[LossPerQuery, Tensor | None]:
    """The loss of each query, without a graph, and the gradient of each by its own scores.

    Args:
        objective: takes the pairs of some queries, and which ones they are.
        pairs: of these queries.
        rows: which ones they are.
        with_gradient: whether there is to be one.
    """
    scores = pairs.scores.detach().requires_grad_(with_gradient)
    with torch.set_grad_enabled(with_gradient):
        values, counted = objective(pairs._replace(scores=scores), rows)
    losses = LossPerQuery(values.detach(), counted)
    if not with_gradient:
        return losses, None
    if not values.requires_grad:  # no row has a target
        return losses, torch.zeros_like(scores)
    return losses, torch.autograd.grad(values, scores, torch.ones_like(values))[0]
