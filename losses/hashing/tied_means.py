r"""Means over the ranks of a tie group, as smooth functions of real counts.

A tie group of n items comes after N items: it covers the ranks N+1 … N+n. Under a soft histogram N and n are
real, and n is 0 in an empty bin; each mean here is finite and differentiable for every N ≥ 0, n ≥ 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

Function: TypeAlias = Callable[[Tensor], Tensor]
NEAR = 1e-4  # below a step of NEAR times its place a difference quotient is replaced by its series, exact to 1e-12
_EULER = 0.5772156649015329


def mean_reciprocal(before: Tensor, size: Tensor) -> Tensor:
    r"""λ = (1/n)·Σ_{t=N+1..N+n} 1/t = (ψ(N+n+1) − ψ(N+1)) / n, with ψ the digamma function; ψ′(N+1) at n = 0."""
    start = before + 1
    derivatives = [torch.polygamma(order, start) for order in (1, 2, 3)]
    return _difference_quotient(torch.digamma, start, size, derivatives)


def mean_rise(before: Tensor, size: Tensor, reciprocal: Tensor) -> Tensor:
    r"""κ = (1/n)·Σ_{t=N+1..N+n} (t − N − 1)/(n − 1) / t = (1 − (N+1)·λ) / (n − 1), for λ; its limit at n = 1.

    The mean over the ranks t of the fraction of the other members that are ahead, divided by t.
    """
    start = before + 1
    step = size - 1
    near = step.abs() < NEAR * start
    exact = (1 - start * reciprocal) / torch.where(near, 1, step)
    single, first, second, third = 1 / start, *(torch.polygamma(order, start + 1) for order in (1, 2, 3))
    slope = first - single  # derivatives of λ at n = 1
    curvature = second - 2 * first + 2 * single
    third_derivative = third - 3 * second + 6 * first - 6 * single
    series = -start * (slope + step / 2 * (curvature + step / 3 * third_derivative))
    return torch.where(near, series, exact)


def mean_discount(before: Tensor, size: Tensor) -> Tensor:
    r"""(1/n)·∫ dt / log2(1 + t) over N+½ … N+n+½ = ln 2·(li(N+n+3/2) − li(N+3/2)) / n; 1/log2(N+3/2) at n = 0.

    The integral of the convex discount is at least its sum over the ranks N+1 … N+n (the midpoint rule).
    """
    start = before + 1.5
    log = start.log()
    derivatives = [1 / log, -1 / (start * log**2), (log + 2) / (start**2 * log**3)]
    return math.log(2) * _difference_quotient(logarithmic_integral, start, size, derivatives)


def discount_of_mean(before: Tensor, size: Tensor) -> Tensor:
    """1 / log2(1 + mean rank), the mean rank being N + (n+1)/2; at most the mean of the discounts (Jensen)."""
    return 1 / torch.log2(1 + before + (size + 1) / 2)


def logarithmic_integral(x: Tensor) -> Tensor:
    r"""li(x) = ∫₀ˣ dt / ln t for x > 1, with its derivative 1 / ln x.

    By the series γ + ln ln x + Σ_k (ln x)^k / (k·k!), whose terms are positive.

    >>> [round(float(value), 6) for value in logarithmic_integral(torch.tensor([2.0, 1000.0], dtype=torch.float64))]
    [1.045164, 177.609658]
    """
    result: Tensor = _LogarithmicIntegral.apply(x)
    return result


class _LogarithmicIntegral(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        log = x.log()
        power, total = torch.ones_like(x), _EULER + log.log()
        num_terms = 40 + math.ceil(math.e * float(log.max())) if x.numel() else 0
        for order in range(1, num_terms + 1):
            power.mul_(log / order)
            total.add_(power, alpha=1 / order)
        return total

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        gradient: Tensor = upstream / x.log()
        return gradient


def _difference_quotient(function: Function, start: Tensor, step: Tensor, derivatives: list[Tensor]) -> Tensor:
    """(F(start + step) − F(start)) / step, by its Taylor series where the step is small."""
    near = step < NEAR * start
    safe = torch.where(near, 1, step)
    first, second, third = derivatives
    series = first + step / 2 * (second + step / 3 * third)
    return torch.where(near, series, (function(start + safe) - function(start)) / safe)
