"""AP of true ranks, with the gradient of blackbox differentiation: from the ranks of shifted scores."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hiertree.options import check_integer, check_number

from ..base import PairLoss
from ..pairs.blocks import LossPerQuery, Objective, in_blocks
from ..pairs.objectives import one_minus
from ..pairs.of_scores import Reduction, binary_pairs, reduced
from ..pairs.pairs import ScoredPairs, VectorPairs


def blackbox_ap_losses(pairs: ScoredPairs, level: int | None, *, strength: float, lowered: Tensor) -> LossPerQuery:
    """1 − (1/|Ω⁺|)·Σ_{k ∈ Ω⁺} rank⁺(k)/rank(k), a query.

    ``strength`` is λ for the gradient of its own loss; ``lowered`` (b, M) is how far positives move down, and negatives
    up.
    """
    binary = pairs.binary(level)
    positive = binary.valid & (binary.levels > 0)
    moved = torch.where(positive, binary.scores - lowered, binary.scores + lowered)
    scores = moved.masked_fill(~binary.valid, -torch.inf)
    rank: Tensor = _NormalizedRanks.apply(scores, binary.valid.sum(dim=1, keepdim=True).clamp(min=1), strength)
    among_positives = _ranks(-rank.detach().masked_fill(~positive, torch.inf)) / binary.valid.sum(dim=1, keepdim=True)
    precision = torch.where(positive, among_positives, 0) / rank
    return one_minus(precision.sum(dim=1), positive.sum(dim=1))


def blackbox_objective(pairs: ScoredPairs, level: int | None, blackbox_lambda: float, margin: float) -> Objective:
    """The objective whose λ acts on the gradient of the mean over all queries of the pairs that have a positive."""
    num_counted = int((pairs.binary(level).counts()[:, 1] > 0).sum())
    strength = blackbox_lambda / max(num_counted, 1)
    lowered = torch.randn_like(pairs.scores).abs() * (margin / 2)  # drawn for all: threads take blocks in any order
    return lambda block, rows: blackbox_ap_losses(block, level, strength=strength, lowered=lowered[rows])


def check_blackbox(blackbox_lambda: float, margin: float) -> None:
    """Refuse a λ that moves nothing, and a margin below 0."""
    check_number("blackbox_lambda", blackbox_lambda, above=0)
    check_number("margin", margin, least=0)


def _ranks(scores: Tensor) -> Tensor:
    """1 for the largest of a row, then 2 …; the first of equal ones before the next."""
    order = scores.argsort(dim=1, descending=True, stable=True)
    places = torch.arange(1, scores.shape[1] + 1, dtype=scores.dtype, device=scores.device)
    return torch.empty_like(scores).scatter_(1, order, places.expand_as(scores))


class _NormalizedRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, num_candidates: Tensor, strength: float) -> Tensor:
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

    def __init__(
        self,
        *,
        blackbox_lambda: float = 4.0,
        margin: float = 0.02,
        level: int | None = None,
        include_self: bool = False,
    ) -> None:
        super().__init__(include_self=include_self)
        check_blackbox(blackbox_lambda, margin)
        check_integer("level", level, or_none=True)
        self.blackbox_lambda, self.margin, self.level = blackbox_lambda, margin, level

    @property
    def is_mean_over_queries(self) -> bool:
        """Its value is; but how far a query's scores are shifted depends on the number of queries."""
        return False

    def of_vectors(self, pairs: VectorPairs) -> Tensor:
        """The loss of all scores at once."""
        return self.of_scores(pairs.compared())

    def of_scores(self, pairs: ScoredPairs) -> Tensor:
        """The mean over the queries that have a positive; λ acts on the gradient of that mean."""
        return self.mean_of(blackbox_objective(pairs, self.level, self.blackbox_lambda, self.margin), pairs)

    def extra_repr(self) -> str:
        """The options, for ``print(loss)``."""
        return f"blackbox_lambda={self.blackbox_lambda}, margin={self.margin}, level={self.level or 'finest'}"


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
    """Blackbox AP (Rolínek et al., CVPR 2020), as in :class:`hiertree.losses.BlackboxAP`.

    Args:
        scores: (B, M) similarities.
        levels: (B, M) integers.
        level: positives are at this level and finer.
        blackbox_lambda: λ, for the gradient of the mean over the queries that have a positive.
        margin: how far positives should stand ahead of negatives; 0: no noise.
        valid: (B, M) booleans; False where the item is no candidate.
        reduction: "mean" over the queries that have a positive, or "none": (B,), 0 for the others.

    Raises:
        ShapeError, EmbeddingError, OptionError: as in :func:`sup_hap`.

    >>> import torch
    >>> float(blackbox_ap(torch.tensor([[0.9, 0.2]]), torch.tensor([[0, 1]]), level=1, margin=0.0))
    0.5
    """
    check_blackbox(blackbox_lambda, margin)
    pairs = binary_pairs(scores, levels, level, valid)
    return reduced(in_blocks(blackbox_objective(pairs, 1, blackbox_lambda, margin), pairs), reduction)
