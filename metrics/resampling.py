"""Bootstrap over clusters of queries: the draws behind every confidence interval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.arrays import to_numpy
from hiertree.errors import ShapeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DRAWS_AT_ONCE = 1 << 21


def cluster_numbers(clusters: Any, num_queries: int) -> NDArray[np.int64]:
    """A number from 0 for the cluster of each query; rows that agree are one cluster.

    >>> cluster_numbers([[0, 1], [0, 2], [0, 1]], 3)
    array([0, 1, 0])
    """
    labels = to_numpy(clusters)
    if labels.ndim not in (1, 2) or len(labels) != num_queries:
        raise ShapeError(f"clusters of shape {labels.shape}", expected=f"a label for each of {num_queries} queries")
    found: NDArray[np.int64] = np.unique(labels, axis=0, return_inverse=True)[1].reshape(-1)
    return found


def bootstrap_means(
    values: NDArray[np.float64], clusters: NDArray[np.int64], *, resamples: int, seed: int
) -> NDArray[np.float64]:
    """(resamples, M) means of values (n, M) without NaN, over clusters drawn with replacement, as many as there are."""
    numbers = np.unique(clusters, return_inverse=True)[1]
    sizes = np.bincount(numbers)
    sums = np.stack([np.bincount(numbers, weights=column) for column in values.T], axis=1)
    random = np.random.default_rng(seed)
    means = np.empty((resamples, values.shape[1]))
    step = max(_DRAWS_AT_ONCE // len(sizes), 1)
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        drawn = random.integers(0, len(sizes), (stop - start, len(sizes)))
        times = np.stack([np.bincount(row, minlength=len(sizes)) for row in drawn]).astype(np.float64)
        means[start:stop] = (times @ sums) / (times @ sizes)[:, None]
    return means
