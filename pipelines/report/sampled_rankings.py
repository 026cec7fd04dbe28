"""Whole rankings of some of the queries, block by block, so that 100,000 queries need no more memory than a few."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hiertree import levels

from ..stored_embeddings.neighbors import unit_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .measurements import Measurement
    from .queries_and_gallery import QueriesAndGallery

MOST_QUERIES = 1_000
_BLOCK = 4_000_000  # scores that are held at once


class ScoredBlock(NamedTuple):
    """Some queries with the scores of the whole gallery.

    Attributes:
        queries: (q,) their indices.
        scores: (q, N) cosines.
        levels: (q, N) uint8.
        valid: (q, N) booleans, False where a query's list leaves an item out.
    """

    queries: NDArray[np.int64]
    scores: NDArray[np.floating]
    levels: NDArray[np.uint8]
    valid: NDArray[np.bool_]


def sample_of(rows: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """The rows, or as many of them as wanted, drawn by a fixed seed; in their order.

    >>> sample_of(np.arange(5), 9), len(sample_of(np.arange(5), 2))
    (array([0, 1, 2, 3, 4]), 2)
    """
    return rows if len(rows) <= most else np.sort(np.random.default_rng(0).choice(rows, most, replace=False))


def scored_blocks(run: Measurement, data: QueriesAndGallery, queries: NDArray[np.int64]) -> Iterator[ScoredBlock]:
    """The scores of a model for some queries.

    Args:
        run: of the model.
        data: what it was measured on.
        queries: their indices.
    """
    embeddings, items = run.vectors
    own, gallery = unit_rows(embeddings[queries]), unit_rows(items)
    size = max(1, _BLOCK // len(gallery))
    for start in range(0, len(queries), size):
        rows = queries[start : start + size]
        valid = np.ones((len(rows), len(gallery)), dtype=np.bool_)
        for mask, query in zip(valid, rows.tolist(), strict=True):
            mask[run.left_out(query)] = False
        shared = levels(data.query_paths[rows], data.gallery_paths)
        yield ScoredBlock(rows, own[start : start + size] @ gallery.T, shared, valid)
