"""Tie-aware AP and NDCG of He et al. (CVPR 2018), and their relaxations, one query at a time, in plain loops.

A query is a list of distances and a list of levels. [T] numbers the equations of that paper.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.integrate import quad


def hamming_distance(a: Sequence[float], b: Sequence[float]) -> float:
    """Between codes of numbers in −1 … 1."""
    return (len(a) - sum(x * y for x, y in zip(a, b, strict=True))) / 2


def soft_counts(distances: Sequence[float], num_bits: int, num_bins: int) -> list[float]:
    """[T] Eq. 14, 15: what each distance gives to each bin, by the triangular kernel."""
    width = num_bits / num_bins
    return [sum(max(0.0, 1 - abs(d - b * width) / width) for d in distances) for b in range(num_bins + 1)]


def harmonic(start: float, size: float) -> float:
    """Σ 1/t for t = start + 1 … start + size, for real numbers: ∫₀¹ x^N·(1 − xⁿ)/(1 − x) dx."""
    value, _ = quad(lambda x: x**start * (1 - x**size) / (1 - x), 0, 1, epsabs=1e-13, epsrel=1e-13, limit=200)
    return float(value)


def discount_integral(start: float, size: float) -> float:
    value, _ = quad(lambda t: 1 / math.log2(1 + t), start + 0.5, start + size + 0.5, epsabs=1e-13, epsrel=1e-13)
    return float(value)


def tied_ap(distances: Sequence[int], positive: Sequence[bool]) -> float | None:
    """[T] Eq. 6, for integer distances."""
    total, items_ahead, positives_ahead = 0.0, 0, 0
    for d in sorted(set(distances)):
        size = sum(1 for distance in distances if distance == d)
        tied_positives = sum(1 for distance, good in zip(distances, positive, strict=True) if distance == d and good)
        for t in range(items_ahead + 1, items_ahead + size + 1):
            rise = (t - items_ahead - 1) * (tied_positives - 1) / (size - 1) if size > 1 else 0.0
            total += tied_positives / size * (positives_ahead + rise + 1) / t
        items_ahead, positives_ahead = items_ahead + size, positives_ahead + tied_positives
    return total / positives_ahead if positives_ahead else None


def tied_dcg(distances: Sequence[int], gains: Sequence[float]) -> float:
    """[T] Eq. 7: every member of a tie gets its mean discount."""
    total, items_ahead = 0.0, 0
    for d in sorted(set(distances)):
        members = [gain for distance, gain in zip(distances, gains, strict=True) if distance == d]
        discounts = [1 / math.log2(1 + t) for t in range(items_ahead + 1, items_ahead + len(members) + 1)]
        total += sum(members) * sum(discounts) / len(members)
        items_ahead += len(members)
    return total


def relaxed_ap(
    distances: Sequence[float], positive: Sequence[bool], num_bits: int, num_bins: int, *, simplified: bool
) -> float | None:
    """AP_s as in [T] Eq. 62, or AP_r: Eq. 6 with its sum of 1/t continued to real counts."""
    items = soft_counts(distances, num_bits, num_bins)
    positives = soft_counts([d for d, good in zip(distances, positive, strict=True) if good], num_bits, num_bins)
    total, items_ahead, positives_ahead = 0.0, 0.0, 0.0
    for size, bin_positives in zip(items, positives, strict=True):
        if size > 0 and simplified:
            total += bin_positives * (2 * positives_ahead + bin_positives + 1) / (2 * items_ahead + size + 1)
        elif size > 0:
            reciprocals = harmonic(items_ahead, size)
            rise = (bin_positives - 1) / (size - 1) * (size - (items_ahead + 1) * reciprocals) if size != 1 else 0.0
            total += bin_positives / size * ((positives_ahead + 1) * reciprocals + rise)
        items_ahead, positives_ahead = items_ahead + size, positives_ahead + bin_positives
    return total / sum(positive) if any(positive) else None


def relaxed_ndcg(
    distances: Sequence[float], gains: Sequence[float], num_bits: int, num_bins: int, *, simplified: bool
) -> float | None:
    """DCG_s ([T] Eq. 66) over the ideal DCG, or DCG_r ([T] Eq. 12) over the ideal with the same integrals."""
    ideal = 0.0
    for place, gain in enumerate(sorted(gains, reverse=True)):
        ideal += gain * (1 / math.log2(2 + place) if simplified else discount_integral(place, 1))
    if ideal == 0:
        return None
    reached, items_ahead = 0.0, 0.0
    for b, size in enumerate(soft_counts(distances, num_bits, num_bins)):
        gained = 0.0
        for distance, gain in zip(distances, gains, strict=True):
            gained += gain * soft_counts([distance], num_bits, num_bins)[b]
        if size > 0 and simplified:
            reached += gained / math.log2(1 + items_ahead + (size + 1) / 2)
        elif size > 0:
            reached += gained / size * discount_integral(items_ahead, size)
        items_ahead += size
    return reached / ideal
