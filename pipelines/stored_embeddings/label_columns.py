"""Columns that accompany embeddings: labels, image ids, and pairs of junk items."""

from __future__ import annotations

import logging
import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hiertree import LabelTree
from hiertree.arrays import check_order
from hiertree.datasets.labels_to_paths import label_paths
from hiertree.datasets.readers.images import IMAGE_SUFFIXES
from hiertree.errors import EmptyLabelError, InputError, OptionError, TableError
from hiertree.io.files import AnyPath
from hiertree.io.tables import check_columns, integer_column, line_names, read_table
from hiertree.level_columns import ADDED, repeated_labels
from hiertree.tree.label_rows import Uneven, is_empty

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from hiertree.tree.label_rows import Where

    from .shards import Shards

IMAGE = "image"  # the column of ids in what ``hiertree embed`` writes
SPLIT, QUERY, GALLERY = "split", "query", "gallery"  # the column that tells queries from their gallery, and its values
_IMAGE_FILE = rf"(?i)[^/](?:{'|'.join(map(re.escape, IMAGE_SUFFIXES))})/*$"
_ODD_PATH = r"^\.|//|/\.|/$"  # what normpath may change
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LabelColumns:
    """The roles of a table's columns."""

    levels: tuple[str, ...] = ()  # labels, coarse → fine; unless given, all columns but ids and what hiertree added
    ids: str | None = None  # unless given, ``image`` where a table has it and it is not among the levels
    distractors: bool = False  # whether a gallery row without any label is a distractor
    named: bool = False  # whether rows need ids, which are then those of the first column where no other is known
    needed: bool = True  # whether a table of names alone is refused

    @property
    def asked_for(self) -> list[str]:
        """The required columns."""
        return [*self.levels, *filter(None, [self.ids])]

    def id_column(self, names: Sequence[str]) -> str | None:
        """The column of ids among those of a table, if there is one."""
        if self.ids is None and IMAGE in names and IMAGE not in self.levels and len(names) > 1:
            return IMAGE
        return names[0] if self.named and self.ids is None else self.ids

    def level_columns(self, names: Sequence[str]) -> list[str]:
        """The columns of labels among those of a table."""
        levels = list(self.levels) or [name for name in names if name not in (self.id_column(names), *ADDED)]
        if not levels:
            remedy = "hiertree tree makes such a table of edges, GraphML or Newick"
            raise OptionError("a table without labels", expected="columns besides that of the names", remedy=remedy)
        if len(set(levels)) < len(levels):
            raise OptionError(f"levels {', '.join(levels)}", expected="different columns, coarse → fine")
        return levels


class LabeledRows(NamedTuple):
    """The (n, d) embeddings of one file with n labels at each level, coarse → fine, and perhaps n ids.

    ``where`` names a row in messages.
    """

    embeddings: Any  # also :class:`hiertree.arrays.StoredRows`
    levels: tuple[str, ...]
    labels: Sequence[pd.Categorical]
    where: Where
    ids: Any = None  # an array of pandas that holds text, or None
    by_default: bool = False  # whether the levels are all columns rather than those that were named

    def select(self, rows: NDArray[np.int64], embeddings: Any) -> LabeledRows:
        """Some of the rows, with their embeddings."""
        return self._replace(
            embeddings=embeddings,
            labels=[column[rows] for column in self.labels],
            ids=None if self.ids is None else self.ids[rows],
            where=lambda row: self.where(int(rows[row])),
        )


class PathsInOneTree(NamedTuple):
    """The paths of queries and perhaps of a gallery in one tree, and the gallery rows without labels."""

    tree: LabelTree | None  # None where there are no labels, and all paths are 0
    queries: NDArray[Any]
    gallery: NDArray[Any] | None = None
    distractors: NDArray[np.bool_] | None = None


