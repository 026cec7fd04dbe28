"""Embeddings in memory or in a memory-mapped file, normalized a few rows at a time.

Every float is an odd number times a power of two. The largest odd number by which the whole row can be divided is
divided out first, which is exact, so that parallel rows become equal. Rows of few digits become small integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hiertree.arrays import as_embeddings
from hiertree.jit import Array, Ints, Words, jit, reordering_jit

from .blocks import for_each, num_threads, ranges

_ROWS_AT_ONCE = 256
_ROWS_IN_CACHE = 64
_ROWS_OF_A_THREAD = 2048
_BYTES_AT_ONCE = 2**25  # of rows compared at once
_SMALLEST, _LARGEST = 1e-30, 1e30  # of sums in which no square overflows or loses digits
_DIGITS = 53  # of a float64, which holds every float32
LARGEST_SUM = 2.0**24  # of integers, up to which a float32 holds each


@dataclass(frozen=True, eq=False)
class Vectors:
    """Checked embeddings."""

    array: Any  # (n, d), of any real type where it lies in a file, else float32 or float64
    dtype: np.dtype[Any]  # float64 or float32, the type of their scores
    mapped: bool  # whether they lie in a file, of which no whole copy is taken

    def __len__(self) -> int:
        return len(self.array)

    @property
    def dimensions(self) -> int:
        """The length of each vector."""
        return int(self.array.shape[1])

    def unit(self, rows: slice | Ints, dtype: np.dtype[Any], *, threads: int = 1) -> Array:
        """Some rows with norm 1; parallel rows become equal."""
        return self._scaled(_normalize, rows, dtype, threads)

    def integers(self, rows: slice | Ints, dtype: np.dtype[Any], *, threads: int = 1) -> Array:
        """Some rows, each as the smallest integers in its direction."""
        return self._scaled(_make_integers, rows, dtype, threads)

    @cached_property
    def longest(self) -> float:
        """The largest squared norm of a row of integers; infinite if some row is not made of small integers."""
        largest = 0.0
        for start in range(0, len(self), _ROWS_IN_CACHE):
            rows = self.integers(slice(start, start + _ROWS_IN_CACHE), self.dtype)
            if np.abs(rows).max() > LARGEST_SUM:
                return math.inf
            largest = max(largest, float(np.square(rows, dtype=np.float64).sum(axis=1).max()))
        return largest

    def _scaled(self, scale: Callable[[Array], None], rows: slice | Ints, dtype: np.dtype[Any], threads: int) -> Array:
        indices = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else rows
        scaled = np.empty((len(indices), self.dimensions), dtype)

        def fill(rows: slice) -> None:
            for start in range(rows.start, rows.stop, _ROWS_IN_CACHE):
                chunk = slice(start, min(start + _ROWS_IN_CACHE, rows.stop))
                block = self.array[indices[chunk]].astype(np.result_type(self.dtype, dtype), copy=False)
                scale(block)
                scaled[chunk] = block

        for_each(fill, ranges(len(indices), _ROWS_OF_A_THREAD), threads=threads)
        return scaled


def as_vectors(values: Any, *, name: str) -> Vectors:
    """Check embeddings as :func:`hiertree.arrays.as_embeddings` does, those of a memory map a few rows at a time."""
    if not isinstance(values, np.memmap):
        array = as_embeddings(values, name=name)
        return Vectors(array, array.dtype, mapped=False)
    if values.filename is not None:
        name = f"{name} ({values.filename})"
    rows, dtype = values.view(np.ndarray), as_embeddings(values[:1], name=name).dtype
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        as_embeddings(rows[start : start + _ROWS_AT_ONCE], name=f"{name}, rows from {start},")
    return Vectors(rows, dtype, mapped=True)


def first_of_equal(hashes: Words, rows_of: Callable[[Ints], Array]) -> Ints | None:
    """(N,) for each row the first row that equals it, or None if all differ.

    ``hashes`` are those of the vectors; ``rows_of`` gives the vectors of some rows.
    """
    candidates = find_repeated(hashes)
    if not len(candidates):
        return None
    first = np.arange(len(hashes))
    step = max(_BYTES_AT_ONCE // rows_of(candidates[:1]).nbytes, 1)
    row_of_vector: dict[bytes, int] = {}  # rows of the hash at hand
    last: np.uint64 | None = None
    for start in range(0, len(candidates), step):
        rows_at_once = candidates[start : start + step]
        vectors = rows_of(rows_at_once)
        for row_index, row in zip(rows_at_once.tolist(), vectors + vectors.dtype.type(0), strict=True):  # −0 becomes 0
            if hashes[row_index] != last:
                row_of_vector, last = {}, hashes[row_index]
            first[row_index] = row_of_vector.setdefault(row.tobytes(), row_index)
    return None if (first == np.arange(len(first))).all() else first


def find_repeated(hashes: Words) -> Ints:
    """The rows whose hash occurs more than once, grouped by hash, ascending within a group."""
    order = np.argsort(hashes, kind="stable")
    repeats = hashes[order[1:]] == hashes[order[:-1]]
    repeated_rows: Ints = order[np.append(repeats, False) | np.append(False, repeats)]
    return repeated_rows


def hashes_of(vectors: Array) -> Words:
    """(n,) hashes: each word of a vector times an odd number of its own, summed; equal vectors have equal hashes."""
    hashes = np.empty(len(vectors), np.uint64)
    bits = vectors.view(f"u{vectors.itemsize}")
    minus_zero = np.array(-0.0, vectors.dtype).view(bits.dtype)[()]
    factors = np.random.default_rng(0).integers(2**63, size=bits.shape[1], dtype=np.uint64) << 1 | 1
    chunks = ranges(len(bits), _ROWS_OF_A_THREAD)
    for_each(lambda chunk: _hash_rows(bits[chunk], minus_zero, factors, hashes[chunk]), chunks, num_threads())
    return hashes


@reordering_jit
def _sum_of_squares(row: Array) -> Any:
    total = row.dtype.type(0)
    for item in range(len(row)):
        total += row[item] * row[item]
    return total


@jit
def _normalize(rows: Array) -> None:
    """Divide each row (float32 or float64, finite, not 0) by its norm."""
    for index in range(len(rows)):
        row = rows[index]
        factor = _odd_factor(row)
        for item in range(len(row) if factor > 1 else 0):
            row[item] /= factor
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


@jit
def _odd_factor(row: Array) -> int:
    """The largest odd integer that divides the digits of every component."""
    factor = 0
    for item in range(len(row)):
        rest = np.int64(math.ldexp(abs(math.frexp(row[item])[0]), _DIGITS))
        if rest > 0:
            rest //= rest & -rest
            while rest > 0:
                factor, rest = rest, factor % rest
            if factor == 1:
                break
    return factor


@jit
def _lowest_digit(value: float) -> int:
    """The exponent of the largest power of two that divides a number, which is not 0."""
    fraction, exponent = math.frexp(value)
    digits = np.int64(math.ldexp(abs(fraction), _DIGITS))
    return exponent - _DIGITS + math.frexp(float(digits & -digits))[1] - 1


@jit
def _make_integers(rows: Array) -> None:
    for index in range(len(rows)):
        row, lowest = rows[index], 2**15
        for item in range(len(row)):
            if row[item] != 0:
                lowest = min(lowest, _lowest_digit(row[item]))
        factor = _odd_factor(row)
        for item in range(len(row)):
            row[item] = math.ldexp(row[item] / factor, -lowest)


@jit
def _hash_rows(bits: Array, minus_zero: Any, factors: Words, hashes: Words) -> None:
    for row in range(len(bits)):
        row_hash = np.uint64(0)
        for column in range(bits.shape[1]):
            word = bits[row, column]
            row_hash += (np.uint64(0) if word == minus_zero else np.uint64(word)) * factors[column]
        hashes[row] = row_hash
