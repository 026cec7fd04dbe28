"""Columns that accompany embeddings: labels, image ids, and pairs of junk items."""

from __future__ import annotations

import logging
import posixpath
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from hiertree import LabelTree
from hiertree.arrays import check_order
from hiertree.errors import InputError, OptionError, TableError
from hiertree.io.files import IMAGE_SUFFIXES, AnyPath
from hiertree.io.tables import are_names, check_columns, integer_column, is_empty, line_names, read_table
from hiertree.level_columns import ADDED, are_shared, name_columns, repeated_labels, roles_of, split_columns
from hiertree.options import Uneven
from hiertree.tree.label_rows import suggest_separator
from hiertree.tree.label_tree import label_paths

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from hiertree.tree.label_rows import Where

    from .shards import Shards

    _Join: TypeAlias = tuple[str, NDArray[np.int64]]  # a column of names, and rows

IMAGE = "image"  # the column of ids in what ``hiertree embed`` writes
SPLIT, QUERY, GALLERY = "split", "query", "gallery"  # the column that tells queries from their gallery, and its values
_IMAGE_FILE = rf"(?i)[^/](?:{'|'.join(map(re.escape, IMAGE_SUFFIXES))})/*$"
_IMAGE_NAME = re.compile(_IMAGE_FILE)
_WHOLE_FLOAT = re.compile(r"-?[0-9]+\.0")
_ODD_PATH = r"^\.|//|/\.|/$"  # what normpath may change
_log = logging.getLogger(__name__)


class LabelColumns(NamedTuple):
    """The roles of a table's columns."""

    levels: tuple[str, ...] = ()  # labels, coarse → fine; unless given, all columns but names and what hiertree added
    ids: str | None = None  # unless given, ``image``, or the first column that names rows
    named: bool = False  # whether rows need ids, which are then those of the first column where no other is known
    needed: bool = True  # whether a table of names alone is refused

    @property
    def required(self) -> list[str]:
        """The columns that are asked for."""
        return [*self.levels, *filter(None, [self.ids])]

    def id_column(self, names: Sequence[str], texts: Callable[[str], Any]) -> str | None:
        """The column of ids among those of a table, if one is known by its name, or if rows need them."""
        if self.ids is None and IMAGE in names and IMAGE not in self.levels and len(names) > 1:
            return IMAGE
        if self.ids is not None or not self.named:
            return self.ids
        return self.name_column(names, texts) or names[0]

    def name_column(self, names: Sequence[str], texts: Callable[[str], Any]) -> str | None:
        """The ids that were asked for, else ``image`` or the first other column that names rows, if there is one."""
        names = [name for name in names if name not in self.levels]
        image = IMAGE if IMAGE in names else None
        return self.ids or image or next((name for name in names if are_names(texts(name))), None)


class EmbeddedImages(NamedTuple):
    """Images, queries or gallery: their embeddings with paths, or with labels until these are numbered.

    The names are those of the arrays in an ``.npz`` file.
    """

    embeddings: Any = None  # (n, d); also :class:`hiertree.arrays.StoredRows`
    paths: Any = None  # (n, L), coarse → fine
    ids: Any = None  # a query never retrieves an item of its own id
    names: Any = None
    junk: Any = None  # for each query, the rows of the gallery that its list leaves out
    distractors: Any = None  # (n,) booleans, True for items without a label
    levels: tuple[str, ...] = ()  # names of the columns of labels
    labels: Sequence[pd.Categorical] = ()  # n at each level, coarse → fine
    where: Where = str  # names a row in messages
    by_default: bool = False  # whether the levels are all columns rather than those that were named
    name_columns: tuple[str, ...] = ()  # columns that name the rows

    @property
    def image_names(self) -> list[str] | None:
        """The names, or else the ids, as text."""
        names = self.ids if self.names is None else self.names
        return None if names is None else list(map(str, names))

    @property
    def row_names(self) -> list[str] | None:
        """The names; without them the rows of the table of labels, if there is one."""
        rows = list(map(self.where, range(len(self.paths)))) if self.levels else None
        return self.image_names or rows

    def select(self, rows: NDArray[np.int64], embeddings: Any) -> EmbeddedImages:
        """Some of the rows, with their embeddings."""
        return self._replace(
            embeddings=embeddings,
            labels=[column[rows] for column in self.labels],
            ids=None if self.ids is None else self.ids[rows],
            where=lambda row: self.where(int(rows[row])),
        )


