r"""Tie-aware ranking of binary codes: AP and NDCG of Hamming distances, averaged over all orders of tied items.

Hamming distances are small integers, so that items tie. AP_T and DCG_T are the expectations over the orders of tied
items, in closed form from counts: of c_d items at distance d, c⁺_d of them positive, behind C_{d−1} and C⁺_{d−1}
nearer ones. TALR (He et al., *Hashing as Tie-Aware Learning to Rank*, CVPR 2018) makes them functions of real numbers:
codes are tanh(α·f), distances (b − φ·φ′)/2, counts soft histograms. Here:

* AP_r = (1/|Ω⁺|)·Σ_d c⁺_d·[(C⁺_{d−1} + 1)·λ_d + (c⁺_d − 1)·κ_d] (for Eq. 11), λ and κ means over a tie's ranks:
  Eq. 6 itself, its sum of 1/t over a tie's ranks continued to real counts by the digamma function, where the paper
  approximates. So on binary codes **AP_r = AP_T**; and AP_r ≤ 1 for any soft histogram;
* AP_s = (1/|Ω⁺|)·Σ_d c⁺_d·(C⁺_{d−1} + C⁺_d + 1) / (C_{d−1} + C_d + 1) (Eq. 62): the precision at a tie's mean rank. It
  is AP_T where nothing ties, and otherwise no bound: a tie adds less to AP_s than to AP_T where the precision ahead of
  it, (C⁺_{d−1} + 1)/(C_{d−1} + 1), exceeds the one inside, (c⁺_d − 1)/(c_d − 1), and more where it falls short;
* DCG_r (Eq. 12): the sum of discounts 1/log2(1 + t) over a tie's ranks as an integral, here between half-integers,
  ln 2·(li(C_d + 3/2) − li(C_{d−1} + 3/2)); DCG_s (Eq. 66): the discount of its mean rank. On binary codes
  **DCG_s ≤ DCG_T ≤ DCG_r**.

NDCG_s divides by the ideal DCG, so that on binary codes 1 − NDCG_s ≥ 1 − NDCG_T; NDCG_r by the ideal under its own
discount, so that 0 ≤ NDCG_r ≤ 1 for any soft histogram. The equality and the bounds need a bin at every distance.

A tie group of n items comes after N items: it covers the ranks N+1 … N+n. Under a soft histogram N and n are real, and
n is 0 in an empty bin; each mean over these ranks is finite and differentiable for every N ≥ 0, n ≥ 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hiertree.errors import EmbeddingError
from hiertree.options import check_integer, require

from .pairs.blocks import LossPerQuery, Reduction, compute_in_blocks
from .pairs.pairs import ScoredPairs, checked_pairs
from .pairs.soft_ranks import ideal_dcg

NEAR = 1e-4  # below a step of NEAR times its place a difference quotient is replaced by its series, exact to 1e-12
LARGEST = 2.0**31  # largest x of li(x) on a GPU, where reading x would wait; more terms change nothing
_EULER = 0.5772156649015329


class Bins(NamedTuple):
    """num + 1 bins over the distances 0 … num_bits, with centers num_bits/num apart."""

    num_bits: int
    num: int

    @property
    def width(self) -> float:
        """From one center to the next."""
        return self.num_bits / self.num


def bins_over(num_bits: int, num_bins: int | None) -> Bins:
    """The requested bins; None: one at every integer distance."""
    check_integer("num_bits", num_bits)
    check_integer("num_bins", num_bins, or_none=True)
    num = num_bits if num_bins is None else num_bins
    require(1 <= num <= num_bits, "num_bins", num_bins, f"None, or an integer from 1 to the number of bits, {num_bits}")
    return Bins(num_bits, num)


def soft_histogram(pairs: ScoredPairs, bins: Bins) -> Tensor:
    r"""(B, L+1, num + 1) float64 counts of the candidates by level and distance (He et al., CVPR 2018, Eq. 14, 15).

    .. math:: c_{d,v} = \sum_{j:\, level_j = v} \max(0, 1 - |distance_j - d| / \Delta)

    The kernel is as wide as the bins, Δ, so that an item is divided between its two neighbors: one addition to each
    costs O(B·M) for all bins together. Where a distance is a center, the derivative is the one to its right.
    """
    position = pairs.scores / -bins.width
    lower_bin = position.detach().floor().clamp_(0, bins.num - 1)
    weight = pairs.valid.to(position.dtype)
    above_share = (position - lower_bin) * weight
    cell = pairs.levels.long() * (bins.num + 1) + lower_bin.long()
    counts = position.new_zeros(len(position), (pairs.num_levels + 1) * (bins.num + 1))
    counts = counts.scatter_add(1, cell, weight - above_share).scatter_add(1, cell + 1, above_share)
    return counts.double().view(len(position), pairs.num_levels + 1, bins.num + 1)


def _check_distances(scores: Tensor, num_bits: int) -> None:
    """Refuse scores that are not negated Hamming distances between codes of ``num_bits`` bits."""
    rounding = 1e-3 * num_bits
    bad = (scores > rounding) | (scores < -num_bits - rounding)
    if bool(bad.any()):
        row, column = bad.nonzero()[0].tolist()
        raise EmbeddingError(
            f"score {float(scores[row, column]):g} in row {row}",
            expected=f"minus a distance, from {-num_bits} to 0",
            remedy="pass (codes @ codes.T - num_bits) / 2, or the right num_bits",
        )


def tie_aware_ap_losses(pairs: ScoredPairs, level: int | None, bins: Bins, *, simplified: bool) -> LossPerQuery:
    """1 − AP_r or 1 − AP_s, a query; scores are −distance, and positives agree with the query down to ``level``."""
    binary = pairs.binary(level)
    counts = soft_histogram(binary, bins)
    positives, items = counts[:, 1], counts.sum(dim=1)
    positives_ahead, items_ahead = _ahead(positives), _ahead(items)
    if simplified:
        precision = (2 * positives_ahead + positives + 1) / (2 * items_ahead + items + 1)
    else:
        reciprocal = mean_reciprocal(items_ahead, items)
        rise = mean_rise(items_ahead, items, reciprocal)
        precision = (positives_ahead + 1) * reciprocal + (positives - 1) * rise
    return _in_type_of(pairs, LossPerQuery.one_minus((positives * precision).sum(dim=1), binary.counts()[:, 1]))


def tie_aware_ndcg_losses(pairs: ScoredPairs, table: Tensor, bins: Bins, *, simplified: bool) -> LossPerQuery:
    """1 − NDCG_r or 1 − NDCG_s, a query, for the gains ``table`` of levels."""
    counts, gains = soft_histogram(pairs, bins), table.double()[:, 1:]
    items = counts.sum(dim=1)
    discount = discount_of_mean if simplified else mean_discount
    reached = ((gains[:, :, None] * counts[:, 1:]).sum(dim=1) * discount(_ahead(items), items)).sum(dim=1)
    every_rank = torch.arange(pairs.scores.shape[1], device=counts.device, dtype=counts.dtype)
    ideal = ideal_dcg(gains, pairs.counts()[:, 1:], discount(every_rank, torch.ones_like(every_rank)))
    return _in_type_of(pairs, LossPerQuery.one_minus(reached, ideal))


def _in_type_of(pairs: ScoredPairs, losses: LossPerQuery) -> LossPerQuery:
    return losses._replace(values=losses.values.to(pairs.scores.dtype))


def tie_aware_ap(
    scores: Tensor,
    levels: Any,
    table: Any,
    *,
    num_bits: int,
    level: int | None = None,
    num_bins: int | None = None,
    simplified: bool = False,
    valid: Any = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""1 − tie-aware AP of (relaxed) Hamming distances (He et al., CVPR 2018, Eq. 6, 11 and 62).

    Args:
        scores: (B, M), −distance: −b … 0 for codes of b bits.
        levels: (B, M) integers, 0 … L.
        table: (B, L+1); its width gives the finest level, its values are not read.
        num_bits: b.
        level: positives agree with the query down to this level; None: the finest.
        num_bins: the soft histogram has num_bins + 1 bins; None: b + 1, one at every integer.
        simplified: AP_s instead of AP_r.
        valid: (B, M) booleans; False where the item is no candidate of the query (itself, say).
        reduction: "mean" over the queries that have a positive (0 when none has), or "none": (B,), 0 for the others.

    Returns:
        Scalar or (B,), from 0 to 1.

    >>> scores = torch.tensor([[-1.0, -1.0, -3.0]])  # a positive and a negative tie: AP is (1/1 + 1/2)/2
    >>> float(tie_aware_ap(scores, torch.tensor([[1, 0, 0]]), torch.ones(1, 2), num_bits=8))
    0.25
    """
    bins = bins_over(num_bits, num_bins)
    pairs, _ = checked_pairs(scores, levels, table, valid)
    _check_distances(pairs.scores, num_bits)
    losses = compute_in_blocks(lambda block: tie_aware_ap_losses(block, level, bins, simplified=simplified), pairs)
    return losses.reduced(reduction)


