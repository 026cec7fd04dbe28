"""Tables with one column per level, as label trees are published: CSV and Parquet."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

from ..errors import OptionError
from ..io.tables import frame_columns, read_table, write_table
from .label_rows import Row, Where, trimmed

H_GLDV2_LEVELS = ("natural_or_human_made", "hierarchical_label", "landmark_id")


def read_label_table(
    path: str | os.PathLike[str], levels: Sequence[str], *, trim: bool = False
) -> tuple[list[Row], Where]:
    """The named columns of a CSV or Parquet file as rows of labels, and a function that names row i in messages.

    Args:
        path: the file.
        levels: column names, coarse → fine. The last column becomes integers when every cell is written as one.
        trim: whether to drop the empty cells at the end of a row.

    Raises:
        OptionError: no levels, or one named twice.
        TableError: the file cannot be read, lacks a column, or has no rows.
    """
    check_level_columns(levels)
    table = read_table(path, required=levels, needs_rows=True)
    columns: list[Sequence[Hashable]] = [table[name].tolist() for name in levels]
    columns[-1] = as_integers(columns[-1])
    rows = [trimmed(row) if trim else row for row in zip(*columns, strict=True)]
    name, lines = Path(path).name, table.index.tolist()
    return rows, lambda row: f"{name}, line {lines[row]}"


def read_label_frame(frame: Any, levels: Sequence[str] | None, *, trim: bool) -> tuple[Sequence[str], list[Row], Where]:
    """As :func:`read_label_table`, for a frame in memory, whose labels stay as they are; and the names of the levels.

    Raises:
        OptionError: no levels, or one named twice.
        InputError: no frame.
        TableError: the frame lacks a column.
    """
    if levels is not None:
        check_level_columns(levels)
    columns = frame_columns(frame, levels)
    names = list(columns)
    check_level_columns(names)
    rows = zip(*columns.values(), strict=True)
    return names, [trimmed(row) if trim else row for row in rows], lambda row: f"the frame, row {row}"


def check_level_columns(levels: Any) -> None:
    """Refuse what is not a list of one or more different column names.

    Raises:
        OptionError: one text instead of a list, no name, an empty one, or one twice.
    """
    named = isinstance(levels, Sequence) and bool(levels) and all(isinstance(name, str) and name for name in levels)
    if isinstance(levels, str) or not named or len(set(levels)) != len(levels):
        raise OptionError(f"levels={levels!r}", expected="a list of one or more different columns, coarse → fine")


def write_label_table(
    path: str | os.PathLike[str], rows: Sequence[Row], leaf_ids: Sequence[Hashable], level_names: Sequence[str]
) -> None:
    """Write one line per leaf under the level names; a last column ``leaf_id`` where ids and finest labels differ."""
    if all(row[-1] == leaf for row, leaf in zip(rows, leaf_ids, strict=True)):
        write_table(path, level_names, rows)
    else:
        with_ids = ((*row, leaf) for row, leaf in zip(rows, leaf_ids, strict=True))
        write_table(path, [*level_names, "leaf_id"], with_ids)


def as_integers(column: Sequence[Hashable]) -> Sequence[Hashable]:
    """The column as integers if every cell is one in its shortest form ("17", not "017")."""
    return [int(str(cell)) for cell in column] if all(map(_is_canonical_integer, column)) else column


def _is_canonical_integer(cell: Hashable) -> bool:
    return isinstance(cell, int) or (
        isinstance(cell, str) and cell.isascii() and cell.isdigit() and str(int(cell)) == cell
    )
