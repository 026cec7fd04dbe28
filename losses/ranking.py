"""The rank losses as modules: a step function, and a relevance from the counts of a batch."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hiertree.errors import ShapeError
from hiertree.options import check_choice, check_number, check_shares, require, with_options_of
from hiertree.relevance import gain, hap, weighted_ap

from .base import PairLoss
from .functional import SplitBy, ap_losses, h_ap_losses, ndcg_losses
from .pairs.blocks import LossPerQuery
from .pairs.pairs import ScoredPairs
from .pairs.soft_ranks import Sigmoid, StepOptions, SupStep

if TYPE_CHECKING:
    from typing_extensions import Unpack


class SupHAP(PairLoss):
    r"""Sup-H-AP: an upper bound of 1 − H-AP that can be minimized.

    .. math:: 1 - \frac{1}{R} \sum_{k \in \Omega^+} \frac{\text{H-rank}^+(k)}{\text{rank}^+(k) + \text{rank}^-_s(k)}

    averaged over the queries that have a positive. Formula, and the bound under ties:
    :mod:`hiertree.losses.functional`.
    Source: Ramzi et al., *Optimization of Rank Losses for Image Retrieval* (TPAMI 2025), Eq. 21.

    Args:
        alpha: relevance (l/L)^α / |Ω^(l)|; > 1 stresses the finest level.
        level_weights: w_l of each level, coarse → fine, adding up to 1, instead of alpha: the relevance is
            Σ_{p ≤ l} w_p / |Ω^{+,p}|, which makes the loss a bound of Σ_l w_l·(1 − AP at level l) (Property 1).
        split_by: "level", as the authors' code: rank⁻ sums over candidates of lower levels; "relevance", as the paper's
            equations: over less relevant ones. They differ where a crowded level is less relevant than a coarser one.
        include_self: a query is its own candidate, as in the authors' code.
        tau, rho, delta, start, offset: the step H⁻, see :class:`hiertree.losses.StepOptions`.

    >>> import torch
    >>> embeddings = torch.eye(4, requires_grad=True)
    >>> loss = SupHAP()(embeddings, torch.tensor([[0, 0], [0, 0], [0, 1], [1, 2]]))
    >>> loss.backward()
    >>> loss.item() > 0, embeddings.grad.shape
    (True, torch.Size([4, 4]))
    """

    @with_options_of(SupStep)
    def __init__(
        self,
        *,
        alpha: float = 1.0,
        level_weights: tuple[float, ...] | None = None,
        split_by: SplitBy = "level",
        include_self: bool = False,
        **step: Unpack[StepOptions],
    ) -> None:
        super().__init__(include_self=include_self)
        check_number("alpha", alpha, least=0)
        if level_weights is not None:
            require(alpha == 1, "alpha", alpha, "its default together with level_weights")
            level_weights = check_shares("level_weights", level_weights)
        check_choice("split_by", split_by, SplitBy)
        self.step: SupStep | Sigmoid = SupStep(**step)
        self.alpha, self.level_weights, self.split_by = alpha, level_weights, split_by
        self._shown = ("alpha" if level_weights is None else "level_weights", "step", "include_self")

    def query_losses(self, pairs: ScoredPairs) -> LossPerQuery:
        """The formula with this relevance."""
        weights = self.level_weights
        if weights is not None and len(weights) != pairs.num_levels:
            raise ShapeError(f"paths of {pairs.num_levels} levels", expected=f"{len(weights)}, as level_weights has")
        relevance = partial(hap, alpha=self.alpha) if weights is None else partial(weighted_ap, weights=weights)
        return h_ap_losses(pairs, pairs.table(relevance), step=self.step, split_by=self.split_by)


class SupNDCG(PairLoss):
    r"""Sup-NDCG: an upper bound of 1 − NDCG that can be minimized, with gains 2^l − 1.

    .. math:: 1 - \frac{1}{IDCG} \sum_{k \in \Omega^+} \frac{2^{l_k} - 1}{\log_2(1 + rank^+(k) + rank^-_s(k))}

    Source: Ramzi et al. (TPAMI 2025), Eq. 24. Options as in :class:`SupHAP`, without alpha and level_weights.

    >>> import torch
    >>> round(float(SupNDCG()(torch.eye(3), torch.tensor([[0, 0], [0, 0], [0, 1]]))), 4) > 0
    True
    """

    _shown = ("step", "include_self")

    @with_options_of(SupStep)
    def __init__(self, *, split_by: SplitBy = "level", include_self: bool = False, **step: Unpack[StepOptions]) -> None:
        super().__init__(include_self=include_self)
        check_choice("split_by", split_by, SplitBy)
        self.step: SupStep | Sigmoid = SupStep(**step)
        self.split_by = split_by

    def query_losses(self, pairs: ScoredPairs) -> LossPerQuery:
        """The formula with these gains, which do not depend on the counts."""
        table = gain(pairs.levels.new_zeros((len(pairs.levels), pairs.num_levels + 1)))
        return ndcg_losses(pairs, table, step=self.step, split_by=self.split_by)


class SupAP(PairLoss):
    r"""Sup-AP: an upper bound of 1 − AP that can be minimized.

    .. math:: 1 - \frac{1}{|\Omega^+|} \sum_{k \in \Omega^+} \frac{rank^+(k)}{rank^+(k) + rank^-_s(k)}

    Source: Ramzi et al. (TPAMI 2025), Eq. 11. Options as in :class:`SupHAP`, and

    Args:
        level: positives agree with the query down to this level; None: the finest.

    >>> import torch
    >>> perfect = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> float(SupAP()(perfect, torch.tensor([0, 0, 1, 1])))
    0.0
    """

    _shown = ("level", "step", "include_self")

    @with_options_of(SupStep)
    def __init__(self, *, level: int | None = None, include_self: bool = False, **step: Unpack[StepOptions]) -> None:
        super().__init__(level=level, include_self=include_self)
        self.step: SupStep | Sigmoid = SupStep(**step)

    def query_losses(self, pairs: ScoredPairs) -> LossPerQuery:
        """The formula for the positives of this level."""
        return ap_losses(pairs, level=self.level, step=self.step)


class SmoothHAP(SupHAP):
    """Smooth-H-AP: the objective of :class:`SupHAP` with σ(t/τ) for every step (an ablation, no bound).

    >>> import torch
    >>> 0 < float(SmoothHAP()(torch.eye(3), torch.tensor([[0, 0], [0, 0], [0, 1]]))) < 1
    True
    """

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        level_weights: tuple[float, ...] | None = None,
        tau: float = 0.01,
        include_self: bool = False,
    ) -> None:
        super().__init__(alpha=alpha, level_weights=level_weights, include_self=include_self)
        self.step = Sigmoid(tau)


class SmoothNDCG(SupNDCG):
    """Smooth-NDCG: the objective of :class:`SupNDCG` with σ(t/τ) for every step (an ablation, no bound).

    >>> import torch
    >>> 0 < float(SmoothNDCG()(torch.eye(3), torch.tensor([[0, 0], [0, 0], [0, 1]]))) < 1
    True
    """

    def __init__(self, *, tau: float = 0.01, include_self: bool = False) -> None:
        super().__init__(include_self=include_self)
        self.step = Sigmoid(tau)


class SmoothAP(SupAP):
    """Smooth-AP: the objective of :class:`SupAP` with σ(t/τ) for every step. Options as there.

    Source: Brown et al., *Smooth-AP: Smoothing the Path Towards Large-Scale Image Retrieval* (ECCV 2020), Eq. 7.

    >>> import torch
    >>> 0 < float(SmoothAP()(torch.eye(3), torch.tensor([0, 0, 1]))) < 1
    True
    """

    def __init__(self, *, level: int | None = None, tau: float = 0.01, include_self: bool = False) -> None:
        super().__init__(level=level, include_self=include_self)
        self.step = Sigmoid(tau)
