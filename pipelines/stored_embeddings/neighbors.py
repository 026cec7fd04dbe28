"""Find the images most similar to a few queries in a gallery that may be large and on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..pair_scores import lengths, of_plain_size, unit_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

BLOCK = 8192  # rows of the gallery that are compared at once


def nearest_images(
    queries: NDArray[np.floating],
    gallery: NDArray[np.floating],
    *,
    count: int,
    left_out: Sequence[NDArray[np.int64]],
) -> NDArray[np.int64]:
    """(Q, at most ``count``) images most similar to each query by cosine, best first, the smaller index first in a tie.

    (Q, d) vectors are compared with the (N, d) ``gallery``; the rows of it that a query leaves out come last.

    >>> vectors = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 0.1]])
    >>> nearest_images(vectors[:1], vectors, count=2, left_out=[np.array([0])])
    array([[2, 1]])
    """
    own = unit_rows(queries)
    most = min(count, len(gallery) - min(map(len, left_out), default=0))
    rows, scores = np.zeros((len(own), 0), np.int64), np.zeros((len(own), 0), own.dtype)
    for start in range(0, len(gallery), BLOCK):
        block = of_plain_size(np.asarray(gallery[start : start + BLOCK]))
        found = own @ block.T / lengths(block)
        for row, left in zip(found, left_out, strict=True):
            row[left[(left >= start) & (left < start + len(block))] - start] = -np.inf
        scores = np.concatenate([scores, found], axis=1)
        rows = np.concatenate([rows, np.tile(np.arange(start, start + len(block)), (len(own), 1))], axis=1)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :most]
        scores, rows = np.take_along_axis(scores, best, 1), np.take_along_axis(rows, best, 1)
    return rows
