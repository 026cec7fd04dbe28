"""Embeddings whose rows come out normalised, a few at a time: they may lie in memory or in a memory-mapped file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.arrays import as_embeddings

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROWS_AT_ONCE = 256
_ROWS_IN_CACHE = 64


@dataclass(frozen=True, eq=False)
class Vectors:
    """Checked embeddings.

    Attributes:
        array: (n, d), of any real type where it is memory-mapped, else float32 or float64.
        dtype: float64, or else float32: what they are scored in.
        mapped: whether they lie in a file, so that no whole copy is taken.
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

    def unit(self, rows: slice | NDArray[np.int64], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Some rows, each of norm 1."""
        from .normalizing import normalise

        indices = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else rows
        unit = np.empty((len(indices), self.dimensions), dtype)
        for start in range(0, len(indices), _ROWS_IN_CACHE):
            part = slice(start, start + _ROWS_IN_CACHE)
            unit[part] = self.array[indices[part]]
            normalise(unit[part])
        return unit


def as_vectors(values: Any, *, name: str) -> Vectors:
    """Check embeddings, those of a ``.npy`` memory map without taking them into memory.

    Raises:
        ShapeError: not two-dimensional, or without columns.
        EmbeddingError: a value is NaN or infinite, or a row has zero norm.
    """
    if not isinstance(values, np.memmap):
        array = as_embeddings(values, name=name)
        return Vectors(array, array.dtype, mapped=False)
    dtype = as_embeddings(values[:1], name=name).dtype
    for start in range(0, len(values), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        as_embeddings(values[rows], name=f"{name}, rows from {start},")
    return Vectors(values.view(np.ndarray), dtype, mapped=True)
