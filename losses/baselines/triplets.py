"""Triplets: a positive should be nearer than an item of a lower level, by a margin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from hiertree.errors import ShapeError
from hiertree.options import check_each, check_number

from ..base import PairLoss
from ..kernels.all_pairs import AllPairs
from ..pairs.blocks import LossPerQuery
from ..pairs.objectives import step_sums
from ..pairs.pairs import ScoredPairs


class _Hinge(NamedTuple):
    """[t + margin]₊, or, smooth, log(1 + exp(t + margin))."""

    margin: float
    smooth: bool

    def value(self, differences: Tensor) -> Tensor:
        shifted = differences + self.margin
        return softplus(shifted) if self.smooth else shifted.clamp_(min=0)

    def slope(self, differences: Tensor) -> Tensor:
        shifted = differences + self.margin
        return shifted.sigmoid_() if self.smooth else (shifted > 0).to(differences.dtype)


def mean_over_triplets(binary: ScoredPairs, margin: float, *, smooth: bool = False) -> LossPerQuery:
    """The mean of [s_n − s_p + margin]₊ over the positives p and negatives n of each query, a bounded number at a time.

    Smooth, it is that of log(1 + exp(s_n − s_p + margin)).
    """
    num_negatives, num_positives = binary.counts().T
    num_targets = int(num_positives.max()) if len(num_positives) else 0
    kernel = AllPairs(binary.scores, binary.levels, binary.valid, 1, binary.span, num_targets)
    lower = binary.scores.new_ones(1, 2, 2).tril(-1)
    sums = step_sums(binary.scores, kernel, lower, _Hinge(margin, smooth)).sum(dim=1)
    number = num_positives * num_negatives
    return LossPerQuery(sums / number.clamp(min=1), number > 0)


class HierarchicalTriplet(PairLoss):
    r"""Triplets at every level: an item of level l should be nearer than one of level l − 1, by the level's margin.

    .. math:: \sum_{l=1}^{L} \frac{1}{|P_l||P_{l-1}|} \sum_{p \in P_l} \sum_{n \in P_{l-1}} [s_n - s_p + m_l]_+

    s being cosines and P_l the candidates whose lowest common ancestor with the query is of level l, 0 for no common
    node; averaged over the queries that have a triplet. A pair of levels without a triplet adds nothing.
    Source: Zhang, Zhou, Lin and Zhang, *Embedding Label Structures for Fine-Grained Feature Representation* (CVPR
    2016), whose quadruplets have L = 2 and squared distances 2 − 2s: margins here are half of the steps of theirs,
    which are m₁ − m₂ and m₂. All triplets of the batch count, where the paper draws some.

    Args:
        margins: m_l of each level, coarse → fine.

    >>> import torch
    >>> paths = torch.tensor([[0, 0], [0, 0], [0, 1], [1, 2]])
    >>> round(float(HierarchicalTriplet((0.1, 0.2))(torch.eye(4), paths)), 4)  # all cosines alike: margins alone
    0.2333
    """

    _shown = ("margins",)

    def __init__(self, margins: Sequence[float]) -> None:
        super().__init__(include_self=False)
        self.margins = check_each("margins", margins, check_number, "one number or more, coarse → fine")

    def query_losses(self, pairs: ScoredPairs) -> LossPerQuery:
        """The sum over levels of the mean over triplets, a query."""
        if pairs.num_levels != len(self.margins):
            raise ShapeError(f"paths of {pairs.num_levels} levels", expected=f"{len(self.margins)}, as margins are")
        values, is_counted = torch.zeros_like(pairs.scores[:, 0]), torch.zeros_like(pairs.valid[:, 0])
        for level, margin in enumerate(self.margins, start=1):
            adjacent = pairs.valid & ((pairs.levels == level) | (pairs.levels == level - 1))
            losses = mean_over_triplets(pairs._replace(valid=adjacent).binary(level), margin)
            values, is_counted = values + losses.values, is_counted | losses.counted
        return LossPerQuery(values, is_counted)
