"""Conversion and checks of array arguments: numpy, torch, or nested lists.

*Embeddings* are (n, d) real vectors, finite and of non-zero norm. *Paths* are (n, L) integers ≥ 0, coarse → fine, with
1 ≤ L ≤ 255, and −1 from the level on where a path is unknown; 1-D labels mean L = 1. Labels in text, and frames of
them, are numbered.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Mapping
from itertools import combinations, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import EmbeddingError, InputError, OptionError, PathError, ShapeError
from .level_columns import (
    LabelNames,
    LevelColumns,
    columns_of_frame,
    level_names,
    match_columns,
    number_labels,
    prepared_columns,
    refuse_negative,
    refuse_rows,
    repeated_labels,
    roles_of,
)
from .options import Uneven, is_integer

MAX_LEVELS = 255  # a level is a uint8
_SAMPLE = 1000  # rows; usually enough to see that the levels are in order
_MOST_LOCAL_COLUMNS = 4  # of a binary tree whose ids are numbered within each parent
_CHANCE = 1e-4  # below it, independent labels rarely look as if given fine → coarse
_INSIDE = {  # what holds an array, by an attribute, and how to get at it
    "todense": "it is sparse: call its toarray()",
    "last_hidden_state": "pass its pooler_output, or a row per image, such as its last_hidden_state[:, 0]",
    "select_columns": "pass a frame of its columns: select_columns([coarse, …, fine]).to_pandas()",
    "num_levels": "pass paths: its paths(leaves)",
    "with_transform": "pass its paths",
}


class StoredRows:
    """Base class of arrays (n, d) whose rows are read from files on request."""

    shape: tuple[int, int]
    ndim = 2
    identity: str  # differs between different files

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> NDArray[Any]:
        raise NotImplementedError

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype)


def to_numpy(values: Any, *, name: str = "values") -> NDArray[Any]:
    """A numpy view or copy of an array, tensor (any device, any float dtype) or nested list.

    Rows of different lengths and masked entries are a ShapeError; what holds an array, but is none, is an InputError.
    """
    refuse_containers(values, name)
    if hasattr(values, "detach"):
        try:
            values = values.detach().cpu().resolve_neg()
            if values.is_floating_point() and values.dtype.itemsize < 4:  # most such types are not numpy's
                values = values.float()
            return np.asarray(values.numpy())
        except (TypeError, RuntimeError) as error:
            raise InputError(f"{name}: a tensor that numpy cannot read ({error})", expected="a dense tensor") from None
    if np.ma.is_masked(values):
        raise ShapeError(f"{name} with masked entries", expected="no masked entries", remedy="fill or remove them")
    try:
        return np.asarray(values)
    except ValueError as error:
        remedy = "pass the column of embeddings alone" if hasattr(values, "columns") else None
        problem = f"{name} with rows of different lengths"
        raise ShapeError(problem, expected="rows of one length", remedy=remedy) from error


def refuse_containers(values: Any, name: str) -> None:
    """Refuse sparse matrices, outputs of models, data sets and mappings, each with what to pass in its place."""
    remedy = next((advice for attribute, advice in _INSIDE.items() if hasattr(values, attribute)), None)
    if remedy is None and isinstance(values, Mapping):
        remedy = f"pass one of its values ({', '.join(map(repr, islice(values, 6)))}), or a frame of them"
    if remedy is not None:
        raise InputError(f"{name}: a {type(values).__name__}", expected="an array, a tensor or a list", remedy=remedy)


def _refuse_path(values: Any, name: str, kind: type[InputError]) -> None:
    """Refuse the path of a file."""
    if isinstance(values, str | os.PathLike):
        remedy = "load the file, as by numpy.load or pandas.read_csv"
        raise kind(f"{name}: the path {os.fspath(values)!r}", expected="an array or tensor", remedy=remedy)


def as_float64(values: Any, *, name: str = "values", kind: type[InputError] = InputError) -> NDArray[np.float64]:
    """Numbers as float64; an integer that float64 rounds is refused, since it would equal its neighbors."""
    try:
        array = np.asarray(values)
        if array.dtype.kind in "OUS":
            cells = [plain_float(cell) if isinstance(cell, str) else float(cell) for cell in array.ravel().tolist()]
            array = np.array(cells, np.float64).reshape(array.shape)
        floats = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise kind(f"{name}: {error}", expected="numbers that float64 holds") from None
    if (np.abs(floats) >= 2**53).any():
        entries = values if isinstance(values, np.ndarray) else np.array(values, dtype=object)
        for value, entry in zip(floats.ravel().tolist(), entries.ravel(), strict=True):
            if abs(value) >= 2**53 and is_integer(entry) and int(entry) != value:
                raise kind(f"{name}: float64 rounds {entry}", expected="integers up to 2^53")
    return floats


def plain_float(text: str) -> float:
    """The number that a text writes in ASCII digits, as other tools read it: Python also reads 1_0 and ١٠ as 10.

    >>> plain_float("-1.5e3")
    -1500.0
    """
    if "_" in text or not text.isascii():
        raise ValueError(f"{text!r} is not a number")
    return float(text)


def as_array(values: Any, *, name: str = "values") -> Any:
    """A numpy or torch array unchanged; lists, frames and the like as a numpy array."""
    is_array = type(values) is np.ndarray or hasattr(values, "detach")
    return values if is_array else to_numpy(values, name=name)


def array_library(*arrays: Any) -> Any:
    """The array API namespace of arrays from one library; arrays from two libraries are a TypeError.

    NumPy itself follows the standard from 2.1 on; it then needs no compatibility layer, which is slow to import.
    """
    if all(type(array) is np.ndarray for array in arrays) and hasattr(np, "astype"):
        return np
    from array_api_compat import array_namespace

    return array_namespace(*arrays)


def is_on_host(array: Any) -> bool:
    """Whether the values of a numpy or torch array can be read without waiting for a device."""
    return str(getattr(array, "device", "cpu")) == "cpu"


def as_embeddings(values: Any, *, name: str = "embeddings", rows: NDArray[np.int64] | None = None) -> NDArray[Any]:
    """Embeddings, checked, as a C-contiguous (n, d) array: float64 stays, every smaller real type becomes float32.

    A column of lists, and a frame of types that have a missing value, are read too.

    ``rows`` are the numbers that messages give the rows, by default their positions.

    Raises:
        ShapeError: not two-dimensional, or without columns.
        EmbeddingError: a value is NaN or infinite, or a row has zero norm; the message names the row.
    """
    _refuse_path(values, name, EmbeddingError)
    array = to_numpy(values, name=name)
    if array.dtype.kind == "O":
        array = to_numpy(array.tolist(), name=name)
    if array.ndim != 2 or array.shape[1] == 0:
        raise ShapeError(f"{name} of shape {array.shape}", expected="shape (n, d) with d ≥ 1")
    if array.dtype.kind not in "fiub":
        raise EmbeddingError(f"{name} of type {array.dtype}", expected="real numbers")
    needs_float64 = array.dtype.kind == "f" and array.dtype.itemsize > 4  # whatever its byte order
    array = np.ascontiguousarray(array, dtype=np.float64 if needs_float64 else np.float32)
    problems = (
        (~np.isfinite(array).all(axis=1), f"{name} holds NaN or infinite values", "finite numbers"),
        (~array.any(axis=1), f"{name} holds vectors of zero norm", "vectors that can be normalized"),
    )
    for bad, problem, expected in problems:
        if bad.any():
            refuse_rows(bad, problem, expected, EmbeddingError, rows)
    return array


def unit_rows(vectors: NDArray[Any]) -> NDArray[Any]:
    """(n, d) vectors scaled to norm 1, of any size and type; products of such rows are cosines."""
    rows = rescale_rows(np.asarray(vectors))
    return np.asarray(rows / row_norms(rows)[:, None])


def row_norms(vectors: NDArray[Any]) -> NDArray[Any]:
    """(n,) the norms of vectors."""
    return np.asarray(np.sqrt(np.einsum("nd,nd->n", vectors, vectors)))


def rescale_rows(vectors: NDArray[Any]) -> NDArray[Any]:
    """The vectors, or multiples of them whose squares neither overflow nor vanish."""
    size = np.abs(vectors).max(axis=1, keepdims=True)
    if vectors.dtype != np.float16 and size.max(initial=1.0) < 1e15 and size.min(initial=1.0) > 1e-15:
        return vectors
    return np.asarray(vectors / size, np.promote_types(vectors.dtype, np.float32))


def as_paths(values: Any, *, name: str = "paths", num_items: int | None = None) -> NDArray[np.int64]:
    """Label paths as a C-contiguous int64 array of shape (n, L).

    Integers stay as they are. Text, objects, and frames or series of pandas, polars and others are numbered in order of
    first appearance; one name under two parents is two ids. When ``num_items`` is given, n must equal it.

    Raises:
        ShapeError: neither one- nor two-dimensional, no level, more than 255 levels, or n is not ``num_items``.
        PathError: a missing label, an id below 0 other than the −1 of an unknown rest, or numbers with a fraction; the
            message names the row.

    >>> as_paths([("natural", "lake"), ("human-made", "lake"), ("natural", "lake")])
    array([[0, 0],
           [1, 1],
           [0, 0]])
    """
    return shared_paths({name: values}, num_items={} if num_items is None else {name: num_items})[0][name]


def shared_paths(
    sources: Mapping[str, Any],
    *,
    num_items: Mapping[str, int] | None = None,
    may_lack_class: Collection[str] = (),
    drop_names: bool = False,
    uneven: Uneven = "error",
    separator: str | None = None,
) -> tuple[dict[str, NDArray[np.int64]], LabelNames]:
    """Label paths of several sources, such as queries and gallery, in one numbering; see :func:`as_paths`.

    Args:
        sources: labels, by the name of the argument that gave them.
        num_items: how many items a source has.
        may_lack_class: sources whose integer paths may be −1 throughout, of items that have no class.
        drop_names: whether columns of frames that name rows are left out: all different, and like files or ids.
        uneven: what text or frames mean whose last labels are missing, as for :meth:`hiertree.LabelTree.from_paths`.
        separator: what divides the last labels of text or frames into levels.

    Returns:
        The (n, L) paths of each source, and what their ids stand for.

    Raises:
        ShapeError: as :func:`as_paths`, or text and frames of different numbers of levels.
        PathError: as :func:`as_paths`, text on one source and numbers on the other, or levels that stand fine → coarse.

    >>> paths, names = shared_paths({"query": ["lake", "hill"], "gallery": ["hill", "bay", "lake"]})
    >>> paths["query"].ravel(), paths["gallery"].ravel(), names.class_names
    (array([0, 1]), array([1, 2, 0]), (('lake', 'hill', 'bay'),))
    """
    num_items = num_items or {}
    label_arrays = {name: _label_array(values, name) for name, values in sources.items()}
    names, columns = None, dict[str, LevelColumns]()
    if not any(isinstance(labels, LevelColumns) or labels.dtype.kind in "fOUST" for labels in label_arrays.values()):
        arrays: Mapping[str, Any] = label_arrays
    else:
        columns = match_columns(
            {name: _level_columns(labels, name, num_items.get(name)) for name, labels in label_arrays.items()}
        )
        columns = prepared_columns(columns, drop_names=drop_names, uneven=uneven, separator=separator)
        names = level_names(columns)
        if any(cells.dtype.kind not in "iu" for source in columns.values() for cells in source.cells):
            paths, label_names, codes = number_labels(columns)
            _check_columns([codes], names, columns)
            return paths, label_names
        arrays = {name: np.stack(source.cells, axis=1) for name, source in columns.items()}
    paths = {
        name: as_integer_paths(ids, name=name, num_items=num_items.get(name), may_lack_class=name in may_lack_class)
        for name, ids in arrays.items()
    }
    _check_columns(list(paths.values()), names, columns)
    return paths, LabelNames(names)


def _check_columns(
    sources: list[NDArray[np.int64]], names: tuple[str, ...] | None, columns: Mapping[str, LevelColumns]
) -> None:
    """Refuse levels fine → coarse, and warn of columns of a frame that repeat."""
    row_names = next((source.row_names for source in columns.values()), ())
    check_order(sources, names, row_names)
    equal_depths = len({ids.shape[1] for ids in sources}) == 1  # sources that differ are refused elsewhere
    if names is not None and equal_depths and (text := repeated_labels(names, _whole_paths(sources))):
        warnings.warn(text, UserWarning, stacklevel=3)


def check_order(
    sources: list[NDArray[np.int64]], names: tuple[str, ...] | None, row_names: tuple[str, ...] = ()
) -> None:
    """Refuse labels (n, L) given fine → coarse: one column determines the next, which has fewer labels.

    A few labels may look like that by chance, so without column names the evidence must be strong. With them the error
    says which columns were taken as what.
    """
    if len({ids.shape[1] for ids in sources}) > 1:
        return  # refused elsewhere
    ids = _whole_paths(sources)
    sample = ids[:: max(len(ids) // _SAMPLE, 1)]
    reversals, chance = [], 1.0
    for left in range(ids.shape[1] - 1):
        pair = [left, left + 1]
        if _determines(*sample[:, pair].T) and _determines(*ids[:, pair].T):
            num_labels, counts = len(np.unique(ids[:, left])), np.unique(ids[:, left + 1], return_counts=True)[1]
            if 1 < len(counts) < num_labels:
                titles = [f"level {column + 1}" if names is None else repr(names[column]) for column in pair]
                reversals.append(
                    f"{titles[0]} of {num_labels} labels, each of which has one of {len(counts)} in {titles[1]}"
                )
                chance *= float(((counts / len(ids)) ** 2).sum()) ** (len(ids) - num_labels)
    if reversals and (names is not None or chance < _CHANCE):
        remedy = "levels are given fine → coarse; reverse them"
        if names is not None:
            remedy += f", or name others: the columns are read as {roles_of(names, row_names)}"
        raise PathError(reversals[0], expected="levels coarse → fine", remedy=remedy)


def _whole_paths(sources: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The paths of all sources without an unknown rest, which says nothing about the levels."""
    ids = np.concatenate(sources)
    return ids if ids.min(initial=0) >= 0 else ids[ids[:, -1] >= 0]


