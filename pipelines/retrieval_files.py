"""Embeddings and labels on disk: ``.npz``, ``.npy``, ``.pt``, ``.parquet``, with labels inside or in a table beside.

=============  ============================================================================================
``.npz``       arrays ``embeddings`` and ``paths``, and perhaps ``gallery_embeddings`` and ``gallery_paths``
``.pt``        a dictionary of tensors of these names, or one tensor (n, d) beside a table of labels
``.npy``       an array (n, d) beside a table of labels
``.parquet``   a column of lists, the embeddings, and columns of labels, coarse → fine, or a table beside
=============  ============================================================================================

Nothing is unpickled: numpy reads without pickle, torch with ``weights_only=True``.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, NamedTuple
from zipfile import BadZipFile

import numpy as np

from hiertree.arrays import to_numpy
from hiertree.errors import InputError, OptionError, TableError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree._paths import Where

PathLike = str | os.PathLike[str]
_ARRAYS = ("embeddings", "paths", "gallery_embeddings", "gallery_paths")
_SUFFIXES = (".npz", ".npy", ".pt", ".parquet")


class Retrieval(NamedTuple):
    """What files say: queries and, unless they retrieve each other, a gallery."""

    embeddings: NDArray[Any]
    paths: NDArray[Any]
    gallery_embeddings: NDArray[Any] | None = None
    gallery_paths: NDArray[Any] | None = None


class _Items(NamedTuple):
    """One file: embeddings with rows of labels, and a function that names row i in messages."""

    embeddings: NDArray[Any]
    rows: list[tuple[Hashable, ...]]
    where: Where


def read_retrieval(
    source: PathLike,
    *,
    labels: PathLike | None = None,
    levels: Sequence[str] = (),
    gallery: PathLike | None = None,
    gallery_labels: PathLike | None = None,
) -> Retrieval:
    """Read queries and perhaps a gallery.

    Args:
        source: a file of one of the four kinds.
        labels: CSV or Parquet table with one row an embedding, in their order, for a file without labels.
        levels: columns of labels, coarse → fine; all unless given.
        gallery: another file, for a separate gallery: with ``paths`` of the same ids where the queries have paths, else
            with the same columns of labels.
        gallery_labels: its table of labels.

    Raises:
        InputError: a file that cannot be read, or does not hold what it should.
        OptionError: labels beside a file that has its own, none for a file without, or an unknown suffix.
        TableError: a table that cannot be read as asked.
    """
    if gallery_labels is not None and gallery is None:
        raise OptionError("labels of a gallery without a gallery", expected="both or neither")
    queries = _read(Path(source), labels, levels)
    if gallery is None:
        return queries if isinstance(queries, Retrieval) else _joined(queries)
    items = _read(Path(gallery), gallery_labels, levels)
    if isinstance(queries, _Items) and isinstance(items, _Items):
        return _joined(queries, items)
    if not isinstance(queries, Retrieval) or not isinstance(items, Retrieval):
        raise OptionError(
            "label ids in one file and columns of labels for the other", expected="the same kind for both"
        )
    if queries.gallery_paths is not None or items.gallery_paths is not None:
        raise OptionError(f"a gallery beside one inside {Path(source).name}", expected="one of the two")
    return Retrieval(*queries[:2], *items[:2])


def _read(file: Path, labels: PathLike | None, levels: Sequence[str]) -> Retrieval | _Items:
    if file.suffix not in _SUFFIXES:
        raise OptionError(f"embeddings in {file.name!r}", expected=f"a file that ends in {', '.join(_SUFFIXES)}")
    if not file.is_file():
        raise InputError(f"{file}", expected=f"an existing {file.suffix} file")
    if file.suffix == ".parquet":
        return _read_parquet(file, labels, levels)
    content = _load_torch(file) if file.suffix == ".pt" else _load_numpy(file)
    if isinstance(content, Mapping):
        if labels is not None:
            raise OptionError(f"labels beside {file.name}", expected="its own paths", remedy="leave the labels out")
        return _named(file, content)
    if labels is None:
        raise OptionError(
            f"{file.name} without labels", expected="a table of labels", remedy="name a CSV or Parquet file"
        )
    return _beside(content, Path(labels), levels)


def _load_numpy(file: Path) -> Any:
    """The array of an ``.npy``, the arrays of an ``.npz``."""
    try:
        content = np.load(file, allow_pickle=False)
        if file.suffix == ".npy":
            return content
        with content:
            return {name: content[name] for name in content.files}
    except (ValueError, EOFError, BadZipFile) as error:
        raise InputError(f"{file.name}: {error}", expected="plain numbers saved by numpy") from error


def _load_torch(file: Path) -> Any:
    """The tensor of a ``.pt``, or its dictionary of tensors, as numpy arrays."""
    import torch

    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, ValueError, UnpicklingError) as error:
        first = str(error).partition("\n")[0]
        raise InputError(f"{file.name}: {first}", expected="tensors saved by torch, nothing else") from error
    if isinstance(content, torch.Tensor):
        return to_numpy(content)
    if isinstance(content, Mapping) and all(isinstance(value, torch.Tensor) for value in content.values()):
        return {str(name): to_numpy(value) for name, value in content.items()}
    raise InputError(f"{file.name} with a {type(content).__name__}", expected="a tensor or a dictionary of tensors")


def _named(file: Path, content: Mapping[str, Any]) -> Retrieval:
    unknown = sorted(set(content) - set(_ARRAYS))
    missing = [name for name in _ARRAYS[:2] if name not in content]
    if unknown or missing:
        raise InputError(
            f"{file.name} with arrays {', '.join(content) or 'none'}",
            expected=f"{_ARRAYS[0]} and {_ARRAYS[1]}, and perhaps {_ARRAYS[2]} and {_ARRAYS[3]}",
        )
    return Retrieval(**content)


def _read_parquet(file: Path, labels: PathLike | None, levels: Sequence[str]) -> _Items:
    import pyarrow as pa
    import pyarrow.parquet as pq
    import pyarrow.types as kinds

    try:
        table = pq.read_table(file)
    except pa.ArrowException as error:
        raise InputError(f"{file.name}: {error}", expected="a Parquet file") from error
    lists = [
        field.name
        for field in table.schema
        if kinds.is_list(field.type) or kinds.is_large_list(field.type) or kinds.is_fixed_size_list(field.type)
    ]
    others = [name for name in table.column_names if name not in lists]
    if len(lists) != 1:
        raise InputError(f"{file.name} with columns {', '.join(table.column_names)}", expected="one column of lists")
    embeddings = _stacked(file, table.column(lists[0]).combine_chunks())
    if labels is not None:
        return _beside(embeddings, Path(labels), levels)
    missing = [name for name in levels if name not in others]
    if missing or not others:
        raise TableError(f"{file.name} has no column {', '.join(missing) or 'of labels'}", expected="labels beside")
    cells = [table.column(name).to_pylist() for name in levels or others]
    return _Items(embeddings, list(zip(*cells, strict=True)), lambda row: f"{file.name}, row {row + 1}")


def _stacked(file: Path, column: Any) -> NDArray[Any]:
    """A column of lists of numbers as (n, d), without a detour over Python's objects."""
    lengths = {len(cell) if cell is not None else -1 for cell in column[:1].to_pylist()}
    width = next(iter(lengths), 0)
    numbers = column.flatten().to_numpy(zero_copy_only=False)
    if width < 1 or column.null_count or (column.value_lengths().to_numpy(zero_copy_only=False) != width).any():
        raise InputError(f"{file.name} with embeddings of several lengths, or none", expected="one length")
    stacked: NDArray[Any] = numbers.reshape(len(column), width)
    return stacked


def _beside(embeddings: NDArray[Any], file: Path, levels: Sequence[str]) -> _Items:
    """Embeddings with the rows of a table of labels."""
    from hiertree.labels import read_label_rows
    from hiertree.tables import read_table

    rows, where = read_label_rows(file, levels or list(read_table(file).columns))
    if len(rows) != len(embeddings):
        raise InputError(f"{file.name} with {len(rows)} rows", expected=f"{len(embeddings)}, one an embedding")
    return _Items(embeddings, rows, where)


def _joined(queries: _Items, items: _Items | None = None) -> Retrieval:
    """One tree numbers the labels of both; the same text under two parents is two labels."""
    from hiertree import LabelTree

    split = len(queries.rows)
    rows = queries.rows if items is None else [*queries.rows, *items.rows]

    def where(row: int) -> str:
        return queries.where(row) if items is None or row < split else items.where(row - split)

    paths = LabelTree.from_paths(rows, leaf="path", repeats="merge", where=where).paths(rows)
    if items is None:
        return Retrieval(queries.embeddings, paths)
    return Retrieval(queries.embeddings, paths[:split], items.embeddings, paths[split:])
