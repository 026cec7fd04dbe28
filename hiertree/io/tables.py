"""Tables: CSV and Parquet files as text, large CSV files as Arrow arrays, and frames of other libraries.

Every cell of a file is text, also ``NA`` and ``007``; an empty cell is the empty string. The index of a table holds the
line on which each row begins (for Parquet: the row, from 1), for later messages.
"""

from __future__ import annotations

import csv
import gzip
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np

from ..errors import InputError, TableError, nearest_name, require_package, some_of
from .files import AnyPath, open_replacing
from .reading import not_utf8, read_parquet, reading_file

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

LONGEST_CELL = 1 << 22  # characters; GLDv2 lists all photos of a landmark in one cell of about 170,000
LONGEST_LINE = 1 << 26  # characters; a packed file may hold a line of any length
_PART = 20_000  # rows of a table read in parts
_BLOCK = 1 << 24  # bytes read at once; must exceed the longest row, a landmark with thousands of photographs
DELIMITERS = ";\t|"  # other delimiters, for a hint
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


def read_table(path: AnyPath, *, required: Sequence[str] = (), needs_rows: bool = False) -> pd.DataFrame:
    """Read a CSV or Parquet file (``.parquet``) into a table of strings; the module says what cells and index are.

    CSV is UTF-8 with or without a byte-order mark, packed by gzip if the name ends in ``.gz``, with lines that end in
    LF or CRLF. Quoted cells may contain delimiters, doubled quotes and line breaks. Blank lines are skipped. Every row
    has as many cells as the header. A TableError names the file and what is wrong, a missing ``required`` column or a
    header alone where the table ``needs_rows`` among it.
    """
    file = Path(path)
    if not file.is_file():
        raise TableError(f"{file}", expected="an existing CSV or Parquet file")
    table = _read_parquet(file) if file.suffix == ".parquet" else next(_csv_parts(file, sys.maxsize))
    check_columns(file, list(table.columns), required)
    if needs_rows and table.empty:
        raise TableError(f"{file} has no rows", expected="rows below the header")
    return table


def read_table_parts(path: AnyPath, *, required: Sequence[str] = ()) -> Iterator[pd.DataFrame]:
    """As :func:`read_table`, some rows at a time (at least one part), so that a long CSV file takes little memory."""
    file = Path(path)
    for part in _csv_parts(file, _PART) if file.is_file() and file.suffix != ".parquet" else [read_table(file)]:
        check_columns(file, list(part.columns), required)
        yield part


