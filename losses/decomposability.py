"""Decomposability: terms that bring a rank loss's mean over batches close to its value on the whole data set."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from hiertree.options import check_choice, check_number

from .base import PairLoss
from .pairs.blocks import LossPerQuery
from .pairs.pairs import ScoredPairs


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

    _shown = ("alpha", "beta", "level", "reduction")

    def __init__(
        self,
        *,
        alpha: float = 0.9,
        beta: float = 0.6,
        level: int | None = None,
        reduction: str = "mean",
        include_self: bool = False,
    ) -> None:
        super().__init__(include_self=include_self, level=level)
        check_choice("reduction", reduction, Literal["mean", "avg_nonzero"])
        check_number("alpha", alpha)
        check_number("beta", beta)
        self.alpha, self.beta, self.reduction = alpha, beta, reduction
        self.is_mean_over_queries = reduction == "mean"  # else the non-zero terms of the whole batch are counted
        self._needs_all_scores = not self.is_mean_over_queries

    def of_scores(self, pairs: ScoredPairs) -> Tensor:
        """The loss under the requested reduction."""
        if self.reduction == "mean":
            return super().of_scores(pairs)
        _, *terms = self._terms(pairs)
        return torch.stack([term.sum() / (term > 0).sum().clamp(min=1) for term in terms]).sum()

    def query_losses(self, pairs: ScoredPairs) -> LossPerQuery:
        """Eq. 7, a query."""
        counts, positives, negatives = self._terms(pairs)
        num_negatives, num_positives = counts.T
        values = positives.sum(dim=1) / num_positives.clamp(min=1) + negatives.sum(dim=1) / num_negatives.clamp(min=1)
        has_positive = num_positives > 0
        return LossPerQuery(values * has_positive, has_positive)

    def _terms(self, pairs: ScoredPairs) -> tuple[Tensor, Tensor, Tensor]:
        """The numbers of negatives and positives, [α − s]₊ of the positives and [s − β]₊ of the negatives."""
        binary = pairs.binary(self.level)
        positive, scores = binary.positives(), binary.scores
        negative = binary.valid & ~positive
        return binary.counts(), (self.alpha - scores).relu() * positive, (scores - self.beta).relu() * negative
