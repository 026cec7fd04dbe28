"""Losses of pairs and triplets of relaxed codes, from before those of rankings: HashNet, DPSH, DTSH, MIHash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from hiertree.options import check_integer, check_number, with_options_of

from ..hashing import CodeLoss, CodeOptions, minus_distances
from ..pairs.blocks import LossPerQuery, compute_in_blocks
from ..pairs.inputs import has_candidate
from ..pairs.pairs import ScoredPairs, VectorPairs
from ..tie_aware import bins_over, soft_histogram
from .contrastive import mean_over_triplets

if TYPE_CHECKING:
    from typing_extensions import Unpack


class LevelCodeOptions(CodeOptions, total=False):
    """Options of these losses, see :class:`hiertree.losses.TieAwareAP`."""

    level: int | None


class _LevelCodeLoss(CodeLoss):
    """A loss of codes whose positives agree with the query down to a level."""

    @with_options_of(CodeLoss)
    def __init__(self, *, level: int | None = None, **options: Unpack[CodeOptions]) -> None:
        super().__init__(**options)
        check_integer("level", level, or_none=True)
        self.level = level


class HashNet(_LevelCodeLoss):
    r"""HashNet: the weighted cross-entropy of whether two items share a class, from the product of their codes.

    .. math:: \frac{\sum_{ij} w_{ij} \left(\log(1 + e^{\theta_{ij}}) - y_{ij}\, \theta_{ij}\right)}{\sum_{ij} w_{ij}},
              \quad \theta_{ij} = a\, \varphi_i \cdot \varphi_j

    over all pairs of the batch, y = 1 for those of a class, φ = tanh(α·f). Time and memory are O(B·M).
    Source: Cao et al., *HashNet: Deep Learning to Hash by Continuation* (ICCV 2017), divided by the sum of the
    weights as in the authors' public code.

    Args:
        alpha, alpha_factor, alpha_every: α, which the paper calls β, see :class:`TieAwareAP`. The paper has it grow.
        slope: a; None: 10/b for codes of b bits, as in the public code.
        positive_weight: w of pairs of a class, against 1 of the others, ``class_num`` of the public code; None: what
            makes both kinds weigh the same in the batch, half the loss ``pairwise_loss_updated`` there.
        level: positives agree with the query down to this level; None: the finest.
        include_self: a query is its own candidate.

    >>> codes = torch.tensor([[9.0, 9.0], [9.0, 9.0], [-9.0, -9.0]])
    >>> round(float(HashNet()(codes, torch.tensor([0, 0, 1]))), 4)  # θ is 10 and −10
    0.0
    """

    is_mean_over_queries = False  # the weights depend on all pairs
    _shown = ("level", "alpha", "slope", "positive_weight")

    @with_options_of(_LevelCodeLoss)
    def __init__(
        self, *, slope: float | None = None, positive_weight: float | None = None, **options: Unpack[LevelCodeOptions]
    ) -> None:
        super().__init__(**options)
        for name, value in (("slope", slope), ("positive_weight", positive_weight)):
            if value is not None:
                check_number(name, value, above=0)
        self.slope, self.positive_weight = slope, positive_weight

    def losses_of(self, pairs: VectorPairs) -> LossPerQuery:
        """The loss of each query, as a share of the whole batch's."""
        binary = pairs.compared().binary(self.level)
        counts = binary.counts().to(binary.scores.dtype)
        num_negatives, num_positives = counts.sum(dim=0)
        balance = torch.where(num_negatives > 0, num_negatives / num_positives.clamp(min=1), 1)
        weight = balance if self.positive_weight is None else torch.full_like(balance, self.positive_weight)
        slope = 10 / pairs.queries.shape[1] if self.slope is None else self.slope
        total = weight * num_positives + num_negatives
        per_weight = (counts.sum(dim=1) > 0).sum() / torch.where(total > 0, total, 1)

        def query_losses(block: ScoredPairs, weights: Tensor) -> LossPerQuery:
            return LossPerQuery((weights * cross_entropies(block, slope)).sum(dim=1), block.valid.any(dim=1))

        weights = binary.valid.to(binary.scores.dtype) * torch.where(binary.positives(), weight, 1) * per_weight
        return compute_in_blocks(query_losses, binary, weights)