def rows_in_shards(shards: Shards, columns: LabelColumns) -> EmbeddedImages:
    """Parquet files with columns of labels, their cells as a CSV would hold them: 7 in one is 7 in the other."""
    check_columns(shards.files[0].name, shards.columns, columns.required)
    rows = _labeled(shards, shards.columns, shards.texts, columns, shards.row_name)
    if rows.ids is not None:
        shards.check_ids(rows.ids, gallery_mask(shards, columns))
    return rows


def gallery_mask(shards: Shards, columns: LabelColumns) -> NDArray[np.bool_]:
    """(n,) booleans: the row's column ``split`` says gallery, where the rows are queries and their gallery."""
    import pandas as pd

    if SPLIT not in shards.columns or SPLIT in columns.required:
        return np.zeros(len(shards), np.bool_)
    splits = pd.Categorical(shards.texts(SPLIT))
    return np.asarray((splits == GALLERY) & (set(splits.categories) == {QUERY, GALLERY}))


def rows_with_table(embeddings: Any, file: Path, columns: LabelColumns) -> EmbeddedImages:
    """Embeddings with the rows of a table of labels: those of their names where both have names, else in its order."""
    table = read_table(file, required=columns.required)
    join = _rows_by_name(embeddings, table, file.name, columns) if getattr(embeddings, "columns", ()) else None
    if join is not None:
        columns, table = columns._replace(ids=join[0]), table.iloc[join[1]]
    elif np.ndim(embeddings) and len(table) != len(embeddings):
        raise InputError(f"{file.name} with {len(table)} rows", expected=f"{len(embeddings)}, one for each embedding")
    return _labeled(
        embeddings, list(table.columns), lambda name: table[name].array, columns, line_names(table.iloc[:, :0], file)
    )


def _rows_by_name(shards: Shards, table: pd.DataFrame, file: str, columns: LabelColumns) -> _Join | None:
    """The table's names, and its row for each embedding; None where names of another kind leave only their order."""
    import pandas as pd

    common = [name for name in shards.columns if name in table.columns and name not in columns.levels]
    stored_column = LabelColumns().name_column(shards.columns, shards.texts)
    table_column = columns.name_column(list(table.columns), lambda name: table[name].array)
    stored_column = table_column if table_column in common else stored_column
    table_column = stored_column if table_column is None and stored_column in common else table_column
    if stored_column is None or table_column is None:
        return None
    stored_names, table_names = (
        pd.Index(np.asarray(_whole_numbers(pd.Categorical(cells)), object))
        for cells in (shards.texts(stored_column), table[table_column].array)
    )
    if stored_names.equals(table_names):
        return table_column, np.arange(len(table))
    images = stored_names.unique()
    missing = images[~images.isin(table_names)]
    summary = f"{file}, {table_column}, names {len(images) - len(missing)} of {len(images)} images"
    is_other_kind = stored_column != table_column and not all(map(_IMAGE_NAME.search, table_names))
    if len(missing) == len(images) and is_other_kind:
        _log.warning("%s: rows are joined in their order", summary)
        return None
    if len(missing):
        remedy = f"make names alike, as {missing[0]!r} and {table_names[0]!r}, or remove the column to join in order"
        raise TableError(summary, expected=f"a row for each, {missing[0]!r} among them", remedy=remedy)
    if not table_names.is_unique:
        problem = f"{file}: {table_names[table_names.duplicated()][0]!r} twice in {table_column}"
        raise TableError(problem, expected="one row for each name, as rows stand in another order than embeddings")
    return table_column, np.asarray(table_names.get_indexer(stored_names), np.int64)


