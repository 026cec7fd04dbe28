"""The other losses of one query or one item, transcribed in plain loops and float64 from their papers."""

from __future__ import annotations

import math

from reference_losses import level_of, logistic


def one_minus_recall(scores, levels, level, *, ks, tau_star, equal, lower):
    positives = [k for k in range(len(scores)) if levels[k] >= level]
    if not positives:
        return None
    total = 0.0
    for length in ks:
        hits = 0.0
        for k in positives:
            rank = 1.0
            for j in range(len(scores)):
                if j != k:
                    rank += (equal if levels[j] >= level else lower)(scores[j] - scores[k])
            hits += logistic((length - rank) / tau_star)
        total += min(hits / min(length, len(positives)), 1.0)
    return 1 - total / len(ks)


def one_minus_fast_ap(distances, positive, num_bins):
    """FastAP over squared distances 0 … 4 of unit vectors (Cakir et al., CVPR 2019, Eq. 9)."""
    if not any(positive):
        return None
    width = 4 / num_bins
    total, positives_up_to, items_up_to = 0.0, 0.0, 0.0
    for bin_ in range(num_bins + 1):
        items = [max(0.0, 1 - abs(distance - bin_ * width) / width) for distance in distances]
        positives = sum(weight for weight, holds in zip(items, positive, strict=True) if holds)
        positives_up_to += positives
        items_up_to += sum(items)
        if items_up_to > 0:
            total += positives * positives_up_to / items_up_to
    return 1 - total / sum(positive)


def one_minus_soft_bin_ap(scores, positive, num_bins):
    """Precision × increment of recall over bins of the cosine (Revaud et al., ICCV 2019, Eq. 8–10)."""
    if not any(positive):
        return None
    width = 2 / (num_bins - 1)
    total, positives_up_to, items_up_to = 0.0, 0.0, 0.0
    for bin_ in range(num_bins):
        center = 1 - bin_ * width
        weights = [max(1 - abs(score - center) / width, 0.0) for score in scores]
        positives = sum(weight for weight, holds in zip(weights, positive, strict=True) if holds)
        positives_up_to += positives
        items_up_to += sum(weights)
        if items_up_to > 0:
            total += (positives_up_to / items_up_to) * (positives / sum(positive))
    return 1 - total


def places(scores):
    """Rank of each item, 1 for the largest score; the first of equal ones before the next."""
    return [
        1 + sum(1 for j, other_score in enumerate(scores) if other_score > score or (other_score == score and j < k))
        for k, score in enumerate(scores)
    ]


def one_minus_ap_of_places(ranks, positive):
    positives = [rank for rank, holds in zip(ranks, positive, strict=True) if holds]
    return 1 - sum(sum(1 for nearer in positives if nearer <= rank) / rank for rank in positives) / len(positives)


def blackbox_gradient(scores, positive, lambda_, weight):
    """Of weight·(1 − AP) with respect to the scores (Rolínek et al., CVPR 2020), ranks divided by their number."""
    num, ranks = len(scores), places(scores)
    positive_ranks = [rank for rank, holds in zip(ranks, positive, strict=True) if holds]
    upstream = []
    for rank, holds in zip(ranks, positive, strict=True):
        positives_ahead = sum(1 for positive_rank in positive_ranks if positive_rank <= rank)
        upstream.append(weight * positives_ahead / len(positive_ranks) / rank**2 * num if holds else 0.0)
    shifted = places([score + lambda_ * slope for score, slope in zip(scores, upstream, strict=True)])
    return [(new - old) / num / lambda_ for new, old in zip(shifted, ranks, strict=True)]


def csl(cosines, class_path, class_paths, *, margins, scale):
    own_cosine = next(cos for cos, path in zip(cosines, class_paths, strict=True) if list(path) == list(class_path))
    total = 0.0
    for level, margin in enumerate(margins, start=1):
        exponential_sum = 1.0
        for cos, path in zip(cosines, class_paths, strict=True):
            if level_of(class_path, path) < level:
                exponential_sum += math.exp(scale * (cos - own_cosine + margin))
        total += math.log(exponential_sum)
    return total


def proxy_mixture(cosines, class_index, *, eta):
    """Several proxies a class: cosines[c] are those to the proxies of class c."""
    weights = [sum(math.exp(cos / eta) for cos in of_class) for of_class in cosines]
    return -math.log(weights[class_index] / sum(weights))


def softly_assigned_proxies(cosines, class_index, *, eta, center_temperature):
    """The same with one cosine a class: the mean of those to its proxies, weighted by their softmax."""
    of_classes = []
    for of_class in cosines:
        weights = [math.exp(cosine / center_temperature) for cosine in of_class]
        of_classes.append(
            [sum(weight * cosine for weight, cosine in zip(weights, of_class, strict=True)) / sum(weights)]
        )
    return proxy_mixture(of_classes, class_index, eta=eta)


def contrastive(scores, positive, temperature):
    """−(1/|Ω⁺|)·Σ_{j ∈ Ω⁺} log(exp(s_j/τ) / Σ_i exp(s_i/τ)); None without a positive."""
    if not any(positive):
        return None
    total = sum(math.exp(score / temperature) for score in scores)
    logs = [math.log(math.exp(s / temperature) / total) for s, p in zip(scores, positive, strict=True) if p]
    return -sum(logs) / len(logs)


def hierarchical_triplet(scores, levels, margins):
    """Triplets of adjacent levels (Zhang et al., CVPR 2016, in cosines); None without any."""
    means = []
    for level, margin in enumerate(margins, start=1):
        values = [
            max(0.0, negative - positive + margin)
            for positive, level_of_positive in zip(scores, levels, strict=True)
            for negative, level_of_negative in zip(scores, levels, strict=True)
            if level_of_positive == level and level_of_negative == level - 1
        ]
        means += [sum(values) / len(values)] if values else []
    return sum(means) if means else None
