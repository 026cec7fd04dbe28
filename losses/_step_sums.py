r"""The one sum over pairs behind every rank loss, differentiable, in memory linear in the number of scores.

For each query q and each target k (a positive):

.. math:: out(q, k) = \sum_{j \in C(q),\ j \ne k} w_{jk} \cdot step(s_{qj} - s_{qk})

with C(q) the candidates, w = 1 or min(w_j, w_k). Its gradient is, for upstream gradients g,
out' (q, j) = Σ_k g_k·w_jk·slope(s_j − s_k) for j as a candidate, minus the same summed over j for k as a target.

The autograd function keeps the (B, M) inputs only; a backend evaluates the pairs, once forward and once backward.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hiertree.losses import _step_sums_torch as backend
from hiertree.losses._steps import Step


def step_sums(
    scores: Tensor, candidates: Tensor, targets: Tensor, step: Step, *, weights: Tensor | None = None
) -> Tensor:
    """Sum a step of s_j − s_k over the candidates j ≠ k, for every target k.

    Args:
        scores: (B, M) float32 or float64; the gradient flows to it, once (no double backward).
        candidates: (B, M) booleans, the j that are summed over.
        targets: (B, M) booleans, the k that are asked for.
        step: the step function.
        weights: (B, M) of the type of ``scores``; a pair weighs min(w_j, w_k). None weighs all pairs 1.

    Returns:
        (B, M), 0 where there is no target.
    """
    result: Tensor = _StepSums.apply(scores, candidates, targets, weights, step)
    return result


class _StepSums(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, candidates: Tensor, targets: Tensor, weights: Tensor | None, step: Step
    ) -> Tensor:
        ctx.save_for_backward(scores, candidates, targets, weights)
        ctx.step = step
        return backend.forward(scores, candidates, targets, weights, step)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None, None, None]:
        scores, candidates, targets, weights = ctx.saved_tensors
        gradient = backend.backward(upstream, scores, candidates, targets, weights, ctx.step)
        return gradient, None, None, None, None
