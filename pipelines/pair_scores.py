"""Scores of queries and items, a few queries at a time, for relevance that is given for pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.errors import EmbeddingError
from hiertree.metrics import Evaluation

if TYPE_CHECKING:
    from numpy.typing import NDArray

BY_PAIRS = "as the judgments say: junk is left out, other items stay"  # as the convention card has it
_QUERIES, _ITEMS = 256, 8192  # compared at once


def score_blocks(queries: Any, gallery: Any, *, codes: bool) -> Iterator[tuple[slice, NDArray[np.floating]]]:
    """Yield some queries and their scores: (q, N) cosines, or minus the Hamming distances of embeddings' signs.

    Both sides are sliced, so that they may lie on the disk.
    """

    def rows(vectors: NDArray[Any]) -> NDArray[np.floating]:
        with np.errstate(invalid="ignore", divide="ignore"):
            found = np.asarray(np.where(vectors > 0, 1, -1), np.float32) if codes else unit_rows(vectors)
        if not (np.isfinite(vectors).all() and np.isfinite(found).all()):
            raise EmbeddingError("embeddings that hold NaN, infinite or zero vectors", expected="finite vectors")
        return found

    for first in range(0, len(queries), _QUERIES):
        own = rows(queries[first : first + _QUERIES])
        scores = np.empty((len(own), len(gallery)), own.dtype)
        for start in range(0, len(gallery), _ITEMS):
            scores[:, start : start + _ITEMS] = own @ rows(gallery[start : start + _ITEMS]).T
        yield slice(first, first + len(own)), (scores - own.shape[1]) / 2 if codes else scores


def joined(blocks: Sequence[Evaluation], *, bits: int | None) -> Evaluation:
    """One result of those of :func:`score_blocks`, one after another; ``bits`` are those of codes."""
    values, card = np.concatenate([block.values for block in blocks]), blocks[0].convention
    said, mark, note = card.scores.partition(";")
    said = f"Hamming distance, {bits} bits" if bits else said.replace("as given", "cosine similarity")
    card = replace(card, self_rule=BY_PAIRS, scores=f"{said}{mark}{note}")
    return Evaluation(blocks[0].names, values, range(len(values)), card)


def unit_rows(vectors: NDArray[np.floating]) -> NDArray[np.floating]:
    """Vectors scaled to norm 1, of any size and type; products of such rows are cosines."""
    plain = of_plain_size(np.asarray(vectors))
    return np.asarray(plain / lengths(plain)[:, None])


def lengths(vectors: NDArray[np.floating]) -> NDArray[np.floating]:
    """(n,) the norms of vectors."""
    return np.asarray(np.sqrt(np.einsum("nd,nd->n", vectors, vectors)))


def of_plain_size(vectors: NDArray[np.floating]) -> NDArray[np.floating]:
    """The vectors, or multiples of them whose squares neither overflow nor vanish."""
    size = np.abs(vectors).max(axis=1, keepdims=True)
    if vectors.dtype != np.float16 and size.max(initial=1.0) < 1e15 and size.min(initial=1.0) > 1e-15:
        return vectors
    return np.asarray(vectors / size, np.promote_types(vectors.dtype, np.float32))
