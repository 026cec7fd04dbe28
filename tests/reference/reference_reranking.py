"""Re-ranking straight from its definitions, one vector and one set at a time."""

from __future__ import annotations

import math

import numpy as np


def unit(vector):
    return np.asarray(vector, np.float64) / math.sqrt(sum(float(value) ** 2 for value in vector))


def whitened(vectors, learned_on, dimensions):
    """By the singular vectors of the centered matrix; the signs of directions do not matter to cosines."""
    learned = np.array([unit(vector) for vector in learned_on])
    mean = sum(learned) / len(learned)
    _, sizes, directions = np.linalg.svd(learned - mean)
    scale = sizes / math.sqrt(len(learned) - 1)
    return np.array([
        unit([directions[j] @ (unit(vector) - mean) / scale[j] for j in range(dimensions)]) for vector in vectors
    ])  # fmt: skip


def nearest(vector, items):
    return sorted(range(len(items)), key=lambda index: -float(vector @ items[index]))


def expanded_queries(queries, gallery, k, alpha):
    items, expanded_rows = [unit(item) for item in gallery], []
    for query in map(unit, queries):
        total = query.copy()
        for index in nearest(query, items)[:k]:
            total += max(float(query @ items[index]), 0.0) ** alpha * items[index]
        expanded_rows.append(unit(total))
    return np.array(expanded_rows)


def augmented(gallery, k):
    items = [unit(item) for item in gallery]
    return np.array([
        unit(sum((k - rank) / k * items[index] for rank, index in enumerate(nearest(item, items)[:k])))
        for item in items
    ])  # fmt: skip


def reciprocal_scores(queries, gallery, k1, k2, weight):
    every = [unit(vector) for vector in [*queries, *gallery]]
    order = [nearest(vector, every) for vector in every]
    distance = [[float(((a - b) ** 2).sum()) for b in every] for a in every]

    def mutual(p, k):
        return {i for i in order[p][: k + 1] if p in order[i][: k + 1]}

    encoded = []
    for p in range(len(every)):
        neighbors = mutual(p, k1)
        grown = set(neighbors)
        for q in neighbors:
            other_neighbors = mutual(q, max(round(k1 / 2), 1))
            if len(neighbors & other_neighbors) >= 2 / 3 * len(other_neighbors) - 1e-9:
                grown |= other_neighbors
        encoded.append([math.exp(-distance[p][i]) if i in grown else 0.0 for i in range(len(every))])
    means = [[sum(encoded[i][j] for i in order[p][:k2]) / k2 for j in range(len(every))] for p in range(len(every))]
    scores = np.empty((len(queries), len(gallery)))
    for a in range(len(queries)):
        for b in range(len(gallery)):
            query_mean, item_mean = means[a], means[len(queries) + b]
            jaccard = 1 - sum(map(min, query_mean, item_mean)) / sum(map(max, query_mean, item_mean))
            scores[a, b] = -((1 - weight) * jaccard + weight * distance[a][len(queries) + b])
    return scores