def write_table(path: AnyPath, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV file that :func:`read_table` reads, atomically; a cell of None is empty."""
    with open_replacing(path) as file:
        plain_writer = csv.writer(file, lineterminator="\n")
        quoting_writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
        for row in chain([header], rows):  # before Python 3.13 csv does not quote a carriage return
            writer = quoting_writer if any("\r" in cell for cell in row if isinstance(cell, str)) else plain_writer
            writer.writerow(row)


def integer_column(table: pd.DataFrame, column: str, *, path: AnyPath) -> NDArray[np.int64]:
    """A column of a table of :func:`read_table` as int64; a TableError names file, line and value."""
    cells = table[column]
    for line, cell in zip(table.index, cells, strict=True):
        if not _INTEGER.fullmatch(cell.strip()):
            raise TableError(f"{path}, line {line}: {column} {cell!r}", expected="an integer")
    return np.array([int(cell) for cell in cells], dtype=np.int64)


def line_names(table: pd.DataFrame, path: AnyPath) -> Callable[[int], str]:
    """The name of row i in messages, for a table whose index holds its lines."""
    name, lines = Path(path).name, table.index
    return lambda row: f"{name}, line {lines[row]}"


def _csv_parts(path: Path, max_rows: int) -> Iterator[pd.DataFrame]:
    header: list[str] | None = None
    lines: list[int] = []
    rows: list[list[str]] = []
    for line, cells in _csv_rows(path):
        if header is None:
            header = cells
            check_columns(path, header, ())
            delimiter_remedy = _other_delimiter(header)
        elif delimiter_remedy and any(header[0].count(sign) == cells[0].count(sign) > 0 for sign in DELIMITERS):
            raise TableError(
                f"{path} has one column, {_shorten(header)}", expected="several columns", remedy=delimiter_remedy
            )
        elif len(cells) != len(header):
            problem = f"{path}, line {line}: {len(cells)} cells, {_shorten(cells)}"
            remedy = delimiter_remedy or "put cells that hold the delimiter in double quotes"
            raise TableError(problem, expected=f"{len(header)} as in the header", remedy=remedy)
        else:
            lines.append(line)
            rows.append(cells)
            if len(rows) == max_rows:
                yield _text_table(header, lines, rows)
                lines, rows = [], []
    if header is None:
        raise TableError(f"{path} is empty", expected="a header and rows")
    yield _text_table(header, lines, rows)


def _text_table(header: list[str], lines: list[int], rows: list[list[str]]) -> pd.DataFrame:
    import pandas as pd

    table: pd.DataFrame = pd.DataFrame(rows, columns=header, index=pd.Index(lines, dtype=np.int64), dtype=str)
    return table


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The line on which each row begins, and its cells."""
    with (
        reading_file(path, expected="a CSV file, packed by gzip if its name ends in .gz"),
        gzip.open(path) if _is_packed(path) else path.open("rb") as binary,
        TextIOWrapper(binary, encoding="utf-8-sig", newline="") as file,  # type: ignore[type-var, unused-ignore]
    ):
        reader = csv.reader(_bounded_lines(file, path), strict=True)
        line, previous_limit = 1, csv.field_size_limit(LONGEST_CELL)  # the limit is global to the process
        try:
            for cells in reader:
                if any("\0" in cell for cell in cells):  # Python 3.10's csv refuses it itself
                    raise TableError(f"{path}, line {line}: a NUL character", expected="text")
                if cells:
                    yield line, cells
                line = reader.line_num + 1
        except csv.Error as error:
            raise TableError(f"{path}, line {line}: {error}", expected="well-formed CSV") from None
        except UnicodeDecodeError:
            raise not_utf8(path, line=line if _is_packed(path) else None) from None
        finally:
            csv.field_size_limit(previous_limit)


def _is_packed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def _bounded_lines(file: IO[str], path: Path) -> Iterator[str]:
    """The lines, each refused before it is longer than a table's rows are."""
    while line := file.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE:
            raise TableError(f"{path}: a line of {LONGEST_LINE:,} characters or more", expected="a row on each line")
        yield line


def _read_parquet(path: Path) -> pd.DataFrame:
    import pandas as pd

    expected = "a Parquet file of plain, differently named columns"
    arrow_table = read_parquet(path, expected=expected)
    with reading_file(path, expected=expected):
        columns = {name: arrow_texts(arrow_table.column(name)) for name in arrow_table.column_names}
    index = pd.RangeIndex(1, arrow_table.num_rows + 1)
    table: pd.DataFrame = pd.DataFrame(columns, index=index, columns=arrow_table.column_names, dtype=str)
    return table


def arrow_texts(column: Any) -> list[str]:
    """The cells of a column of Arrow as text; a null or NaN is empty."""
    texts, missing = column.cast("string").fill_null(""), column.is_null(nan_is_null=True)
    return ["" if empty else text for text, empty in zip(texts.to_pylist(), missing.to_pylist(), strict=True)]


def check_columns(
    path: AnyPath, column_names: Sequence[str], required: Sequence[str], *, remedy: str | None = None
) -> None:
    """Refuse a table that lacks a column or has two of one name.

    The TableError names them, and for a missing one a similar name, or ``remedy`` where there is none.
    """
    repeated_names = sorted(name for name, times in Counter(column_names).items() if times > 1)
    if repeated_names:
        raise TableError(f"{path} has several columns named {_shorten(repeated_names)}", expected="one of each name")
    missing = sorted({*required}.difference(column_names), key=required.index)
    if missing:
        close = [similar_name for name in missing if (similar_name := nearest_name(name, column_names))]
        if delimiter_remedy := _other_delimiter(column_names):
            close, remedy = [], delimiter_remedy
        problem = f"{path} has no column {_shorten(missing)}"
        expected = f"it among {_shorten(column_names)}"
        raise TableError(problem, expected=expected, remedy=f"did you mean {_shorten(close)}?" if close else remedy)


def _other_delimiter(header: Sequence[str]) -> str | None:
    """The remedy for a header that commas do not divide."""
    has_delimiter = len(header) == 1 and any(sign in header[0] for sign in DELIMITERS)
    return "separate the cells by commas" if has_delimiter else None


def _shorten(names: Sequence[str]) -> str:
    return some_of([name if len(name) <= 60 else name[:57] + "…" for name in names], 12)


def read_columns(path: Path, columns: Mapping[str, Literal["text", "integer"]]) -> Any:
    """Columns of a CSV file of millions of rows, by name and type: a ``pyarrow.Table`` of single chunks."""
    require_package("pyarrow", extra="arrow")
    import pyarrow as pa
    from pyarrow import csv

    kinds = {"text": pa.string(), "integer": pa.int64()}
    with reading_file(path, expected=f"a CSV file with columns {', '.join(columns)}"):
        table = csv.read_csv(
            path,
            read_options=csv.ReadOptions(block_size=_BLOCK),
            convert_options=csv.ConvertOptions(
                include_columns=list(columns),
                column_types={name: kinds[kind] for name, kind in columns.items()},
                null_values=[],
                strings_can_be_null=False,
            ),
        )
    if not table.num_rows:
        raise TableError(f"{path} has no rows", expected=f"rows of {', '.join(columns)}")
    return table.combine_chunks()


def is_frame(values: Any) -> bool:
    """Whether a value looks like a table with named columns; imports no library."""
    return hasattr(type(values), "columns") and not isinstance(values, type)


def frame_columns(
    frame: Any, names: Sequence[str] | None = None, *, frame_name: str = "the frame"
) -> dict[str, list[Any]]:
    """Columns of a frame of pandas, polars or pyarrow by name, each a list of Python values; a missing one is None.

    Floats of whole numbers become integers, which frames hold so where some are missing. Messages call the frame
    ``frame_name``.

    Raises:
        InputError: no frame, or one that is not yet computed, such as a LazyFrame of polars.
        TableError: a column that is not there, or two of one name.
    """
    import narwhals as nw

    if not nw.dependencies.is_into_dataframe(frame):
        lazy = hasattr(frame, "collect")
        problem = f"{frame_name}: a {type(frame).__module__.partition('.')[0]} {type(frame).__name__}"
        expected = "a frame in memory, of pandas, polars or pyarrow"
        raise InputError(problem, expected=expected, remedy="call its collect()" if lazy else None)
    column_names = [str(name) for name in (frame.column_names if hasattr(frame, "column_names") else frame.columns)]
    requested_names = column_names if names is None else [str(name) for name in names]
    check_columns(frame_name, column_names, requested_names)
    columns = dict(zip(column_names, nw.from_native(frame, eager_only=True).iter_columns(), strict=True))
    return {name: _plain(columns[name].to_list()) for name in requested_names}


def _plain(cells: list[Any]) -> list[Any]:
    values = [None if is_missing(cell) else cell for cell in cells]
    is_integral = all(cell is None or (isinstance(cell, float) and cell.is_integer()) for cell in values)
    return [None if cell is None else int(cell) for cell in values] if is_integral else values


def is_missing(cell: Any) -> bool:
    """Whether a cell is None, NaN, NaT or NA."""
    if cell is None:
        return True
    try:
        return bool(cell != cell)  # NaN and NaT
    except (TypeError, ValueError):  # pandas.NA has no truth value, nor has an array
        return not hasattr(cell, "__len__")