def rows_in_shards(shards: Shards, columns: LabelColumns) -> LabeledRows:
    """Parquet files with columns of labels, their cells as a CSV would hold them: 7 in one is 7 in the other."""
    check_columns(shards.files[0].name, shards.columns, columns.asked_for)
    rows = _labeled(shards, shards.columns, shards.texts, columns, shards.row_name)
    if rows.ids is not None:
        shards.check_ids(rows.ids, gallery_mask(shards, columns))
    return rows


def gallery_mask(shards: Shards, columns: LabelColumns) -> NDArray[np.bool_]:
    """(n,) booleans: the row's column ``split`` says gallery, where the rows are queries and their gallery."""
    import pandas as pd

    if SPLIT not in shards.columns or SPLIT in columns.asked_for:
        return np.zeros(len(shards), np.bool_)
    splits = pd.Categorical(shards.texts(SPLIT))
    return np.asarray((splits == GALLERY) & (set(splits.categories) == {QUERY, GALLERY}))


def rows_with_table(embeddings: Any, file: Path, columns: LabelColumns) -> LabeledRows:
    """Embeddings with the rows of a table of labels, one for each."""
    table = read_table(file, required=columns.asked_for)
    if np.ndim(embeddings) and len(table) != len(embeddings):
        raise InputError(f"{file.name} with {len(table)} rows", expected=f"{len(embeddings)}, one for each embedding")
    return _labeled(
        embeddings, list(table.columns), lambda name: table[name].array, columns, line_names(table.iloc[:, :0], file)
    )


def _labeled(
    embeddings: Any, names: Sequence[str], texts: Callable[[str], Any], columns: LabelColumns, place_of: Where
) -> LabeledRows:
    import pandas as pd

    if IMAGE in names and set(names) <= set(ADDED) and not columns.levels:
        if columns.needed:
            file = place_of(0).partition(",")[0]
            remedy = "name a table of them by --labels, or look at it by hiertree browse"
            raise OptionError(f"{file} without labels", expected="columns of labels", remedy=remedy)
        return LabeledRows(embeddings, (), [], place_of, texts(IMAGE))
    levels, column = columns.level_columns(names), columns.id_column(names)
    ids = None if column is None else texts(column)
    unnamed: Any = [] if ids is None else np.flatnonzero(ids == "")
    if len(unnamed):  # they would all count as the same image
        raise TableError(f"{place_of(int(unnamed[0]))}: no {column}", expected="an id for every row")
    labels = [pd.Categorical(texts(level)) for level in levels]
    return LabeledRows(embeddings, tuple(levels), labels, place_of, ids, by_default=not columns.levels)


def named_rows(file: Path, levels: Sequence[str], ids: str | None) -> LabeledRows:
    """The labels of named items, without embeddings; items whose labels are all empty are left out.

    The names stand in the column ``ids``; in ``image`` unless given, or else in the first.
    """
    import pandas as pd

    table = rows_with_table(np.empty(()), file, LabelColumns(tuple(levels), ids, named=True))
    rows = np.flatnonzero(~_unlabeled(table.labels))
    if not len(rows):
        raise TableError(f"{file} has no rows of labels", expected="a row for each item")
    items = table.select(rows, table.embeddings)
    number = pd.factorize(items.ids)[0]
    first = np.unique(number, return_index=True)[1][number]
    repeats = np.flatnonzero(first < np.arange(len(first)))
    if items.ids is not None and len(repeats):
        row = int(repeats[0])
        problem = f"{items.where(row)}: {items.ids[row]!r} again, as in {items.where(int(first[row]))}"
        remedy = "remove one, or name their column by --ids"
        raise TableError(problem, expected="one row for each name", remedy=remedy)
    return items


def _unlabeled(labels: Sequence[pd.Categorical]) -> NDArray[np.bool_]:
    """(n,) booleans: all labels of the row are empty."""
    empty = [np.array([*map(is_empty, column.categories)], np.bool_)[column.codes] for column in labels]
    mask: NDArray[np.bool_] = np.logical_and.reduce(empty)
    return mask


