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

Half-precision scores are computed with in float32, float64 stays.
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

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from hiertree.errors import ShapeError
from hiertree.options import check_choice, check_each, check_integer, check_number, split_options, with_options_of

from .baselines.average_precision import blackbox_ap, fast_ap
from .decomposability import margin_losses, mean_of_violations
from .pairs.blocks import LossPerQuery, Reduction, compute_in_blocks
from .pairs.inputs import check_classes
from .pairs.pairs import ScoredPairs, binary_pairs, check_scores, checked_pairs
from .pairs.soft_ranks import Sigmoid, SoftRanks, StepOptions, SupStep, ideal_dcg
from .tie_aware import tie_aware_ap, tie_aware_ndcg

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["smooth_ap", "smooth_hap", "smooth_ndcg", "smooth_recall", "sup_ap", "sup_hap", "sup_ndcg", "sup_recall"]
__all__ += ["pair_decomposability", "proxy_decomposability"]
__all__ += ["blackbox_ap", "fast_ap", "tie_aware_ap", "tie_aware_ndcg"]

KS = (1, 2, 4, 8, 16)
SplitBy: TypeAlias = Literal["level", "relevance"]
"""What decides which candidates count exactly in the rank of a positive (rank⁺), and which through H⁻ (rank⁻)."""
Step: TypeAlias = "SupStep | Sigmoid"


class ScoreOptions(TypedDict, total=False):
    """Options that the functional rank losses have in common.

    * ``valid``: booleans that broadcast to (B, M); False where the item is no candidate of the query (itself, say).
      Default None: all are candidates.
    * ``reduction``: "mean" over the queries that have a positive (0 when none has), the default; or "none": (B,), 0 for
      the others.
    """

    valid: Any
    reduction: Reduction


class SupOptions(StepOptions, ScoreOptions, total=False):
    """Options of the functional Sup losses."""


def h_ap_losses(pairs: ScoredPairs, table: Tensor, *, step: Step, split_by: SplitBy = "level") -> LossPerQuery:
    """1 − (1/R)·Σ_{k ∈ Ω⁺} H-rank⁺(k) / rank(k), with R = Σ_{k ∈ Ω⁺} rel(k)."""
    pairs, table = _scaled(pairs, table, split_by)
    ranks = SoftRanks(pairs, step)
    reached = (ranks.hierarchical_rank(table) / ranks.rank()).sum(dim=1)
    return LossPerQuery.one_minus(reached, (table * pairs.counts()).sum(dim=1))


def ap_losses(pairs: ScoredPairs, *, level: int | None, step: Step) -> LossPerQuery:
    """1 − (1/|Ω⁺|)·Σ_{k ∈ Ω⁺} rank⁺(k) / rank(k), the positives agreeing with the query down to ``level``."""
    binary = pairs.binary(level)
    table = torch.arange(2, dtype=binary.scores.dtype, device=binary.scores.device).expand(len(binary.scores), 2)
    return h_ap_losses(binary, table, step=step)


def ndcg_losses(pairs: ScoredPairs, table: Tensor, *, step: Step, split_by: SplitBy = "level") -> LossPerQuery:
    """1 − (1/IDCG)·Σ_{k ∈ Ω⁺} rel(k) / log2(1 + rank(k)), IDCG the same sum for the best ranking."""
    pairs, table = _scaled(pairs, table, split_by)
    ranks = SoftRanks(pairs, step)
    reached = (table.gather(1, ranks.levels) / torch.log2(1 + ranks.rank())).sum(dim=1)
    every_rank = torch.arange(1, pairs.scores.shape[1] + 1, dtype=torch.float64, device=table.device)
    ideal = ideal_dcg(table[:, 1:].double(), pairs.counts()[:, 1:], 1 / torch.log2(1 + every_rank))
    return LossPerQuery.one_minus(reached, ideal.to(reached.dtype))


