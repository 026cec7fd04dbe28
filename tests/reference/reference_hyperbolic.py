"""Hyperbolic distances and HIER (Kim et al., CVPR 2023), in plain loops and float64 from the papers."""

from __future__ import annotations

import math
from collections.abc import Sequence

Rows = Sequence[Sequence[float]]


def point(vector, curvature, radius, scale):
    """The exponential map at the origin, of the vector cut to a norm (Ermolov et al., CVPR 2022)."""
    norm = scale * math.sqrt(sum(x * x for x in vector))
    cut = [scale * x * min(1.0, radius / norm) for x in vector]
    length = math.sqrt(curvature) * min(norm, radius)
    return [math.tanh(length) / length * x for x in cut]


def distance(x, y, curvature):
    """2/√c·artanh(√c·|−x ⊕ y|), ⊕ the addition of Möbius."""
    xx, yy = sum(a * a for a in x), sum(b * b for b in y)
    xy = -sum(a * b for a, b in zip(x, y, strict=True))
    of_x, of_y = 1 + 2 * curvature * xy + curvature * yy, 1 - curvature * xx
    divisor = 1 + 2 * curvature * xy + curvature**2 * xx * yy
    norm = math.sqrt(sum(((of_y * b - of_x * a) / divisor) ** 2 for a, b in zip(x, y, strict=True)))
    return 2 / math.sqrt(curvature) * math.atanh(math.sqrt(curvature) * norm)


def softmax(logits):
    largest = max(logits)
    exponentials = [math.exp(logit - largest) for logit in logits]
    return [e / sum(exponentials) for e in exponentials]


def ancestor_losses(distances, at, triplets, noise, *, tau, delta):
    """The loss of each triplet, as a function whose derivative at ``at`` is the straight-through one.

    The weights of the ancestors are hard ones at ``at``, and change from there as the soft ones do.
    """
    losses = []
    for index, members in enumerate(triplets):
        weights, chosen = [], []
        for group, noise_of_triplet in zip((members[:2], members), (noise[0][index], noise[1][index]), strict=True):
            soft = []
            for of_items in (distances, at):
                farthest = [max(of_items[item][p] for item in group) for p in range(len(noise_of_triplet))]
                soft.append(softmax([-d / tau + g for d, g in zip(farthest, noise_of_triplet, strict=True)]))
            best = max(range(len(noise_of_triplet)), key=soft[1].__getitem__)
            chosen.append(best)
            weights.append([(p == best) + now - then for p, (now, then) in enumerate(zip(*soft, strict=True))])
        loss = 0.0
        for item, sign in zip(members, (1, 1, -1), strict=True):
            rise = sum(d * (a - b) for d, a, b in zip(distances[item], *weights, strict=True))
            loss += max(0.0, sign * rise + delta)
        losses.append(loss if chosen[0] != chosen[1] else 0.0)
    return losses


def neighbors(similarities, count):
    """The reciprocal nearest neighbors of each item, which is the first of its own nearest."""
    size = len(similarities)
    nearest = []
    for i, row in enumerate(similarities):
        others = sorted((j for j in range(size) if j != i), key=lambda j, row=row: -row[j])
        nearest.append({i, *others[: count - 1]})
    return [{j for j in range(size) if j != i and j in nearest[i] and i in nearest[j]} for i in range(size)]
