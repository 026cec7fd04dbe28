"""Embeddings, in memory or in a memory-mapped file, whose rows are normalized a few at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.arrays import as_embeddings
from hiertree.jit import jit, reordering_jit

from .blocks import for_each, ranges

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROWS_AT_ONCE = 256
_ROWS_IN_CACHE = 64
_ROWS_OF_A_THREAD = 2048
_SMALLEST, _LARGEST = 1e-30, 1e30  # of sums in which no square overflows or loses digits


@dataclass(frozen=True, eq=False)
class Vectors:
    """Checked embeddings.

    Attributes:
        array: (n, d), of any real type where it is memory-mapped, else float32 or float64.
        dtype: float64 or float32, the type of their scores.
        mapped: whether they lie in a file, of which no whole copy is taken.
    """

    array: NDArray[Any]
    dtype: np.dtype[Any]
    mapped: bool

    def __len__(self) -> int:
        return len(self.array)

    @property
    def dimensions(self) -> int:
        """The length of each vector."""
        return int(self.array.shape[1])

    def unit(self, rows: slice | NDArray[np.int64], dtype: np.dtype[Any], *, threads: int = 1) -> NDArray[Any]:
        """Some rows, each of norm 1."""
        indices = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else rows
        unit = np.empty((len(indices), self.dimensions), dtype)

        def normalize(rows: slice) -> None:
            for start in range(rows.start, rows.stop, _ROWS_IN_CACHE):
                part = slice(start, min(start + _ROWS_IN_CACHE, rows.stop))
                unit[part] = self.array[indices[part]]
                _normalize(unit[part])

        for_each(normalize, ranges(len(indices), _ROWS_OF_A_THREAD), threads=threads)
        return unit


def as_vectors(values: Any, *, name: str) -> Vectors:
    """Check embeddings; those of a memory map are read a few rows at a time.

    Raises:
        ShapeError: not two-dimensional, or without columns.
        EmbeddingError: a value is NaN or infinite, or a row has zero norm.
    """
    if not isinstance(values, np.memmap):
        array = as_embeddings(values, name=name)
        return Vectors(array, array.dtype, mapped=False)
    if values.filename is not None:
        name = f"{name} ({values.filename})"
    dtype = as_embeddings(values[:1], name=name).dtype
    for start in range(0, len(values), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        as_embeddings(values[rows], name=f"{name}, rows from {start},")
    return Vectors(values.view(np.ndarray), dtype, mapped=True)


@reordering_jit
def _sum_of_squares(row: NDArray[Any]) -> Any:
    total = row.dtype.type(0)
    for item in range(len(row)):
        total += row[item] * row[item]
    return total


@jit
def _normalize(rows: NDArray[Any]) -> None:
    """Divide each row (float32 or float64, finite, not 0) by its norm, whatever power of two is a factor of it."""
    for index in range(len(rows)):
        row = rows[index]
        squares = _sum_of_squares(row)
        if not _SMALLEST < squares < _LARGEST:
            largest = 0.0
            for item in range(len(row)):
                largest = max(largest, abs(row[item]))
            exponent = -math.frexp(largest)[1]
            for item in range(len(row)):
                row[item] = math.ldexp(row[item], exponent)
            squares = _sum_of_squares(row)
        norm = np.sqrt(squares)
        for item in range(len(row)):
            row[item] /= norm