def paths_in_one_tree(
    queries: LabeledRows, gallery: LabeledRows | None, *, distractors: bool = False, uneven: Uneven = "error"
) -> PathsInOneTree:
    """One tree numbers the labels of both; the same text under two parents is two labels."""
    from pandas.api.types import union_categoricals

    if gallery is not None and gallery.levels != queries.levels:
        problem = f"levels {', '.join(queries.levels)} of the queries and {', '.join(gallery.levels)} of the gallery"
        raise OptionError(problem, expected="the same columns in the same order", remedy="name them with --levels")
    parts = [queries] if gallery is None else [queries, gallery]
    if not queries.levels:
        zeros: Any = (np.zeros((len(part.embeddings), 1), np.int32) for part in parts)
        return PathsInOneTree(None, *zeros)
    split = len(queries.labels[0])
    labels = [union_categoricals(list(sides)) for sides in zip(*(part.labels for part in parts), strict=True)]
    unlabeled = _unlabeled(labels) if distractors else np.zeros(len(labels[0]), np.bool_)
    unlabeled[:split] = False
    rows = np.flatnonzero(~unlabeled)

    def where(position: int) -> str:
        row = int(rows[position])
        return queries.where(row) if gallery is None or row < split else gallery.where(row - split)

    columns = [column[rows] for column in labels]
    try:
        tree, paths = label_paths(columns, level_names=queries.levels, leaf="path", uneven=uneven, where=where)
    except EmptyLabelError as error:  # whose remedies are options of Python
        remedy = "fill it in, as hiertree tree --gaps does, name columns without empty cells by --levels, or pass "
        remedy += "--uneven unknown if the rest of a row is"
        raise EmptyLabelError(error.given, expected=error.expected, remedy=remedy) from None
    codes = np.stack([column.codes.astype(np.int64) for column in columns], axis=1)
    codes = codes if uneven == "error" else codes[paths[:, -1] >= 0]
    check_order([codes], queries.levels)
    if queries.by_default:
        file = queries.where(0).partition(",")[0]
        _log.info("%s: levels %s; name others by --levels", file, " → ".join(queries.levels))
        if text := repeated_labels(queries.levels, codes):
            _log.warning("%s: %s", file, text)
    if gallery is None:
        return PathsInOneTree(tree, paths)
    all_paths = np.full((len(unlabeled), paths.shape[1]), -1, np.int64)
    all_paths[rows] = paths
    return PathsInOneTree(tree, all_paths[:split], all_paths[split:], unlabeled[split:] if distractors else None)


def check_images(*parts: LabeledRows) -> None:
    """Look for images that several rows list, where ids are names of image files.

    Rows of one id do not retrieve each other, but each counts as a query: a warning says how many there are. Two
    spellings of one path are two ids, so that an image would retrieve itself: they are refused.
    """
    import pandas as pd

    id_columns = [(part, pd.Series(part.ids)) for part in parts if part.ids is not None]
    id_columns = [(part, names) for part, names in id_columns if names.str.contains(_IMAGE_FILE).any()]
    for part, names in id_columns:
        if extra := int(names[names.str.contains(_IMAGE_FILE)].duplicated().sum()):
            _log.warning("%s: %d rows repeat an image; each counts as a query", part.where(0).partition(",")[0], extra)
    odd_names = {name for _, names in id_columns for name in names[names.str.contains(_ODD_PATH)].unique()}
    looked_at = odd_names.union(map(posixpath.normpath, odd_names))
    spelled: dict[str, tuple[str, str]] = {}
    for part, names in id_columns:
        for row, name in names[names.isin(looked_at)].items():
            first, place = spelled.setdefault(posixpath.normpath(name), (name, part.where(row)))
            if first != name:
                problem = f"{place} and {part.where(row)}: {first!r} and {name!r} are one file"
                raise TableError(problem, expected="one spelling of each path")


def junk_in_table(file: AnyPath, num_queries: int) -> list[NDArray[np.int64]]:
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
