"""Embeddings in one file or in several shards of it, read a few rows at a time: Parquet, ``.npy`` or safetensors.

A folder holds shards of one kind, in the order of their names, and perhaps the ``manifest.json`` of ``hiertree embed``,
which says how many rows there are in which parts, how wide they are, and the SHA-256 of the model's weights.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from hiertree.arrays import StoredRows
from hiertree.errors import HiertreeError, InputError, TableError, require_package
from hiertree.io.array_files import read_array
from hiertree.io.provenance import MANIFEST, sha256
from hiertree.io.reading import PARQUET_SUFFIXES, Complaint, data_columns, read_json_object, read_parquet, reading_file
from hiertree.io.tables import arrow_texts

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CONTENT = {
    **dict.fromkeys(PARQUET_SUFFIXES, "a Parquet file"),
    ".npy": "an array that numpy saved",
    ".safetensors": "safetensors",
}
SHARD_ENDINGS = tuple(_CONTENT)
_ROWS_AT_ONCE = 2**12
_BUFFER = 2**20  # bytes of a column read at once; unbuffered, all of it is held beside its numbers
_COMPARED = 2**16  # bytes at the end of a file, by which processes know that they see the same


class Shards(StoredRows):
    """The (n, d) rows of all files, in their order. Shards that do not belong together are an InputError."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = list(files)
        if not self.files:
            raise InputError("no shards", expected=f"files that end in {', '.join(SHARD_ENDINGS)}")
        kind = self.files[0].suffix.lower()
        if kind in PARQUET_SUFFIXES:
            require_package("pyarrow", extra="arrow")
        readers: dict[str, Any] = {
            **dict.fromkeys(PARQUET_SUFFIXES, _ParquetShard),
            ".npy": _NumpyShard,
            ".safetensors": _TensorShard,
        }
        self._read = readers[kind]
        shards = [self._opened(file) for file in self.files]
        first = shards[0]
        for file, shard in zip(self.files, shards, strict=True):
            for attribute in ("width", "dtype", "columns", "model"):
                value, expected = getattr(shard, attribute), getattr(first, attribute)
                if value != expected:
                    raise InputError(f"{file}: {attribute} {value}", expected=f"{expected}, as in {self.files[0].name}")
        if not any(shard.rows for shard in shards):
            raise InputError(f"{self.files[0]}: no rows", expected="embeddings")
        self._starts = np.cumsum([0, *(shard.rows for shard in shards)])
        self.shape, self.dtype, self.columns = (int(self._starts[-1]), first.width), first.dtype, first.columns
        self.identity = "\n".join(map(_identity, self.files))
        self._rows: NDArray[np.int64] | None = None  # of all files, where these are some of them
        self._digests: dict[Path, str | None] = {}  # of files that are still to be compared with them
        self._check_names()
        self.model = self._check_manifest(shards) or first.model
        if first.model not in (None, self.model):
            raise InputError(f"{self.files[0]} of model {first.model}", expected=f"{self.model}, as in {MANIFEST}")

    def _opened(self, file: Path) -> Any:
        with reading_file(file, **_complaint(file)):
            shard = self._read(file)
            if shard.width < 1:
                raise InputError(f"{file.name} with embeddings of several lengths, or none", expected="one length")
            return shard

    @override
    def __getitem__(self, rows: slice | NDArray[np.int64]) -> NDArray[Any]:
        indices = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else rows
        if self._rows is not None:
            indices = self._rows[indices]
        embeddings = np.empty((len(indices), self.shape[1]), self.dtype)
        order = np.argsort(indices, kind="stable")
        rising = indices[order]
        for file, start, stop in zip(self.files, self._starts, self._starts[1:], strict=False):
            low, high = np.searchsorted(rising, (start, stop))
            if low < high:
                local_rows = rising[low:high] - start
                self._verify(file)
                with reading_file(file, **_complaint(file)):
                    for begin, tile in self._opened(file).tiles(local_rows):
                        span = slice(*np.searchsorted(local_rows, (begin, begin + len(tile))))
                        embeddings[order[low:high][span]] = tile[local_rows[span] - begin]
        return embeddings

    def select(self, rows: NDArray[np.int64]) -> Shards:
        """Some of the rows, which stay in the files."""
        selection = copy(self)
        selection._rows, selection.shape = rows, (len(rows), self.shape[1])
        selection.identity = f"{self.identity} {zlib.crc32(rows.tobytes())}"
        return selection

    def texts(self, column: str) -> Any:
        """Another column of all Parquet files, its cells as text: an array of pandas."""
        import pandas as pd
        import pyarrow as pa

        for file in self.files:
            self._verify(file)
        tables = [read_parquet(file, columns=[column], **_complaint(file)) for file in self.files]
        with reading_file(self.files[0].parent, expected="Parquet files of the same columns", kind=InputError):
            cells = pa.concat_tables(tables, promote_options="default").column(0)
            if pa.types.is_string(cells.type):
                return cells.fill_null("").to_pandas().array
            if pa.types.is_dictionary(cells.type):
                cells = cells.cast(cells.type.value_type)
            numbered = cells.combine_chunks().dictionary_encode("encode")
            texts = pd.Series(arrow_texts(numbered.dictionary))
        return texts.take(numbered.indices.to_numpy()).array

    def row_name(self, row: int) -> str:
        """The file and row of an embedding, for messages."""
        shard = int(np.searchsorted(self._starts, row, side="right")) - 1
        return f"{self.files[shard].name}, row {row - self._starts[shard] + 1}"

    def check_ids(self, ids: Any, in_gallery: NDArray[np.bool_]) -> None:
        """Refuse a query or an item of the gallery in two shards: a shard that is there twice."""
        import pandas as pd

        keys = 2 * pd.factorize(ids)[0] + in_gallery
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        first = first[inverse]  # the row of each image's first
        shard = np.repeat(np.arange(len(self.files)), np.diff(self._starts))
        repeats = np.flatnonzero(shard != shard[first])
        if len(repeats):
            row = int(repeats[0])
            problem = f"{self.row_name(row)}: {ids[row]!r} again, as in {self.files[shard[first[row]]].name}"
            raise TableError(problem, expected="each image in only one shard")

    def _check_names(self) -> None:
        """Check that all parts are there, by names such as ``part-00002-of-00008``."""
        numbered = [re.search(r"(\d+)-of-(\d+)$", file.stem) for file in self.files]
        indices = [(int(match[1]), int(match[2])) for match in numbered if match is not None]
        if indices and indices != [(row, len(self.files)) for row in range(len(self.files))]:
            description = f"{len(self.files)} shards, the last {self.files[-1].name}"
            raise InputError(f"{self.files[0].parent} with {description}", expected="every part once, numbered from 0")

    def _check_manifest(self, shards: Sequence[Any]) -> str | None:
        """Compare with the manifest beside the shards, if any; return the model that it names."""
        folder = self.files[0].parent
        manifest = read_manifest(folder)
        if manifest is None:
            return None
        rows, width = self.shape
        names = [{"name": file.name, "rows": shard.rows} for file, shard in zip(self.files, shards, strict=True)]
        entries = manifest.get("parts", names)
        stated = [{key: entry.get(key) for key in ("name", "rows")} for entry in entries]
        expected = {
            "parts": stated,
            "rows": manifest.get("rows", rows),
            "dimensions": manifest.get("dimensions", width),
        }
        for key, value in {"parts": names, "rows": rows, "dimensions": width}.items():
            if value != expected[key]:
                raise InputError(f"{folder}: {key} {value}", expected=f"{expected[key]}, as in {MANIFEST}")
        self._digests = {folder / str(entry["name"]): entry.get("sha256") for entry in entries}
        return manifest.get("model")

    def _verify(self, file: Path) -> None:
        """Compare a file with the digest that its manifest states, before the first of its rows is read."""
        if (stated := self._digests.pop(file, None)) is not None:
            require_digest(file, stated, kind=InputError)


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """What `hiertree embed` says of the shards in a folder; None where it says nothing."""
    if not (folder / MANIFEST).exists():
        return None
    manifest = read_json_object(folder / MANIFEST, expected="JSON that hiertree embed wrote", kind=InputError)
    entries = manifest.get("parts", [])
    if not (isinstance(entries, list) and all(isinstance(entry, dict) and "name" in entry for entry in entries)):
        raise InputError(f"{folder / MANIFEST} with parts {str(entries)[:40]}", expected="a list of files by name")
    return manifest


