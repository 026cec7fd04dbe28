"""Landmarks as tables list them: ids, Commons categories, and the "instance of" values scraped for them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, NamedTuple

from pydantic import Field

from hiertree.errors import OptionError, TableError
from hiertree.io.tables import check_columns, integer_column, read_table

from .settings import Settings

if TYPE_CHECKING:
    import pandas as pd

Path = str | os.PathLike[str]


class ColumnNames(Settings):
    """What the columns of the tables are called; the defaults are GLDv2's."""

    landmark_id: Annotated[
        str, Field(description="Column of the landmark ids.", json_schema_extra={"option": "id-column"})
    ] = "landmark_id"
    category: Annotated[
        str, Field(description="Column of the Commons categories.", json_schema_extra={"option": "category-column"})
    ] = "category"
    instance_of: Annotated[
        str, Field(description="Column of the 'instance of' values.", json_schema_extra={"option": "instance-column"})
    ] = "instance_of"
    item_ids: Annotated[
        str | None,
        Field(
            description="Column of the values' Wikidata ids; default: item_ids, if there is one.",
            json_schema_extra={"option": "item-column"},
        ),
    ] = None


GLDV2_COLUMNS = ColumnNames()
ITEM_IDS = "item_ids"


@dataclass(frozen=True)
class InstanceValue:
    """One "instance of" value as scraped: its text, and its Wikidata id or an empty string."""

    text: str
    item_id: str = ""


class Origin(NamedTuple):
    """Where values come from: columns that ``labels scrape`` writes, empty texts where a table lacks them."""

    item: str = ""
    languages: str = ""
    redirects: str = ""
    revision: str = ""
    modified: str = ""
    source: str = ""
    time: str = ""
    reason: str = ""


NO_ORIGIN = Origin()


@dataclass(frozen=True)
class Landmark:
    """A landmark as read; ``values`` is None when the scraped table does not list it."""

    landmark_id: int
    category: str
    values: tuple[InstanceValue, ...] | None
    origin: Origin = NO_ORIGIN


def read_landmarks(
    landmarks: Path,
    instances: Path | None = None,
    *,
    columns: ColumnNames = GLDV2_COLUMNS,
    separator: str = "|",
) -> tuple[list[Landmark], int]:
    """Read the landmark table and the scraped table, which may be one file.

    Args:
        landmarks: CSV or Parquet with ids and, unless their column has its default name and is not there, categories,
            as GLDv2's ``train_label_to_category.csv``.
        instances: CSV or Parquet with ids and "instance of" values; default: the same file.
        columns: what the columns are called.
        separator: what stands between several values of a landmark.

    Returns:
        The landmarks in the order of their table, and how many scraped ids are not among them.

    Raises:
        TableError: a missing column, a broken row, no landmark at all, an id that is no integer, negative or there
            twice; file, line and value are named.
        OptionError: an empty separator.
    """
    if not separator:
        raise OptionError("separator=''", expected="at least one character, such as '|'")
    scraped_path = landmarks if instances is None else instances
    ids, categories = read_listed(landmarks, columns=columns, needs_category=False)
    scraped = read_table(scraped_path)
    if columns.item_ids is None and ITEM_IDS in scraped.columns:  # as 'labels scrape --table' writes them
        columns = columns.model_copy(update={"item_ids": ITEM_IDS})
    needed = [columns.landmark_id, columns.instance_of, *([columns.item_ids] if columns.item_ids else [])]
    _check_columns(scraped_path, scraped, needed)
    keys = unique_ids(scraped, columns.landmark_id, scraped_path)
    values = zip(_values(scraped, columns, separator, scraped_path), _origins(scraped), strict=True)
    found = dict(zip(keys, values, strict=True))
    listed = zip(ids, categories, strict=True)
    read = [Landmark(key, category, *found.get(key, (None, NO_ORIGIN))) for key, category in listed]
    return read, len(found.keys() - set(ids))


def read_listed(
    path: Path, *, columns: ColumnNames = GLDV2_COLUMNS, needs_category: bool = True
) -> tuple[list[int], list[str]]:
    """The ids of a table of landmarks, and their categories: empty texts where a table without them will do.

    Raises:
        TableError: the table cannot be read or lists no landmark, or an id is no integer, negative or there twice.
    """
    table = read_table(path)
    named = needs_category or columns.category in table.columns or columns.category != GLDV2_COLUMNS.category
    _check_columns(path, table, [columns.landmark_id, *([columns.category] if named else [])])
    if table.empty:
        raise TableError(f"{path} lists no landmark", expected="a row for each landmark below the header")
    ids = unique_ids(table, columns.landmark_id, path)
    return ids, table[columns.category].tolist() if named else [""] * len(ids)


def _check_columns(path: Path, table: pd.DataFrame, required: list[str]) -> None:
    options = "--id-column, --category-column, --instance-column, or columns=ColumnNames(…)"
    check_columns(path, list(table.columns), required, remedy=f"say what it is called: {options}")


def unique_ids(table: pd.DataFrame, column: str, path: Path) -> list[int]:
    """A column of landmark ids, none negative, none there twice.

    Raises:
        TableError: one that is, or that is no integer; file, line and value are named.
    """
    ids: list[int] = integer_column(table, column, path=path).tolist()
    first: dict[int, int] = {}
    for line, landmark_id in zip(table.index, ids, strict=True):
        if landmark_id < 0:
            raise TableError(f"{path}, line {line}: {column} {landmark_id}", expected="an id from 0")
        if landmark_id in first:
            raise TableError(
                f"{path}, line {line}: {column} {landmark_id} again (first on line {first[landmark_id]})",
                expected="one row per landmark",
                remedy="join several values of a landmark in one cell",
            )
        first[landmark_id] = line
    return ids


def _values(
    table: pd.DataFrame, columns: ColumnNames, separator: str, path: Path
) -> Iterator[tuple[InstanceValue, ...]]:
    texts = [_split(cell, separator) for cell in table[columns.instance_of]]
    if columns.item_ids is None:
        yield from (tuple(map(InstanceValue, parts)) for parts in texts)
        return
    for line, parts, cell in zip(table.index, texts, table[columns.item_ids], strict=True):
        item_ids = _split(cell, separator) or [""] * len(parts)  # an empty cell: values whose ids are not known
        if len(item_ids) != len(parts):
            raise TableError(
                f"{path}, line {line}: {len(parts)} values but {len(item_ids)} ids in {columns.item_ids} ({cell!r})",
                expected="one id a value",
            )
        yield tuple(InstanceValue(text, item_id.strip()) for text, item_id in zip(parts, item_ids, strict=True))


def _origins(table: pd.DataFrame) -> Iterator[Origin]:
    present = [name for name in Origin._fields if name in table.columns]
    for cells in zip(*(table[name] for name in present), strict=True) if present else [()] * len(table):
        yield Origin(**dict(zip(present, cells, strict=True)))


def _split(cell: str, separator: str) -> list[str]:
    return cell.split(separator) if cell.strip() else []
