"""Runs and judgments in files that are not TREC's: tables in Parquet or CSV, and the JSON that ranx saves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hiertree.errors import TableError, require_package
from hiertree.io.tables import read_table

NAMED_BY_SUFFIX = (".parquet", ".csv", ".json")


def stored_form(path: Path) -> Any:
    """The frame in a Parquet or CSV file, or the mapping from query to item to number in a JSON file.

    Raises:
        TableError: no such file, a damaged one, or JSON of another shape.
    """
    if path.suffix == ".csv":
        return read_table(path)
    return _parquet(path) if path.suffix == ".parquet" else _json(path)


def _parquet(path: Path) -> Any:
    require_package("pyarrow", extra="arrow")
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path).to_pandas()
    except (OSError, pa.ArrowException) as error:
        raise TableError(f"{path}: {error}", expected="a readable Parquet file") from None


def _json(path: Path) -> dict[str, dict[str, float]]:
    try:
        content = json.loads(path.read_bytes(), object_pairs_hook=_without_repeats)
    except (OSError, ValueError, RecursionError) as error:
        raise TableError(f"{path}: {error}", expected="a JSON file as ranx saves it") from None
    if not isinstance(content, dict) or not all(isinstance(own, dict) for own in content.values()):
        raise TableError(f"{path}: no object of objects", expected="query → item → number, as ranx saves it")
    return content


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; a name in it twice would lose a number."""
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is listed twice")
    return dict(pairs)
