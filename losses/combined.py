"""Rank losses made decomposable: (1 − λ)·rank term + λ·decomposability term."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor

from hiertree.errors import OptionError
from hiertree.options import check_choice, check_number, split_options, with_options_of

from .base import Loss, PairLoss
from .decomposability import PairDecomposability, ProxyDecomposability, ProxyOptions
from .functional import KS, SplitBy
from .pairs.soft_ranks import StepOptions, SupStep
from .ranking import SupAP, SupHAP, SupNDCG
from .recall import SupRecall

if TYPE_CHECKING:
    from typing_extensions import Unpack


class StepAndProxyOptions(StepOptions, ProxyOptions, total=False):
    """Options of the step H⁻ and of learned proxies."""


class PairOrProxyOptions(StepAndProxyOptions, total=False):
    """The same and those of :class:`PairDecomposability`; two of them are of the rank loss too."""

    level: int | None
    alpha: float
    beta: float
    reduction: str
    include_self: bool


class _Decomposable(Loss):
    _shown = ("lambda_",)

    def __init__(self, rank: PairLoss, decomposability: Loss, *, lambda_: float) -> None:
        super().__init__()
        check_number("lambda_", lambda_, least=0, most=1)
        self.rank, self.decomposability, self.lambda_ = rank, decomposability, float(lambda_)
        decomposability.include_self = rank.include_self  # both leave out the queries without a candidate
        self.weights = {type(rank).__name__: 1 - self.lambda_, type(decomposability).__name__: self.lambda_}

    def terms(
        self, embeddings: Any, paths: Any, ref_embeddings: Any = None, ref_paths: Any = None, *, valid: Any = None
    ) -> dict[str, Tensor]:
        batch = self._checked_batch(embeddings, paths, ref_embeddings, ref_paths)
        return {**self.rank.terms(*batch, valid=valid), **self.decomposability.terms(*batch, valid=valid)}

    @property
    def last_num_skipped(self) -> int:
        return self.rank.last_num_skipped


class HAPPIER(_Decomposable):
    r"""(1 − λ)·Sup-H-AP + λ·L*_DG, for hierarchical retrieval.

    Source: Ramzi et al. (TPAMI 2025), Eq. 22; *Hierarchical Average Precision Training for Pertinent Image Retrieval*
    (ECCV 2022). HAPPIER_F is ``alpha=5`` (SOP) or ``alpha=3`` (iNaturalist).

    Args:
        num_classes: finest classes, one proxy each.
        embedding_size: d.
        alpha: relevance (l/L)^α / |Ω^(l)|.
        level_weights: instead of alpha, see :class:`SupHAP`.
        split_by: "level" or "relevance", see :class:`SupHAP`.
        lambda_: λ, the weight of the proxies.
        include_self: a query is its own candidate, as in the authors' code.
        eta, centers, center_temperature, initial, sampled_classes: see :class:`hiertree.losses.ProxyOptions`.
        tau, rho, delta, start, offset: the step H⁻, see :class:`hiertree.losses.StepOptions`.

    >>> import torch
    >>> loss = HAPPIER(num_classes=3, embedding_size=4)
    >>> terms = loss.terms(torch.eye(4), torch.tensor([[0, 0], [0, 0], [0, 1], [1, 2]]))
    >>> sorted(terms), loss.last_num_skipped
    (['ProxyDecomposability', 'SupHAP'], 1)
    """

    @with_options_of(ProxyDecomposability, SupStep)
    def __init__(
        self,
        num_classes: int,
        embedding_size: int,
        *,
        alpha: float = 1.0,
        level_weights: tuple[float, ...] | None = None,
        split_by: SplitBy = "level",
        lambda_: float = 0.1,
        include_self: bool = False,
        **options: Unpack[StepAndProxyOptions],
    ) -> None:
        step, proxies = split_options(options, SupStep, ProxyDecomposability)
        rank = SupHAP(alpha=alpha, level_weights=level_weights, split_by=split_by, include_self=include_self, **step)
        super().__init__(rank, ProxyDecomposability(num_classes, embedding_size, **proxies), lambda_=lambda_)


class RODNDCG(_Decomposable):
    r"""(1 − λ)·Sup-NDCG + λ·L*_DG.

    Source: Ramzi et al. (TPAMI 2025), Eq. 25. Arguments as in :class:`HAPPIER`, without those of its relevance.

    >>> import torch
    >>> loss = RODNDCG(num_classes=3, embedding_size=4)
    >>> loss(torch.eye(4), torch.tensor([[0, 0], [0, 0], [0, 1], [1, 2]])).shape
    torch.Size([])
    """

    @with_options_of(ProxyDecomposability, SupStep)
    def __init__(
        self,
        num_classes: int,
        embedding_size: int,
        *,
        lambda_: float = 0.1,
        include_self: bool = False,
        **options: Unpack[StepAndProxyOptions],
    ) -> None:
        step, proxies = split_options(options, SupStep, ProxyDecomposability)
        rank = SupNDCG(include_self=include_self, **step)
        super().__init__(rank, ProxyDecomposability(num_classes, embedding_size, **proxies), lambda_=lambda_)


class RODRecall(_Decomposable):
    r"""(1 − λ)·Sup-R@K + λ·L*_DG, or with L_DG: robust and decomposable recall.

    Source: Ramzi et al. (TPAMI 2025), Eq. 17. Arguments as in :class:`ROADMAP`, but ``decomposability`` is
    "proxy" unless given, and ``ks``, ``tau_star`` as in :class:`SupRecall`.

    >>> import torch
    >>> loss = RODRecall(num_classes=3, embedding_size=4)
    >>> loss(torch.eye(4), torch.tensor([[0, 0], [0, 0], [0, 1], [1, 2]])).shape
    torch.Size([])
    """

    @with_options_of(PairDecomposability, ProxyDecomposability, SupStep)
    def __init__(
        self,
        num_classes: int | None = None,
        embedding_size: int | None = None,
        *,
        ks: tuple[int, ...] = KS,
        tau_star: float = 1.0,
        decomposability: str = "proxy",
        lambda_: float = 0.1,
        **options: Unpack[PairOrProxyOptions],
    ) -> None:
        rank = SupRecall(ks=ks, tau_star=tau_star, **_rank_options(options))
        term = _decomposability_term(decomposability, num_classes, embedding_size, options)
        super().__init__(rank, term, lambda_=lambda_)


class ROADMAP(_Decomposable):
    r"""(1 − λ)·Sup-AP + λ·L_DG, or with L*_DG: robust and decomposable average precision.

    Source: Ramzi et al., *Robust and Decomposable Average Precision for Image Retrieval* (NeurIPS 2021), with pairs and
    λ = 0.5; TPAMI 2025, Eq. 12, with proxies and λ = 0.1.

    Args:
        num_classes: finest classes; with ``decomposability="proxy"`` only.
        embedding_size: d; with ``decomposability="proxy"`` only.
        decomposability: "pair" (L_DG, Eq. 7) or "proxy" (L*_DG, Eq. 8).
        lambda_: λ; None: 0.5 with pairs, 0.1 with proxies.
        level: positives of Sup-AP and of the pairs agree down to this level; None: the finest. Proxies
            belong to the finest classes.
        alpha: L_DG's margin of positives.
        beta: L_DG's margin of negatives.
        reduction: L_DG's "mean" or "avg_nonzero".
        include_self: a query is its own candidate, as in the authors' code.
        eta, centers, center_temperature, initial, sampled_classes: see :class:`hiertree.losses.ProxyOptions`.
        tau, rho, delta, start, offset: the step H⁻, see :class:`hiertree.losses.StepOptions`.

    >>> import torch
    >>> ROADMAP().weights
    {'SupAP': 0.5, 'PairDecomposability': 0.5}
    >>> ROADMAP(3, 4, decomposability="proxy")(torch.eye(4), torch.tensor([0, 0, 1, 2])).shape
    torch.Size([])
    """

    @with_options_of(PairDecomposability, ProxyDecomposability, SupStep)
    def __init__(
        self,
        num_classes: int | None = None,
        embedding_size: int | None = None,
        *,
        decomposability: str = "pair",
        lambda_: float | None = None,
        **options: Unpack[PairOrProxyOptions],
    ) -> None:
        rank = SupAP(**_rank_options(options))
        term = _decomposability_term(decomposability, num_classes, embedding_size, options)
        default = 0.5 if decomposability == "pair" else 0.1
        super().__init__(rank, term, lambda_=default if lambda_ is None else lambda_)


def _rank_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of H⁻, and those that say what both terms compare."""
    (step,) = split_options(options, SupStep)
    return step | {name: options[name] for name in ("level", "include_self") if name in options}


def _decomposability_term(
    kind: str, num_classes: int | None, embedding_size: int | None, options: Mapping[str, Any]
) -> Loss:
    """L_DG or L*_DG, with its own of the options."""
    check_choice("decomposability", kind, Literal["pair", "proxy"])
    of_pairs, of_proxies = split_options(options, PairDecomposability, ProxyDecomposability)
    if kind == "pair":
        return PairDecomposability(**of_pairs)
    if num_classes is None or embedding_size is None:
        raise OptionError(
            "decomposability='proxy' without its sizes",
            expected="num_classes and embedding_size",
            remedy="give both",
            choose={"decomposability": ["pair"]},
        )
    return ProxyDecomposability(num_classes, embedding_size, **of_proxies)
