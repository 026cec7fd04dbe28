"""The engine of all losses: some queries at a time, each block on a thread of its own, value and gradient together.

What a block needs is freed before the next. Of a batch only the gradient is kept: with respect to the scores (B, M), or
to the vectors that are compared, (B, d) and (M, d), so that there is never a matrix of all scores.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from hiertree.metrics.engine.blocks import for_each, ranges
from hiertree.options import check_choice

from .one_batch import OneBatch, first_derivative, keep_full_precision

if TYPE_CHECKING:
    from .pairs import ScoredPairs, VectorPairs

SCORES_KEPT = {"cpu": 1 << 20, "cuda": 1 << 26}  # whose gradients wait for the products with the queries
SCORES_AT_ONCE = {"cpu": 1 << 17, "cuda": 1 << 24}  # of a block: for fewer, operations take as long to start
FEW_SCORES = 1 << 17  # for which threads are not worth starting


class LossPerQuery(NamedTuple):
    """The loss of each query, and which queries have one."""

    values: Tensor  # (B,) losses; 0 where there is none
    counted: Tensor  # (B,) booleans; False for a query without a positive

    def mean(self) -> Tensor:
        """Mean over the queries that have a loss; 0, still with a graph, when none has."""
        return self.values.sum() / self.counted.sum().clamp(min=1)

    def reduced(self, reduction: str) -> Tensor:
        """The mean ("mean"), or the loss of each query ("none")."""
        check_choice("reduction", reduction, Reduction)
        return self.mean() if reduction == "mean" else self.values

    @classmethod
    def one_minus(cls, reached: Tensor, best: Tensor) -> LossPerQuery:
        """1 − reached/best, for queries whose best is above 0."""
        is_counted = best > 0
        return cls((1 - reached / torch.where(is_counted, best, 1)) * is_counted, is_counted)


Reduction: TypeAlias = Literal["mean", "none"]
Objective: TypeAlias = Callable[..., LossPerQuery]
"""From the pairs of some queries, and their rows of a tensor where one is given, to their losses."""
Keep: TypeAlias = Callable[[slice, Tensor], Any]
Share: TypeAlias = Callable[[Callable[[slice], Any], Iterable[slice]], None]


def compute_in_blocks(objective: Objective, pairs: ScoredPairs, per_query: Tensor | None = None) -> LossPerQuery:
    """The losses, differentiable in the scores, once (no double backward); the objective also gets rows of a tensor."""
    anchor = pairs.scores[:1, :1].clone()  # tied to the scores, without keeping them
    needs_gradient = _gets_gradient(pairs.scores)
    return LossPerQuery(*_OfScores.apply(anchor, pairs.scores, pairs, objective, per_query, needs_gradient)[:2])


def compute_in_chunks(objective: Objective, pairs: VectorPairs) -> LossPerQuery:
    """The losses, differentiable in the vectors, once (no double backward)."""
    anchor = pairs.queries[:1, :1] + pairs.candidates[:1, :1]
    needs_gradients = _gets_gradient(pairs.queries), _gets_gradient(pairs.candidates)
    return LossPerQuery(
        *_OfVectors.apply(anchor, pairs.queries, pairs.candidates, pairs, objective, needs_gradients, None)[:2]
    )


class _WithGradients(OneBatch):
    """Losses, which of them count, and their gradients; the first argument is the anchor of these."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        _, is_counted, *gradients = output
        ctx.mark_non_differentiable(*(tensor for tensor in (is_counted, *gradients) if tensor is not None))
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(inputs[0], *gradients)


