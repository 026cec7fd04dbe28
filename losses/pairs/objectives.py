"""From pairs to a loss per query: step functions, the ranks that they make differentiable, and what ranks add up to.

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
from typing import Any, Literal, TypeAlias, TypedDict

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from hiertree.options import check_number

from ..kernels.base import PairKernel, StepParameters
from .blocks import LossPerQuery
from .pairs import ScoredPairs

SplitBy: TypeAlias = Literal["level", "relevance"]
"""What decides which candidates count exactly in the rank of a positive (rank⁺), and which through H⁻ (rank⁻)."""
EPSILON = 0.01  # where the default δ stops the sigmoid: σ(δ/τ) = 1 − ε


@dataclass(frozen=True)
class Sigmoid:
    """σ(t/τ) [Brown et al., Smooth-AP, ECCV 2020, Eq. 6]."""

    tau: float = 0.01

    def __post_init__(self) -> None:
        check_number("tau", self.tau, above=0)

    @property
    def parameters(self) -> StepParameters:
        """One piece: the margin is infinite."""
        return StepParameters(float(self.tau), rho=0.0, margin=math.inf, start=0.0, offset=0.0)

    def value(self, differences: Tensor) -> Tensor:
        """σ(t/τ)."""
        return torch.sigmoid(differences * (1 / self.tau))

    def slope(self, differences: Tensor) -> Tensor:
        """σ(t/τ)·(1 − σ(t/τ))/τ."""
        sigmoid = self.value(differences)
        return sigmoid.addcmul_(sigmoid, sigmoid, value=-1.0).mul_(1 / self.tau)


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

    @property
    def margin(self) -> float:
        """δ; by default where σ(δ/τ) = 1 − ε."""
        return self.tau * math.log((1 - EPSILON) / EPSILON) if self.delta is None else self.delta

    @cached_property
    def parameters(self) -> StepParameters:
        """τ, ρ, δ, start, and the value just past δ."""
        just_past = _logistic(self.margin / self.tau) + self.start if self.offset is None else self.offset
        return StepParameters(float(self.tau), float(self.rho), float(self.margin), float(self.start), float(just_past))

    @property
    def _jump_at_margin(self) -> float:
        """How far H⁻ leaps at δ, beyond being continuous; 0 unless an offset is given."""
        return 0.0 if self.offset is None else self.offset - self.start - _logistic(self.margin / self.tau)

    def value(self, differences: Tensor) -> Tensor:
        """H⁻(t) = σ(min(t, δ)/τ) + start·[t ≥ 0] + ρ·max(t − δ, 0) + (offset − start − σ(δ/τ))·[t > δ]."""
        value = differences.clamp(max=self.margin).mul_(1 / self.tau).sigmoid_()
        value.add_((differences - self.margin).clamp_(min=0), alpha=self.rho)
        value.add_(differences.clone().ge_(0), alpha=self.start)  # in place: a boolean result is far slower on a CPU
        if self._jump_at_margin:
            value.add_(differences.clone().gt_(self.margin), alpha=self._jump_at_margin)
        return value

    def slope(self, differences: Tensor) -> Tensor:
        """σ·(1 − σ)/τ for t ≤ δ, ρ beyond; the jumps of H⁻ have none."""
        sigmoid = differences.clamp(max=self.margin).mul_(1 / self.tau).sigmoid_()
        at_margin = _logistic(self.margin / self.tau)
        slope = sigmoid.addcmul_(sigmoid, sigmoid, value=-1.0).mul_(1 / self.tau)
        beyond = differences.clone().gt_(self.margin)
        return slope.add_(beyond, alpha=self.rho - at_margin * (1 - at_margin) / self.tau)


def _logistic(t: float) -> float:
    return 1 / (1 + math.exp(-t))


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


class SoftRanks:
    """The ranks of the positives, differentiable in the scores; at other items finite and ≥ 1, without meaning."""

    def __init__(self, pairs: ScoredPairs, step: SupStep | Sigmoid) -> None:
        self._pairs, self._step, self._kernel = pairs, step, pairs.kernel()

    def rank(self) -> Tensor:
        """(B, M) rank⁺ + rank⁻, or 1 + Σ_{j ≠ k} σ((s_j − s_k)/τ)."""
        if isinstance(self._step, SupStep):
            ranks: Tensor = _Evaluated.apply(self._pairs.scores, self._kernel, self._kernel.rank, self._step)
            return ranks
        return 1 + self._sums(self._pairs.valid, self._pairs.valid & (self._pairs.levels > 0))

    def hierarchical_rank(self, table: Tensor) -> Tensor:
        """(B, M) H-rank⁺, for the relevance (B, L+1) of levels; 0 at items that are not positive.

        Relevance has one value per level, so min(a, b) is a sum of layers: of each rise of the sorted table, where both
        a and b reach its top.
        """
        if isinstance(self._step, SupStep):
            return self._kernel.shared_relevance(table)  # whose sum includes the term of k itself
        rank = relevance = self._pairs.by_item(table)
        positives = self._pairs.valid & (self._pairs.levels > 0)
        heights = table.sort(dim=1).values
        for layer in range(1, heights.shape[1]):
            top = heights[:, layer, None]
            rise = top - heights[:, layer - 1, None]
            members = positives & (relevance >= top) & (rise > 0)
            if members.any():
                rank = rank + rise * self._sums(members, members)
        return rank

    def _sums(self, candidates: Tensor, targets: Tensor) -> Tensor:
        """The step of s_j − s_k over the candidates j ≠ k, for every target k; 0 elsewhere."""
        arguments = (candidates, targets, self._step)
        sums: Tensor = _Evaluated.apply(self._pairs.scores, self._kernel, self._kernel.forward, *arguments)
        return sums


def h_ap_losses(
    pairs: ScoredPairs, table: Tensor, step: SupStep | Sigmoid, split_by: SplitBy = "level"
) -> LossPerQuery:
    """1 − (1/R)·Σ_{k ∈ Ω⁺} H-rank⁺(k) / rank(k), with R = Σ_{k ∈ Ω⁺} rel(k)."""
    if split_by == "relevance":
        pairs, table = _by_relevance(pairs, table)
    table, ranks = _scaled(pairs, table), SoftRanks(pairs, step)
    reached = (ranks.hierarchical_rank(table) / ranks.rank()).sum(dim=1)
    return one_minus(reached, (table * pairs.counts()).sum(dim=1))


def ap_losses(pairs: ScoredPairs, level: int | None, step: SupStep | Sigmoid) -> LossPerQuery:
    """1 − (1/|Ω⁺|)·Σ_{k ∈ Ω⁺} rank⁺(k) / rank(k), the positives agreeing with the query down to ``level``."""
    binary = pairs.binary(level)
    table = binary.scores.new_tensor([0.0, 1.0]).expand(len(binary.scores), 2)
    return h_ap_losses(binary, table, step)


def ndcg_losses(
    pairs: ScoredPairs, table: Tensor, step: SupStep | Sigmoid, split_by: SplitBy = "level"
) -> LossPerQuery:
    """1 − (1/IDCG)·Σ_{k ∈ Ω⁺} rel(k) / log2(1 + rank(k)), IDCG the same sum for the best ranking."""
    if split_by == "relevance":
        pairs, table = _by_relevance(pairs, table)
    table = _scaled(pairs, table)
    reached = (pairs.by_item(table) / torch.log2(1 + SoftRanks(pairs, step).rank())).sum(dim=1)
    places = torch.arange(1, pairs.scores.shape[1] + 1, dtype=torch.float64, device=table.device)
    ideal = ideal_dcg(table[:, 1:].double(), pairs.counts()[:, 1:], 1 / torch.log2(1 + places))
    return one_minus(reached, ideal.to(reached.dtype))


def _by_relevance(pairs: ScoredPairs, table: Tensor) -> tuple[ScoredPairs, Tensor]:
    """The same pairs with levels renumbered by relevance, query by query, and the table of the new levels.

    Levels of one relevance become one level; those of relevance 0 become level 0, as level 0 is.
    """
    relevance = table.clone(memory_format=torch.contiguous_format)
    relevance[:, 0] = 0
    ascending = relevance.sort(dim=1).values
    renumbered = torch.searchsorted(ascending, relevance).to(torch.uint8)
    return pairs._replace(levels=renumbered.gather(1, pairs.levels.long())), ascending


def ideal_dcg(gains: Tensor, counts: Tensor, discounts: Tensor) -> Tensor:
    """The DCG of the best ranking: levels by falling gain, each taking as many ranks as it has items."""
    gains, order = gains.sort(dim=1, descending=True)
    last = counts.gather(1, order).cumsum(dim=1)
    first = pad(last, (1, 0))[:, :-1]
    up_to = pad(discounts.cumsum(dim=0), (1, 0))
    return (gains * (up_to[last] - up_to[first])).sum(dim=1)


def one_minus(reached: Tensor, best: Tensor) -> LossPerQuery:
    """1 − reached/best, for the queries that can reach anything."""
    counted = best > 0
    return LossPerQuery((1 - reached / torch.where(counted, best, 1)) * counted, counted)


def _scaled(pairs: ScoredPairs, table: Tensor) -> Tensor:
    """The table, in the type of the scores, with 0 at level 0 and 1 at most: no objective depends on its scale."""
    largest = table.amax(dim=1, keepdim=True)
    scaled = (table / torch.where(largest > 0, largest, 1)).to(pairs.scores.dtype)
    scaled[:, 0] = 0
    return scaled
