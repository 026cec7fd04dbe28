"""Other differentiable APs: from binned similarities (FastAP, SoftBin-AP) and from true ranks (blackbox)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hiertree.options import check_integer, check_number

from ..base import PairLoss
from ..pairs.blocks import LossPerQuery, Reduction, compute_in_blocks
from ..pairs.pairs import ScoredPairs, binary_pairs
from ..tie_aware import Bins, soft_histogram

COSINE_RANGE = 2  # 1 − cosine lies in 0 … 2


def binned_ap_losses(pairs: ScoredPairs, level: int | None, num_intervals: int) -> LossPerQuery:
    """1 − (1/|Ω⁺|)·Σ_z h⁺_z·H⁺_z/H_z, with soft counts h of 1 − cosine in bins, H those up to a bin; a query."""
    binary = pairs.binary(level)
    distances = binary._replace(scores=binary.scores.clamp(-1, 1) - 1)
    counts = soft_histogram(distances, Bins(COSINE_RANGE, num_intervals))
    positives = counts[:, 1]
    up_to = positives.cumsum(dim=1), counts.sum(dim=1).cumsum(dim=1)
    precision = up_to[0] / up_to[1].clamp(min=1e-12)  # bins before the first item are empty
    losses = LossPerQuery.one_minus((precision * positives).sum(dim=1), binary.counts()[:, 1])
    return losses._replace(values=losses.values.to(pairs.scores.dtype))


def blackbox_ap_losses(pairs: ScoredPairs, level: int | None, blackbox_lambda: float, margin: float) -> LossPerQuery:
    """1 − (1/|Ω⁺|)·Σ_{k ∈ Ω⁺} rank⁺(k)/rank(k), a query, positives being lowered, and others raised, at random."""
    binary = pairs.binary(level)
    num_counted = (binary.counts()[:, 1] > 0).sum()
    strength = blackbox_lambda / num_counted.clamp(min=1).double()
    lowered = torch.randn_like(pairs.scores).abs() * (margin / 2)  # for all: the order of blocks varies

    def block_losses(block: ScoredPairs, lowered: Tensor) -> LossPerQuery:
        positive = block.positives()
        scores = torch.where(positive, block.scores - lowered, block.scores + lowered)
        num_candidates = block.valid.sum(dim=1, keepdim=True)
        rank: Tensor = _NormalizedRanks.apply(
            scores.masked_fill(~block.valid, -torch.inf), num_candidates.clamp(min=1), strength
        )
        among_positives = _ranks(-rank.detach().masked_fill(~positive, torch.inf)) / num_candidates
        precision = torch.where(positive, among_positives, 0) / rank
        return LossPerQuery.one_minus(precision.sum(dim=1), positive.sum(dim=1))

    return compute_in_blocks(block_losses, binary, lowered)


class _BinnedAP(PairLoss):
    _shown = ("num_intervals", "level")

    def __init__(self, *, num_intervals: int, level: int | None, include_self: bool) -> None:
        super().__init__(include_self=include_self, level=level)
        self.num_intervals = num_intervals

    def query_losses(self, pairs: ScoredPairs) -> LossPerQuery:
        """The formula with these bins."""
        return binned_ap_losses(pairs, self.level, self.num_intervals)


class FastAP(_BinnedAP):
    r"""FastAP: 1 − AP with soft counts of squared distances in bins.

    .. math:: 1 - \frac{1}{|\Omega^+|} \sum_z \frac{h^+_z H^+_z}{H_z}

    h_z being the soft count of items in bin z (a triangular kernel) and H_z those of all bins up to z; averaged over
    the queries that have a positive. Squared distances of unit vectors are 2 − 2·cosine, so that their bins are bins of
    the cosine. Time and memory are O(B·M) whatever the number of bins.
    Source: Cakir et al., *Deep Metric Learning to Rank* (CVPR 2019), Eq. 9.

    Args:
        num_bins: intervals between the ``num_bins + 1`` centers over squared distances 0 … 4.
        level: positives agree with the query down to this level; None: the finest.
        include_self: a query is its own candidate.

    >>> import torch
    >>> perfect = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> round(float(FastAP()(perfect, torch.tensor([0, 0, 1, 1]))), 6)
    0.0
    """

    def __init__(self, *, num_bins: int = 10, level: int | None = None, include_self: bool = False) -> None:
        check_integer("num_bins", num_bins)
        super().__init__(num_intervals=num_bins, level=level, include_self=include_self)


class SoftBinAP(_BinnedAP):
    """SoftBin-AP: the formula of :class:`FastAP` with ``num_bins`` ≥ 2 centers over the cosines 1 … −1.

    Source: Revaud et al., *Learning with Average Precision: Training Image Retrieval with a Listwise Loss* (ICCV 2019).

    >>> import torch
    >>> perfect = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> round(float(SoftBinAP()(perfect, torch.tensor([0, 0, 1, 1]))), 6)
    0.0
    """

    def __init__(self, *, num_bins: int = 20, level: int | None = None, include_self: bool = False) -> None:
        check_integer("num_bins", num_bins, least=2)
        super().__init__(num_intervals=num_bins - 1, level=level, include_self=include_self)


class BlackboxAP(PairLoss):
    r"""1 − AP of the true ranks, learned by blackbox differentiation.

    The ranks r of a query, divided by the number of its candidates, get the gradient g of the mean loss; the scores get
    (r(s + λ·g) − r(s))/λ. The margin: while ranked, positives are moved down and negatives up by half of it times
    \|N(0, 1)\|, from torch's generator. Source: Rolínek et al., *Optimizing Rank-based Metrics with Blackbox
    Differentiation* (CVPR 2020).

    Args:
        blackbox_lambda: λ, how far the scores are shifted along their gradient.
        margin: how far positives should stand ahead of negatives; 0: no noise.
        level: positives agree with the query down to this level; None: the finest.
        include_self: a query is its own candidate.

    >>> import torch
    >>> embeddings = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]], requires_grad=True)
    >>> loss = BlackboxAP(margin=0.0)(embeddings, torch.tensor([0, 0, 1]))
    >>> round(loss.item(), 4)  # the one positive is second for both queries
    0.5
    """

    is_mean_over_queries = False  # the value is exact; the shift of a query's scores depends on the other queries
    _shown = ("blackbox_lambda", "margin", "level")
    _needs_all_scores = True

    def __init__(
        self,
        *,
        blackbox_lambda: float = 4.0,
        margin: float = 0.02,
        level: int | None = None,
        include_self: bool = False,
    ) -> None:
        super().__init__(include_self=include_self, level=level)
        check_number("blackbox_lambda", blackbox_lambda, above=0)
        check_number("margin", margin, least=0)
        self.blackbox_lambda, self.margin = blackbox_lambda, margin

    def losses_of(self, pairs: ScoredPairs) -> LossPerQuery:
        """The loss of each query; λ acts on the gradient of the mean over those of them that have a positive."""
        return blackbox_ap_losses(pairs, self.level, self.blackbox_lambda, self.margin)


def _ranks(scores: Tensor) -> Tensor:
    """Ranks from 1 for the largest of each row; equal values rank in their order."""
    order = scores.argsort(dim=1, descending=True, stable=True)
    ranks = torch.arange(1, scores.shape[1] + 1, dtype=scores.dtype, device=scores.device)
    return torch.empty_like(scores).scatter_(1, order, ranks.expand_as(scores))


class _NormalizedRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, num_candidates: Tensor, strength: float | Tensor) -> Tensor:
        ranks = _ranks(scores) / num_candidates
        ctx.strength = strength
        ctx.save_for_backward(scores, num_candidates, ranks)
        return ranks

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        scores, num_candidates, ranks = ctx.saved_tensors
        shifted = _ranks(scores + ctx.strength * upstream) / num_candidates
        return (shifted - ranks) / ctx.strength, None, None


def fast_ap(
    scores: Tensor, levels: Any, *, level: int, num_bins: int = 10, valid: Any = None, reduction: Reduction = "mean"
) -> Tensor:
    """FastAP of cosines (B, M), for positives at ``level`` and finer; see :class:`hiertree.losses.FastAP`.

    SoftBin-AP counts the centers of bins, not the intervals: ``num_bins=19`` is its 20 bins.

    >>> import torch
    >>> round(float(fast_ap(torch.tensor([[0.9, 0.2, -0.8]]), torch.tensor([[0, 1, 0]]), level=1)), 3)
    0.5
    """
    check_integer("num_bins", num_bins)
    return binned_ap_losses(binary_pairs(scores, levels, level, valid), 1, num_bins).reduced(reduction)


def blackbox_ap(
    scores: Tensor,
    levels: Any,
    *,
    level: int,
    blackbox_lambda: float = 4.0,
    margin: float = 0.02,
    valid: Any = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """Blackbox AP of scores (B, M), for positives at ``level`` and finer; see :class:`hiertree.losses.BlackboxAP`.

    >>> import torch
    >>> float(blackbox_ap(torch.tensor([[0.9, 0.2]]), torch.tensor([[0, 1]]), level=1, margin=0.0))
    0.5
    """
    check_number("blackbox_lambda", blackbox_lambda, above=0)
    check_number("margin", margin, least=0)
    pairs = binary_pairs(scores, levels, level, valid)
    return blackbox_ap_losses(pairs, 1, blackbox_lambda, margin).reduced(reduction)