def tie_aware_ndcg(
    scores: Tensor,
    levels: Any,
    table: Any,
    *,
    num_bits: int,
    num_bins: int | None = None,
    simplified: bool = False,
    valid: Any = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""1 − tie-aware NDCG of (relaxed) Hamming distances (He et al., CVPR 2018, Eq. 7, 12 and 66).

    Levels may be any affinities 0 … V − 1, V ≤ 256, such as the number of labels that two images share. Arguments as in
    :func:`tie_aware_ap`, and ``table``: (B, V) gains ≥ 0, :func:`hiertree.relevance.gain` in the paper.

    Returns:
        Scalar or (B,), from 0 to 1. ``simplified`` may fall a little below 0 where an item is divided between bins.

    >>> from hiertree.relevance import gain
    >>> scores, levels = torch.tensor([[-1.0, -2.0, -2.0]]), torch.tensor([[2, 1, 0]])
    >>> table = gain(torch.tensor([[1, 1, 1]]))
    >>> round(float(tie_aware_ndcg(scores, levels, table, num_bits=8)), 3)
    0.018
    >>> round(float(tie_aware_ndcg(scores, levels, table, num_bits=8, simplified=True)), 3)
    0.021
    """
    bins = bins_over(num_bits, num_bins)
    pairs, table = checked_pairs(scores, levels, table, valid)
    _check_distances(pairs.scores, num_bits)
    losses = compute_in_blocks(partial(tie_aware_ndcg_losses, bins=bins, simplified=simplified), pairs, table)
    return losses.reduced(reduction)


def _ahead(counts: Tensor) -> Tensor:
    """N of each bin, the number of items in nearer bins, from n of each bin."""
    return torch.cumsum(counts, dim=-1) - counts


def mean_reciprocal(num_before: Tensor, size: Tensor) -> Tensor:
    r"""λ = (1/n)·Σ_{t=N+1..N+n} 1/t = (ψ(N+n+1) − ψ(N+1)) / n, with ψ the digamma function; ψ′(N+1) at n = 0."""
    start = num_before + 1
    derivatives = [torch.polygamma(order, start) for order in (1, 2, 3)]
    return _difference_quotient(torch.digamma, start, size, derivatives)


def mean_rise(num_before: Tensor, size: Tensor, reciprocal: Tensor) -> Tensor:
    r"""κ = (1/n)·Σ_{t=N+1..N+n} (t − N − 1)/(n − 1) / t = (1 − (N+1)·λ) / (n − 1), for λ; its limit at n = 1.

    The mean over the ranks t of the fraction of the other members that are ahead, divided by t.
    """
    start = num_before + 1
    step = size - 1
    is_near = step.abs() < NEAR * start
    exact = (1 - start * reciprocal) / torch.where(is_near, 1, step)
    single, first, second, third = 1 / start, *(torch.polygamma(order, start + 1) for order in (1, 2, 3))
    slope = first - single  # derivatives of λ at n = 1
    curvature = second - 2 * first + 2 * single
    third_derivative = third - 3 * second + 6 * first - 6 * single
    series = -start * (slope + step / 2 * (curvature + step / 3 * third_derivative))
    return torch.where(is_near, series, exact)


def mean_discount(num_before: Tensor, size: Tensor) -> Tensor:
    r"""(1/n)·∫ dt / log2(1 + t) over N+½ … N+n+½ = ln 2·(li(N+n+3/2) − li(N+3/2)) / n; 1/log2(N+3/2) at n = 0.

    The integral of the convex discount is at least its sum over the ranks N+1 … N+n (the midpoint rule).
    """
    start = num_before + 1.5
    log = start.log()
    derivatives = [1 / log, -1 / (start * log**2), (log + 2) / (start**2 * log**3)]
    return math.log(2) * _difference_quotient(logarithmic_integral, start, size, derivatives)


def discount_of_mean(num_before: Tensor, size: Tensor) -> Tensor:
    """1 / log2(1 + mean rank), the mean rank being N + (n+1)/2; at most the mean of the discounts (Jensen)."""
    return 1 / torch.log2(1 + num_before + (size + 1) / 2)


def logarithmic_integral(x: Tensor) -> Tensor:
    r"""li(x) = ∫₀ˣ dt / ln t for x > 1, with its derivative 1 / ln x.

    By the series γ + ln ln x + Σ_k (ln x)^k / (k·k!), whose terms are positive.

    >>> [round(float(value), 6) for value in logarithmic_integral(torch.tensor([2.0, 1000.0], dtype=torch.float64))]
    [1.045164, 177.609658]
    """
    result: Tensor = _LogarithmicIntegral.apply(x)
    return result


class _LogarithmicIntegral(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        log = x.log()
        power, total = torch.ones_like(x), _EULER + log.log()
        largest = float(log.max()) if x.device.type == "cpu" and x.numel() else math.log(LARGEST)
        num_terms = 40 + math.ceil(math.e * largest)
        for order in range(1, num_terms + 1):
            power.mul_(log / order)
            total.add_(power, alpha=1 / order)
        return total

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        gradient: Tensor = upstream / x.log()
        return gradient


def _difference_quotient(
    function: Callable[[Tensor], Tensor], start: Tensor, step: Tensor, derivatives: list[Tensor]
) -> Tensor:
    """(F(start + step) − F(start)) / step, by its Taylor series where the step is small."""
    is_near = step < NEAR * start
    safe = torch.where(is_near, 1, step)
    first, second, third = derivatives
    series = first + step / 2 * (second + step / 3 * third)
    return torch.where(is_near, series, (function(start + safe) - function(start)) / safe)
