"""Columns of CSV files of millions of rows, as Arrow arrays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from ...errors import TableError, require_package

BLOCK = 1 << 24  # bytes read at once; must exceed the longest row, a landmark with thousands of photographs


def read_columns(path: Path, columns: Mapping[str, Literal["text", "integer"]]) -> Any:
    """Read some columns of a CSV file with a header.

    As in :func:`hiertree.io.tables.read_table`, ``NA`` is text and an empty cell is the empty string.

    Args:
        path: the file.
        columns: their names and types.

    Returns:
        A ``pyarrow.Table`` whose columns are single chunks.

    Raises:
        TableError: a column is missing, a row is malformed, or a cell is not an integer; the message says which.
    """
    require_package("pyarrow", extra="arrow")
    import pyarrow as pa
    from pyarrow import csv

    kinds = {"text": pa.string(), "integer": pa.int64()}
    try:
        table = csv.read_csv(
            path,
            read_options=csv.ReadOptions(block_size=BLOCK),
            convert_options=csv.ConvertOptions(
                include_columns=list(columns),
                column_types={name: kinds[kind] for name, kind in columns.items()},
                null_values=[],
                strings_can_be_null=False,
            ),
        )
    except (pa.ArrowException, KeyError) as error:
        raise TableError(f"{path} ({error})", expected=f"a CSV file with columns {', '.join(columns)}") from error
    if not table.num_rows:
        raise TableError(f"{path} has no rows", expected=f"rows of {', '.join(columns)}")
    return table.combine_chunks()
