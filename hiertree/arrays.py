"""Conversion and checks of array arguments: numpy, torch, or nested lists.

hiertree works with two kinds of arrays. *Embeddings* are (n, d) real vectors, finite and of non-zero norm.
*Paths* are (n, L) non-negative integers, coarse → fine, with 1 ≤ L ≤ 255; 1-D labels mean L = 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import EmbeddingError, InputError, PathError, ShapeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_LEVELS = 255  # a level is a uint8


def to_numpy(values: Any, *, name: str = "values") -> NDArray[Any]:
    """A numpy view or copy of an array, tensor (any device, any float dtype) or nested list.

    Raises:
        ShapeError: a nested list with rows of different lengths, or a masked array with masked entries.
        InputError: a sparse tensor, for instance.

    >>> to_numpy([1.0, 2.0])
    array([1., 2.])
    """
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        if str(values.dtype) == "torch.bfloat16":  # numpy has no such type; float32 holds every bfloat16
            values = values.float()
        try:
            return np.asarray(values.numpy())
        except (TypeError, RuntimeError) as error:
            raise InputError(f"{name}: a tensor that numpy cannot read ({error})", expected="a dense tensor") from None
    if np.ma.is_masked(values):
        raise ShapeError(f"{name} with masked entries", expected="every entry", remedy="fill or remove these entries")
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ShapeError(f"{name} with rows of different lengths", expected="rows of one length") from error


def as_array(values: Any, *, name: str = "values") -> Any:
    """An array of numpy or torch as it is; lists, frames and the like as one of numpy.

    Raises:
        ShapeError: rows of different lengths, or masked values.
    """
    is_array = type(values) is np.ndarray or hasattr(values, "detach")
    return values if is_array else to_numpy(values, name=name)


def is_on_host(array: Any) -> bool:
    """Whether the values of an array of numpy or torch can be looked at without waiting for a device."""
    return str(getattr(array, "device", "cpu")) == "cpu"


def as_embeddings(values: Any, *, name: str = "embeddings") -> NDArray[Any]:
    """Check embeddings and return them as a C-contiguous float32 or float64 array of shape (n, d).

    float64 stays float64; every other real type becomes float32.

    Args:
        values: (n, d) array, tensor or nested list.
        name: of the argument, for error messages.

    Raises:
        ShapeError: not two-dimensional, or without columns.
        EmbeddingError: a value is NaN or infinite, or a row has zero norm; the message names the row.

    >>> as_embeddings([[3, 4], [1, 0]]).dtype
    dtype('float32')
    """
    array = to_numpy(values, name=name)
    if array.ndim != 2 or array.shape[1] == 0:
        raise ShapeError(f"{name} of shape {array.shape}", expected="shape (n, d) with d ≥ 1")
    if array.dtype.kind not in "fiub":
        raise EmbeddingError(f"{name} of type {array.dtype}", expected="real numbers")
    array = np.ascontiguousarray(array, dtype=array.dtype if array.dtype == np.float64 else np.float32)
    _refuse(~np.isfinite(array).all(axis=1), f"{name} holds NaN or infinite values", "finite numbers")
    _refuse(~array.any(axis=1), f"{name} holds vectors of zero norm", "vectors that can be normalized")
    return array


def as_paths(values: Any, *, name: str = "paths", num_items: int | None = None) -> NDArray[np.int64]:
    """Check label paths and return them as a C-contiguous int64 array of shape (n, L).

    Args:
        values: (n, L) or (n,) integers, coarse → fine.
        name: of the argument, for error messages.
        num_items: when given, n must equal it.

    Raises:
        ShapeError: neither one- nor two-dimensional, no level, more than 255 levels, or n is not ``num_items``.
        PathError: not integers, or negative; the message names the row.

    >>> as_paths([7, 7, 9]).shape
    (3, 1)
    """
    array = to_numpy(values, name=name)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or not 1 <= array.shape[1] <= MAX_LEVELS:
        raise ShapeError(f"{name} of shape {array.shape}", expected=f"shape (n, L) with 1 ≤ L ≤ {MAX_LEVELS}")
    if num_items is not None and len(array) != num_items:
        raise ShapeError(f"{name} of {len(array)} rows", expected=f"{num_items} rows, one per item")
    if array.dtype.kind not in "iu":
        raise PathError(
            f"{name} of type {array.dtype}",
            expected="integer ids, coarse → fine",
            remedy="turn labels into ids with LabelTree.paths",
        )
    _refuse((array < 0).any(axis=1), f"{name} holds negative ids", "ids from 0", kind=PathError)
    if array.dtype == np.uint64:
        _refuse((array >= 2**63).any(axis=1), f"{name} holds ids from 2^63", "smaller ids", kind=PathError)
    return np.ascontiguousarray(array, dtype=np.int64)


def _refuse(bad: Any, given: str, expected: str, *, kind: type[EmbeddingError | PathError] = EmbeddingError) -> None:
    rows = np.flatnonzero(bad)
    if len(rows):
        shown = ", ".join(map(str, rows[:5])) + (", …" if len(rows) > 5 else "")
        raise kind(f"{given} ({len(rows)} rows: {shown})", expected=expected, remedy="correct or remove these rows")
