"""Scores of queries and items a few at a time: for relevance that is given for pairs, and for nearest images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.arrays import rescale_rows, row_norms, unit_rows
from hiertree.errors import EmbeddingError
from hiertree.metrics import Evaluation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.metrics.conventions import RankedBy

_QUERIES, _ITEMS = 256, 8192  # compared at once


def score_blocks(queries: Any, gallery: Any, *, codes: bool) -> Iterator[tuple[slice, NDArray[np.floating]]]:
    """Yield some queries and their scores: (q, N) cosines, or minus the Hamming distances of embeddings' signs.

    Both sides are sliced, so that they may lie on the disk.
    """

    def rows(vectors: NDArray[Any]) -> NDArray[np.floating]:
        with np.errstate(invalid="ignore", divide="ignore"):
            unit = np.asarray(np.where(vectors > 0, 1, -1), np.float32) if codes else unit_rows(vectors)
        if not (np.isfinite(vectors).all() and np.isfinite(unit).all()):
            raise EmbeddingError("embeddings that hold NaN, infinite or zero vectors", expected="finite vectors")
        return unit

    for first in range(0, len(queries), _QUERIES):
        block = rows(queries[first : first + _QUERIES])
        scores = np.empty((len(block), len(gallery)), block.dtype)
        for start in range(0, len(gallery), _ITEMS):
            scores[:, start : start + _ITEMS] = block @ rows(gallery[start : start + _ITEMS]).T
        yield slice(first, first + len(block)), (scores - block.shape[1]) / 2 if codes else scores


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
    unit_queries = unit_rows(queries)
    size = min(count, len(gallery) - min(map(len, left_out), default=0))
    rows, scores = np.zeros((len(unit_queries), 0), np.int64), np.zeros((len(unit_queries), 0), unit_queries.dtype)
    for start in range(0, len(gallery), _ITEMS):
        block = rescale_rows(np.asarray(gallery[start : start + _ITEMS]))
        block_scores = unit_queries @ block.T / row_norms(block)
        for row, left in zip(block_scores, left_out, strict=True):
            row[left[(left >= start) & (left < start + len(block))] - start] = -np.inf
        scores = np.concatenate([scores, block_scores], axis=1)
        rows = np.concatenate([rows, np.tile(np.arange(start, start + len(block)), (len(unit_queries), 1))], axis=1)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :size]
        scores, rows = np.take_along_axis(scores, best, 1), np.take_along_axis(rows, best, 1)
    return rows


def joined(blocks: Sequence[Evaluation], *, bits: int | None) -> Evaluation:
    """One result of those of :func:`score_blocks`, one after another; ``bits`` are those of codes."""
    values, card = np.concatenate([block.values for block in blocks]), blocks[0].convention
    measure: RankedBy = "cosine similarity" if bits is None else "Hamming distance"
    self_rule = "as the judgments say: junk is left out, other items stay"
    card = replace(card, self_rule=self_rule, ranked_by=measure, bits=bits, judged_pairs=True)
    return Evaluation(blocks[0].names, values, range(len(values)), card)
