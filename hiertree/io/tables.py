"""Tables: CSV, Parquet and spreadsheets as text, large CSV files as Arrow arrays, and frames of other libraries.

Every cell of a file is text, also ``NA`` and ``007``; an empty cell is the empty string. The index of a table holds the
line on which each row begins (else the row, from 1), for later messages. The index of a frame that pandas wrote is no
column: one of integers without a name is left out, others come first, as in CSV.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import BufferedReader, TextIOWrapper
from itertools import chain, takewhile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal
from unicodedata import normalize

import numpy as np

from ..errors import InputError, TableError, nearest_name, require_package, some_of
from .files import AnyPath, open_replacing
from .reading import PARQUET_SUFFIXES, data_columns, not_utf8, read_parquet, reading_file

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

LONGEST_CELL = 1 << 22  # characters; GLDv2 lists all photos of a landmark in one cell of about 170,000
LONGEST_LINE = 1 << 26  # characters; a packed file may hold a line of any length
CSV_SUFFIXES = (".csv", ".tsv")
SHEET_SUFFIXES = (".xlsx", ".xls", ".ods")
TABLE_SUFFIXES = (*CSV_SUFFIXES, *PARQUET_SUFFIXES, *SHEET_SUFFIXES)
DELIMITERS = ";\t|"  # other delimiters, for a hint
LIST_SEPARATOR = "|"  # between the values of a list in one cell of Parquet
_PART = 20_000  # rows of a table read in parts
_BLOCK = 1 << 24  # bytes read at once; must exceed the longest row, a landmark with thousands of photographs
_MOST_UNPACKED, _MOST_RATIO = 1 << 26, 100  # bytes of a packed file, or to each of its own
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
# What pandas, spreadsheets and databases write for no value, and nobody calls a class; "NA" is Namibia.
NOTHING = frozenset(("nan", "NaN", "-nan", "[nan]", "[]", "<NA>", "NaT", "\\N", "1.#IND", "1.#QNAN")) | frozenset(
    ("#N/A", "#NA", "#REF!", "#NAME?", "#VALUE!", "#DIV/0!", "#NULL!", "#NUM!", "#ERROR!", "#SPILL!")
)
_INVISIBLE = re.compile("(?:^|(?<=\\s))[\u00ad\u200b-\u200f\u2060\ufeff]+|[\u00ad\u200b-\u200f\u2060\ufeff]+(?=\\s|$)")
_UNNAMED = re.compile(r"\s*|Unnamed: \d+|__index_level_\d+__")  # an index that pandas or R wrote
_NAME = re.compile(r"\S*[0-9]\S*|.*[^\s/]\.[A-Za-z]\w{1,4}")
_SEPARATOR_LINE = re.compile('"?sep=(.)"?[\r\n]*')  # the first, in what Excel reads


def read_table(path: AnyPath, *, required: Sequence[str] = (), needs_rows: bool = False) -> pd.DataFrame:
    """Read a CSV or Parquet file or a spreadsheet into a table of strings; the module says what cells and index are.

    CSV is UTF-8 with or without a byte-order mark, perhaps packed by gzip, bzip2, xz, zstd or zip, with lines that end
    in LF or CRLF. Quoted cells may contain delimiters, doubled quotes and line breaks. Blank lines, and columns at the
    end that are empty and without a name, are skipped. Every row has as many cells as the header. A first line
    ``sep=;`` names another delimiter. Of a spreadsheet the first sheet is read. A TableError names the file and what is
    wrong, a missing ``required`` column or a header alone where the table ``needs_rows`` among it.
    """
    table = next(read_table_parts(path, required=required, rows_at_once=sys.maxsize))
    if needs_rows and table.empty:
        raise TableError(f"{path} has no rows", expected="rows below the header")
    return table


def read_table_parts(
    path: AnyPath, *, required: Sequence[str] = (), rows_at_once: int = _PART
) -> Iterator[pd.DataFrame]:
    """As :func:`read_table`, some rows at a time (at least one part), so that a long CSV file takes little memory."""
    file = Path(path)
    if not file.is_file():
        raise TableError(f"{file}", expected="an existing CSV or Parquet file")
    suffix = file.suffix.lower()
    if suffix in PARQUET_SUFFIXES:
        chunks: Iterable[pd.DataFrame] = [_read_parquet(file)]
    else:
        chunks = [_read_sheet(file)] if suffix in SHEET_SUFFIXES else _csv_parts(file, suffix, rows_at_once)
    for chunk in chunks:
        table = _without_index(chunk, required)
        check_columns(file, list(table.columns), required)
        yield table


def table_suffix(path: AnyPath) -> str:
    """The suffix of a table's name in small letters, without that of its packing.

    >>> table_suffix("labels.CSV.gz"), table_suffix("labels.pq")
    ('.csv', '.pq')
    """
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    return next((suffix for suffix in reversed(suffixes) if suffix not in _OPENERS), "")


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


def _csv_parts(path: Path, suffix: str, max_rows: int) -> Iterator[pd.DataFrame]:
    header: list[str] | None = None
    lines: list[int] = []
    rows: list[list[str]] = []
    for line, cells in _csv_rows(path, suffix):
        if header is None:
            header = cells
            width = max((column for column, name in enumerate(header, start=1) if name.strip()), default=len(header))
            delimiter_remedy = _other_delimiter(header)
        elif delimiter_remedy and any(header[0].count(sign) == cells[0].count(sign) > 0 for sign in DELIMITERS):
            raise TableError(
                f"{path} has one column, {_shorten(header)}", expected="several columns", remedy=delimiter_remedy
            )
        elif len(cells) != len(header):
            problem = f"{path}, line {line}: {len(cells)} cells, {_shorten(cells)}"
            remedy = delimiter_remedy or "put cells that hold the delimiter in double quotes"
            raise TableError(problem, expected=f"{len(header)} as in the header", remedy=remedy)
        elif any(map(str.strip, cells[width:])):
            raise TableError(f"{path}, line {line}: {_shorten(cells[width:])}", expected="a name for each column")
        else:
            lines.append(line)
            rows.append(cells[:width])
            if len(rows) == max_rows:
                yield _text_table(header[:width], lines, rows)
                lines, rows = [], []
    if header is None:
        raise TableError(f"{path} is empty", expected="a header and rows")
    yield _text_table(header[:width], lines, rows)


def _text_table(header: list[str], lines: list[int], rows: list[list[str]]) -> pd.DataFrame:
    import pandas as pd

    table: pd.DataFrame = pd.DataFrame(rows, columns=header, index=pd.Index(lines, dtype=np.int64), dtype=str)
    return table


def _csv_rows(path: Path, suffix: str) -> Iterator[tuple[int, list[str]]]:
    """The line on which each row begins, and its cells."""
    with (
        reading_file(path, expected="a CSV file, packed by gzip, bzip2, xz, zstd or zip if its name says so"),
        open_unpacked(path, suffix) as binary,
        TextIOWrapper(binary, encoding="utf-8-sig", newline="") as file,  # type: ignore[type-var, unused-ignore]
    ):
        text_lines = _bounded_lines(file, path)
        previous_limit = csv.field_size_limit(LONGEST_CELL)  # the limit is global to the process
        line = 1
        try:
            first = next(text_lines, "")
            separator = _SEPARATOR_LINE.fullmatch(first)
            tab = "\t" if table_suffix(path) == ".tsv" else ","
            skipped = int(separator is not None)
            line += skipped
            reader = csv.reader(
                text_lines if separator else chain([first], text_lines),
                strict=True,
                delimiter=separator[1] if separator else tab,
            )
            for cells in reader:
                if any("\0" in cell for cell in cells):  # Python 3.10's csv refuses it itself
                    raise TableError(f"{path}, line {line}: a NUL character", expected="text")
                if cells:
                    yield line, cells
                line = skipped + reader.line_num + 1
        except csv.Error as error:
            raise TableError(f"{path}, line {line}: {error}", expected="well-formed CSV") from None
        except UnicodeDecodeError:
            raise not_utf8(path, line=line if suffix in _OPENERS else None) from None
        finally:
            csv.field_size_limit(previous_limit)


def open_unpacked(path: Path, suffix: str | None = None) -> Any:
    """A stream of the bytes of a file, unpacked as its suffix says; refuses a small file that unpacks to a huge one."""
    unpack = _OPENERS.get(path.suffix.lower() if suffix is None else suffix)
    if unpack is None:
        return path.open("rb")
    size, unpacked = path.stat().st_size, 0
    with unpack(path, "rb") as stream:
        while block := stream.read(1 << 20):
            unpacked += len(block)
            if unpacked > max(_MOST_UNPACKED, _MOST_RATIO * size):
                expected = f"at most {_MOST_RATIO} times as many"
                raise TableError(f"{path}: {size:,} bytes unpack to more than {unpacked:,}", expected=expected)
    return unpack(path, "rb")


def _open_zipped(path: Path, _: str) -> IO[bytes]:
    archive = zipfile.ZipFile(path)
    names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX/")]
    if len(names) != 1 or "xl/workbook.xml" in names:
        archive.close()
        raise TableError(f"{path} with {some_of(names)}", expected="one CSV file in the archive")
    return archive.open(names[0])


def _open_zstandard(path: Path, _: str) -> Any:
    require_package("pyarrow", extra="arrow")
    import pyarrow as pa

    return BufferedReader(pa.CompressedInputStream(path.open("rb"), "zstd"))


_OPENERS: Mapping[str, Callable[..., Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zip": _open_zipped,
    ".zst": _open_zstandard,
}
PACKED_SUFFIXES = tuple(_OPENERS)


def _bounded_lines(file: IO[str], path: Path) -> Iterator[str]:
    """The lines, each refused before it is longer than a table's rows are."""
    while line := file.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE:
            raise TableError(f"{path}: a line of {LONGEST_LINE:,} characters or more", expected="a row on each line")
        yield line


