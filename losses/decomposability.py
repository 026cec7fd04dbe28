"""Decomposability: what makes the mean over batches of a rank loss close to the loss over the whole data set."""

from __future__ import annotations

import torch
from torch import Tensor

from hiertree.options import check_integer, check_number, require

from .base import PairLoss
from .pairs.blocks import LossPerQuery
from .pairs.pairs import ScoredPairs, VectorPairs

PAIR_REDUCTIONS = ("mean", "avg_nonzero")


def pair_losses(pairs: ScoredPairs, *, alpha: float, beta: float) -> LossPerQuery:
    """Mean over positives of [α − s]₊ + mean over negatives of [s − β]₊, a query."""
    positives, negatives = _pair_terms(pairs, alpha, beta)
    num_positives, num_negatives = pairs.counts()[:, 1], pairs.counts()[:, 0]
    values = positives.sum(dim=1) / num_positives.clamp(min=1) + negatives.sum(dim=1) / num_negatives.clamp(min=1)
    counted = num_positives > 0
    return LossPerQuery(values * counted, counted)


def pair_loss_avg_nonzero(pairs: ScoredPairs, *, alpha: float, beta: float) -> Tensor:
    """The same two sums over the whole batch, each divided by the number of its non-zero terms."""
    terms = _pair_terms(pairs, alpha, beta)
    return torch.stack([term.sum() / (term > 0).sum().clamp(min=1) for term in terms]).sum()


def _pair_terms(pairs: ScoredPairs, alpha: float, beta: float) -> tuple[Tensor, Tensor]:
    positive, negative = pairs.valid & (pairs.levels > 0), pairs.valid & (pairs.levels == 0)
    return (alpha - pairs.scores).relu() * positive, (pairs.scores - beta).relu() * negative


class PairDecomposability(PairLoss):
    r"""L_DG: positives pulled above one score, negatives pushed below another, the same for all queries.

    .. math:: \frac{1}{|\Omega^+|} \sum_{j \in \Omega^+} [\alpha - s_j]_+
              + \frac{1}{|\Omega^-|} \sum_{j \in \Omega^-} [s_j - \beta]_+

    averaged over the queries that have a positive. Source: Ramzi et al. (TPAMI 2025), Eq. 7.

    Args:
        alpha: scores of positives should exceed it.
        beta: scores of negatives should stay below it.
        level: positives agree with the query down to this level; None: the finest.
        reduction: "mean" as above; "avg_nonzero" divides each sum, over the whole batch, by the number of its
            non-zero terms, as the authors' code does.
        include_self: a query is its own candidate.

    >>> import torch
    >>> float(PairDecomposability()(torch.eye(3), torch.tensor([0, 0, 1]))) # 0.9 for two queries, the third skipped
    0.8999999761581421
    """

    def __init__(
        self,
        *,
        alpha: float = 0.9,
        beta: float = 0.6,
        level: int | None = None,
        reduction: str = "mean",
        include_self: bool = False,
    ) -> None:
        super().__init__(include_self=include_self)
        require(reduction in PAIR_REDUCTIONS, "reduction", reduction, f"one of {', '.join(PAIR_REDUCTIONS)}")
        check_integer("level", level, or_none=True)
        check_number("alpha", alpha)
        check_number("beta", beta)
        self.alpha, self.beta, self.level, self.reduction = alpha, beta, level, reduction

    @property
    def is_mean_over_queries(self) -> bool:
        """Not where the non-zero terms of the whole batch are counted."""
        return self.reduction == "mean"

    def of_vectors(self, pairs: VectorPairs) -> Tensor:
        """The loss by the reduction asked for, of all scores at once where it counts all non-zero terms."""
        return super().of_vectors(pairs) if self.reduction == "mean" else self.of_scores(pairs.compared())

    def of_scores(self, pairs: ScoredPairs) -> Tensor:
        """The loss by the reduction asked for."""
        if self.reduction == "avg_nonzero":
            return pair_loss_avg_nonzero(pairs.binary(self.level), alpha=self.alpha, beta=self.beta)
        return super().of_scores(pairs)

    def query_losses(self, pairs: ScoredPairs) -> LossPerQuery:
        """Eq. 7, a query."""
        return pair_losses(pairs.binary(self.level), alpha=self.alpha, beta=self.beta)

    def extra_repr(self) -> str:
        """The options, for ``print(loss)``."""
        level = self.level or "finest"
        return f"alpha={self.alpha}, beta={self.beta}, level={level}, reduction={self.reduction!r}"