def require_digest(file: Path, stated: str | None, *, kind: type[HiertreeError]) -> None:
    """Refuse a file whose SHA-256 is another than was noted when it was written."""
    if sha256(file) != stated:
        remedy = "remove it, and run the same `hiertree embed` again"
        raise kind(
            f"{file} has changed since it was written", expected="the SHA-256 that was noted then", remedy=remedy
        )


class _ParquetShard:
    """One file with one column of lists."""

    def __init__(self, file: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq
        import pyarrow.types as kinds

        self._file, stream = file, pa.OSFile(os.fsencode(file))  # of text pyarrow takes UTF-8 alone
        self._read = pq.ParquetFile(stream, page_checksum_verification=True, buffer_size=_BUFFER)
        schema, self.rows = self._read.schema_arrow, self._read.metadata.num_rows
        list_kinds = (kinds.is_list, kinds.is_large_list, kinds.is_fixed_size_list)
        lists = [field.name for field in schema if any(is_kind(field.type) for is_kind in list_kinds)]
        if len(lists) != 1:
            raise InputError(f"{file.name} with columns {', '.join(schema.names)}", expected="one column of lists")
        model = (schema.metadata or {}).get(b"hiertree.model")
        self.model = None if model is None else model.decode()
        self._column, kind = lists[0], schema.field(lists[0]).type
        self.columns = [name for name in data_columns(schema) if name not in lists]
        self.dtype = np.dtype(kind.value_type.to_pandas_dtype())
        self.width = kind.list_size if kinds.is_fixed_size_list(kind) else self._first_width()

    def _first_width(self) -> int:
        first = next(self._read.iter_batches(1, columns=[self._column]), None)
        return 0 if first is None else len(first.column(0)[0].as_py() or ())

    def tiles(self, rows: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[Any]]]:
        """The parts of the file that hold some of the rows, and where they begin."""
        start = 0
        for group in range(self._read.num_row_groups):
            stop = start + self._read.metadata.row_group(group).num_rows
            if np.subtract(*np.searchsorted(rows, (stop, start))):
                for batch in self._read.iter_batches(_ROWS_AT_ONCE, row_groups=[group], columns=[self._column]):
                    column = batch.column(0)
                    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
                    if column.null_count or (lengths != self.width).any():
                        problem = f"{self._file.name} with embeddings of several lengths, or none"
                        raise InputError(problem, expected="one length")
                    values = column.flatten().to_numpy(zero_copy_only=False)  # no Python object for each number
                    yield start, values.reshape(-1, self.width)
                    start += batch.num_rows
            start = stop