def recall_losses(
    pairs: ScoredPairs, *, level: int | None, step: Step, ks: tuple[int, ...], tau_star: float
) -> LossPerQuery:
    """1 − mean over k of min(1, Σ_{j ∈ Ω⁺} σ((k − rank(j))/τ*) / min(k, |Ω⁺|))."""
    ranks = SoftRanks(pairs.binary(level), step)
    positive, rank = ranks.levels > 0, ranks.rank()
    num_positives = positive.sum(dim=1)
    recalls = []
    for k in ks:
        num_hits = (torch.sigmoid((k - rank) / tau_star) * positive).sum(dim=1)
        recalls.append((num_hits / num_positives.clamp(min=1, max=k)).clamp(max=1))
    has_positive = num_positives > 0
    return LossPerQuery((1 - torch.stack(recalls).mean(dim=0)) * has_positive, has_positive)


def _scaled(pairs: ScoredPairs, table: Tensor, split_by: SplitBy) -> tuple[ScoredPairs, Tensor]:
    """The pairs, and the table in the type of their scores, 0 at level 0 and 1 at most: its scale does not matter.

    To split by relevance, levels are renumbered by it, query by query: those of one relevance become one level, and
    those of relevance 0 become level 0.
    """
    if split_by == "relevance":
        relevance = table.clone(memory_format=torch.contiguous_format)
        relevance[:, 0] = 0
        table = relevance.sort(dim=1).values
        renumbered = torch.searchsorted(table, relevance).to(torch.uint8)
        pairs = pairs._replace(levels=renumbered.gather(1, pairs.levels.long()))
    largest = table.amax(dim=1, keepdim=True)
    scaled = (table / torch.where(largest > 0, largest, 1)).to(pairs.scores.dtype)
    scaled[:, 0] = 0
    return pairs, scaled


def checked_cutoffs(ks: Any, tau_star: Any) -> tuple[int, ...]:
    """The lengths of lists, checked together with the temperature of the second sigmoid."""
    check_number("tau_star", tau_star, above=0)
    return check_each("ks", ks, check_integer, "one integer ≥ 1 or more")


def _of_scores(
    formula: Callable[..., LossPerQuery],
    scores: Any,
    levels: Any,
    table: Any,
    *,
    weighs_levels: bool = False,
    valid: Any = None,
    reduction: Reduction = "mean",
    **options: Any,
) -> Tensor:
    """A formula with its options, of scores that are checked here; one that weighs levels gets the table too."""
    pairs, table = checked_pairs(scores, levels, table, valid)
    losses = compute_in_blocks(partial(formula, **options), pairs, table if weighs_levels else None)
    return losses.reduced(reduction)


