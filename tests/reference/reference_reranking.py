"""Re-ranking straight from its definitions, one vector and one set at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def unit(vector: Any) -> Any:
    return np.asarray(vector, np.float64) / math.sqrt(sum(float(value) ** 2 for value in vector))


def whitened(vectors: Any, learned_on: Any, dimensions: int) -> Any:
    """By the singular vectors of the centered matrix; the signs of directions do not matter to cosines."""
    learned = np.array([unit(vector) for vector in learned_on])
    mean = sum(learned) / len(learned)
    _, sizes, directions = np.linalg.svd(learned - mean)
    scale = sizes / math.sqrt(len(learned) - 1)
    return np.array([
        unit([directions[j] @ (unit(vector) - mean) / scale[j] for j in range(dimensions)]) for vector in vectors
    ])  # fmt: skip


def nearest(vector: Any, items: Any) -> list[int]:
    return sorted(range(len(items)), key=lambda place: -float(vector @ items[place]))


def expanded_queries(queries: Any, gallery: Any, k: int, alpha: float) -> Any:
    items, expanded_rows = [unit(item) for item in gallery], []
    for query in map(unit, queries):
        total = query.copy()
        for place in nearest(query, items)[:k]:
            total += max(float(query @ items[place]), 0.0) ** alpha * items[place]
        expanded_rows.append(unit(total))
    return np.array(expanded_rows)


def augmented(gallery: Any, k: int) -> Any:
    items = [unit(item) for item in gallery]
    return np.array([
        unit(sum((k - rank) / k * items[place] for rank, place in enumerate(nearest(item, items)[:k])))
        for item in items
    ])  # fmt: skip