class _OfScores(_WithGradients):
    @staticmethod
    def forward(
        _anchor: Tensor,
        scores: Tensor,
        pairs: ScoredPairs,
        objective: Objective,
        per_query: Tensor | None,
        needs_gradient: bool,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        losses = _empty_losses(scores)
        gradient = torch.empty_like(scores) if needs_gradient else None
        keep = None if gradient is None else gradient.__setitem__
        evaluate = _evaluator(objective, per_query, pairs.select_queries, losses, keep)
        rows_at_once, threads = blocks_of(scores.shape[0], scores.shape[1], scores.device)
        with keep_full_precision(scores.device), sharing(threads) as run_blocks:
            run_blocks(evaluate, ranges(len(scores), rows_at_once))
        return *losses, gradient

    @staticmethod
    def backward(ctx: Any, upstream: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        anchor, gradient = ctx.saved_tensors
        by_scores = None if upstream is None else first_derivative(gradient * upstream[:, None], anchor)
        return None, by_scores, None, None, None, None


class _OfVectors(_WithGradients):
    @staticmethod
    def forward(
        _anchor: Tensor,
        queries: Tensor,
        candidates: Tensor,
        pairs: VectorPairs,
        objective: Objective,
        needs_gradients: tuple[bool, bool],
        weights: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """Losses, which of them count, and the gradient of their weighted sum by the queries and by the candidates.

        Where these are the same vectors, the first is the gradient by both, and there is no second.
        """
        itself = pairs.candidates is pairs.queries
        dtype = torch.promote_types(queries.dtype, candidates.dtype)
        queries, candidates = queries.detach().to(dtype), candidates.detach().to(dtype)
        pairs = pairs._replace(queries=queries, candidates=queries if itself else candidates)
        by_queries = torch.zeros_like(queries) if needs_gradients[0] else None
        by_candidates = by_queries if itself else torch.zeros_like(candidates) if needs_gradients[1] else None
        losses = _empty_losses(queries)
        rows_at_once, threads = blocks_of(len(queries), len(candidates), candidates.device)
        at_once = SCORES_KEPT.get(candidates.device.type, SCORES_KEPT["cuda"])
        kept_at_once = min(max(at_once // len(candidates), rows_at_once * threads), len(queries))
        gradient_buffer = queries.new_empty(kept_at_once if any(needs_gradients) else 0, len(candidates))
        in_one_product = itself and any(needs_gradients) and kept_at_once == len(queries)

        def gradient_of(rows: slice) -> Tensor:
            first = rows.start % kept_at_once
            return gradient_buffer[first : first + rows.stop - rows.start]

        def keep(rows: slice, gradient: Tensor) -> None:
            gradient_of(rows).copy_(gradient if weights is None else gradient.mul_(weights[rows, None]))
            if not in_one_product:
                add_by_queries(rows)

        def add_by_queries(rows: slice) -> None:
            if by_queries is not None:
                by_queries[rows].addmm_(gradient_of(rows), candidates)

        def add_by_candidates(columns: slice, sums: Tensor, chunk: slice) -> None:
            sums[columns].addmm_(gradient_of(chunk)[:, columns].T, queries[chunk])

        evaluate = _evaluator(objective, None, pairs.compared, losses, keep if any(needs_gradients) else None)
        with keep_full_precision(candidates.device), sharing(threads) as run_blocks:
            for chunk in ranges(len(queries), kept_at_once):
                run_blocks(evaluate, ranges(chunk.stop, rows_at_once, start=chunk.start))
                if in_one_product:
                    gradient_buffer += gradient_buffer.T.contiguous()
                    run_blocks(add_by_queries, ranges(len(queries), rows_at_once))
                elif by_candidates is not None:
                    columns = ranges(len(candidates), math.ceil(len(candidates) / threads))
                    run_blocks(partial(add_by_candidates, sums=by_candidates, chunk=chunk), columns)
        return *losses, by_queries, None if itself else by_candidates

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        _WithGradients.setup_context(ctx, inputs, output)
        ctx.inputs = inputs

    @staticmethod
    def backward(ctx: Any, upstream: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        anchor, *gradients = ctx.saved_tensors
        if upstream is None:
            return (None,) * 7
        weight = upstream[:1]
        if upstream.stride() != (0,) and bool((upstream != weight).any()):  # not a mean
            arguments: tuple[Any, ...] = (*ctx.inputs[:-1], upstream)
            gradients = list(_OfVectors.forward(*arguments)[2:])
            weight = torch.ones_like(weight)
        by_vectors = [
            None if gradient is None else first_derivative(gradient * weight, anchor) for gradient in gradients
        ]
        return None, *by_vectors, None, None, None, None


def _evaluator(
    objective: Objective,
    per_query: Tensor | None,
    compare: Callable[[slice], ScoredPairs],
    losses: LossPerQuery,
    keep: Keep | None,
) -> Callable[[slice], None]:
    """A function that computes a block: it writes the losses of its queries and keeps the gradient by its scores."""

    def evaluate(rows: slice) -> None:
        pairs, query_values = compare(rows), () if per_query is None else (per_query[rows],)
        scores = pairs.scores.detach().requires_grad_(keep is not None)
        with torch.set_grad_enabled(keep is not None):
            values, losses.counted[rows] = objective(pairs._replace(scores=scores), *query_values)
            total = values.sum()  # given a gradient for each of the values, torch would first import sympy, in 0.4 s
        losses.values[rows] = values.detach()
        if keep is not None:
            keep(rows, torch.autograd.grad(total, scores)[0] if total.requires_grad else torch.zeros_like(scores))

    return evaluate


def _gets_gradient(tensor: Tensor) -> bool:
    return torch.is_grad_enabled() and tensor.requires_grad


def _empty_losses(queries: Tensor) -> LossPerQuery:
    with torch.inference_mode(False):  # threads write them, which are not in the mode of their caller
        return LossPerQuery(queries.new_empty(len(queries)), queries.new_empty(len(queries), dtype=torch.bool))


def blocks_of(num_queries: int, num_candidates: int, device: torch.device) -> tuple[int, int]:
    """How many queries a block has, and how many threads compute blocks at the same time."""
    rows = max(1, SCORES_AT_ONCE.get(device.type, SCORES_AT_ONCE["cuda"]) // num_candidates)
    if device.type != "cpu" or num_queries * num_candidates < FEW_SCORES:
        return rows, 1  # torch's own operations use all threads, or a GPU
    threads = torch.get_num_threads()
    return min(rows, math.ceil(num_queries / threads)), threads


@contextmanager
def sharing(threads: int) -> Iterator[Share]:
    """A function that does some work on each of some ranges, on so many threads, of which one is the caller's.

    torch's own threads go on spinning for about 10 ms after every operation that they took part in, and take the
    processor from others meanwhile. Before blocks are shared out these threads are therefore ended, and while they are
    torch starts none: a block's products, too, are its thread's.
    """
    if threads == 1:
        yield partial(for_each, threads=1)
        return
    of_caller = torch.get_num_threads()
    torch.set_num_threads(1)
    if (pause := _openmp_pause()) is not None:
        pause(1)  # omp_pause_soft: OpenMP starts new threads when torch next asks for them (0.1 ms)
    of_each = torch.inference_mode(torch.is_inference_mode_enabled())  # otherwise a matter of the caller's thread
    try:
        yield lambda work, ranges_of_rows: for_each(
            of_each(work), ranges_of_rows, threads, start_thread=partial(torch.set_num_threads, 1)
        )
    finally:
        torch.set_num_threads(of_caller)  # each thread has its own number, which new ones take from the last one set


@cache
def _openmp_pause() -> Callable[[int], int] | None:
    """``omp_pause_resource_all`` of the OpenMP library that torch loaded, where it can be found."""
    return getattr(ctypes.CDLL(None), "omp_pause_resource_all", None) if sys.platform == "linux" else None
