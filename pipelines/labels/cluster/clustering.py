"""k-means on the sphere, several runs joined into one, and the choice of k.

One run of k-means is a matter of chance: another start, a label more or less, and many labels lie elsewhere. So runs of
about k clusters, some fewer and some more, vote on which labels belong together: the distance of two labels is the
share of runs that put them apart, average linkage merges them by it, and k clusters are cut (evidence accumulation,
Fred & Jain 2005).

Distinct labels are clustered. Each may weigh more than one: the pipeline lets a label of n landmarks weigh 1 + ln n, so
that a common one ("waterfall") can have a cluster to itself and yet does not draw every center towards it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from hiertree.errors import OptionError
from hiertree.io.progress import track

if TYPE_CHECKING:
    from numpy.typing import NDArray

ITERATIONS, RESTARTS = 25, 20
SILHOUETTE_TOLERANCE = 0.01  # differences below are chance
_REMEMBERED = 2500  # rows whose distances from each other are kept
Distances: TypeAlias = "Callable[[NDArray[np.int64]], NDArray[np.float64]]"


@dataclass(frozen=True)
class Clustering:
    """Clusters numbered from the largest to the smallest.

    Attributes:
        assignment: (n,) int64, the cluster of each row.
        centers: (k, d) float32, of unit norm.
    """

    assignment: NDArray[np.int64]
    centers: NDArray[np.float32]


def spherical_kmeans(
    vectors: NDArray[np.float32],
    k: int,
    *,
    weights: NDArray[np.float64] | None = None,
    seed: int = 0,
    restarts: int = RESTARTS,
) -> Clustering:
    """What several runs of k-means by cosine (faiss), each from a k-means++ start, agree on; takes 8 n² bytes.

    Args:
        vectors: (n, d) float32 of unit norm.
        k: number of clusters, from 1 to the number of different rows; the runs' lie between k/√2 and √2 k.
        weights: (n,) positive weights of the rows in the runs; default: one each.
        seed: every start follows from it; the same input and seed give the same clusters.
        restarts: number of runs.

    Raises:
        OptionError: k, weights or restarts outside their range.

    >>> vectors = np.array([[1, 0], [0.96, 0.28], [0, 1], [-0.6, 0.8], [0.28, 0.96]], dtype=np.float32)
    >>> spherical_kmeans(vectors, 2).assignment
    array([1, 1, 0, 0, 0])
    """
    different = len(np.unique(vectors, axis=0))
    if not 1 <= k <= different:
        raise OptionError(f"k={k}", expected=f"1 to {different}, the number of labels that differ")
    if restarts < 1:
        raise OptionError(f"restarts={restarts}", expected="at least 1")
    weight = np.ones(len(vectors)) if weights is None else weights
    if weight.shape != (len(vectors),) or not (np.isfinite(weight) & (weight > 0)).all():
        raise OptionError(f"weights of shape {weight.shape}", expected=f"{len(vectors)} positive numbers")
    return _joined_runs(vectors, k, weight, seed, restarts, _distances(vectors))


def choose_k(
    vectors: NDArray[np.float32], *, weights: NDArray[np.float64] | None = None, seed: int = 0, restarts: int = RESTARTS
) -> tuple[int, dict[int, float]]:
    """The smallest k whose silhouette (cosine, mean over labels) is within 0.01 of the best, and the scores tried.

    About a dozen values from √n/2 to n/3 (at most 200) are tried, then as many between the neighbors of the best; a
    cluster of one label scores 0.

    >>> angles = np.repeat(np.arange(3) * 2.0, 8) + np.tile(np.linspace(0, 0.1, 8), 3)
    >>> choose_k(np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32))[0]
    3
    """
    weight, rows = np.ones(len(vectors)) if weights is None else weights, _distances(vectors)
    scores: dict[int, float] = {}

    def score(ks: list[int], description: str) -> None:
        for k in track(ks, description=description):
            scores[k] = silhouette(vectors, _joined_runs(vectors, k, weight, seed, restarts, rows).assignment)

    coarse = _coarse_grid(vectors)
    score(coarse, "number of clusters, coarsely")
    place = coarse.index(_best(scores))
    fine = _grid(coarse[max(place - 1, 0)], coarse[min(place + 1, len(coarse) - 1)])
    score([k for k in fine if k not in scores], "number of clusters, finely")
    return _best(scores), dict(sorted(scores.items()))


def _coarse_grid(vectors: NDArray[np.float32]) -> list[int]:
    """About a dozen numbers of clusters worth trying: from √n/2 to n/3, at most 200."""
    different = len(np.unique(vectors, axis=0))
    most = max(2, min(200, different // 3))
    return _grid(min(max(2, round(np.sqrt(different) / 2)), most), most)


def _grid(least: int, most: int) -> list[int]:
    return sorted({round(k) for k in np.geomspace(least, most, 12)})


def _best(scores: dict[int, float]) -> int:
    return min(k for k, score in scores.items() if score >= max(scores.values()) - SILHOUETTE_TOLERANCE)


def silhouette(vectors: NDArray[np.float32], assignment: NDArray[np.int64]) -> float:
    """The mean silhouette by cosine, −1 where there is none: one cluster, or one for each row."""
    from sklearn.metrics import silhouette_score

    if not 2 <= len(np.unique(assignment)) < len(vectors):
        return -1.0
    return float(silhouette_score(vectors, assignment, metric="cosine"))


def _joined_runs(
    vectors: NDArray[np.float32],
    k: int,
    weights: NDArray[np.float64],
    seed: int,
    restarts: int,
    distances: Distances,
) -> Clustering:
    from scipy.cluster.hierarchy import fcluster, linkage
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # many small products: threads would only wait for each other
        starts = np.random.SeedSequence(seed).generate_state(restarts)
        numbers = _numbers_of_clusters(k, restarts, most=len(np.unique(vectors, axis=0)))
        runs = [_run(vectors, own, weights, int(start), distances) for own, start in zip(numbers, starts, strict=True)]
    merges, order = linkage(np.stack(runs, axis=1), "average", metric="hamming"), np.arange(len(vectors) - 1.0)
    joined = fcluster(merges, len(vectors) - k - 1, criterion="monocrit", monocrit=order)  # by rank, whatever ties
    return _ordered(vectors, joined.astype(np.int64), weights)


def _numbers_of_clusters(k: int, runs: int, *, most: int) -> list[int]:
    """How many clusters each run has: from k/√2 to √2 k by equal factors, around k."""
    factors = 2 ** ((np.arange(runs) + 0.5) / runs - 0.5)
    return [int(number) for number in np.clip(np.rint(k * factors), min(k, 2), most)]


def _distances(vectors: NDArray[np.float32]) -> Distances:
    """A function from rows to their squared distances from all, which remembers them where they take up to 50 MB."""
    exact = vectors.astype(np.float64)
    if len(exact) > _REMEMBERED:
        return lambda rows: np.maximum(2 - 2 * (exact[rows] @ exact.T), 0)
    table = np.maximum(2 - 2 * (exact @ exact.T), 0)
    return lambda rows: table[rows]


def _run(
    vectors: NDArray[np.float32], k: int, weights: NDArray[np.float64], seed: int, distances: Distances
) -> NDArray[np.int64]:
    import faiss

    kmeans = faiss.Kmeans(
        vectors.shape[1], k, niter=ITERATIONS, spherical=True, seed=seed % 2**31, min_points_per_centroid=1
    )
    start = np.ascontiguousarray(vectors[_starts(distances, k, weights, seed)])
    kmeans.train(vectors, weights=weights.astype(np.float32), init_centroids=start)
    return np.asarray(kmeans.index.search(vectors, 1)[1][:, 0], dtype=np.int64)


def _starts(distances: Distances, k: int, weights: NDArray[np.float64], seed: int) -> list[int]:
    """K rows by greedy k-means++ (Arthur & Vassilvitskii 2007), drawn as by scikit-learn, from known distances."""
    generator, trials = np.random.RandomState(seed), 2 + int(np.log(k))
    chosen = [int(generator.choice(len(weights), p=weights / weights.sum()))]
    nearest = distances(np.array(chosen))[0]  # squared distance to the nearest chosen row
    while len(chosen) < k:
        draws = generator.uniform(size=trials) * (nearest @ weights)
        candidates = np.searchsorted(np.cumsum(weights * nearest), draws).clip(max=len(weights) - 1)
        nearer = np.minimum(nearest, distances(candidates))
        best = int(np.argmin(nearer @ weights))
        chosen.append(int(candidates[best]))
        nearest = nearer[best]
    return chosen


def _ordered(vectors: NDArray[np.float32], assignment: NDArray[np.int64], weights: NDArray[np.float64]) -> Clustering:
    """Clusters renumbered by size, then by their first row; empty ones vanish."""
    used, first, sizes = np.unique(assignment, return_index=True, return_counts=True)
    order = np.lexsort((first, -sizes))
    renumbered = np.empty(used.max() + 1, dtype=np.int64)
    renumbered[used[order]] = np.arange(len(used))
    numbers = renumbered[assignment]
    return Clustering(numbers, unit_centers(vectors, numbers, weights))


def unit_centers(
    vectors: NDArray[np.float32], assignment: NDArray[np.int64], weights: NDArray[np.float64]
) -> NDArray[np.float32]:
    """The mean direction of each cluster; of opposite vectors, that of the first."""
    sums = np.zeros((assignment.max() + 1, vectors.shape[1]), dtype=np.float64)
    np.add.at(sums, assignment, vectors * weights[:, None])
    norms = np.linalg.norm(sums, axis=1, keepdims=True)
    first = vectors[np.unique(assignment, return_index=True)[1]]
    return np.where(norms > 0, sums / np.where(norms > 0, norms, 1), first).astype(np.float32)
