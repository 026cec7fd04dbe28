"""From pairs to differentiable ranks: step functions, and the ranks of each query's positives.

For a positive k of a query, and a score difference t = s_j − s_k ("is j ahead of k?"):

* Heaviside H(t) = 1 for t ≥ 0, else 0: exact, without gradient; counted by sorting;
* :class:`SupStep`, H⁻: never below H, steep while j is ahead, so that losses built on it are upper bounds;
* :class:`Sigmoid`, σ(t/τ): no bound, and no gradient where it matters most; the Smooth family, for comparison.

The Sup family has

* rank⁺(k) = 1 + Σ_{j ≠ k, level_j ≥ level_k} H(s_j − s_k), without gradient;
* rank⁻(k) = Σ_{level_j < level_k} H⁻(s_j − s_k), which carries the gradient; rank = rank⁺ + rank⁻;
* H-rank⁺(k) = rel(k) + Σ_{j ≠ k, j ∈ Ω⁺} min(rel(k), rel(j))·H(s_j − s_k), without gradient.

The Smooth family has σ in every place, and its gradient flows through all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypedDict

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from hiertree.options import check_number

from ..kernels.steps import PairKernel, StepParameters, logistic
from .pairs import ScoredPairs

EPSILON = 0.01  # where the default δ stops the sigmoid: σ(δ/τ) = 1 − ε


@dataclass(frozen=True)
class Sigmoid:
    """σ(t/τ) [Brown et al., Smooth-AP, ECCV 2020, Eq. 6]."""

    tau: float = 0.01

    def __post_init__(self) -> None:
        check_number("tau", self.tau, above=0)

    @cached_property
    def parameters(self) -> StepParameters:
        """A single piece, with an infinite margin."""
        return StepParameters(float(self.tau), rho=0.0, margin=math.inf, start=0.0, offset=0.0)


class StepOptions(TypedDict, total=False):
    r"""Options of H⁻, the step function of the Sup losses (Ramzi et al., TPAMI 2025, Eq. 4).

    For a score difference t, H⁻ is σ(t/τ) for t < 0; σ(t/τ) + start for 0 ≤ t ≤ δ; ρ·(t − δ) + offset for t > δ. With
    start ≥ 0.5 and offset ≥ 1, H⁻ is nowhere below the Heaviside step, and the losses are upper bounds.

    * ``tau``: temperature τ > 0 of the sigmoid. Default 0.01.
    * ``rho``: slope ρ ≥ 0 beyond δ; a larger one moves grave errors more. Default 100.
    * ``delta``: δ ≥ 0, where the slope begins. Default None: τ·ln(99) ≈ 0.046, where σ(δ/τ) = 0.99.
    * ``start``: added to the sigmoid for 0 ≤ t ≤ δ. Default 0.5.
    * ``offset``: the value just past δ. Default None: σ(δ/τ) + start, which makes H⁻ continuous there.

    The authors trained with ``delta=0.05`` and (start, offset) = (0.5, 1.44) on SOP, (0, 1) on iNaturalist.
    """

    tau: float
    rho: float
    delta: float | None
    start: float
    offset: float | None


@dataclass(frozen=True, kw_only=True)
class SupStep:
    """H⁻ of Ramzi et al. (TPAMI 2025, Eq. 4), with the defaults of :class:`StepOptions`."""

    tau: float = 0.01
    rho: float = 100.0
    delta: float | None = None
    start: float = 0.5
    offset: float | None = None

    def __post_init__(self) -> None:
        check_number("tau", self.tau, above=0)
        check_number("rho", self.rho, least=0)
        check_number("start", self.start, least=0)
        for name, value in (("delta", self.delta), ("offset", self.offset)):
            if value is not None:
                check_number(name, value, least=0)

    @cached_property
    def parameters(self) -> StepParameters:
        """τ, ρ, δ (by default where σ(δ/τ) = 1 − ε), start, and the value just past δ."""
        margin = self.tau * math.log((1 - EPSILON) / EPSILON) if self.delta is None else self.delta
        offset = logistic(margin / self.tau) + self.start if self.offset is None else self.offset
        return StepParameters(*map(float, (self.tau, self.rho, margin, self.start, offset)))


class _Steps(torch.autograd.Function):
    """A kernel's sums over steps."""

    @staticmethod
    def forward(ctx: Any, _scores: Tensor, kernel: PairKernel, weights: Tensor, step: Any) -> Tensor:
        sums, ctx.saved = kernel.steps(weights, step)
        ctx.kernel = kernel
        return sums

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        return ctx.kernel.backward(upstream, ctx.saved), None, None, None


def step_sums(scores: Tensor, kernel: PairKernel, weights: Tensor, step: Any) -> Tensor:
    """(B, T) a kernel's sums of a step that it takes, differentiable in the scores that it has read."""
    sums: Tensor = _Steps.apply(scores, kernel, weights, step)
    return sums


class SoftRanks:
    """The ranks of each query's T positives or fewer, differentiable in the scores.

    Attributes:
        levels: (B, T) int64, 0 where a query has fewer: the rank there is finite and above 0, without meaning.
    """

    def __init__(self, pairs: ScoredPairs, step: SupStep | Sigmoid) -> None:
        self._pairs, self._step, self._kernel = pairs, step, pairs.kernel(step.parameters)
        self.levels = self._kernel.target_levels

    def rank(self) -> Tensor:
        """(B, T) rank⁺ + rank⁻, or 1 + Σ_{j ≠ k} σ((s_j − s_k)/τ)."""
        num_levels, scores = self._pairs.num_levels, self._pairs.scores
        every = scores.new_ones(1, num_levels + 1, num_levels + 1)
        if isinstance(self._step, Sigmoid):
            return 0.5 + self._steps(every)  # of which σ(0) is its own
        lower = every.tril(-1)
        return self._kernel.ahead(every - lower + self._step.start * lower).clamp_(min=1) + self._steps(lower)

    def hierarchical_rank(self, table: Tensor) -> Tensor:
        """(B, T) H-rank⁺, for the relevance (B, L+1) of levels; 0 where a query has fewer.

        The sums include the term of k itself, in the Smooth family with σ(0) for a factor.
        """
        shared_relevance = torch.minimum(table[:, :, None], table[:, None])
        if isinstance(self._step, SupStep):
            return self._kernel.ahead(shared_relevance)
        return 0.5 * table.gather(1, self.levels) + self._steps(shared_relevance)

    def _steps(self, weights: Tensor) -> Tensor:
        return step_sums(self._pairs.scores, self._kernel, weights, self._step.parameters)


def ideal_dcg(gains: Tensor, counts: Tensor, discounts: Tensor) -> Tensor:
    """The DCG of the best ranking: levels by falling gain, each taking as many ranks as it has items."""
    gains, order = gains.sort(dim=1, descending=True)
    last = counts.gather(1, order).cumsum(dim=1)
    first = pad(last, (1, 0))[:, :-1]
    up_to = pad(discounts.cumsum(dim=0), (1, 0))
    return (gains * (up_to[last] - up_to[first])).sum(dim=1)
