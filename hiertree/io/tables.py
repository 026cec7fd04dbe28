"""Tables of text from CSV and Parquet files, with errors that name file, line and value.

Every cell is text: ``NA`` stays ``NA``, ``007`` stays ``007``, and an empty cell is the empty string, never NaN. The
index of a table holds the line on which each row begins (for Parquet: the row, from 1), for later error messages.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import TableError, require_package
from .files import open_replacing
from .text_files import not_utf8

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from numpy.typing import NDArray

LONGEST_CELL = 1 << 22  # characters; GLDv2 lists all photos of a landmark in one cell of about 170,000
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


def read_table(
    path: str | os.PathLike[str], *, required: Sequence[str] = (), delimiter: str = ",", needs_rows: bool = False
) -> pd.DataFrame:
    r"""Read a CSV or Parquet file into a table of strings.

    CSV is UTF-8 with or without a byte-order mark, with lines that end in LF or CRLF. Quoted cells may contain
    delimiters, doubled quotes and line breaks. Blank lines are skipped. Every row has as many cells as the header.

    Args:
        path: the file; a name that ends in ``.parquet`` is Parquet, any other is CSV.
        required: columns that must be present.
        delimiter: between the cells of a CSV file.
        needs_rows: whether a table of a header alone is an error.

    Returns:
        A DataFrame of strings, its index the line (or Parquet row) where each row begins.

    Raises:
        TableError: no such file, not UTF-8, a malformed row, two columns of one name, or no required column.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "landmarks.csv"
    ...     _ = file.write_text('landmark_id,name\n17,"Tower, London"\n', encoding="utf-8-sig")
    ...     read_table(file, required=["landmark_id"])
      landmark_id           name
    2          17  Tower, London
    """
    file = Path(path)
    if not file.is_file():
        raise TableError(f"{file}", expected="an existing CSV or Parquet file")
    table = _read_parquet(file) if file.suffix == ".parquet" else _read_csv(file, delimiter)
    check_columns(file, list(table.columns), required)
    if needs_rows and table.empty:
        raise TableError(f"{file} has no rows", expected="rows below the header")
    return table


def write_table(path: str | os.PathLike[str], header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV file that :func:`read_table` reads: UTF-8, bare newlines, atomically.

    Args:
        path: the file.
        header: names of the columns.
        rows: cells; None is an empty one.
    """
    with open_replacing(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def integer_column(table: pd.DataFrame, column: str, *, path: str | os.PathLike[str]) -> NDArray[np.int64]:
    """A column of ids as int64.

    Args:
        table: from :func:`read_table`.
        column: of the table.
        path: of its file, for error messages.

    Raises:
        TableError: a cell is not an integer; the message names file, line and value.

    >>> import pandas as pd
    >>> integer_column(pd.DataFrame({"landmark_id": ["17", "4"]}), "landmark_id", path="landmarks.csv")
    array([17,  4])
    """
    cells = table[column]
    for line, cell in zip(table.index, cells, strict=True):
        if not _INTEGER.fullmatch(cell.strip()):
            raise TableError(f"{path}, line {line}: {column} {cell!r}", expected="an integer")
    return np.array([int(cell) for cell in cells], dtype=np.int64)


def _read_csv(path: Path, delimiter: str) -> pd.DataFrame:
    import pandas as pd

    header: list[str] | None = None
    lines: list[int] = []
    rows: list[list[str]] = []
    for line, cells in _csv_rows(path, delimiter):
        if header is None:
            header = cells
        elif len(cells) != len(header):
            raise TableError(
                f"{path}, line {line}: {len(cells)} cells, {_shown(cells)}",
                expected=f"{len(header)} as in the header",
                remedy="put cells that hold the delimiter in double quotes",
            )
        else:
            lines.append(line)
            rows.append(cells)
    if header is None:
        raise TableError(f"{path} is empty", expected="a header and rows")
    check_columns(path, header, ())
    table: pd.DataFrame = pd.DataFrame(rows, columns=header, index=pd.Index(lines, dtype=np.int64), dtype=str)
    return table


def _csv_rows(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The line on which each row begins, and its cells."""
    with path.open(encoding="utf-8-sig", newline="") as file, _cell_limit(LONGEST_CELL):
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        line = 1
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
            raise not_utf8(path) from None


@contextmanager
def _cell_limit(characters: int) -> Iterator[None]:
    """Raise the csv module's limit, which is global to the process, while reading."""
    earlier = csv.field_size_limit(characters)
    try:
        yield
    finally:
        csv.field_size_limit(earlier)


def _read_parquet(path: Path) -> pd.DataFrame:
    require_package("pyarrow", extra="arrow")
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        stored = pq.read_table(path)
        columns = {name: _as_text(stored.column(name)) for name in stored.column_names}
    except (pa.ArrowException, KeyError) as error:
        raise TableError(f"{path}: {error}", expected="a Parquet file of plain, differently named columns") from None
    index = pd.RangeIndex(1, stored.num_rows + 1)
    table: pd.DataFrame = pd.DataFrame(columns, index=index, columns=stored.column_names, dtype=str)
    return table


def _as_text(column: pa.ChunkedArray) -> list[str]:
    return ["" if cell is None else cell for cell in column.cast("string").to_pylist()]


def check_columns(
    path: str | os.PathLike[str], present: Sequence[str], required: Sequence[str], *, remedy: str | None = None
) -> None:
    """Refuse a table that lacks a column or has two of one name.

    Args:
        path: the file, for error messages.
        present: its columns.
        required: columns that it must have.
        remedy: what to do where no other column has a similar name.

    Raises:
        TableError: the message names the columns, and similar names for missing ones.
    """
    twice = sorted({name for name in present if present.count(name) > 1})
    if twice:
        raise TableError(f"{path} has several columns named {_shown(twice)}", expected="one of each name")
    missing = [name for name in required if name not in present]
    if missing:
        close = [match for name in missing for match in get_close_matches(name, present, n=1)]
        raise TableError(
            f"{path} has no column {_shown(missing)}",
            expected=f"it among {_shown(present)}",
            remedy=f"did you mean {_shown(close)}?" if close else remedy,
        )


def _shown(names: Sequence[str]) -> str:
    """Quoted names, shortened to fit a message."""
    quoted = [repr(name if len(name) <= 60 else name[:57] + "…") for name in names[:12]]
    return ", ".join([*quoted, "…"] if len(names) > 12 else quoted)
