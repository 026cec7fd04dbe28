"""Losses of many queries, a block of queries at a time: what a block needs is freed before the next.

What is kept of a batch is one (B, M) gradient, computed together with the values, not the graph of every operation.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from ..kernels.gradients import first_derivative

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
        ctx: Any, _scores: Tensor, anchor: Tensor, pairs: ScoredPairs, objective: Objective
    ) -> tuple[Tensor, Tensor]:
        values, counted, gradient = evaluate(objective, pairs, with_gradient=ctx.needs_input_grad[0])
        ctx.mark_non_differentiable(counted)
        if gradient is not None:
            ctx.save_for_backward(gradient, anchor)
        return values, counted

    @staticmethod
    def backward(ctx: Any, upstream: Tensor, _: None) -> tuple[Tensor, None, None, None]:
        gradient, anchor = ctx.saved_tensors
        return first_derivative(gradient * upstream[:, None], anchor), None, None, None


def evaluate(
    objective: Objective, pairs: ScoredPairs, *, with_gradient: bool, first: int = 0
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Values, which of them count, and the gradient of each by its own scores.

    Args:
        objective: takes the pairs of some queries, and which ones they are.
        pairs: of queries ``first`` and following.
        with_gradient: whether there is to be one.
        first: the number of the first query.
    """
    scores = pairs.scores.detach()
    gradient = torch.empty_like(scores) if with_gradient else None
    values, counted = scores.new_empty(len(scores)), torch.empty(len(scores), dtype=torch.bool, device=scores.device)

    def work(rows: slice) -> None:
        block = scores[rows].detach().requires_grad_(with_gradient)
        with torch.set_grad_enabled(with_gradient):
            all_rows = slice(first + rows.start, first + rows.stop)
            losses = objective(pairs.of_queries(rows)._replace(scores=block), all_rows)
        if gradient is not None:
            gradient[rows] = _gradient(losses.values, block)
        values[rows], counted[rows] = losses.values.detach(), losses.counted

    _for_blocks(work, pairs)
    return values, counted, gradient


def _gradient(values: Tensor, scores: Tensor) -> Tensor:
    """Of each value with respect to its own row; 0 where no row has a target."""
    if not values.requires_grad:
        return torch.zeros_like(scores)
    return torch.autograd.grad(values, scores, torch.ones_like(values))[0]


def _for_blocks(work: Callable[[slice], None], pairs: ScoredPairs) -> None:
    num_queries = len(pairs.scores)
    rows, threads = pairs.kernel_type().plan(pairs.scores)
    blocks = [slice(first, min(first + rows, num_queries)) for first in range(0, num_queries, rows)]
    if threads == 1 or len(blocks) == 1:
        for block in blocks:
            work(block)
        return
    of_caller = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            for _ in pool.map(work, blocks):  # a block has one thread: torch must not share it out further
                pass
    finally:
        torch.set_num_threads(of_caller)  # each thread has its own number, which new ones take from the last one set
