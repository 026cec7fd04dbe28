r"""Rank losses as functions of scores, levels and a relevance table.

For B queries and M candidates: ``scores`` (B, M) floats with the graph that leads to them, ``levels`` (B, M) integers
0 … L from :func:`hiertree.levels`, ``table`` (B, L+1) from :mod:`hiertree.relevance`. Definitions, for a query whose
positives are Ω⁺ (level ≥ 1), with H(t) = 1 for t ≥ 0 and else 0:

* H⁻(t) = σ(t/τ) for t < 0; σ(t/τ) + start for 0 ≤ t ≤ δ; ρ·(t − δ) + offset for t > δ. Defaults: δ = τ·ln(99),
  offset = σ(δ/τ) + start. With start ≥ 0.5 and offset ≥ 1, H⁻ ≥ H: the Sup losses bound 1 − metric from above, ties
  counting as ahead (``ties="paper"``); NDCG under every policy for ties, AP and H-AP where no two positives tie;
* rank⁺(k) = 1 + Σ_{j ≠ k, level_j ≥ level_k} H(s_j − s_k), without gradient;
* rank⁻(k) = Σ_{level_j < level_k} H⁻(s_j − s_k), which carries the gradient. ``split_by="relevance"`` compares rel(j)
  and rel(k) in both sums instead of levels.

Formulas are those of the classes of the same names. Half-precision scores are computed with in float32, float64 stays.
Memory is O(B·M). The gradient cannot be differentiated again. All raise ShapeError for shapes that do not fit together,
EmbeddingError for NaN or infinite scores, by row, PathError for levels outside 0 … L (or classes without a proxy), and
OptionError for an option or a relevance outside its range.

>>> import torch
>>> from hiertree.relevance import linear
>>> scores = torch.tensor([[0.9, 0.8, 0.1]], requires_grad=True)
>>> levels = torch.tensor([[1, 2, 0]], dtype=torch.uint8)
>>> loss = sup_hap(scores, levels, linear(torch.tensor([[1, 1, 1]])))
>>> loss.backward()
>>> bool(scores.grad[0, 0] > 0 > scores.grad[0, 1])  # the better item should rise, the one above it sink
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from hiertree.errors import ShapeError
from hiertree.options import check_number, with_options_of

from .baselines.average_precision import blackbox_ap, fast_ap
from .decomposability import PairDecomposability
from .pairs.blocks import LossPerQuery
from .pairs.objectives import SplitBy, SupStep
from .proxies import check_classes
from .ranking import SmoothAP, SmoothHAP, SmoothNDCG, SupAP, SupHAP, SupNDCG
from .recall import smooth_recall, sup_recall
from .score_losses import ScoreOptions, SupOptions, binary_pairs, check_scores, loss_of_scores, reduced
from .tie_aware import tie_aware_ap, tie_aware_ndcg

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "blackbox_ap",
    "fast_ap",
    "pair_decomposability",
    "proxy_decomposability",
    "smooth_ap",
    "smooth_hap",
    "smooth_ndcg",
    "smooth_recall",
    "sup_ap",
    "sup_hap",
    "sup_ndcg",
    "sup_recall",
    "tie_aware_ap",
    "tie_aware_ndcg",
]


@with_options_of(SupStep, loss_of_scores)
def sup_hap(
    scores: Tensor, levels: Any, table: Any, *, split_by: SplitBy = "level", **options: Unpack[SupOptions]
) -> Tensor:
    r"""Sup-H-AP, an upper bound of 1 − H-AP (Ramzi et al., TPAMI 2025, Eq. 21).

    Args:
        scores: (B, M) similarities.
        levels: (B, M) integers, 0 … L.
        table: (B, L+1) relevance ≥ 0 of each level; its scale does not matter.
        split_by: "level": rank⁻ sums over candidates of lower levels; "relevance": over less relevant ones.
        **options: the step H⁻, see :class:`hiertree.losses.StepOptions`, and ``valid``, ``reduction``, see
            :class:`hiertree.losses.ScoreOptions`.

    Returns:
        Scalar or (B,), ≥ 0 where H⁻ ≥ H.
    """
    return loss_of_scores(SupHAP, scores, levels, table, split_by=split_by, **options)


@with_options_of(SupStep, loss_of_scores)
def sup_ndcg(
    scores: Tensor, levels: Any, table: Any, *, split_by: SplitBy = "level", **options: Unpack[SupOptions]
) -> Tensor:
    """Sup-NDCG (Ramzi et al., TPAMI 2025, Eq. 24): as :func:`sup_hap`, ``table`` holding the gains.

    >>> from hiertree.relevance import gain
    >>> scores, levels = torch.tensor([[0.9, 0.2, 0.1]]), torch.tensor([[2, 1, 0]])
    >>> round(float(sup_ndcg(scores, levels, gain(torch.tensor([[1, 1, 1]])))), 3)
    0.0
    """
    return loss_of_scores(SupNDCG, scores, levels, table, split_by=split_by, **options)


@with_options_of(SupStep, loss_of_scores)
def sup_ap(
    scores: Tensor, levels: Any, table: Any, *, level: int | None = None, **options: Unpack[SupOptions]
) -> Tensor:
    """Sup-AP (Ramzi et al., TPAMI 2025, Eq. 11): as :func:`sup_hap`, positives being at ``level`` (None: L) and finer.

    The width of ``table`` gives the finest level; AP weighs all positives alike, so its values are not read.

    >>> scores, levels = torch.tensor([[0.9, 0.2, 0.1]]), torch.tensor([[2, 1, 0]])
    >>> float(sup_ap(scores, levels, torch.ones(1, 3)))
    0.0
    """
    return loss_of_scores(SupAP, scores, levels, table, level=level, **options)


@with_options_of(loss_of_scores)
def smooth_hap(
    scores: Tensor, levels: Any, table: Any, *, tau: float = 0.01, **options: Unpack[ScoreOptions]
) -> Tensor:
    """Smooth-H-AP: :func:`sup_hap` with σ(t/τ) in every place of H and H⁻ (an ablation, no bound).

    >>> from hiertree.relevance import linear
    >>> scores, levels = torch.tensor([[0.9, 0.2, 0.1]]), torch.tensor([[2, 1, 0]])
    >>> round(float(smooth_hap(scores, levels, linear(torch.tensor([[1, 1, 1]])))), 3)
    0.0
    """
    return loss_of_scores(SmoothHAP, scores, levels, table, tau=tau, **options)


@with_options_of(loss_of_scores)
def smooth_ndcg(
    scores: Tensor, levels: Any, table: Any, *, tau: float = 0.01, **options: Unpack[ScoreOptions]
) -> Tensor:
    """Smooth-NDCG: :func:`sup_ndcg` with σ(t/τ) in every place of H and H⁻ (an ablation, no bound).

    >>> from hiertree.relevance import gain
    >>> scores, levels = torch.tensor([[0.9, 0.2, 0.1]]), torch.tensor([[2, 1, 0]])
    >>> round(float(smooth_ndcg(scores, levels, gain(torch.tensor([[1, 1, 1]])))), 3)
    0.0
    """
    return loss_of_scores(SmoothNDCG, scores, levels, table, tau=tau, **options)


@with_options_of(loss_of_scores)
def smooth_ap(
    scores: Tensor,
    levels: Any,
    table: Any,
    *,
    level: int | None = None,
    tau: float = 0.01,
    **options: Unpack[ScoreOptions],
) -> Tensor:
    """Smooth-AP (Brown et al., ECCV 2020, Eq. 7): :func:`sup_ap` with σ(t/τ) in every place of H and H⁻.

    >>> scores, levels = torch.tensor([[0.9, 0.2, 0.1]]), torch.tensor([[1, 1, 0]])
    >>> round(float(smooth_ap(scores, levels, torch.ones(1, 2))), 3)
    0.0
    """
    return loss_of_scores(SmoothAP, scores, levels, table, level=level, tau=tau, **options)


def pair_decomposability(
    scores: Tensor,
    levels: Any,
    *,
    level: int,
    alpha: float = 0.9,
    beta: float = 0.6,
    valid: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """L_DG, which draws the scores of all queries to the same two margins (Ramzi et al., TPAMI 2025, Eq. 7).

    Args:
        scores: (B, M) similarities.
        levels: (B, M) integers.
        level: positives are at this level and finer.
        alpha: margin of positives.
        beta: margin of negatives.
        valid: (B, M) booleans; False where the item is no candidate.
        reduction: "mean" over the queries that have a positive, "none" (0 for the others), or "avg_nonzero", as in
            :class:`hiertree.losses.PairDecomposability`.

    >>> round(float(pair_decomposability(torch.tensor([[0.7, 0.8]]), torch.tensor([[1, 0]]), level=1)), 3)
    0.4
    """
    of_batch = reduction == "avg_nonzero"
    loss = PairDecomposability(alpha=alpha, beta=beta, reduction=reduction if of_batch else "mean")
    pairs = binary_pairs(scores, levels, level, valid)
    return loss.of_scores(pairs) if of_batch else reduced(loss.query_losses(pairs), reduction)


def proxy_decomposability(scores: Tensor, classes: Any, *, eta: float = 0.05, reduction: str = "mean") -> Tensor:
    """L*_DG: cross-entropy over similarities to one proxy per class (Ramzi et al., TPAMI 2025, Eq. 8).

    Args:
        scores: (B, C) cosine similarities to the proxies.
        classes: (B,) integers 0 … C − 1.
        eta: temperature η > 0.
        reduction: "mean" or "none".

    >>> float(proxy_decomposability(torch.tensor([[1.0, -1.0]]), torch.tensor([0]))) < 1e-6
    True
    """
    check_number("eta", eta, above=0)
    classes = torch.as_tensor(classes)
    if scores.ndim != 2 or classes.shape != scores.shape[:1]:
        shapes = f"{tuple(scores.shape)}, {tuple(classes.shape)}"
        raise ShapeError(f"scores, classes of shapes {shapes}", expected="(B, C) and (B,)")
    check_classes(classes.cpu().numpy(), scores.shape[1])
    check_scores(scores)
    losses = cross_entropy(scores / eta, classes, reduction="none")
    return reduced(LossPerQuery(losses, torch.ones_like(losses, dtype=torch.bool)), reduction)
