"""Tie-aware AP and NDCG of He et al. (CVPR 2018), and their relaxations, one query at a time, in plain loops.

A query is a list of distances and a list of levels. [T] numbers the equations of that paper. The losses that it is
compared with are functions of the inner products of codes, from their papers and their authors' public code.
"""

from __future__ import annotations

import math

from scipy.integrate import quad


def hamming_distance(a, b):
    """Between codes of numbers in −1 … 1."""
    return (len(a) - sum(x * y for x, y in zip(a, b, strict=True))) / 2


def soft_counts(distances, num_bits, num_bins):
    """[T] Eq. 14, 15: what each distance gives to each bin, by the triangular kernel."""
    width = num_bits / num_bins
    return [sum(max(0.0, 1 - abs(d - b * width) / width) for d in distances) for b in range(num_bins + 1)]


def harmonic(start, size):
    """Σ 1/t for t = start + 1 … start + size, for real numbers: ∫₀¹ x^N·(1 − xⁿ)/(1 − x) dx."""
    value, _ = quad(lambda x: x**start * (1 - x**size) / (1 - x), 0, 1, epsabs=1e-13, epsrel=1e-13, limit=200)
    return float(value)


def discount_integral(start, size):
    value, _ = quad(lambda t: 1 / math.log2(1 + t), start + 0.5, start + size + 0.5, epsabs=1e-13, epsrel=1e-13)
    return float(value)


def tied_ap(distances, positive):
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


def tied_dcg(distances, gains):
    """[T] Eq. 7: every member of a tie gets its mean discount."""
    total, items_ahead = 0.0, 0
    for d in sorted(set(distances)):
        members = [gain for distance, gain in zip(distances, gains, strict=True) if distance == d]
        discounts = [1 / math.log2(1 + t) for t in range(items_ahead + 1, items_ahead + len(members) + 1)]
        total += sum(members) * sum(discounts) / len(members)
        items_ahead += len(members)
    return total


def relaxed_ap(distances, positive, num_bits, num_bins, *, simplified):
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


def relaxed_ndcg(distances, gains, num_bits, num_bins, *, simplified):
    """DCG_s ([T] Eq. 66) over the ideal DCG, or DCG_r ([T] Eq. 12) over the ideal with the same integrals."""
    ideal = 0.0
    for rank, gain in enumerate(sorted(gains, reverse=True)):
        ideal += gain * (1 / math.log2(2 + rank) if simplified else discount_integral(rank, 1))
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


def cross_entropy(theta, positive):
    """−log p(y | θ), p(1 | θ) = σ(θ): HashNet (Cao et al., ICCV 2017), DPSH (Li et al., IJCAI 2016)."""
    return -math.log(1 / (1 + math.exp(-theta)) if positive else 1 / (1 + math.exp(theta)))


def hashnet(products, positive, slope):
    """``pairwise_loss_updated`` of the public code, halved: each kind of pairs by its share of all pairs."""
    pairs = [pair for row in zip(products, positive, strict=True) for pair in zip(*row, strict=True)]
    num_positives = sum(holds for _, holds in pairs)
    total = 0.0
    for product, holds in pairs:
        of_kind = num_positives if holds else len(pairs) - num_positives
        total += len(pairs) / of_kind * cross_entropy(slope * product, holds)
    return total / len(pairs) / 2


def weighted_hashnet(products, positive, slope, class_num):
    """``pairwise_loss`` of the public code."""
    total = weights = 0.0
    for row, kinds in zip(products, positive, strict=True):
        for product, holds in zip(row, kinds, strict=True):
            weight = class_num if holds else 1.0
            total, weights = total + weight * cross_entropy(slope * product, holds), weights + weight
    return total / weights


def dpsh(products, positive):
    """The mean over the candidates of one query, θ being half of the inner product."""
    return sum(cross_entropy(p / 2, holds) for p, holds in zip(products, positive, strict=True)) / len(products)


def dtsh(products, positive, margin):
    """The mean over the triplets of one query (Wang et al., ACCV 2016); None without one."""
    values = []
    for product, holds in zip(products, positive, strict=True):
        for other, other_holds in zip(products, positive, strict=True):
            if holds and not other_holds:
                values.append(-math.log(1 / (1 + math.exp(-(product / 2 - other / 2 - margin)))))
    return sum(values) / len(values) if values else None


def quantization_error(codes):
    """|u − sgn u|²."""
    return sum((x - (1 if x > 0 else -1)) ** 2 for x in codes)


def minus_mutual_information(distances, positive, num_bits, num_bins):
    """H(D | C) − H(D) in bits (Cakir et al., TPAMI 2019); None without a positive."""
    if not any(positive):
        return None

    def entropy(counts):
        return -sum(c / sum(counts) * math.log2(c / sum(counts)) for c in counts if c > 0)

    conditional = 0.0
    for kind in (True, False):
        own = [d for d, holds in zip(distances, positive, strict=True) if holds == kind]
        if own:
            conditional += len(own) / len(distances) * entropy(soft_counts(own, num_bits, num_bins))
    return conditional - entropy(soft_counts(distances, num_bits, num_bins))