class _NumpyShard:
    """One array."""

    columns: Sequence[str] = ()
    model = None

    def __init__(self, file: Path) -> None:
        self._array: Any = read_array(file, mapped=True, **_complaint(file))
        self.rows: int = len(self._array)
        self.width: int = self._array.shape[1] if self._array.ndim == 2 else 0
        self.dtype = self._array.dtype

    def tiles(self, rows: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[Any]]]:
        """The rows from the first that is wanted to the last, a few at a time."""
        end = int(rows[-1]) + 1
        for start in range(int(rows[0]), end, _ROWS_AT_ONCE):
            yield start, self._array[start : min(start + _ROWS_AT_ONCE, end)]


class _TensorShard(_NumpyShard):
    """One tensor of two dimensions among those of a file."""

    def __init__(self, file: Path) -> None:
        require_package("safetensors", extra="clip")
        from safetensors import safe_open

        reader: Any = safe_open(file, framework="numpy")
        tensors = {name: reader.get_slice(name) for name in reader.keys()}  # noqa: SIM118
        tables = [tensor for tensor in tensors.values() if len(tensor.get_shape()) == 2]
        if len(tables) != 1:
            raise InputError(f"{file.name} with tensors {', '.join(tensors)}", expected="one (n, d) of embeddings")
        (self._array,) = tables
        self.rows, self.width = self._array.get_shape()
        self.dtype = self._array[:1].dtype


def _complaint(file: Path) -> Complaint:
    """Of the error about a shard."""
    return {"expected": _CONTENT[file.suffix.lower()], "kind": InputError}


def _identity(file: Path) -> str:
    """Differs where a file has another name, size or end."""
    with reading_file(file, **_complaint(file)), file.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(size - _COMPARED, 0))
        return f"{file.name} {size} {zlib.crc32(stream.read())}"


def shard_files(source: Path) -> list[Path]:
    """The shards in a folder, or those that a pattern names; a file alone."""
    if source.is_dir():
        for suffix in SHARD_ENDINGS:
            if matches := sorted(source.glob(f"[!.]*{suffix}")):
                return matches
        raise InputError(f"{source} without shards", expected=f"files that end in {', '.join(SHARD_ENDINGS)}")
    if not source.exists() and any(sign in str(source) for sign in "*?["):
        matches = sorted(Path(source.anchor).glob(str(source.relative_to(source.anchor))))
        if not matches or matches[0].suffix.lower() not in SHARD_ENDINGS or len({file.suffix for file in matches}) > 1:
            raise InputError(f"{source}: {len(matches)} files", expected=f"shards of one of {', '.join(SHARD_ENDINGS)}")
        return matches
    return [source]