def _labeled(
    embeddings: Any, names: Sequence[str], texts: Callable[[str], Any], columns: LabelColumns, where: Where
) -> EmbeddedImages:
    import pandas as pd

    id_column = columns.id_column(names, texts)
    levels = columns.levels or tuple(name for name in names if name not in (id_column, *ADDED))
    if not levels and columns.needed:
        remedy = "name a table of them by --labels; hiertree tree makes one of edges or GraphML, browse shows images"
        raise OptionError(f"{_file(where)} without labels", expected="columns of labels", remedy=remedy)
    if len(set(levels)) < len(levels):
        raise OptionError(f"levels {', '.join(levels)}", expected="different columns, coarse → fine")
    ids = None if id_column is None else texts(id_column)
    unnamed: Any = [] if ids is None else np.flatnonzero(ids == "")
    if len(unnamed):  # they would all count as the same image
        raise TableError(f"{where(int(unnamed[0]))}: no {id_column}", expected="an id for every row")
    return EmbeddedImages(
        embeddings,
        ids=ids,
        levels=levels,
        labels=[_whole_numbers(pd.Categorical(texts(level))) for level in levels],
        where=where,
        by_default=not columns.levels,
        name_columns=() if id_column is None else (id_column,),
    )


def _file(where: Where) -> str:
    return where(0).partition(",")[0]


def _whole_numbers(labels: pd.Categorical) -> pd.Categorical:
    """Labels without the ".0" that pandas writes behind all integers of a column where one is missing."""
    texts = [text for text in labels.categories if text]
    is_float = bool(texts) and all(map(_WHOLE_FLOAT.fullmatch, texts))
    return labels.rename_categories(lambda text: text.removesuffix(".0")) if is_float else labels


def _without_names(image_sets: Sequence[EmbeddedImages]) -> list[EmbeddedImages]:
    """The image_sets without levels that name rows; the first of these becomes the ids where none are known."""
    levels = image_sets[0].levels
    columns = [[images.labels[column] for images in image_sets] for column in range(len(levels))]
    name_indices = name_columns(columns) if all(images.by_default for images in image_sets) else []
    if not name_indices:
        return list(image_sets)
    is_id = not are_shared(columns[name_indices[0]]) or all(map(_IMAGE_NAME.search, columns[name_indices[0]][0]))
    names = tuple(levels[column] for column in name_indices)
    return [
        images._replace(
            ids=np.asarray(images.labels[name_indices[0]], object) if images.ids is None and is_id else images.ids,
            levels=tuple(level for level in levels if level not in names),
            labels=[labels for column, labels in enumerate(images.labels) if column not in name_indices],
            name_columns=(*images.name_columns, *names),
        )
        for images in image_sets
    ]


def named_rows(file: Path, levels: Sequence[str], ids: str | None) -> EmbeddedImages:
    """The labels of named items, without embeddings; items whose labels are all empty are left out.

    The names stand in the column ``ids``; unless given in ``image``, or the first column that names rows, or the first.
    """
    import pandas as pd

    table = rows_with_table(np.empty(()), file, LabelColumns(tuple(levels), ids, named=True))
    rows = np.flatnonzero(~_unlabeled(table.labels))
    if not len(rows):
        raise TableError(f"{file} has no rows of labels", expected="a row for each item")
    items = table.select(rows, table.embeddings)
    repeats = np.flatnonzero(pd.Series(items.ids).duplicated())
    if len(repeats):
        row = int(repeats[0])
        first = int(np.flatnonzero(items.ids == items.ids[row])[0])
        problem = f"{items.where(row)}: {items.ids[row]!r} again, as in {items.where(first)}"
        remedy = "remove one, or name their column by --ids"
        raise TableError(problem, expected="one row for each name", remedy=remedy)
    return items


def _unlabeled(labels: Sequence[pd.Categorical]) -> NDArray[np.bool_]:
    """(n,) booleans: all labels of the row are empty."""
    empty = [np.array([*map(is_empty, column.categories)], np.bool_)[column.codes] for column in labels]
    mask: NDArray[np.bool_] = np.logical_and.reduce(empty)
    return mask


