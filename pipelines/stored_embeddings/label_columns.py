"""Columns that belong to embeddings: labels, ids of the images, and the pairs of a table of junk."""

from __future__ import annotations

import logging
import os
import posixpath
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hiertree import LabelTree
from hiertree.errors import EmptyLabelError, InputError, OptionError, TableError
from hiertree.io.tables import integer_column, read_table
from hiertree.tree.label_rows import is_empty

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.tree.label_rows import Where

    from .shards import Shards

PathLike = str | os.PathLike[str]
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff")
IMAGE = "image"  # the column of ids in the tables of ``hiertree embed``
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LabelColumns:
    """What the columns of a table mean."""

    levels: tuple[str, ...] = ()  # labels, coarse → fine; all columns but that of ids unless given
    ids: str | None = None  # unless given, ``image`` where a table has it and it is not among the levels
    distractors: bool = False  # whether a gallery row without any label is a distractor
    named: bool = False  # whether rows need ids, which are then those of the first column where no other is known
    needed: bool = True  # whether a table of names alone is refused

    @property
    def asked_for(self) -> list[str]:
        """The columns that a table must have."""
        return [*self.levels, *filter(None, [self.ids])]

    def id_column(self, present: Sequence[str]) -> str | None:
        """The column of ids among those of a table, if there is one."""
        if self.ids is None and IMAGE in present and IMAGE not in self.levels and len(present) > 1:
            return IMAGE
        return present[0] if self.named and self.ids is None else self.ids

    def level_columns(self, present: Sequence[str]) -> list[str]:
        """The columns of labels among those of a table."""
        levels = list(self.levels) or [name for name in present if name != self.id_column(present)]
        if not levels:
            remedy = "hiertree tree makes such a table of edges, GraphML or Newick"
            raise OptionError("a table without labels", expected="columns beside that of the names", remedy=remedy)
        if len(set(levels)) < len(levels):
            raise OptionError(f"levels {', '.join(levels)}", expected="different columns, coarse → fine")
        return levels


class LabeledRows(NamedTuple):
    """The (n, d) embeddings of one file with n tuples of labels, coarse → fine, and perhaps n ids.

    ``where`` names a row in messages.
    """

    embeddings: Any  # also :class:`hiertree.arrays.StoredRows`
    levels: tuple[str, ...]
    rows: list[tuple[str, ...]]
    where: Where
    ids: list[str] | None = None


class SharedPaths(NamedTuple):
    """The paths of queries and perhaps of a gallery in one tree, and which gallery rows have none."""

    tree: LabelTree
    queries: NDArray[Any]
    gallery: NDArray[Any] | None = None
    distractors: NDArray[np.bool_] | None = None


def rows_in_shards(shards: Shards, columns: LabelColumns) -> LabeledRows:
    """Parquet files with columns of labels, their cells as a CSV would hold them: 7 in one is 7 in the other."""
    table, file = shards.table(), shards.files[0]
    missing = [name for name in columns.asked_for if name not in table.column_names]
    if missing or not table.column_names:
        raise TableError(f"{file.name} has no column {', '.join(missing) or 'of labels'}", expected="columns of labels")

    def cells(name: str) -> list[str]:
        return ["" if cell is None else str(cell) for cell in table.column(name).to_pylist()]

    rows = _labeled(shards, table.column_names, cells, columns, shards.row_name)
    if rows.ids is not None:
        shards.check_ids(rows.ids)
    return rows


def rows_with_table(embeddings: Any, file: Path, columns: LabelColumns) -> LabeledRows:
    """Embeddings with the rows of a table of labels, one for each."""
    table = read_table(file, required=columns.asked_for)
    if np.ndim(embeddings) and len(table) != len(embeddings):
        raise InputError(f"{file.name} with {len(table)} rows", expected=f"{len(embeddings)}, one for each embedding")
    lines, present = table.index.tolist(), list(table.columns)
    return _labeled(
        embeddings, present, lambda name: table[name].tolist(), columns, lambda row: f"{file.name}, line {lines[row]}"
    )


def _labeled(
    embeddings: Any,
    present: Sequence[str],
    cells: Callable[[str], list[str]],
    columns: LabelColumns,
    where: Where,
) -> LabeledRows:
    if list(present) == [IMAGE] and not columns.levels:
        if columns.needed:
            file, remedy = (
                where(0).partition(",")[0],
                "name a table of them by --labels, or look at it by hiertree browse",
            )
            raise OptionError(f"{file} without labels", expected="columns of labels", remedy=remedy)
        return LabeledRows(embeddings, (), [], where, cells(IMAGE))
    levels, column = columns.level_columns(present), columns.id_column(present)
    ids = None if column is None else cells(column)
    if ids is not None and "" in ids:  # they would all count as the same image
        raise TableError(f"{where(ids.index(''))}: no {column}", expected="an id for every row")
    rows = list(zip(*map(cells, levels), strict=True))
    return LabeledRows(embeddings, tuple(levels), rows, where, ids)