def _determines(first: NDArray[np.int64], second: NDArray[np.int64]) -> bool:
    order = np.argsort(first, kind="stable")
    first, second = first[order], second[order]
    return not ((first[1:] == first[:-1]) & (second[1:] != second[:-1])).any()


def check_same_rows(sources: Mapping[str, Any], *, axis: str = "index") -> None:
    """Refuse frames or series of pandas whose indexes differ, since rows are matched by place.

    A RangeIndex, pandas' default, says nothing about rows with other names.

    Raises:
        OptionError: two of them differ; the message names the first row.
    """
    indexes: dict[str, Any] = {name: getattr(values, axis, None) for name, values in sources.items()}
    indexed = [(name, index) for name, index in indexes.items() if hasattr(index, "equals")]  # not a list's method
    for (first, first_index), (second, second_index) in combinations(indexed, 2):
        if len(first_index) != len(second_index) or first_index.equals(second_index):
            continue
        has_range = any(type(index).__name__ == "RangeIndex" for index in (first_index, second_index))
        if has_range and set(first_index) != set(second_index):
            continue
        pairs = zip(first_index.tolist(), second_index.tolist(), strict=True)
        row, (first_label, second_label) = next((row, pair) for row, pair in enumerate(pairs) if pair[0] != pair[1])
        problem = f"row {row} is {first_label!r} of {first}, {second_label!r} of {second}"
        remedy = f"call {second}.reindex({first}.index), or to_numpy() if rows match by place"
        raise OptionError(problem, expected="the same rows in the same order", remedy=remedy)


