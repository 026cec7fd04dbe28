"""Losses that learn binary codes, relaxed during training and packed into bytes for retrieval."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import torch
from torch import Tensor

from hiertree.options import check_integer, check_number, with_options_of
from hiertree.relevance import gain

from .base import Loss
from .pairs.blocks import LossPerQuery, compute_in_chunks
from .pairs.inputs import finite_vectors
from .pairs.pairs import ScoredPairs, VectorPairs, pairs_of
from .tie_aware import bins_over, tie_aware_ap_losses, tie_aware_ndcg_losses

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Unpack


def binary_codes(embeddings: Any) -> NDArray[np.uint8]:
    """The codes of learned embeddings: bit i of an item is 1 where its i-th number is positive.

    Args:
        embeddings: (n, b) floats, as given to the hashing losses.

    Returns:
        (n, ⌈b/8⌉) bytes, the first bit being the highest of the first byte, as in ``numpy.packbits`` and faiss; what
        :func:`hiertree.metrics.evaluate_codes` takes. Bits beyond b are 0.

    >>> binary_codes(torch.tensor([[0.3, -1.0, 2.0, 0.0, -0.1, 0.2, 0.1, 0.4, 5.0]]))
    array([[167, 128]], dtype=uint8)
    """
    positive = finite_vectors(embeddings) > 0
    return np.packbits(positive.cpu().numpy(), axis=1)


def minus_distances(products: ScoredPairs, num_bits: int) -> ScoredPairs:
    """Pairs whose scores are −(b − φ·φ′)/2, from inner products of codes of b bits."""
    return products._replace(scores=(products.scores - num_bits) / 2)


@dataclass(frozen=True)
class GrowingAlpha:
    """α by epoch, initial·factor^⌊epoch/every⌋: codes become more binary as training goes on.

    Args:
        initial: α of the first epochs.
        factor: α is multiplied by it after every ``every`` epochs.
        every: epochs between two growths.

    >>> growth = GrowingAlpha(initial=1.0, factor=2.0, every=10)
    >>> [growth(epoch) for epoch in (0, 9, 10, 35)]
    [1.0, 1.0, 2.0, 8.0]
    """

    initial: float = 1.0
    factor: float = 2.0
    every: int = 10

    def __post_init__(self) -> None:
        check_number("initial", self.initial, above=0)
        check_number("factor", self.factor, least=1)
        check_integer("every", self.every)

    def __call__(self, epoch: int) -> float:
        """α of an epoch, counted from 0."""
        return self.initial * self.factor ** (epoch // self.every)


class CodeOptions(TypedDict, total=False):
    """Options that the losses of codes have in common, see :class:`TieAwareAP`."""

    alpha: float
    alpha_factor: float
    alpha_every: int
    include_self: bool


class TieAwareOptions(CodeOptions, total=False):
    """Options of both tie-aware losses, see :class:`TieAwareAP`."""

    num_bins: int | None
    simplified: bool


class CodeLoss(Loss):
    """A mean over queries of a function of the inner products of relaxed codes."""

    _compares_codes = _compares_pairs = True
    _saturates = True  # whether tanh bounds the codes

    def __init__(
        self, *, alpha: float = 1.0, alpha_factor: float = 1.0, alpha_every: int = 1, include_self: bool = False
    ) -> None:
        super().__init__()
        check_number("alpha", alpha, above=0)
        check_number("alpha_factor", alpha_factor, least=1)
        check_integer("alpha_every", alpha_every)
        self._growth = GrowingAlpha(alpha, alpha_factor, alpha_every)
        self.include_self = include_self
        self.weights = {type(self).__name__: 1.0}

    @property
    def alpha(self) -> float:
        """α of the codes, of this epoch; set it to follow a schedule of your own."""
        return self._growth(self._epoch)

    @alpha.setter
    def alpha(self, alpha: float) -> None:
        check_number("alpha", alpha, above=0)
        self._growth, self._epoch = replace(self._growth, initial=alpha), 0

    def codes(self, embeddings: Any, *, name: str = "embeddings") -> Tensor:
        """(n, b) tanh(α·f), or α·f, in float32 or better."""
        scaled = self.alpha * finite_vectors(embeddings, name=name)
        return torch.tanh(scaled) if self._saturates else scaled

    def terms(
        self, embeddings: Any, paths: Any, ref_embeddings: Any = None, ref_paths: Any = None, *, valid: Any = None
    ) -> dict[str, Tensor]:
        """The one term, under the name of the class."""
        options: dict[str, Any] = {"valid": valid, "include_self": self.include_self, "to_vectors": self.codes}
        pairs = pairs_of(embeddings, paths, ref_embeddings, ref_paths, **options)._replace(grades=self._grades)
        return {type(self).__name__: self._mean(self.losses_of(pairs))}

    def losses_of(self, pairs: VectorPairs) -> LossPerQuery:
        """The loss of each query."""
        return compute_in_chunks(partial(self.query_losses, num_bits=pairs.queries.shape[1]), pairs)

    def query_losses(self, pairs: ScoredPairs, num_bits: int) -> LossPerQuery:
        """The loss of each of some queries; scores are inner products of codes of so many bits."""
        raise NotImplementedError


class _TieAware(CodeLoss):
    """A function of relaxed Hamming distances."""

    _shown: tuple[str, ...] = ("alpha", "num_bins", "simplified")

    @with_options_of(CodeLoss)
    def __init__(
        self, *, num_bins: int | None = None, simplified: bool = False, **options: Unpack[CodeOptions]
    ) -> None:
        super().__init__(**options)
        check_integer("num_bins", num_bins, or_none=True)
        self.num_bins, self.simplified = num_bins, simplified


class TieAwareAP(_TieAware):
    r"""1 − tie-aware AP of Hamming distances between relaxed codes: learns binary codes.

    .. math:: 1 - \frac{1}{|\Omega^+|} \sum_d c^+_d \left[(C^+_{d-1} + 1) \lambda_d + (c^+_d - 1) \kappa_d\right]

    with soft counts c, cumulated C, of the distances (b − φ·φ′)/2, φ = tanh(α·f). λ and κ are means over a tie's ranks:
    on binary codes this *is* 1 − AP_T, the expectation over all orders of tied items. Embeddings are not normalized:
    each of their b dimensions becomes a bit, :func:`hiertree.losses.binary_codes`. A query is not its own candidate.
    Apart from the inner products, time and memory are O(B·M) for the pairs and O(B·V·b) for the counts of V levels.

    Formula and functional form: :func:`hiertree.losses.functional.tie_aware_ap`.
    Source: He et al., *Hashing as Tie-Aware Learning to Rank* (CVPR 2018), Eq. 6, 11, 14, 15.

    Args:
        alpha: α > 0 of the first epochs. The paper has 40, for the raw outputs of its network, or an α that grows,
            which it found better by 0.4 to 1.9 points (appendix D). For embeddings of unit length, whose numbers are
            about 1/√b, use about √b.
        alpha_factor: what α is multiplied with after every ``alpha_every`` epochs, see :meth:`start_epoch` and
            :class:`hiertree.losses.GrowingAlpha`.
        alpha_every: epochs between two such growths.
        level: positives agree with the query down to this level; None: the finest.
        num_bins: the soft histogram has num_bins + 1 bins, at most b + 1; None: b + 1. Fewer are less sparse.
        simplified: AP_s (Eq. 62), which takes the precision at a tie's mean rank.
        include_self: a query is its own candidate.

    >>> import torch
    >>> embeddings = torch.tensor([[9.0, 9.0], [9.0, -9.0], [-9.0, 9.0]], requires_grad=True)
    >>> loss = TieAwareAP()(embeddings, torch.tensor([0, 0, 1]))
    >>> loss.backward()
    >>> round(loss.item(), 4)  # 1 − (1/1 + 1/2)/2 for the first query, 0 for the second, the third is skipped
    0.125
    """

    _shown = ("level", "alpha", "num_bins", "simplified")

    @with_options_of(_TieAware)
    def __init__(self, *, level: int | None = None, **options: Unpack[TieAwareOptions]) -> None:
        super().__init__(**options)
        check_integer("level", level, or_none=True)
        self.level = level

    def query_losses(self, pairs: ScoredPairs, num_bits: int) -> LossPerQuery:
        """1 − AP_r or 1 − AP_s, a query."""
        bins = bins_over(num_bits, self.num_bins)
        return tie_aware_ap_losses(minus_distances(pairs, num_bits), self.level, bins, simplified=self.simplified)


class TieAwareNDCG(_TieAware):
    r"""1 − tie-aware NDCG of Hamming distances between relaxed codes, with gains 2^l − 1: learns binary codes.

    .. math:: 1 - \frac{1}{IDCG} \sum_d \frac{\sum_l (2^l - 1)\, c_{d,l}}{c_d}
              \int_{C_{d-1} + 1/2}^{C_d + 1/2} \frac{dt}{\log_2(1 + t)}

    the integral being ln 2·(li(C_d + 3/2) − li(C_{d−1} + 3/2)). Options as in :class:`TieAwareAP`; ``simplified`` is
    DCG_s (Eq. 66), whose loss bounds 1 − NDCG_T from above on binary codes.
    Functional form: :func:`hiertree.losses.functional.tie_aware_ndcg`, for other gains and affinities.
    Source: He et al. (CVPR 2018), Eq. 7, 12, 14, 15.

    >>> import torch
    >>> embeddings = torch.tensor([[9.0, 9.0, 9.0], [9.0, 9.0, 9.0], [9.0, 9.0, -9.0], [-9.0, -9.0, -9.0]])
    >>> paths = torch.tensor([[0, 0], [0, 0], [0, 1], [1, 2]])
    >>> round(float(TieAwareNDCG()(embeddings, paths)), 4)
    0.0
    """

    def query_losses(self, pairs: ScoredPairs, num_bits: int) -> LossPerQuery:
        """1 − NDCG_r or 1 − NDCG_s, a query."""
        distances, bins = minus_distances(pairs, num_bits), bins_over(num_bits, self.num_bins)
        return tie_aware_ndcg_losses(distances, gain(pairs.counts()), bins, simplified=self.simplified)