def named_rows(file: Path, levels: Sequence[str], ids: str | None) -> LabeledRows:
    """The labels of named items, without embeddings; items whose labels are all empty are left out.

    The names stand in the column ``ids``; in ``image`` unless given, or else in the first.
    """
    read = rows_with_table(np.empty(()), file, LabelColumns(tuple(levels), ids, named=True))
    labeled = [row for row, labels in enumerate(read.rows) if not all(map(is_empty, labels))]
    if not labeled:
        raise TableError(f"{file} has no rows of labels", expected="a row for each item")
    rows, names = [read.rows[row] for row in labeled], [(read.ids or ())[row] for row in labeled]
    first: dict[str, int] = {}
    for row, name in enumerate(names):
        if first.setdefault(name, row) != row:
            given = f"{read.where(labeled[row])}: {name!r} again, as in {read.where(labeled[first[name]])}"
            remedy = "remove one, or name their column by --ids"
            raise TableError(given, expected="one row for each name", remedy=remedy)
    return read._replace(rows=rows, ids=names, where=lambda row: read.where(labeled[row]))


def shared_paths(queries: LabeledRows, gallery: LabeledRows | None, *, distractors: bool) -> SharedPaths:
    """One tree numbers the labels of both; the same text under two parents is two labels."""
    if gallery is not None and gallery.levels != queries.levels:
        given = f"levels {', '.join(queries.levels)} of the queries and {', '.join(gallery.levels)} of the gallery"
        raise OptionError(given, expected="the same columns in one order", remedy="name them with --levels")
    split = len(queries.rows)
    rows = [*queries.rows, *(gallery.rows if gallery is not None else [])]
    labeled = [row < split or not (distractors and all(map(is_empty, rows[row]))) for row in range(len(rows))]
    kept = np.flatnonzero(labeled)

    def where(position: int) -> str:
        row = int(kept[position])
        return queries.where(row) if gallery is None or row < split else gallery.where(row - split)

    listed = [rows[row] for row in kept]
    try:
        tree = LabelTree.from_paths(listed, level_names=queries.levels, leaf="path", repeats="merge", where=where)
    except EmptyLabelError as error:  # whose remedies are options of Python
        remedy = "fill it in, as hiertree tree --gaps does, or name columns without empty cells by --levels"
        raise EmptyLabelError(error.given, expected=error.expected, remedy=remedy) from None
    paths = tree.paths(listed)
    if gallery is None:
        return SharedPaths(tree, paths)
    whole = np.full((len(rows), paths.shape[1]), -1, np.int64)
    whole[kept] = paths
    unlabeled = ~np.array(labeled[split:], np.bool_) if distractors else None
    return SharedPaths(tree, whole[:split], whole[split:], unlabeled)


def check_images(*parts: LabeledRows) -> None:
    """Look for images that several rows list, where ids are names of image files.

    Rows of one id do not retrieve each other, but each counts as a query: a warning says how many there are. Two
    spellings of one path are two ids, so that an image would retrieve itself: they are refused.
    """
    spelled: dict[str, tuple[str, str]] = {}
    for part in parts:
        names = [name for name in part.ids or () if Path(name).suffix.lower() in IMAGE_SUFFIXES]
        extra = len(names) - len(set(names))
        if extra:
            _log.warning("%s: %d rows repeat an image; each counts as a query", part.where(0).partition(",")[0], extra)
        for row, name in enumerate(part.ids or ()) if names else ():
            first, place = spelled.setdefault(posixpath.normpath(name), (name, part.where(row)))
            if first != name:
                given = f"{place} and {part.where(row)}: {first!r} and {name!r} are one file"
                raise TableError(given, expected="one spelling of each path")


def junk_in_table(file: PathLike, num_queries: int) -> list[NDArray[np.int64]]:
    """For each query the gallery rows that a table of columns ``query`` and ``item`` lists; rows count from 0."""
    table = read_table(file, required=["query", "item"])
    query, item = (integer_column(table, name, path=file) for name in ("query", "item"))
    outside = np.flatnonzero((query < 0) | (query >= num_queries))
    if len(outside):
        line = f"{file}, line {table.index[outside[0]]}: query {query[outside[0]]}"
        raise TableError(line, expected=f"a row of the queries, from 0 to {num_queries - 1}")
    return junk_lists(query, item, num_queries)


def junk_lists(query: NDArray[Any], item: NDArray[Any], num_queries: int) -> list[NDArray[np.int64]]:
    """The items of each query.

    >>> [own.tolist() for own in junk_lists(np.array([1, 0, 1]), np.array([5, 6, 7]), 3)]
    [[6], [5, 7], []]
    """
    order = np.argsort(query, kind="stable")
    stops = np.cumsum(np.bincount(query, minlength=num_queries))
    return np.split(item[order].astype(np.int64), stops[:-1]) if num_queries else []