def as_integer_paths(
    values: Any, *, name: str = "paths", num_items: int | None = None, may_lack_class: bool = False
) -> NDArray[np.int64]:
    """As :func:`as_paths`, for integers alone: where ids are those of a tree, of proxies or of other batches."""
    array = to_numpy(values, name=name)
    if array.ndim == 1:
        array = array[:, None]
    _check_path_shape(array.shape, name, num_items)
    _refuse_indicators(array, name)
    if array.dtype.kind == "f":
        refuse_rows(np.isnan(array).any(axis=1), f"{name} without a label", "a label in every row")
    if array.dtype.kind not in "iu":
        remedy = "number all labels at once with hiertree.arrays.as_paths or LabelTree.paths"
        raise PathError(f"{name} of type {array.dtype}", expected="integer ids, coarse → fine", remedy=remedy)
    refuse_negative(array, name, may_lack_class=may_lack_class)
    if array.dtype == np.uint64:
        refuse_rows((array >= 2**63).any(axis=1), f"{name} holds ids from 2^63", "smaller ids")
    ids = np.ascontiguousarray(array, dtype=np.int64)
    check_order([ids], None)
    return ids


def unmatched(query_paths: Any) -> Any:
    """The paths of queries (Q, L), unknown ids as −2, so that they differ from the −1 of candidates.

    >>> unmatched(np.array([[0, 3], [0, -1]]))
    array([[ 0,  3],
           [ 0, -2]])
    """
    xp, is_unknown = array_library(query_paths), query_paths < 0
    if is_on_host(query_paths) and not bool(xp.any(is_unknown)):
        return query_paths
    return xp.where(is_unknown, query_paths - 1, query_paths)


