"""Losses of pairs and triplets: contrastive ones of one level and of all, and triplets of every level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from hiertree.errors import ShapeError
from hiertree.metrics.engine.device import sent
from hiertree.options import check_each, check_integer, check_number

from ..base import LevelLosses, PairLoss
from ..kernels.steps import AllPairs
from ..pairs.blocks import LossPerQuery
from ..pairs.inputs import CheckedPaths, full_mask, unit_vectors
from ..pairs.pairs import ScoredPairs
from ..pairs.soft_ranks import step_sums

TEMPERATURE = 0.07


class SupCon(PairLoss):
    r"""Supervised contrastive loss: the cross-entropy of each positive among all candidates of a query.

    .. math:: -\frac{1}{|\Omega^+|} \sum_{j \in \Omega^+} \log \frac{\exp(s_j / \tau)}{\sum_i \exp(s_i / \tau)}

    s being cosines, averaged over the queries that have a positive.
    Source: Khosla et al., *Supervised Contrastive Learning* (NeurIPS 2020), Eq. 2.

    Args:
        temperature: τ. The authors' public code multiplies the loss by τ/0.07 besides, which is 1 at the default.
        level: positives agree with the query down to this level; None: the finest.

    >>> import torch
    >>> round(float(SupCon(temperature=1.0)(torch.eye(4), torch.tensor([0, 0, 1, 1]))), 4)  # one of three, all alike
    1.0986
    """

    _shown = ("temperature", "level")

    def __init__(self, *, temperature: float = TEMPERATURE, level: int | None = None) -> None:
        super().__init__(include_self=False, level=level)
        check_number("temperature", temperature, above=0)
        self.temperature = temperature

    def query_losses(self, pairs: ScoredPairs) -> LossPerQuery:
        """The cross-entropy of each query."""
        binary = pairs.binary(self.level)
        positive = binary.positives()
        impossible = torch.finfo(pairs.scores.dtype).min / 4  # finite, as gradients must be
        logits = (pairs.scores / self.temperature).masked_fill(~pairs.valid, impossible)
        log_shares = logits.log_softmax(dim=1).masked_fill(~positive, 0)
        num_positives = positive.sum(dim=1)
        return LossPerQuery(-log_shares.sum(dim=1) / num_positives.clamp(min=1), num_positives > 0)


class HiMulCon(LevelLosses):
    r"""Hierarchical multi-label contrastive loss (HiMulConE): SupCon at every level, finer levels weighing more.

    .. math:: \frac{1}{L + 1} \sum_{l=1}^{L} b^{1 / (L - l + 1)} \, \max(C_l, \max_{m > l} C_m)

    C_L is :class:`SupCon` of the batch; C_l that of one item (the first) of every node of level l + 1, whose positives
    share the node of level l. The maximum is left out without ``constrained`` (HiMulCon); all levels weigh the same
    with b = 1 (HiConE). A level without a positive gives 0. With reference embeddings they are thinned out likewise.
    Source: Zhang et al., *Use All The Labels: A Hierarchical Multi-Label Contrastive Learning Framework* (CVPR 2022),
    in the form of the authors' public code, whose maximum is of levels, not of pairs, for one view of each image.

    Args:
        num_levels: L.
        temperature: τ. The public code's loss is τ/0.07 times this one, as in :class:`SupCon`.
        constrained: no level has a smaller loss than a finer one.
        base: b, 2 in the paper and the public code's loss; its training script has e.

    >>> import torch
    >>> paths = torch.tensor([[0, 0], [0, 0], [0, 1], [0, 1]])
    >>> loss = HiMulCon(2, temperature=1.0)
    >>> [round(float(term), 4) for term in loss.terms(torch.eye(4), paths).values()]  # one of three; the only one
    [1.0986, 1.0986]
    """

    is_mean_over_queries = False
    _shown = ("num_levels", "temperature", "constrained", "base")

    def __init__(
        self, num_levels: int, *, temperature: float = TEMPERATURE, constrained: bool = True, base: float = 2.0
    ) -> None:
        check_integer("num_levels", num_levels)
        check_number("base", base, above=0)
        levels = range(1, num_levels + 1)
        super().__init__(
            (SupCon(temperature=temperature, level=level) for level in levels),
            (base ** (1 / (num_levels - level + 1)) / (num_levels + 1) for level in levels),
        )
        self.num_levels, self.temperature, self.constrained, self.base = num_levels, temperature, constrained, base

    def terms(
        self, embeddings: Any, paths: Any, ref_embeddings: Any = None, ref_paths: Any = None, *, valid: Any = None
    ) -> dict[str, Tensor]:
        """The loss of each level, from the finest."""
        batch, paths, refs, ref_paths = self._checked_batch(embeddings, paths, ref_embeddings, ref_paths)
        query_paths, within_batch = self._checked(paths, batch, "paths"), refs is None or refs is batch
        queries = unit_vectors(batch, name="embeddings")
        candidates = None if within_batch else unit_vectors(refs, name="ref_embeddings")
        candidate_paths = query_paths if within_batch else self._checked(ref_paths, refs, "ref_paths")
        shape = len(queries), len(queries if candidates is None else candidates)
        mask = None if valid is None else full_mask(valid, shape, queries.device)
        terms, largest = {}, queries.new_zeros(())
        for level, (name, loss) in reversed([*enumerate(self._losses_of_levels().items(), 1)]):
            rows, columns = (self._representatives(each_paths, level) for each_paths in (query_paths, candidate_paths))
            references = (None, None) if candidates is None else (candidates[columns], candidate_paths.tensor[columns])
            pair_mask = None if mask is None else mask[rows][:, columns]
            value = loss(queries[rows], query_paths.tensor[rows], *references, valid=pair_mask)
            if self.constrained and loss.last_num_skipped < len(rows):
                largest = value = torch.maximum(value, largest)
            terms[name] = value
        return terms

    def _representatives(self, paths: CheckedPaths, level: int) -> Tensor:
        """The rows of the first item of each node below a level, and of those of unknown node; at the finest, all."""
        rows = np.arange(len(paths.ids))
        if level < self.num_levels:
            nodes = paths.ids[:, : level + 1]
            rows = np.union1d(np.unique(nodes, axis=0, return_index=True)[1], np.flatnonzero(nodes[:, -1] < 0))
        return sent(rows, paths.tensor.device)


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
    num_triplets = num_positives * num_negatives
    return LossPerQuery(sums / num_triplets.clamp(min=1), num_triplets > 0)


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
