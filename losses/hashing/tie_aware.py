r"""Tie-aware ranking of binary codes: AP and NDCG of Hamming distances, averaged over all orders of tied items.

Hamming distances are small integers, so that items tie. AP_T and DCG_T are the expectations over the orders of tied
items, in closed form from counts: of c_d items at distance d, c⁺_d of them positive, behind C_{d−1} and C⁺_{d−1}
nearer ones. TALR (He et al., *Hashing as Tie-Aware Learning to Rank*, CVPR 2018) makes them functions of real numbers:
codes are tanh(α·f), distances (b − φ·φ′)/2, counts soft histograms. Here:

* AP_r = (1/|Ω⁺|)·Σ_d c⁺_d·[(C⁺_{d−1} + 1)·λ_d + (c⁺_d − 1)·κ_d] (for Eq. 11), λ and κ the means of ``_tied_means``:
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
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..pairs.blocks import LossPerQuery, in_blocks
from ..pairs.objectives import ideal_dcg, one_minus
from ..pairs.of_scores import Reduction, checked_pairs, reduced
from ..pairs.pairs import ScoredPairs
from .histogram import Bins, ahead, bins_over, check_distances, soft_histogram
from .tied_means import discount_of_mean, mean_discount, mean_reciprocal, mean_rise


def tie_aware_ap_losses(pairs: ScoredPairs, level: int | None, bins: Bins, *, simplified: bool) -> LossPerQuery:
    """1 − AP_r or 1 − AP_s, a query; scores are −distance, and positives agree with the query down to ``level``."""
    binary = pairs.binary(level)
    counts = soft_histogram(binary, bins)
    positives, items = counts[:, 1], counts.sum(dim=1)
    positives_ahead, items_ahead = ahead(positives), ahead(items)
    if simplified:
        precision = (2 * positives_ahead + positives + 1) / (2 * items_ahead + items + 1)
    else:
        reciprocal = mean_reciprocal(items_ahead, items)
        rise = mean_rise(items_ahead, items, reciprocal)
        precision = (positives_ahead + 1) * reciprocal + (positives - 1) * rise
    return _in_type_of(pairs, one_minus((positives * precision).sum(dim=1), binary.counts()[:, 1]))


def tie_aware_ndcg_losses(pairs: ScoredPairs, table: Tensor, bins: Bins, *, simplified: bool) -> LossPerQuery:
    """1 − NDCG_r or 1 − NDCG_s, a query, for the gains ``table`` of levels."""
    counts, gains = soft_histogram(pairs, bins), table.double()[:, 1:]
    items = counts.sum(dim=1)
    discount = discount_of_mean if simplified else mean_discount
    reached = ((gains[:, :, None] * counts[:, 1:]).sum(dim=1) * discount(ahead(items), items)).sum(dim=1)
    places = torch.arange(pairs.scores.shape[1], device=counts.device, dtype=counts.dtype)
    return _in_type_of(
        pairs, one_minus(reached, ideal_dcg(gains, pairs.counts()[:, 1:], discount(places, torch.ones_like(places))))
    )


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

    Raises:
        ShapeError: shapes that do not fit together.
        EmbeddingError: NaN scores, or scores outside −b … 0; the message names the row.
        PathError: levels outside 0 … L.
        OptionError: an option outside its range.

    >>> scores = torch.tensor([[-1.0, -1.0, -3.0]])  # a positive and a negative tie: AP is (1/1 + 1/2)/2
    >>> float(tie_aware_ap(scores, torch.tensor([[1, 0, 0]]), torch.ones(1, 2), num_bits=8))
    0.25
    """
    bins = bins_over(num_bits, num_bins)
    pairs, _ = checked_pairs(scores, levels, table, valid)
    check_distances(pairs.scores, num_bits)
    return reduced(
        in_blocks(lambda block, _: tie_aware_ap_losses(block, level, bins, simplified=simplified), pairs), reduction
    )


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
    check_distances(pairs.scores, num_bits)
    losses = in_blocks(
        lambda block, rows: tie_aware_ndcg_losses(block, table[rows], bins, simplified=simplified), pairs
    )
    return reduced(losses, reduction)