def _label_array(values: Any, name: str) -> NDArray[Any] | LevelColumns:
    """Labels as an array, or as the columns of a frame."""
    _refuse_path(values, name, PathError)
    if not isinstance(values, np.ndarray | list | tuple) and not hasattr(values, "detach"):
        columns = columns_of_frame(values, name)
        if columns is not None and not (len(columns.cells) == 1 and _holds_rows(columns.cells[0])):
            return columns
        values = values if columns is None else columns.cells[0]
    array = to_numpy(values, name=name)
    if _holds_rows(array) and array.ndim == 1:  # such as a series of tuples
        return _label_array(list(map(list, array.tolist())), name)
    is_made_text = array.dtype.kind in "US" and not isinstance(values, np.ndarray)  # numpy makes it of ["a", None]
    return np.array(values, dtype=object) if is_made_text else array


def _holds_rows(cells: NDArray[Any]) -> bool:
    """Whether the cells are rows of labels rather than labels."""
    if cells.ndim != 1:
        return cells.ndim == 2
    rows = cells.tolist() if cells.dtype.kind == "O" else []
    return bool(rows) and all(isinstance(row, tuple | list | np.ndarray) for row in rows)


def _refuse_indicators(array: NDArray[Any], name: str) -> None:
    """Refuse one-hot labels, and multi-hot ones of many columns: few may be ids numbered within each parent."""
    if array.shape[1] < 3 or array.dtype.kind not in "biuf" or not array.size or array.max() > 1:
        return
    rows = array.astype(np.bool_)
    one_hot = (rows.sum(axis=1) == 1).all()
    if (
        (rows == array).all()
        and (one_hot or array.shape[1] > _MOST_LOCAL_COLUMNS)
        and len(np.unique(np.packbits(rows, axis=1), axis=0)) > 2
    ):
        problem = f"{name} of {array.shape[1]} columns that are 0 or 1"
        remedy = "pass labels.argmax(axis=1) if they are one-hot; judge pairs (evaluate_scores) if images have several"
        raise PathError(problem, expected="class ids, a column for each level", remedy=remedy)