def _with_step(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, those of H⁻ put together in one."""
    step, score_keywords = split_options(options, SupStep, score_options)
    return {**score_keywords, "step": SupStep(**step)}


def score_options(*, valid: Any = None, reduction: Reduction = "mean") -> None:
    """The keywords of :class:`ScoreOptions`."""


@with_options_of(SupStep, score_options)
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
    check_choice("split_by", split_by, SplitBy)
    return _of_scores(h_ap_losses, scores, levels, table, weighs_levels=True, split_by=split_by, **_with_step(options))


@with_options_of(SupStep, score_options)
def sup_ndcg(
    scores: Tensor, levels: Any, table: Any, *, split_by: SplitBy = "level", **options: Unpack[SupOptions]
) -> Tensor:
    """Sup-NDCG (Ramzi et al., TPAMI 2025, Eq. 24): as :func:`sup_hap`, ``table`` holding the gains.

    >>> from hiertree.relevance import gain
    >>> scores, levels = torch.tensor([[0.9, 0.2, 0.1]]), torch.tensor([[2, 1, 0]])
    >>> round(float(sup_ndcg(scores, levels, gain(torch.tensor([[1, 1, 1]])))), 3)
    0.0
    """
    check_choice("split_by", split_by, SplitBy)
    return _of_scores(ndcg_losses, scores, levels, table, weighs_levels=True, split_by=split_by, **_with_step(options))


@with_options_of(SupStep, score_options)
def sup_ap(
    scores: Tensor, levels: Any, table: Any, *, level: int | None = None, **options: Unpack[SupOptions]
) -> Tensor:
    """Sup-AP (Ramzi et al., TPAMI 2025, Eq. 11): as :func:`sup_hap`, positives being at ``level`` (None: L) and finer.

    The width of ``table`` gives the finest level; AP weighs all positives alike, so its values are not read.

    >>> scores, levels = torch.tensor([[0.9, 0.2, 0.1]]), torch.tensor([[2, 1, 0]])
    >>> float(sup_ap(scores, levels, torch.ones(1, 3)))
    0.0
    """
    return _of_scores(ap_losses, scores, levels, table, level=level, **_with_step(options))


@with_options_of(score_options)
def smooth_hap(
    scores: Tensor, levels: Any, table: Any, *, tau: float = 0.01, **options: Unpack[ScoreOptions]
) -> Tensor:
    """Smooth-H-AP: :func:`sup_hap` with σ(t/τ) in every place of H and H⁻ (an ablation, no bound).

    >>> from hiertree.relevance import linear
    >>> scores, levels = torch.tensor([[0.9, 0.2, 0.1]]), torch.tensor([[2, 1, 0]])
    >>> round(float(smooth_hap(scores, levels, linear(torch.tensor([[1, 1, 1]])))), 3)
    0.0
    """
    return _of_scores(h_ap_losses, scores, levels, table, weighs_levels=True, step=Sigmoid(tau), **options)


@with_options_of(score_options)
def smooth_ndcg(
    scores: Tensor, levels: Any, table: Any, *, tau: float = 0.01, **options: Unpack[ScoreOptions]
) -> Tensor:
    """Smooth-NDCG: :func:`sup_ndcg` with σ(t/τ) in every place of H and H⁻ (an ablation, no bound).

    >>> from hiertree.relevance import gain
    >>> scores, levels = torch.tensor([[0.9, 0.2, 0.1]]), torch.tensor([[2, 1, 0]])
    >>> round(float(smooth_ndcg(scores, levels, gain(torch.tensor([[1, 1, 1]])))), 3)
    0.0
    """
    return _of_scores(ndcg_losses, scores, levels, table, weighs_levels=True, step=Sigmoid(tau), **options)


@with_options_of(score_options)
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
    return _of_scores(ap_losses, scores, levels, table, level=level, step=Sigmoid(tau), **options)


@with_options_of(SupStep, score_options)
def sup_recall(
    scores: Tensor,
    levels: Any,
    table: Any,
    *,
    ks: tuple[int, ...] = KS,
    tau_star: float = 1.0,
    level: int | None = None,
    **options: Unpack[SupOptions],
) -> Tensor:
    r"""Sup-R@k (Ramzi et al., TPAMI 2025, Eq. 16): see :class:`hiertree.losses.SupRecall`.

    Arguments as in :func:`sup_ap`, and ``ks``, ``tau_star``: the lengths of lists and the second sigmoid's temperature.

    >>> scores, levels = torch.tensor([[0.9, 0.2, 0.1]]), torch.tensor([[0, 1, 1]])
    >>> round(float(sup_recall(scores, levels, torch.ones(1, 2), ks=(1, 2))), 3) > 0.9
    True
    """
    cutoffs: Any = {"ks": checked_cutoffs(ks, tau_star), "tau_star": tau_star, "level": level}
    return _of_scores(recall_losses, scores, levels, table, **cutoffs, **_with_step(options))


@with_options_of(score_options)
def smooth_recall(
    scores: Tensor,
    levels: Any,
    table: Any,
    *,
    ks: tuple[int, ...] = KS,
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
    cutoffs: Any = {"ks": checked_cutoffs(ks, tau_star), "tau_star": tau_star, "level": level}
    return _of_scores(recall_losses, scores, levels, table, step=Sigmoid(tau), **cutoffs, **options)


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
    check_number("alpha", alpha)
    check_number("beta", beta)
    pairs = binary_pairs(scores, levels, level, valid)
    options: Any = {"level": 1, "alpha": alpha, "beta": beta}
    if reduction == "avg_nonzero":
        return mean_of_violations(pairs, **options)
    return margin_losses(pairs, **options).reduced(reduction)


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
    return LossPerQuery(losses, torch.ones_like(losses, dtype=torch.bool)).reduced(reduction)
