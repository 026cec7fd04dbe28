"""Spherical k-means as a consensus of several runs, and the choice of k.

One run of k-means is a matter of chance: another start, a label more or less, and many labels lie elsewhere. So runs of
about k clusters, some fewer and some more, vote on which labels belong together: the distance of two labels is the
share of runs that put them apart, average linkage merges them by it, and k clusters are cut (evidence accumulation,
Fred & Jain 2005). The k of highest silhouette is proposed, from a mean over its neighbors: one alone is a matter of
chance, too.

Distances of all labels from each other would take 8 n² bytes. Of more than 8,192 labels (512 MB) the runs are joined,
and k is chosen, on 4,096 that are drawn; every other label goes to the cluster with whose labels most runs put it.

Distinct labels are clustered. Each may weigh more than one: the pipeline lets a label of n landmarks weigh 1 + ln n, so
that a common one ("waterfall") can have a cluster to itself and yet does not draw every center towards it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hiertree.arrays import unit_rows
from hiertree.errors import OptionError
from hiertree.io.progress import track

ITERATIONS, RESTARTS = 25, 20
_REACH = 2**0.5  # runs of up to so many times more or fewer clusters are joined
_TRIED, _MOST = 40, 100  # numbers of clusters; people review what is proposed
_NEIGHBORS = 1.15  # the silhouettes of numbers within this factor are averaged
_SAME = 1e-12  # a distance below is none
_WHOLE, _DRAWN = 8192, 4096  # labels up to which all are joined; how many of more
_A_CLUSTER = 4  # labels drawn for each cluster, at least
_REMEMBERED = 2500  # rows whose distances from each other are kept
Vectors: TypeAlias = "NDArray[np.float32]"  # rows of unit norm
Floats: TypeAlias = "NDArray[np.float64]"
Integers: TypeAlias = "NDArray[np.int64]"
Distances: TypeAlias = Callable[[Integers], Floats]


def spherical_kmeans(
    vectors: Vectors, k: int, *, weights: Floats | None = None, seed: int = 0, restarts: int = RESTARTS
) -> Integers:
    """The cluster of each row on which several runs of k-means by cosine (faiss), from k-means++ starts, agree.

    Clusters are numbered from the largest to the smallest.

    Takes 8 n² bytes up to 8,192 rows; of more, 8 · 4,096² bytes (8 · (4 k)² for k over 1,024), and those of the rows.

    Args:
        vectors: (n, d) float32 of unit norm.
        k: number of clusters, from 1 to the number of different rows; the runs' lie between k/√2 and √2 k.
        weights: (n,) positive weights of the rows in the runs; default: one each.
        seed: every start follows from it; the same input and seed give the same clusters.
        restarts: number of runs.

    Raises:
        OptionError: k, weights or restarts outside their range.

    >>> vectors = np.array([[1, 0], [0.96, 0.28], [0, 1], [-0.6, 0.8], [0.28, 0.96]], dtype=np.float32)
    >>> spherical_kmeans(vectors, 2)
    array([1, 1, 0, 0, 0])
    """
    num_distinct = len(np.unique(vectors, axis=0))
    if not 1 <= k <= num_distinct:
        raise OptionError(f"k={k}", expected=f"1 to {num_distinct}, the number of distinct known labels")
    weight = _checked(weights, restarts, len(vectors))
    sample = _drawn(len(vectors), k, seed)
    runs = _runs(vectors, _numbers_of_clusters(vectors, k, k, restarts), weight, seed, sample)
    return _ordered(_assign_others(runs, sample, _joined(runs[sample], k)))


def choose_k(
    vectors: Vectors, *, weights: Floats | None = None, seed: int = 0, restarts: int = RESTARTS
) -> tuple[int, dict[int, float]]:
    """The k of highest silhouette (cosine, mean over labels) among its neighbors, and the silhouettes of those tried.

    About 40 numbers from √n/2 to n/3, at most 100, are tried; what counts is the mean silhouette of the numbers within
    a factor of 1.15. A cluster of one label scores 0. Where the silhouette rises to the end, as it does for many texts
    of few words in common, k is the largest number tried. Of more than 8,192 labels, k is chosen for 4,096 drawn.

    Args:
        vectors: (n, d) float32 of unit norm.
        weights: (n,) positive weights of the rows in the runs; default: one each.
        seed: every start follows from it.
        restarts: number of runs that are joined for each k; near numbers share theirs.

    Raises:
        OptionError: weights or restarts outside their range.

    >>> angles = np.repeat(np.arange(3) * 2.0, 8) + np.tile(np.linspace(0, 0.1, 8), 3)
    >>> choose_k(np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32))[0]
    3
    """
    weight, sample = _checked(weights, restarts, len(vectors)), _drawn(len(vectors), 1, seed)
    vectors, weight = vectors[sample], weight[sample]
    tried = _numbers_to_try(vectors)
    if tried == [1] or len(vectors) == 2:  # one cluster, or one for each row, has no silhouette
        return tried[-1], {}
    octaves = np.log2(tried[-1] / tried[0]) + 2 * np.log2(_REACH)
    cluster_counts = _numbers_of_clusters(vectors, tried[0], tried[-1], int(np.ceil(restarts * octaves)))
    runs = _runs(vectors, cluster_counts, weight, seed, np.arange(len(vectors)))
    scores: dict[int, float] = {}
    for k in track(tried, description="numbers of clusters"):
        is_neighbor = (cluster_counts >= k / _REACH - 0.5) & (cluster_counts <= k * _REACH + 0.5)  # they are rounded
        scores[k] = float(silhouettes(vectors, _joined(runs[:, is_neighbor], k)).mean())
    return max(tried, key=lambda k: _mean_of_neighbors(scores, k)), scores


def _mean_of_neighbors(scores: dict[int, float], k: int) -> float:
    return float(np.mean([score for tried, score in scores.items() if k / _NEIGHBORS <= tried <= k * _NEIGHBORS]))


def _checked(weights: Floats | None, restarts: int, rows: int) -> Floats:
    if restarts < 1:
        raise OptionError(f"restarts={restarts}", expected="at least 1")
    weight = np.ones(rows) if weights is None else weights
    if weight.shape != (rows,) or not (np.isfinite(weight) & (weight > 0)).all():
        raise OptionError(f"weights of shape {weight.shape}", expected=f"{rows} positive numbers")
    return weight


def _numbers_to_try(vectors: Vectors) -> list[int]:
    num_distinct = len(np.unique(vectors, axis=0))
    largest_k = min(num_distinct, max(2, min(_MOST, num_distinct // 3)))
    smallest_k = min(max(2, round(np.sqrt(num_distinct) / 2)), largest_k)
    return sorted({round(k) for k in np.geomspace(smallest_k, largest_k, _TRIED)})


def silhouettes(vectors: Vectors, assignment: Integers) -> Floats:
    """(n,) the silhouettes by cosine (Rousseeuw 1987), 0 where a row is alone in its cluster or there is no other.

    The mean distance from a cluster is that from the mean of its rows, so time and memory are linear in the rows;
    scikit-learn compares all pairs: at 30,000 labels, five times the memory.
    """
    _, clusters, sizes = np.unique(assignment, return_inverse=True, return_counts=True)
    if len(sizes) == 1:
        return np.zeros(len(vectors))
    blocks = [slice(start, start + _WHOLE) for start in range(0, len(vectors), _WHOLE)]
    sums = np.zeros((len(sizes), vectors.shape[1]))
    for block in blocks:
        np.add.at(sums, clusters[block], _exact_rows(vectors[block]))
    means = sums / sizes[:, None]
    return np.concatenate(
        [_silhouettes(_exact_rows(vectors[block]), clusters[block], means, sizes) for block in blocks]
    )


def _exact_rows(vectors: Vectors) -> Floats:
    return np.asarray(unit_rows(vectors.astype(np.float64)))


def _silhouettes(rows: Floats, clusters: Integers, means: Floats, sizes: Integers) -> Floats:
    distances, order = 1 - rows @ means.T, np.arange(len(rows))  # the means of a row's distances from each cluster's
    cohesion = distances[order, clusters] * sizes[clusters] / np.maximum(sizes[clusters] - 1, 1)
    distances[order, clusters] = np.inf
    separation = distances.min(axis=1)
    larger = np.maximum(cohesion, separation)
    is_defined = (sizes[clusters] > 1) & (larger > _SAME)
    return np.where(is_defined, (separation - cohesion) / np.where(is_defined, larger, 1), 0)


def _drawn(rows: int, k: int, seed: int) -> Integers:
    """The rows between which distances are computed: all, or a sample of many."""
    if rows <= max(_WHOLE, _A_CLUSTER * k):
        return np.arange(rows)
    size = max(_DRAWN, _A_CLUSTER * k)
    return np.sort(np.random.RandomState(seed % 2**32).permutation(rows)[:size])


def _assign_others(runs: Integers, sample: Integers, sample_clusters: Integers) -> Integers:
    """(n,) the clusters of the rows drawn, and for any other that with the greatest share of rows, summed over runs."""
    if len(sample) == len(runs):
        return sample_clusters
    codes, sizes = np.unique(sample_clusters, return_inverse=True, return_counts=True)[1:]
    votes = np.zeros((len(runs), len(sizes)), dtype=np.float32)
    for run in runs.T:
        fractions = np.zeros((run.max() + 1, len(sizes)), dtype=np.float32)
        np.add.at(fractions, (run[sample], codes), 1 / sizes[codes])
        votes += fractions[run]
    clusters: Integers = votes.argmax(axis=1)
    clusters[sample] = codes
    return clusters


def _runs(vectors: Vectors, cluster_counts: Integers, weights: Floats, seed: int, sample: Integers) -> Integers:
    """(n, runs), one run of k-means for each number of clusters; they start from rows drawn."""
    from threadpoolctl import threadpool_limits

    starts = np.random.SeedSequence(seed).generate_state(len(cluster_counts)).tolist()
    distances, weight = _distances(vectors[sample]), weights[sample]
    with threadpool_limits(1):  # many small products: threads would only wait for each other
        runs = [
            _run(vectors, sample[_starts(distances, k, weight, start)], weights, start)
            for k, start in track([*zip(cluster_counts.tolist(), starts, strict=True)], description="runs of k-means")
        ]
    return np.stack(runs, axis=1)


def _joined(runs: Integers, k: int) -> Integers:
    """(n,) the k clusters on which the runs agree."""
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import pdist

    if len(runs) == 1:
        return np.ones(1, dtype=np.int64)
    merges, order = linkage(pdist(runs, "hamming"), "average"), np.arange(len(runs) - 1.0)
    clusters = fcluster(merges, len(runs) - k - 1, criterion="monocrit", monocrit=order)  # by rank, whatever ties
    return np.asarray(clusters, dtype=np.int64)


def _numbers_of_clusters(vectors: Vectors, min_k: int, max_k: int, runs: int) -> Integers:
    """The number of clusters of each run: from min_k/√2 to √2·max_k in equal factors."""
    low, high = np.log(min_k / _REACH), np.log(max_k * _REACH)
    cluster_counts = np.exp(low + (high - low) * (np.arange(runs) + 0.5) / runs)
    num_distinct = len(np.unique(vectors, axis=0))
    return np.asarray(np.clip(np.rint(cluster_counts), min(min_k, 2), num_distinct), dtype=np.int64)


def _distances(vectors: Vectors) -> Distances:
    """A function from rows to their squared distances from all rows; cached if these take up to 50 MB."""
    exact = vectors.astype(np.float64)
    if len(exact) > _REMEMBERED:
        return lambda rows: np.maximum(2 - 2 * (exact[rows] @ exact.T), 0)
    table = np.maximum(2 - 2 * (exact @ exact.T), 0)
    return lambda rows: table[rows]


def _run(vectors: Vectors, starts: Integers, weights: Floats, seed: int) -> Integers:
    import faiss

    options = {"niter": ITERATIONS, "spherical": True, "seed": seed % 2**31, "min_points_per_centroid": 1}
    kmeans, start = faiss.Kmeans(vectors.shape[1], len(starts), **options), np.ascontiguousarray(vectors[starts])
    kmeans.train(vectors, weights=weights.astype(np.float32), init_centroids=start)
    return np.asarray(kmeans.index.search(vectors, 1)[1][:, 0], dtype=np.int64)


def _starts(distances: Distances, k: int, weights: Floats, seed: int) -> list[int]:
    """K rows by greedy k-means++ (Arthur & Vassilvitskii 2007), drawn as by scikit-learn, from known distances."""
    generator, trials = np.random.RandomState(seed), 2 + int(np.log(k))
    starts = [int(generator.choice(len(weights), p=weights / weights.sum()))]
    nearest = distances(np.array(starts))[0]  # squared distance to the nearest chosen row
    while len(starts) < k:
        draws = generator.uniform(size=trials) * (nearest @ weights)
        candidates = np.searchsorted(np.cumsum(weights * nearest), draws).clip(max=len(weights) - 1)
        nearer = np.minimum(nearest, distances(candidates))
        best = int(np.argmin(nearer @ weights))
        starts.append(int(candidates[best]))
        nearest = nearer[best]
    return starts


def _ordered(assignment: Integers) -> Integers:
    """Renumber clusters by size, then by first row; empty ones disappear."""
    clusters, first, sizes = np.unique(assignment, return_index=True, return_counts=True)
    order = np.lexsort((first, -sizes))
    renumbered = np.empty(clusters.max() + 1, dtype=np.int64)
    renumbered[clusters[order]] = np.arange(len(clusters))
    return renumbered[assignment]


def unit_centers(vectors: Vectors, assignment: Integers, weights: Floats) -> Vectors:
    """The mean direction of each cluster; of opposite vectors, that of the first."""
    sums = np.zeros((assignment.max() + 1, vectors.shape[1]), dtype=np.float64)
    np.add.at(sums, assignment, vectors * weights[:, None])
    norms = np.linalg.norm(sums, axis=1, keepdims=True)
    first = vectors[np.unique(assignment, return_index=True)[1]]
    return np.where(norms > 0, sums / np.where(norms > 0, norms, 1), first).astype(np.float32)
