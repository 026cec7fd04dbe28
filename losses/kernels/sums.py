r"""The sums over pairs behind every rank loss, differentiable, in memory linear in the number of scores.

For each query q and each target k (a positive):

.. math:: out(q, k) = \sum_{j \in C(q),\ j \ne k} step(s_{qj} - s_{qk})

with C(q) the candidates. Its gradient is, for upstream gradients g, Σ_k g_k·slope(s_j − s_k) for j as a candidate,
minus the same summed over j for k as a target. A kernel evaluates it, once forward and once backward.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .base import PairKernel, Step


def step_sums(scores: Tensor, candidates: Tensor, targets: Tensor, step: Step, kernel: PairKernel) -> Tensor:
    """Sum a step of s_j − s_k over the candidates j ≠ k, for every target k.

    Args:
        scores: (B, M) the scores the kernel was made for; the gradient flows to them, once (no double backward).
        candidates: (B, M) booleans, the valid j that are summed over.
        targets: (B, M) booleans, the valid k that are asked for.
        step: the step function.
        kernel: evaluates the pairs.

    Returns:
        (B, M), 0 where there is no target.
    """
    result: Tensor = _Evaluated.apply(scores, kernel, kernel.forward, candidates, targets, step)
    return result


def sup_ranks(scores: Tensor, step: Step, kernel: PairKernel) -> Tensor:
    """(B, M) exact counts among candidates of a positive's level and finer, plus step sums over lower levels."""
    result: Tensor = _Evaluated.apply(scores, kernel, kernel.rank, step)
    return result


class _Evaluated(torch.autograd.Function):
    """A method of a kernel that returns its result and what ``kernel.backward`` needs."""

    @staticmethod
    def forward(ctx: Any, _scores: Tensor, kernel: PairKernel, method: Any, *arguments: Any) -> Tensor:
        result: Tensor
        result, ctx.saved = method(*arguments)
        ctx.kernel, ctx.num_arguments = kernel, len(arguments)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        return ctx.kernel.backward(upstream, ctx.saved), None, None, *([None] * ctx.num_arguments)
