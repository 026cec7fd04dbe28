"""Rows of norm 1, in place."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.jit import jit, reordering_jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SMALLEST, _LARGEST = 1e-30, 1e30  # of sums in which no square overflows or loses digits


@reordering_jit
def _sum_of_squares(row: NDArray[Any]) -> Any:
    total = row.dtype.type(0)
    for item in range(len(row)):
        total += row[item] * row[item]
    return total


@jit
def normalise(rows: NDArray[Any]) -> None:
    """Divide each row (float32 or float64, finite, not 0) by its norm, whatever power of two is a factor of it."""
    for index in range(len(rows)):
        row = rows[index]
        squares = _sum_of_squares(row)
        if not _SMALLEST < squares < _LARGEST:
            exponent = -math.frexp(np.abs(row).max())[1]
            for item in range(len(row)):
                row[item] = math.ldexp(row[item], exponent)
            squares = _sum_of_squares(row)
        norm = np.sqrt(squares)
        for item in range(len(row)):
            row[item] /= norm
