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
_FACTOR, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)


def words_of(vectors: NDArray[Any]) -> NDArray[Any]:
    """The bits of floats, equal where the floats are: −0 becomes 0."""
    words: NDArray[Any] = (vectors + vectors.dtype.type(0)).view(f"u{vectors.itemsize}")
    return words


def first_of_equal(
    parts: Iterable[NDArray[Any]], rows_of: Callable[[NDArray[np.int64]], NDArray[Any]]
) -> NDArray[np.int64] | None:
    """(N,) for each row the first one that equals it, or None where all differ.

    Args:
        parts: the words of the rows, some rows after others.
        rows_of: gives the words of some rows again.
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
        for place, row in zip(places.tolist(), rows_of(places), strict=True):
            if hashes[place] != last:
                seen, last = {}, hashes[place]
            first[place] = seen.setdefault(row.tobytes(), place)
    return None if (first == np.arange(len(first))).all() else first


def _hashes(words: NDArray[Any]) -> NDArray[np.uint64]:
    hashes = np.empty(len(words), np.uint64)
    rows = ranges(len(words), _ROWS_OF_A_THREAD)
    for_each(lambda part: _hash_rows(words[part], hashes[part]), rows, threads=num_threads())
    return hashes


@jit
def _hash_rows(words: NDArray[Any], hashes: NDArray[np.uint64]) -> None:
    for row in range(len(words)):
        found = _FACTOR
        for column in range(words.shape[1]):
            found = (found ^ np.uint64(words[row, column])) * _FACTOR
            found ^= found >> _SHIFT
        hashes[row] = found
