"""How many clusters: silhouette and stability over a range of k, for people to choose by.

A clustering is *stable* when other starts give nearly the same one: the mean adjusted Rand index over all pairs of
seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hiertree.errors import OptionError
from hiertree.io.progress import track

from .clustering import coarse_grid, silhouette, spherical_kmeans

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ScanPoint(NamedTuple):
    """A number of clusters, its silhouette (cosine, mean over labels) and its stability, if that was measured."""

    k: int
    silhouette: float
    stability: float | None = None


def scan(
    vectors: NDArray[np.float32],
    *,
    weights: NDArray[np.float64] | None = None,
    ks: Sequence[int] | None = None,
    seed: int = 0,
    seeds: int = 5,
    restarts: int = 20,
) -> list[ScanPoint]:
    """Cluster with several seeds at each k.

    Args:
        vectors: (n, d) float32 of unit norm.
        weights: (n,) positive weights of the rows.
        ks: numbers of clusters; default: about a dozen from √n/2 to n/3, at most 200.
        seed: the seeds follow from it.
        seeds: how many clusterings are compared at each k, at least 2.
        restarts: of each clustering.

    Raises:
        OptionError: fewer than 2 seeds, or what :func:`spherical_kmeans` refuses.

    >>> angles = np.repeat(np.arange(3) * 2.0, 8) + np.tile(np.linspace(0, 0.1, 8), 3)
    >>> points = scan(np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32), ks=[3, 5], restarts=2)
    >>> points[0].stability, points[0].silhouette > points[1].silhouette
    (1.0, True)
    """
    from sklearn.metrics import adjusted_rand_score

    if seeds < 2:
        raise OptionError(f"seeds={seeds}", expected="at least 2 to compare")
    own_seeds = [int(state) for state in np.random.SeedSequence(seed).generate_state(seeds)]
    points = []
    for k in track(coarse_grid(vectors) if ks is None else ks, description="scanning the number of clusters"):
        found = [
            spherical_kmeans(vectors, k, weights=weights, seed=own, restarts=restarts).assignment for own in own_seeds
        ]
        agreements = [adjusted_rand_score(one, other) for one, other in combinations(found, 2)]
        points.append(ScanPoint(k, round(silhouette(vectors, found[0]), 4), round(float(np.mean(agreements)), 4)))
    return points
