"""Levels: the depth down to which two items agree.

For a query q and an item j, ``level(q, j)`` ∈ {0 … L} is the depth of their lowest common ancestor: the number of
*leading* columns in which their paths agree. Columns after the first difference do not count. An unknown id, −1, agrees
with none, so that the level of a path known in part is a lower bound.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import device

from ..arrays import MAX_LEVELS, array_library, as_array, is_on_host, shared_paths, unmatched
from ..errors import InputError, PathError, ShapeError
from ..level_columns import PATH_IDS, UNKNOWN
from ..options import check_integer, require


def levels(query_paths: Any, gallery_paths: Any) -> Any:
    """Depth of the lowest common ancestor of every query and gallery item.

    Args:
        query_paths: (Q, L) integers, coarse → fine, numpy or torch; (Q,) means L = 1. Or text, or a frame. −1 from some
            level on is an unknown rest.
        gallery_paths: (N, L) or (N,), of the same library and device.

    Returns:
        (Q, N) uint8 array of the same library, on the same device.

    Raises:
        ShapeError: the two have different numbers of levels.
        PathError: not integers, or below −1 (which only arrays on the processor are checked for).
        InputError: arrays of two libraries or devices.

    >>> import numpy as np
    >>> levels(np.array([[0, 1, 2]]), np.array([[0, 1, 2], [0, 1, 3], [0, 5, 2], [4, 1, 2]]))
    array([[3, 2, 1, 0]], dtype=uint8)
    >>> levels(np.array([[0, -1]]), np.array([[0, 2], [0, -1]]))  # a bird of some species, and another
    array([[1, 1]], dtype=uint8)
    """
    sources = {"query_paths": query_paths, "gallery_paths": gallery_paths}
    query_paths, gallery_paths = (as_array(paths, name=name) for name, paths in sources.items())
    arrays = query_paths, gallery_paths
    is_text = any(isinstance(paths, np.ndarray) and paths.dtype.kind in "OUST" for paths in arrays)
    if is_text or all(hasattr(paths, "columns") for paths in sources.values()):
        query_paths, gallery_paths = shared_paths(sources)[0].values()
    try:
        xp = array_library(query_paths, gallery_paths)
    except TypeError as error:
        raise InputError(f"paths of two kinds ({error})", expected="arrays of one library") from None
    query = query_paths[:, None] if query_paths.ndim == 1 else query_paths
    gallery = gallery_paths[:, None] if gallery_paths.ndim == 1 else gallery_paths
    if query.ndim != 2 or gallery.ndim != 2 or query.shape[1] != gallery.shape[1]:
        raise ShapeError(
            f"paths of shapes {tuple(query_paths.shape)} and {tuple(gallery_paths.shape)}",
            expected="(Q, L) and (N, L) with one L",
        )
    if not 1 <= query.shape[1] <= MAX_LEVELS:
        raise ShapeError(f"{query.shape[1]} levels", expected=f"1 to {MAX_LEVELS}")
    for paths in (query, gallery):
        if not xp.isdtype(paths.dtype, "integral"):
            raise PathError(f"paths of type {paths.dtype}", expected="integer ids, coarse → fine")
        if is_on_host(paths) and bool(xp.any(paths < UNKNOWN)):
            raise PathError("paths hold negative ids", expected=PATH_IDS)
    query = unmatched(query)
    shape = (query.shape[0], gallery.shape[0])
    agree = xp.ones(shape, dtype=xp.bool, device=device(query))
    depth = xp.zeros(shape, dtype=xp.uint8, device=device(query))
    for column in range(query.shape[1]):
        agree &= query[:, None, column] == gallery[None, :, column]
        depth += xp.astype(agree, xp.uint8)
    return depth


def level_counts(levels: Any, num_levels: int, *, valid: Any = None) -> Any:
    """Number of candidates at each level, |Ω^(l)|, for every query.

    Args:
        levels: (Q, N) integers in 0 … L.
        num_levels: L.
        valid: (Q, N) booleans; False leaves a candidate out, for instance the query itself.

    Returns:
        (Q, L+1) int64 array; column 0 counts the irrelevant ones.

    Raises:
        ShapeError: levels that are not two-dimensional, or a mask that is not booleans of the same shape.
        PathError: levels that are not integers, or lie outside 0 … L (which only arrays on the processor are checked
            for).
        OptionError: ``num_levels`` is not in 1 … 255.

    >>> import numpy as np
    >>> level_counts(np.array([[2, 0, 1, 0]]), 2)
    array([[2, 1, 1]])
    """
    check_integer("num_levels", num_levels)
    require(num_levels <= MAX_LEVELS, "num_levels", num_levels, f"at most {MAX_LEVELS}")
    levels = as_array(levels, name="levels")
    xp = array_library(levels)
    valid = None if valid is None else as_array(valid, name="valid")
    if levels.ndim != 2 or (valid is not None and tuple(valid.shape) != tuple(levels.shape)):
        raise ShapeError(f"levels of shape {tuple(levels.shape)}", expected="(Q, N), and a mask of the same shape")
    if valid is not None and not array_library(valid).isdtype(valid.dtype, "bool"):
        raise ShapeError(f"valid of type {valid.dtype}", expected="booleans")
    if not xp.isdtype(levels.dtype, "integral"):
        raise PathError(f"levels of type {levels.dtype}", expected="integers in 0 … L")
    largest_level = min(num_levels, xp.iinfo(levels.dtype).max)
    if is_on_host(levels) and bool(xp.any(levels < 0) | xp.any(levels > largest_level)):
        raise PathError("levels outside 0 … L", expected=f"integers from 0 to num_levels={num_levels}")
    columns = []
    for level in range(num_levels + 1):
        at_level = levels == level
        columns.append(xp.sum(xp.astype(at_level if valid is None else at_level & valid, xp.int64), axis=1))
    return xp.stack(columns, axis=1)