class _QuantizedCodeLoss(_LevelCodeLoss):
    """A loss of numbers α·f that are pulled to ±1 by a second term."""

    _saturates = False

    @with_options_of(_LevelCodeLoss)
    def __init__(self, *, quantization: float, **options: Unpack[LevelCodeOptions]) -> None:
        super().__init__(**options)
        check_number("quantization", quantization, least=0)
        self.quantization = quantization
        self.weights = {**self.weights, "quantization": quantization}

    def terms(
        self, embeddings: Any, paths: Any, ref_embeddings: Any = None, ref_paths: Any = None, *, valid: Any = None
    ) -> dict[str, Tensor]:
        """The loss of pairs or triplets, under the name of the class, and the mean of |u − sgn u|²."""
        terms = super().terms(embeddings, paths, ref_embeddings, ref_paths, valid=valid)
        codes = self.codes(embeddings)
        is_query = has_candidate(valid, embeddings, ref_embeddings, include_self=self.include_self)
        errors = (codes - torch.where(codes > 0, 1.0, -1.0)).square().sum(dim=1)
        return {**terms, "quantization": self.average(LossPerQuery(errors * is_query, is_query))}


class DPSH(_QuantizedCodeLoss):
    r"""Deep pairwise-supervised hashing: how likely the classes of pairs are, and how far their codes are from ±1.

    .. math:: \frac{1}{M} \sum_j \left(\log(1 + e^{\theta_{ij}}) - y_{ij}\, \theta_{ij}\right)
              + \lambda\, |u_i - \operatorname{sgn} u_i|^2, \quad \theta_{ij} = u_i \cdot u_j / 2

    averaged over the items i that have a candidate j, of M; y = 1 for one of its class, u = α·f.
    Source: Li, Wang and Kang, *Feature Learning Based Deep Supervised Hashing with Pairwise Labels* (IJCAI 2016),
    divided by the number of pairs as in the public code of their group. There the candidates are all training
    images, as last embedded: here ``CrossBatchMemory(…, enqueue="before")``.

    Args:
        alpha: u = α·f. Embeddings of unit length need about √b to become b numbers near ±1.
        quantization: λ for a mean over pairs; 10 over 5,000 candidates in the public code.
        level: positives agree with the query down to this level; None: the finest.
        include_self: a query is its own candidate.

    >>> codes = torch.tensor([[4.0, 4.0], [4.0, 4.0], [-4.0, -4.0]])
    >>> terms = DPSH().terms(codes, torch.tensor([0, 0, 1]))
    >>> [round(float(term), 4) for term in terms.values()]  # θ is 16 and −16; each number is 3 from ±1
    [0.0, 18.0]
    """

    _shown = ("level", "alpha", "quantization")

    @with_options_of(_LevelCodeLoss)
    def __init__(self, *, quantization: float = 0.002, **options: Unpack[LevelCodeOptions]) -> None:
        super().__init__(quantization=quantization, **options)

    def query_losses(self, pairs: ScoredPairs, num_bits: int) -> LossPerQuery:  # noqa: ARG002
        """The mean over the candidates of a query."""
        losses, num_candidates = cross_entropies(pairs.binary(self.level), 0.5) * pairs.valid, pairs.valid.sum(dim=1)
        return LossPerQuery(losses.sum(dim=1) / num_candidates.clamp(min=1), num_candidates > 0)


