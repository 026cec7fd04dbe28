"""AP of similarities sorted into bins: FastAP and SoftBin-AP, one formula with two ways of counting bins."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from hiertree.options import check_integer

from ..base import PairLoss
from ..hashing.histogram import Bins, soft_histogram
from ..pairs.blocks import LossPerQuery
from ..pairs.objectives import one_minus
from ..pairs.of_scores import Reduction, binary_pairs, reduced
from ..pairs.pairs import ScoredPairs

COSINE_RANGE = 2  # 1 − cosine lies in 0 … 2


def binned_ap_losses(pairs: ScoredPairs, level: int | None, *, num_intervals: int) -> LossPerQuery:
    """1 − (1/|Ω⁺|)·Σ_z h⁺_z·H⁺_z/H_z, with soft counts h of 1 − cosine in bins, H those up to a bin; a query."""
    binary = pairs.binary(level)
    distances = binary._replace(scores=binary.scores.clamp(-1, 1) - 1)
    counts = soft_histogram(distances, Bins(COSINE_RANGE, num_intervals))
    positives = counts[:, 1]
    up_to = positives.cumsum(dim=1), counts.sum(dim=1).cumsum(dim=1)
    precision = up_to[0] / up_to[1].clamp(min=1e-12)  # a bin before the first item holds nothing to be precise about
    losses = one_minus((precision * positives).sum(dim=1), binary.counts()[:, 1])
    return losses._replace(values=losses.values.to(pairs.scores.dtype))


class _BinnedAP(PairLoss):
    def __init__(self, *, num_intervals: int, level: int | None, include_self: bool) -> None:
        super().__init__(include_self=include_self)
        check_integer("level", level, or_none=True)
        self.num_intervals, self.level = num_intervals, level

    def query_losses(self, pairs: ScoredPairs) -> LossPerQuery:
        return binned_ap_losses(pairs, self.level, num_intervals=self.num_intervals)

    def extra_repr(self) -> str:
        return f"num_intervals={self.num_intervals}, level={self.level or 'finest'}"


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
    """SoftBin-AP: the formula of :class:`FastAP` with ``num_bins`` centers over the cosines 1 … −1.

    Source: Revaud et al., *Learning with Average Precision: Training Image Retrieval with a Listwise Loss* (ICCV 2019).

    Args:
        num_bins: centers, the outermost at 1 and −1.
        level: positives agree with the query down to this level; None: the finest.
        include_self: a query is its own candidate.

    >>> import torch
    >>> perfect = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> round(float(SoftBinAP()(perfect, torch.tensor([0, 0, 1, 1]))), 6)
    0.0
    """

    def __init__(self, *, num_bins: int = 20, level: int | None = None, include_self: bool = False) -> None:
        check_integer("num_bins", num_bins, least=2)
        super().__init__(num_intervals=num_bins - 1, level=level, include_self=include_self)


def fast_ap(
    scores: Tensor,
    levels: Any,
    *,
    level: int,
    num_bins: int = 10,
    valid: Any = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """FastAP of cosines (Cakir et al., CVPR 2019, Eq. 9); the formula is in :class:`hiertree.losses.FastAP`.

    Args:
        scores: (B, M) cosines.
        levels: (B, M) integers.
        level: positives are at this level and finer.
        num_bins: intervals between the ``num_bins + 1`` centers. SoftBin-AP counts the centers: ``num_bins=19`` is its
            20 bins.
        valid: (B, M) booleans; False where the item is no candidate.
        reduction: "mean" over the queries that have a positive, or "none": (B,), 0 for the others.

    Raises:
        ShapeError, EmbeddingError, OptionError: as in :func:`sup_hap`.

    >>> import torch
    >>> round(float(fast_ap(torch.tensor([[0.9, 0.2, -0.8]]), torch.tensor([[0, 1, 0]]), level=1)), 3)
    0.5
    """
    check_integer("num_bins", num_bins)
    pairs = binary_pairs(scores, levels, level, valid)
    return reduced(binned_ap_losses(pairs, 1, num_intervals=num_bins), reduction)