def _without_index(table: pd.DataFrame, required: Sequence[str]) -> pd.DataFrame:
    """The table without the columns at its beginning by which pandas and R number rows: unnamed, and of integers."""
    unnamed = len([*takewhile(_UNNAMED.fullmatch, table.columns)])
    table.columns = [*(f"Unnamed: {column}" for column in range(unnamed)), *table.columns[unnamed:]]
    indexes = [
        name
        for name in table.columns[: min(unnamed, table.shape[1] - 1)]
        if name not in required and all(map(_INTEGER.fullmatch, table[name]))
    ]
    data: pd.DataFrame = table.drop(columns=indexes) if indexes else table
    return data


def _read_sheet(path: Path) -> pd.DataFrame:
    require_package("python_calamine", extra="arrow")
    import pandas as pd

    with reading_file(path, expected="a spreadsheet that pandas reads"):
        sheet = pd.read_excel(path, engine="calamine", dtype=str, na_filter=False).astype(str).rename(columns=str)
    empty = [name for name in sheet.columns if _UNNAMED.fullmatch(name) and not sheet[name].str.strip().any()]
    sheet = sheet.drop(columns=empty).set_axis(pd.RangeIndex(2, len(sheet) + 2))
    table: pd.DataFrame = sheet[sheet.apply(lambda column: column.str.strip() != "").any(axis=1)]
    return table


