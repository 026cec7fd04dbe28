"""Frames of pandas, polars, pyarrow and whatever else narwhals reads, as columns of plain Python values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import InputError
from .tables import check_columns


def is_frame(values: Any) -> bool:
    """Whether it looks like a table with named columns; says so without importing any library.

    >>> is_frame({"kind": ["lake"]}), is_frame([["lake"]])
    (False, False)
    """
    return hasattr(type(values), "columns") and not isinstance(values, type)


def frame_columns(frame: Any, names: Sequence[str] | None = None, *, what: str = "the frame") -> dict[str, list[Any]]:
    """Columns of a frame by name, each a list of Python values; a missing value is None.

    Floats of whole numbers become integers, which frames hold so where some are missing.

    Args:
        frame: of pandas, polars, pyarrow, or another library that narwhals reads; held in memory.
        names: of the columns to read, in this order; all of them unless given.
        what: the frame, as messages call it.

    Raises:
        InputError: no frame, or one that is not yet computed, such as a LazyFrame of polars.
        TableError: a column that is not there, or two of one name; the message names similar ones.

    >>> import pandas as pd
    >>> frame_columns(pd.DataFrame({"id": [17, 4], "kind": ["lake", None]}), ["kind", "id"])
    {'kind': ['lake', None], 'id': [17, 4]}
    """
    import narwhals as nw

    if not nw.dependencies.is_into_dataframe(frame):
        lazy = hasattr(frame, "collect")
        raise InputError(
            f"{what}: a {type(frame).__module__.partition('.')[0]} {type(frame).__name__}",
            expected="a frame in memory, of pandas, polars or pyarrow",
            remedy="call its collect()" if lazy else None,
        )
    present = [str(name) for name in (frame.column_names if hasattr(frame, "column_names") else frame.columns)]
    wanted = present if names is None else [str(name) for name in names]
    check_columns(what, present, wanted)
    columns = dict(zip(present, nw.from_native(frame, eager_only=True).iter_columns(), strict=True))
    return {name: _plain(columns[name].to_list()) for name in wanted}


def _plain(cells: list[Any]) -> list[Any]:
    present = [None if is_missing(cell) else cell for cell in cells]
    whole = all(cell is None or (isinstance(cell, float) and cell.is_integer()) for cell in present)
    return [None if cell is None else int(cell) for cell in present] if whole else present


def is_missing(cell: Any) -> bool:
    """Whether a cell holds nothing: None, NaN, NaT or NA."""
    if cell is None:
        return True
    try:
        return bool(cell != cell)  # NaN and NaT
    except (TypeError, ValueError):  # pandas.NA has no truth value, nor has an array
        return not hasattr(cell, "__len__")