def number_labels(
    image_sets: Sequence[EmbeddedImages],
    *,
    distractors: bool = False,
    uneven: Uneven = "error",
    separator: str | None = None,
) -> tuple[LabelTree | None, list[EmbeddedImages]]:
    """One tree of the labels of queries and perhaps a gallery, and both with their paths in it.

    The same text under two parents is two labels. Without any labels there is no tree, and all paths are 0. With
    ``distractors``, gallery rows without labels become distractors. ``separator`` divides the last labels into levels.
    """
    import pandas as pd
    from pandas.api.types import union_categoricals

    if image_sets[0].levels != image_sets[-1].levels:
        query_levels, gallery_levels = (", ".join(images.levels) for images in (image_sets[0], image_sets[-1]))
        problem = f"levels {query_levels} of the queries and {gallery_levels} of the gallery"
        raise OptionError(problem, expected="the same columns in the same order", remedy="name them with --levels")
    image_sets = _without_names(image_sets)
    check_images(image_sets)
    queries, gallery = image_sets[0], image_sets[-1]
    if not queries.levels:
        return None, [images._replace(paths=np.zeros((len(images.embeddings), 1), np.int32)) for images in image_sets]
    split, file = len(queries.labels[0]), _file(queries.where)
    labels = [
        union_categoricals(list(columns)) for columns in zip(*(images.labels for images in image_sets), strict=True)
    ]
    if separator is None:
        suggest_separator([column.categories for column in labels], f"{file}, {queries.levels[-1]}")
    cells, level_names = split_columns(labels, queries.levels, separator)
    labels = [pd.Categorical(column) for column in cells]
    unlabeled = _unlabeled(labels) if distractors else np.zeros(len(labels[0]), np.bool_)
    unlabeled[:split] = False
    rows = np.flatnonzero(~unlabeled)

    def where(position: int) -> str:
        row = int(rows[position])
        return queries.where(row) if row < split else gallery.where(row - split)

    columns = [column[rows] for column in labels]
    tree, paths = label_paths(columns, level_names=level_names, leaf="path", uneven=uneven, where=where)
    codes = np.stack([column.codes.astype(np.int64) for column in columns], axis=1)
    codes = codes if uneven == "error" else codes[paths[:, -1] >= 0]
    check_order([codes], level_names, queries.name_columns)
    if queries.by_default:
        _log.info("%s: %s; name others by --levels", file, roles_of(queries.levels, queries.name_columns))
        if text := repeated_labels(tree.level_names, codes):
            _log.warning("%s: %s", file, text)
    all_paths = paths
    if distractors:
        all_paths = np.full((len(unlabeled), paths.shape[1]), -1, np.int64)
        all_paths[rows] = paths
    numbered = [queries._replace(paths=all_paths[:split], labels=())]
    if len(image_sets) > 1:
        marks = unlabeled[split:] if distractors else None
        numbered.append(gallery._replace(paths=all_paths[split:], labels=(), distractors=marks))
    return tree, numbered


def check_images(image_sets: Sequence[EmbeddedImages]) -> None:
    """Look for images that several rows list, where ids are names of image files.

    Rows of one id do not retrieve each other, but each counts as a query: a warning says how many there are. Two
    spellings of one path are two ids, so that an image would retrieve itself: they are refused.
    """
    import pandas as pd

    id_columns = [(images, pd.Series(images.ids)) for images in image_sets if images.ids is not None]
    id_columns = [(images, names) for images, names in id_columns if names.str.contains(_IMAGE_FILE).any()]
    for images, names in id_columns:
        if extra := int(names[names.str.contains(_IMAGE_FILE)].duplicated().sum()):
            _log.warning(
                "%s: %d rows repeat an image; each counts as a query", images.where(0).partition(",")[0], extra
            )
    odd_names = {name for _, names in id_columns for name in names[names.str.contains(_ODD_PATH)].unique()}
    looked_at = odd_names.union(map(posixpath.normpath, odd_names))
    spelled: dict[str, tuple[str, str]] = {}
    for images, names in id_columns:
        for row, name in names[names.isin(looked_at)].items():
            first, row_name = spelled.setdefault(posixpath.normpath(name), (name, images.where(row)))
            if first != name:
                problem = f"{row_name} and {images.where(row)}: {first!r} and {name!r} are one file"
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
