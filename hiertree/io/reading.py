"""The one way in for the content of files: whatever fails while it is read is one typed error that names the file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from typing_extensions import Required, Unpack

from ..errors import HiertreeError, TableError, require_package
from .files import NOT_UTF8, AnyPath

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

PARQUET_SUFFIXES = (".parquet", ".pq")
_LONGEST_REASON = 200  # characters of another library's message
_MOST_UNPACKED, _MOST_RATIO = 1 << 27, 100  # bytes and cells of a Parquet file, or to each of its bytes


class Complaint(TypedDict, total=False):
    """What the error about a file says, and its type."""

    expected: Required[str]
    remedy: str | None
    kind: type[HiertreeError]


@contextmanager
def reading_file(
    path: AnyPath, *, expected: str, remedy: str | None = None, kind: type[HiertreeError] = TableError
) -> Iterator[None]:
    """A block that opens and decodes one file; its errors become one of ``kind`` that names the file.

    Readers raise anything for damaged files, so that every Exception counts, a MemoryError for an invented size, too.
    An error of hiertree passes if it names the file, else it becomes one that does; a missing package is not the
    file's fault.

    >>> with reading_file("a.csv", expected="numbers"):
    ...     int("many")
    Traceback (most recent call last):
    ...
    hiertree.errors.TableError: a.csv cannot be read (invalid literal for int() with base 10: 'many'): expected numbers
    """
    try:
        yield
    except ImportError:
        raise
    except HiertreeError as error:
        if Path(path).name in str(error):
            raise
        raise error.naming(path, kind) from error
    except Exception as error:
        raise kind(f"{path} cannot be read ({_reason(error)})", expected=expected, remedy=remedy) from error


@contextmanager
def naming_file(path: AnyPath) -> Iterator[None]:
    """A block that works with what a file held: an error of hiertree, of any type, gets its name if it lacks it."""
    try:
        yield
    except HiertreeError as error:
        if Path(path).name in str(error):
            raise
        raise error.naming(path) from error


def _reason(error: Exception) -> str:
    """The first line of an error, without the file's name and without advice to load code."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    line = (str(error).strip().splitlines() or [""])[0] or type(error).__name__
    if line.startswith("Weights only load failed"):
        return "it holds more than tensors"
    return line if len(line) <= _LONGEST_REASON else line[:_LONGEST_REASON] + "…"


def read_text(path: AnyPath, *, kind: type[HiertreeError] = TableError) -> str:
    """The text of a UTF-8 file without a byte-order mark; an error of ``kind`` names the line where it is not UTF-8."""
    with reading_file(path, expected="a readable file", kind=kind):
        try:
            return Path(path).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise not_utf8(path, kind=kind) from None


def not_utf8(path: AnyPath, *, line: int | None = None, kind: type[HiertreeError] = TableError) -> HiertreeError:
    """The error that names a line with bytes that are not UTF-8, the first one unless it is given."""
    if line is None:
        with Path(path).open(encoding="utf-8", errors="surrogateescape") as file:  # invalid bytes: lone surrogates
            line = next(line_number for line_number, text in enumerate(file, start=1) if NOT_UTF8.search(text))
    return kind(f"{path}, line {line}: bytes that are not UTF-8", remedy="save the file as UTF-8")


def read_json(path: AnyPath, *, finite: bool = True, **complaint: Unpack[Complaint]) -> Any:
    """The content of a JSON file; a name twice in an object is refused, NaN and infinities unless not ``finite``."""
    text = read_text(path, kind=complaint.get("kind", TableError))
    with reading_file(path, **complaint):
        constant = _refuse_constant if finite else float
        return json.loads(text, object_pairs_hook=_refuse_repeats, parse_constant=constant)


def read_json_object(path: AnyPath, **complaint: Unpack[Complaint]) -> dict[str, Any]:
    """As :func:`read_json`, for a file that holds one object."""
    document = read_json(path, **complaint)
    with reading_file(path, **complaint):
        if not isinstance(document, dict):
            raise TypeError(f"a {type(document).__name__} instead of an object")
        return document


@contextmanager
def reading_json(path: AnyPath, **complaint: Unpack[Complaint]) -> Iterator[dict[str, Any]]:
    """The object of a JSON file, within a block of :func:`reading_file` that takes it apart."""
    document = read_json_object(path, **complaint)
    with reading_file(path, **complaint):
        yield document


def _refuse_constant(name: str) -> float:
    raise ValueError(f"the number {name}")


def _refuse_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; refuses a repeated name, which would lose a value."""
    document = dict(pairs)
    if len(document) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is listed twice")
    return document


def read_parquet(path: AnyPath, *, columns: Sequence[str] | None = None, **complaint: Unpack[Complaint]) -> Any:
    """A Parquet file as a ``pyarrow.Table``; the checksums of pages are compared where it has some.

    A small file that unpacks to very many cells or bytes is refused: repetitions pack a million into a byte.
    """
    require_package("pyarrow", extra="arrow")
    import pyarrow as pa
    import pyarrow.parquet as pq

    with reading_file(path, **complaint), Path(path).open("rb") as file:  # pyarrow takes no names that are not UTF-8
        reader = pq.ParquetFile(file, page_checksum_verification=True)
        schema = reader.schema_arrow if columns is None else pa.schema(map(reader.schema_arrow.field, columns))
        size, unpacked, batches = Path(path).stat().st_size, reader.metadata.num_rows * len(schema), []
        for batch in reader.iter_batches(columns=columns):
            if unpacked > max(_MOST_UNPACKED, _MOST_RATIO * size):
                raise ValueError(f"{size:,} bytes unpack to more than {_MOST_RATIO} times as much")
            batches.append(batch)
            unpacked += batch.nbytes
        table = pa.Table.from_batches(batches, schema)
        table.validate(full=True)
        return table


def data_columns(schema: Any) -> list[str]:
    """The columns of a Parquet file without a frame's index of integers that has no name; another index comes first."""
    import pyarrow as pa

    metadata = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
    indexes = [name for name in metadata.get("index_columns", ()) if name in schema.names]
    unnamed = [name for name in indexes if name.startswith("__index_level_")]
    left_out = [name for name in unnamed if pa.types.is_integer(schema.field(name).type)]
    names = [*indexes, *(name for name in schema.names if name not in indexes)]
    return [name for name in names if name not in left_out]


def read_parquet_frame(path: AnyPath, **complaint: Unpack[Complaint]) -> pd.DataFrame:
    """As :func:`read_parquet`, as a frame of pandas."""
    table = read_parquet(path, **complaint)
    with reading_file(path, **complaint):
        frame: pd.DataFrame = table.to_pandas()
        return frame


def read_tensors(path: AnyPath, **complaint: Unpack[Complaint]) -> dict[str, Tensor]:
    """The tensors of a safetensors file by name."""
    from safetensors.torch import load_file

    with reading_file(path, **complaint):
        return load_file(path)
