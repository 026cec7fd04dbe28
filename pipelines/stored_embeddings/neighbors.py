"""Find the images most similar to a few queries in a gallery that may be large and on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

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
        block = _of_plain_size(np.asarray(gallery[start : start + BLOCK]))
        found = own @ block.T / _lengths(block)
        for row, left in zip(found, left_out, strict=True):
            row[left[(left >= start) & (left < start + len(block))] - start] = -np.inf
        scores = np.concatenate([scores, found], axis=1)
        rows = np.concatenate([rows, np.tile(np.arange(start, start + len(block)), (len(own), 1))], axis=1)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :most]
        scores, rows = np.take_along_axis(scores, best, 1), np.take_along_axis(rows, best, 1)
    return rows


def unit_rows(vectors: NDArray[np.floating]) -> NDArray[np.floating]:
    """Vectors scaled to norm 1, of any size and type; products of such rows are cosines."""
    plain = _of_plain_size(np.asarray(vectors))
    return np.asarray(plain / _lengths(plain)[:, None])


def _lengths(vectors: NDArray[np.floating]) -> NDArray[np.floating]:
    return np.asarray(np.sqrt(np.einsum("nd,nd->n", vectors, vectors)))


def _of_plain_size(vectors: NDArray[np.floating]) -> NDArray[np.floating]:
    """The vectors, or multiples of them whose squares neither overflow nor vanish."""
    size = np.abs(vectors).max(axis=1, keepdims=True)
    if vectors.dtype != np.float16 and size.max(initial=1.0) < 1e15 and size.min(initial=1.0) > 1e-15:
        return vectors
    return np.asarray(vectors / size, np.promote_types(vectors.dtype, np.float32))