def _level_columns(labels: NDArray[Any] | LevelColumns, name: str, num_items: int | None) -> LevelColumns:
    """The columns of labels, as many as there are levels, each as long as there are items."""
    if not isinstance(labels, LevelColumns):
        labels = labels[:, None] if labels.ndim == 1 else labels
        _check_path_shape(labels.shape, name, num_items)
        _refuse_indicators(labels, name)
        return LevelColumns(list(labels.T))
    _check_path_shape((len(labels.cells[0]) if labels.cells else 0, len(labels.cells)), name, num_items)
    if all(cells.dtype.kind in "biuf" for cells in labels.cells):
        _refuse_indicators(np.stack(labels.cells, axis=1), name)
    return labels


def _check_path_shape(shape: tuple[int, ...], name: str, num_items: int | None) -> None:
    if len(shape) != 2 or not 1 <= shape[1] <= MAX_LEVELS:
        remedy = "pass labels.argmax(axis=1) if they are one-hot" if len(shape) == 2 and shape[1] else None
        raise ShapeError(f"{name} of shape {shape}", expected=f"shape (n, L) with 1 ≤ L ≤ {MAX_LEVELS}", remedy=remedy)
    if num_items is not None and shape[0] != num_items:
        raise ShapeError(f"{name} of {shape[0]} rows", expected=f"{num_items} rows, one per item")
