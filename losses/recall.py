"""Recall at k, true to the number of positives, made differentiable: of ranks, by a second sigmoid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hiertree.options import check_each, check_integer, check_number, split_options, with_options_of

from .base import PairLoss
from .pairs.blocks import LossPerQuery
from .pairs.mixup import mixed_pairs_of
from .pairs.of_scores import ScoreOptions, SupOptions, loss_of_scores
from .pairs.pairs import ScoredPairs, VectorPairs
from .pairs.ranks import soft_ranks
from .pairs.steps import Sigmoid, StepOptions, SupStep

if TYPE_CHECKING:
    from typing_extensions import Unpack

KS = (1, 2, 4, 8, 16)


def recall_losses(
    pairs: ScoredPairs, level: int | None, step: SupStep | Sigmoid, *, ks: Sequence[int], tau_star: float
) -> LossPerQuery:
    """1 − mean over k of min(1, Σ_{j ∈ Ω⁺} σ((k − rank(j))/τ*) / min(k, |Ω⁺|)), a query."""
    binary = pairs.binary(level)
    positive = binary.valid & (binary.levels > 0)
    num_positives, rank = positive.sum(dim=1), soft_ranks(binary, step).rank()
    recalls = []
    for k in ks:
        found = (torch.sigmoid((k - rank) / tau_star) * positive).sum(dim=1)
        recalls.append((found / num_positives.clamp(min=1, max=k)).clamp(max=1))
    counted = num_positives > 0
    return LossPerQuery((1 - torch.stack(recalls).mean(dim=0)) * counted, counted)


def check_recall(ks: Sequence[int], tau_star: float) -> None:
    """Refuse lists that cannot be cut, and a temperature that cannot divide."""
    check_each("ks", ks, check_integer, "one integer ≥ 1 or more")
    check_number("tau_star", tau_star, above=0)


class _Recall(PairLoss):
    def __init__(
        self,
        step: SupStep | Sigmoid,
        *,
        ks: tuple[int, ...],
        tau_star: float,
        level: int | None,
        include_self: bool,
    ) -> None:
        super().__init__(include_self=include_self)
        check_recall(ks, tau_star)
        check_integer("level", level, or_none=True)
        self.step, self.ks, self.tau_star, self.level = step, tuple(ks), tau_star, level

    def query_losses(self, pairs: ScoredPairs) -> LossPerQuery:
        return recall_losses(pairs, self.level, self.step, ks=self.ks, tau_star=self.tau_star)

    def extra_repr(self) -> str:
        return f"ks={self.ks}, tau_star={self.tau_star}, level={self.level or 'finest'}, step={self.step}"


class SupRecall(_Recall):
    r"""Sup-R@k: recall at several k, from ranks that are never too small where a negative stands ahead.

    .. math:: 1 - \frac{1}{|K|} \sum_{k \in K} \frac{1}{\min(k, |\Omega^+|)}
              \sum_{j \in \Omega^+} \sigma\left(\frac{k - rank^+(j) - rank^-_s(j)}{\tau^*}\right)

    averaged over the queries that have a positive. The second sigmoid is no step: the loss is above 0 even for a
    perfect ranking, and no bound of 1 − TR@k. A recall counts as 1 at most, which Eq. 16 does not say; this makes a
    difference only where τ* > 1.05.
    Source: Ramzi et al., *Optimization of Rank Losses for Image Retrieval* (TPAMI 2025), Eq. 16.

    Args:
        ks: K, the lengths of lists.
        tau_star: temperature τ* of the second sigmoid.
        level: positives agree with the query down to this level; None: the finest.
        include_self: a query is its own candidate, as in the authors' code.
        tau, rho, delta, start, offset: the step H⁻, see :class:`hiertree.losses.StepOptions`.

    >>> import torch
    >>> perfect = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> round(float(SupRecall(ks=(1,))(perfect, torch.tensor([0, 0, 1, 1]))), 4)  # σ(0) of the one positive, at rank 1
    0.5
    """

    @with_options_of(SupStep)
    def __init__(
        self,
        *,
        ks: tuple[int, ...] = KS,
        tau_star: float = 1.0,
        level: int | None = None,
        include_self: bool = False,
        **step: Unpack[StepOptions],
    ) -> None:
        super().__init__(SupStep(**step), ks=ks, tau_star=tau_star, level=level, include_self=include_self)


class SmoothRecall(_Recall):
    r"""Smooth-R@k, the recall@k surrogate: :class:`SupRecall` with σ(t/τ) for every step.

    Many positives with one score each rank in their middle, so that more of them seem found than k: a recall counts as
    1 at most. Source: Patel et al., *Recall@k Surrogate Loss with Large Batches and Similarity Mixup* (CVPR 2022).

    Args:
        ks: K, the lengths of lists.
        tau_star: temperature τ* of the second sigmoid.
        level: positives agree with the query down to this level; None: the finest.
        tau: temperature τ of the first.
        similarity_mixup: SiMix; while training, every two images of a class make a virtual one, which queries and is
            ranked like the others and whose similarities are α and 1 − α parts of theirs, α ~ U(0, 1) from torch's
            generator. A class of n images in the batch adds n(n − 1)/2.
        include_self: a query is its own candidate.

    >>> import torch
    >>> 0 < float(SmoothRecall()(torch.eye(3), torch.tensor([0, 0, 1]))) < 1
    True
    """

    def __init__(
        self,
        *,
        ks: tuple[int, ...] = KS,
        tau_star: float = 1.0,
        level: int | None = None,
        tau: float = 0.01,
        similarity_mixup: bool = False,
        include_self: bool = False,
    ) -> None:
        super().__init__(Sigmoid(tau), ks=ks, tau_star=tau_star, level=level, include_self=include_self)
        self.similarity_mixup = similarity_mixup

    @property
    def is_mean_over_queries(self) -> bool:
        """Not where queries are mixed."""
        return not self.similarity_mixup

    def pairs_of(self, embeddings: Any, paths: Any, ref_embeddings: Any, ref_paths: Any, *, valid: Any) -> VectorPairs:
        """The batch and, with similarity mixup, its virtual images."""
        if not (self.similarity_mixup and self.training):
            return super().pairs_of(embeddings, paths, ref_embeddings, ref_paths, valid=valid)
        return mixed_pairs_of(
            embeddings,
            paths,
            ref_embeddings,
            ref_paths,
            level=self.level,
            valid=valid,
            include_self=self.include_self,
        )


@with_options_of(SupStep, loss_of_scores)
def sup_recall(
    scores: Tensor,
    levels: Any,
    table: Any,
    *,
    ks: Sequence[int] = KS,
    tau_star: float = 1.0,
    level: int | None = None,
    **options: Unpack[SupOptions],
) -> Tensor:
    r"""Sup-R@k (Ramzi et al., TPAMI 2025, Eq. 16); the formula is in :class:`hiertree.losses.SupRecall`.

    Arguments as in :func:`sup_ap`, and ``ks``, ``tau_star``: the lengths of lists and the second sigmoid's temperature.

    >>> scores, levels = torch.tensor([[0.9, 0.2, 0.1]]), torch.tensor([[0, 1, 1]])
    >>> round(float(sup_recall(scores, levels, torch.ones(1, 2), ks=(1, 2))), 3) > 0.9
    True
    """
    check_recall(ks, tau_star)
    of_step, of_scores = split_options(options, SupStep, loss_of_scores)
    step = SupStep(**of_step)
    return loss_of_scores(
        lambda pairs, _: recall_losses(pairs, level, step, ks=ks, tau_star=tau_star), scores, levels, table, **of_scores
    )


@with_options_of(loss_of_scores)
def smooth_recall(
    scores: Tensor,
    levels: Any,
    table: Any,
    *,
    ks: Sequence[int] = KS,
    tau_star: float = 1.0,
    level: int | None = None,
    tau: float = 0.01,
    **options: Unpack[ScoreOptions],
) -> Tensor:
    """Smooth-R@k: :func:`sup_recall` with σ(t/τ) for every step (Patel et al., CVPR 2022).

    >>> scores, levels = torch.tensor([[0.9, 0.2, 0.1]]), torch.tensor([[0, 1, 1]])
    >>> 0 < float(smooth_recall(scores, levels, torch.ones(1, 2), ks=(1, 2))) < 1
    True
    """
    check_recall(ks, tau_star)
    step = Sigmoid(tau)
    return loss_of_scores(
        lambda pairs, _: recall_losses(pairs, level, step, ks=ks, tau_star=tau_star), scores, levels, table, **options
    )
