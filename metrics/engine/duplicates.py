"""Which vectors of a gallery are equal, so that they get the same score.

A matrix product may round one dot product differently from column to column and from shape to shape. Equal vectors
therefore tie only if all of them take the score of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.jit import jit

from .blocks import for_each, num_threads, ranges

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BYTES_AT_ONCE = 2**25
_ROWS_OF_A_THREAD = 2048


def first_of_equal(
    parts: Iterable[NDArray[Any]], rows_of: Callable[[NDArray[np.int64]], NDArray[Any]]
) -> NDArray[np.int64] | None:
    """(N,) for each row the first one that equals it, or None where all differ.

    Args:
        parts: the vectors, some rows after others.
        rows_of: gives the vectors of some rows again.
    """
    hashes = np.concatenate([_hashes(part) for part in parts])
    order = np.argsort(hashes, kind="stable")
    repeats = hashes[order[1:]] == hashes[order[:-1]]
    candidates = order[np.append(repeats, False) | np.append(False, repeats)]
    if not len(candidates):
        return None
    first = np.arange(len(hashes))
    most = max(_BYTES_AT_ONCE // rows_of(candidates[:1]).nbytes, 1)
    seen: dict[bytes, int] = {}  # rows of the hash at hand
    last: np.uint64 | None = None
    for start in range(0, len(candidates), most):
        places = candidates[start : start + most]
        vectors = rows_of(places)
        for place, row in zip(places.tolist(), vectors + vectors.dtype.type(0), strict=True):  # −0 becomes 0
            if hashes[place] != last:
                seen, last = {}, hashes[place]
            first[place] = seen.setdefault(row.tobytes(), place)
    return None if (first == np.arange(len(first))).all() else first


def _hashes(vectors: NDArray[Any]) -> NDArray[np.uint64]:
    """(n,) sums of the words of each vector, each times an odd number of its own; equal where vectors are."""
    hashes = np.empty(len(vectors), np.uint64)
    words = vectors.view(f"u{vectors.itemsize}")
    minus_zero = np.array(-0.0, vectors.dtype).view(words.dtype)[()]
    factors = np.random.default_rng(0).integers(2**63, size=words.shape[1], dtype=np.uint64) << 1 | 1
    for_each(
        lambda part: _hash_rows(words[part], minus_zero, factors, hashes[part]),
        ranges(len(words), _ROWS_OF_A_THREAD),
        threads=num_threads(),
    )
    return hashes


@jit
def _hash_rows(words: NDArray[Any], minus_zero: Any, factors: NDArray[np.uint64], hashes: NDArray[np.uint64]) -> None:
    for row in range(len(words)):
        found = np.uint64(0)
        for column in range(words.shape[1]):
            word = words[row, column]
            found += (np.uint64(0) if word == minus_zero else np.uint64(word)) * factors[column]
        hashes[row] = found