def _read_parquet(path: Path) -> pd.DataFrame:
    import pandas as pd

    expected = "a Parquet file of plain, differently named columns"
    arrow_table = read_parquet(path, expected=expected)
    with reading_file(path, expected=expected):
        check_columns(path, arrow_table.column_names, ())
        names = data_columns(arrow_table.schema)
        columns = {name: arrow_texts(arrow_table.column(name)) for name in names}
    lines = pd.RangeIndex(1, arrow_table.num_rows + 1)
    table: pd.DataFrame = pd.DataFrame(columns, index=lines, columns=names, dtype=object)
    return table


def arrow_texts(column: Any) -> NDArray[Any]:
    """The cells of a column of Arrow as texts; a null or NaN is empty, and a list its texts between bars."""
    import pyarrow as pa
    import pyarrow.compute as compute

    if pa.types.is_list(column.type) and pa.types.is_string(column.type.value_type):
        column = compute.binary_join(column, LIST_SEPARATOR)
    if isinstance(column, pa.ChunkedArray):
        column = column.unify_dictionaries().combine_chunks()
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    missing = coded.dictionary.is_null(nan_is_null=True)
    texts = compute.if_else(missing, "", coded.dictionary.cast("string")).to_pylist()
    # Equal cells share one object: a column of few labels takes 8 bytes a cell.
    cells: NDArray[Any] = np.array([*texts, ""], object)[coded.indices.fill_null(len(texts)).to_numpy()]
    return cells


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
    return {name: plain_cells(columns[name].to_list()) for name in requested_names}


def plain_cells(cells: list[Any]) -> list[Any]:
    """Cells of a frame; None for a missing one, and integers for floats that are all whole numbers."""
    values = [None if is_missing(cell) else cell for cell in cells]
    is_integral = all(cell is None or (isinstance(cell, float) and cell.is_integer()) for cell in values)
    return [None if cell is None else int(cell) for cell in values] if is_integral else values


def is_empty(label: object) -> bool:
    """True for None, NaN, pandas' NA, text without a visible character, and what programs write for nothing.

    >>> [is_empty(label) for label in ("NA", "#N/A", " ")]
    [False, True, True]
    """
    return label in NOTHING or not label.strip() if isinstance(label, str) else is_missing(label)


def label_text(text: str) -> str:
    r"""The text in Unicode's composed form (NFC), without invisible signs at the ends of its words.

    >>> label_text("cafe\u0301"), label_text("lake\u200d house")
    ('café', 'lake house')
    """
    return text if text.isascii() else _INVISIBLE.sub("", normalize("NFC", text))


def are_names(cells: Sequence[object]) -> bool:
    """Whether cells name the rows of a table: two or more, all different, and each looks like a file or an id.

    An id has a digit and no white space.

    >>> are_names(["a.jpg", "b.jpg"]), are_names(["Q42", "Q5"]), are_names(["lake", "peak"])
    (True, True, False)
    """
    sample = cells[:1000]  # usually enough to see that labels repeat
    is_different = 1 < len(sample) == len(set(sample)) and len(cells) == len(set(cells))
    return is_different and all(map(_NAME.fullmatch, map(str, cells)))


def is_missing(cell: Any) -> bool:
    """Whether a cell is None, NaN, NaT or NA."""
    if cell is None:
        return True
    try:
        return bool(cell != cell)  # NaN and NaT
    except (TypeError, ValueError):  # pandas.NA has no truth value, nor has an array
        return not hasattr(cell, "__len__")