class DTSH(_QuantizedCodeLoss):
    r"""Deep supervised hashing with triplet labels: how likely a positive is nearer than a negative, by a margin.

    .. math:: \frac{1}{|P||N|} \sum_{p \in P} \sum_{n \in N} \log\left(1 + e^{\theta_{in} - \theta_{ip} + m}\right)
              + \lambda\, |u_i - \operatorname{sgn} u_i|^2, \quad \theta_{ij} = u_i \cdot u_j / 2

    averaged over the items i that have positives P and negatives N; u = α·f. All triplets of the batch count, of which
    the public code draws 50 × 50 from each pair of classes. Memory is bounded, time O(B·M·\|P\|).
    Source: Wang, Shi and Kitani, *Deep Supervised Hashing with Triplet Labels* (ACCV 2016).

    Args:
        margin: m; None: b/2 for codes of b bits, as in the public code.
        alpha: as in :class:`DPSH`.
        quantization: λ for a mean over triplets; 100 over 22,500 triplets in the public code.
        level: positives agree with the query down to this level; None: the finest.
        include_self: a query is its own candidate.

    >>> codes = torch.tensor([[4.0, 4.0], [4.0, 4.0], [-4.0, -4.0]])
    >>> terms = DTSH().terms(codes, torch.tensor([0, 0, 1]))  # θ is 16 and −16, m is 1
    >>> [round(float(term), 4) for term in terms.values()]
    [0.0, 18.0]
    """

    _shown = ("level", "margin", "alpha", "quantization")

    @with_options_of(_LevelCodeLoss)
    def __init__(
        self, *, margin: float | None = None, quantization: float = 0.0044, **options: Unpack[LevelCodeOptions]
    ) -> None:
        super().__init__(quantization=quantization, **options)
        if margin is not None:
            check_number("margin", margin, least=0)
        self.margin = margin

    def query_losses(self, pairs: ScoredPairs, num_bits: int) -> LossPerQuery:
        """The mean over the triplets of a query."""
        margin = num_bits / 2 if self.margin is None else self.margin
        halves = pairs._replace(scores=pairs.scores / 2)
        return mean_over_triplets(halves.binary(self.level), margin, smooth=True)


class MIHash(_LevelCodeLoss):
    r"""MIHash: minus the mutual information of the Hamming distance and of whether an item is a positive, in bits.

    .. math:: -I(D; C) = -\sum_{c, d} p(c, d) \log_2 \frac{p(c, d)}{p(c)\, p(d)}

    of soft counts of the candidates at each distance, as in :class:`TieAwareAP`; from −1 to 0, averaged over the
    queries that have a positive. Source: Cakir, He, Bargal and Sclaroff, *Hashing with Mutual Information*
    (TPAMI 2019); *MIHash: Online Hashing with Mutual Information* (ICCV 2017).

    Args:
        alpha, alpha_factor, alpha_every, num_bins, level, include_self: as in :class:`TieAwareAP`. The public code has
            2·sigmoid(s·f) − 1 for codes, tanh(α·f) with α = s/2.

    >>> codes = torch.tensor([[9.0, 9.0], [9.0, 9.0], [-9.0, -9.0]])
    >>> round(float(MIHash()(codes, torch.tensor([0, 0, 1]))), 4)  # a positive and a negative, at distances 0 and 2
    -1.0
    """

    _shown = ("level", "alpha", "num_bins")

    @with_options_of(_LevelCodeLoss)
    def __init__(self, *, num_bins: int | None = None, **options: Unpack[LevelCodeOptions]) -> None:
        super().__init__(**options)
        check_integer("num_bins", num_bins, or_none=True)
        self.num_bins = num_bins

    def query_losses(self, pairs: ScoredPairs, num_bits: int) -> LossPerQuery:
        """−I = H(D, C) − H(D) − H(C), a query."""
        binary = minus_distances(pairs.binary(self.level), num_bits)
        counts = soft_histogram(binary, bins_over(num_bits, self.num_bins))
        frequencies = counts / binary.valid.sum(dim=1)[:, None, None].clamp(min=1)
        values = _entropy(frequencies.flatten(1)) - _entropy(frequencies.sum(dim=1)) - _entropy(frequencies.sum(dim=2))
        has_positive = binary.positives().any(dim=1)
        return LossPerQuery((values * has_positive).to(pairs.scores.dtype), has_positive)


def cross_entropies(pairs: ScoredPairs, slope: float) -> Tensor:
    """(B, M) log(1 + e^θ) − y·θ, for θ = slope·score and two levels y."""
    theta = slope * pairs.scores
    return softplus(torch.where(pairs.positives(), -theta, theta))


def _entropy(frequencies: Tensor) -> Tensor:
    """(B,) −Σ p·log2(p); an empty share has no derivative."""
    return -(frequencies * torch.where(frequencies > 0, frequencies, 1).log2()).sum(dim=1)
