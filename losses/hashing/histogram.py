"""How many items of each level lie at each distance, smoothly: what tie-aware objectives are made of."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from hiertree.errors import EmbeddingError
from hiertree.options import check_integer, require

from ..pairs.pairs import ScoredPairs


class Bins(NamedTuple):
    """num + 1 bins over the distances 0 … num_bits, with centers num_bits/num apart."""

    num_bits: int
    num: int

    @property
    def width(self) -> float:
        """From one center to the next."""
        return self.num_bits / self.num


def bins_over(num_bits: int, num_bins: int | None) -> Bins:
    """The bins asked for: None is a bin at every integer distance."""
    check_integer("num_bits", num_bits)
    check_integer("num_bins", num_bins, or_none=True)
    num = num_bits if num_bins is None else num_bins
    require(1 <= num <= num_bits, "num_bins", num_bins, f"None, or an integer from 1 to the number of bits, {num_bits}")
    return Bins(num_bits, num)


def soft_histogram(pairs: ScoredPairs, bins: Bins) -> Tensor:
    r"""Count the candidates by level and distance with a triangular kernel (He et al., CVPR 2018, Eq. 14, 15).

    .. math:: c_{d,v} = \sum_{j:\, level_j = v} \max(0, 1 - |distance_j - d| / \Delta)

    The kernel is as wide as the bins, Δ, so that an item is divided between its two neighbors: one addition to
    each costs O(B·M) for all bins together. Where a distance is a center, the derivative is the one to its right.

    Args:
        pairs: scores are −distance, from −num_bits to 0.
        bins: where the centers are.

    Returns:
        (B, L+1, num + 1) float64; each row adds up to the valid candidates.
    """
    place = pairs.scores / -bins.width
    below = place.detach().floor().clamp_(0, bins.num - 1)
    share = pairs.valid.to(place.dtype)
    above_share = (place - below) * share
    cell = pairs.levels.long() * (bins.num + 1) + below.long()
    counts = place.new_zeros(len(place), (pairs.num_levels + 1) * (bins.num + 1))
    counts = counts.scatter_add(1, cell, share - above_share).scatter_add(1, cell + 1, above_share)
    return counts.double().view(len(place), pairs.num_levels + 1, bins.num + 1)


def check_distances(scores: Tensor, num_bits: int) -> None:
    """Refuse scores that are no negative Hamming distances between codes of so many bits."""
    rounding = 1e-3 * num_bits
    bad = (scores > rounding) | (scores < -num_bits - rounding)
    if bool(bad.any()):
        row, column = bad.nonzero()[0].tolist()
        raise EmbeddingError(
            f"score {float(scores[row, column]):g} in row {row}",
            expected=f"minus a distance, from {-num_bits} to 0",
            remedy="pass (codes @ codes.T - num_bits) / 2, or the right num_bits",
        )


def hamming(pairs: ScoredPairs, num_bits: int) -> ScoredPairs:
    """Inner products of codes in −1 … 1 as −distance = (product − b) / 2."""
    return pairs._replace(scores=(pairs.scores - num_bits) / 2)


def ahead(counts: Tensor) -> Tensor:
    """Items in nearer bins: N of each bin, from n of each bin."""
    return torch.cumsum(counts, dim=-1) - counts
