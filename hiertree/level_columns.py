"""Columns of labels in any form (text, categories, frames), numbered as integer paths.

A node is a whole path from the root; those of a level are numbered from 0 in order of first appearance.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from itertools import chain, filterfalse
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from .errors import Choices, EmbeddingError, OptionError, PathError, ShapeError, some_of
from .io.tables import are_names, is_empty, label_text, plain_cells
from .options import Uneven

ADDED = ("image", "split")  # columns that hiertree's own commands write beside labels
SEPARATORS = (" > ", ";", "|", "/")  # between the labels of a path in one text
_NO_RANK = re.compile("[A-Za-z]__")  # of Greengenes and SILVA, where a rank is not known
UNKNOWN = -1  # the id at each level where a path is not known
PATH_IDS = "ids from 0, or −1 from some level below the first on, where the rest is unknown"
_LABELS = "iubOUST"  # kinds of columns that name classes; others hold fractions, times, …
_REPEATED = 2  # classes to a label, on average; real trees have some labels that name several classes
_SMALL_IDS = 2**31  # whose products with counts of nodes do not overflow
_EVEN = {"uneven": get_args(Uneven)[1:]}
_ONE_TYPE = "turn the numbers into text, or the reverse"


class LevelColumns(NamedTuple):
    """The labels of n items."""

    cells: list[NDArray[Any]]  # L arrays of n labels, coarse → fine
    names: tuple[str, ...] | None = None  # of the columns, where a frame gave them
    row_names: tuple[str, ...] = ()  # columns that name rows, which are left out

    def title(self, column: int) -> str:
        """The name of a column in messages."""
        return f"level {column + 1}" if self.names is None else repr(self.names[column])


class LabelNames(NamedTuple):
    """What the ids of paths stand for."""

    level_names: tuple[str, ...] | None = None  # where a frame gave them
    class_names: tuple[tuple[Hashable, ...], ...] | None = None  # for each level the label of each id


def columns_of_frame(values: Any, name: str) -> LevelColumns | None:
    """The columns of a frame or series of pandas, polars or another library that narwhals knows; None for the rest.

    Columns of frames that hiertree's own commands add to labels are left out.

    Raises:
        PathError: a frame that cannot be read, or without columns.
    """
    import narwhals as nw

    if hasattr(values, "levels") and hasattr(values, "to_frame"):  # a MultiIndex of pandas
        values = values.to_frame(index=False, allow_duplicates=True)
    try:
        table: Any = nw.from_native(values, allow_series=True, pass_through=True)
        if isinstance(table, nw.Series):
            return LevelColumns([table.to_numpy()], _texts([table.name]))
        if isinstance(table, nw.LazyFrame):
            raise ValueError("it is not yet computed; call its collect()")
        if not isinstance(table, nw.DataFrame):
            return None
        columns = dict(zip(table.columns, table.iter_columns(), strict=True))
        labels = [name for name in columns if name not in ADDED] or list(columns)
        names, cells = _texts(labels), [columns[name].to_numpy() for name in labels]
    except (nw.exceptions.NarwhalsError, ValueError) as error:
        raise PathError(f"{name}: a frame that cannot be read ({error})", expected="one column per level") from error
    return LevelColumns(cells, names)


def _texts(names: Sequence[object]) -> tuple[str, ...] | None:
    """The names of columns, unless they are numbers, pandas' default names."""
    return tuple(map(str, names)) if all(isinstance(name, str) for name in names) else None


def prepared_columns(
    sources: Mapping[str, LevelColumns], *, drop_names: bool, uneven: Uneven, separator: str | None
) -> dict[str, LevelColumns]:
    """The columns, perhaps without those of frames that name rows, and paths and missing ends of rows as asked for."""
    first, num_columns = next(iter(sources.values())), {len(source.cells) for source in sources.values()}
    if len(num_columns) > 1:  # refused elsewhere
        return dict(sources)
    columns = [list(cells) for cells in zip(*(source.cells for source in sources.values()), strict=True)]
    name_indices = name_columns(columns) if drop_names and first.names is not None else []
    names = None if first.names is None else tuple(np.delete(first.names, name_indices).tolist())
    columns = [cells for column, cells in enumerate(columns) if column not in name_indices]
    if separator is None and columns and (sign := path_separator([chain.from_iterable(cells) for cells in columns])):
        warnings.warn(
            f"each label holds {sign!r}; pass separator={sign!r} if they are paths", UserWarning, stacklevel=5
        )
    if separator is not None or uneven != "error":
        joint, names = split_columns(
            [np.concatenate([*map(_as_objects, cells)]) for cells in columns], names, separator
        )
        splits = np.cumsum([len(source.cells[0]) for source in sources.values()])[:-1]
        columns = [np.split(column, splits) for column in _even_columns(joint, uneven, [*sources])]
    row_names = tuple(first.names[column] for column in name_indices) if first.names else ()
    level_names = None if names is None else names[: len(columns)]
    return {
        name: LevelColumns([cells[i] for cells in columns], source.names and level_names, row_names)
        for i, (name, source) in enumerate(sources.items())
    }


def _as_objects(cells: NDArray[Any]) -> NDArray[Any]:
    objects = np.empty(len(cells), object)
    objects[:] = plain_cells(cells.tolist())
    return objects


def _even_columns(columns: Sequence[NDArray[Any]], uneven: Uneven, names: Sequence[str]) -> list[NDArray[Any]]:
    """Columns of labels whose missing ends of rows are repetitions, cut, or unknown; holes are refused."""
    missing = np.array([[is_empty(label) for label in column] for column in columns], np.bool_).T
    is_end = np.logical_and.accumulate(missing[:, ::-1], axis=1)[:, ::-1]
    problem = f"{' and '.join(names)} without a label above another, or without any"
    refuse_rows(
        (missing & ~is_end).any(axis=1) | is_end[:, 0], problem, "a label in the first column, and no hole below"
    )
    if uneven == "error":
        return list(columns)
    if uneven == "truncate":
        return list(columns[: int((~is_end).sum(axis=1).min())])
    filled_columns = [columns[0]]
    for column, ends in zip(columns[1:], is_end.T[1:], strict=True):
        filled_columns.append(np.where(ends, filled_columns[-1] if uneven == "pad" else UNKNOWN, column))
    return filled_columns


def name_columns(columns: Sequence[Sequence[Any]]) -> list[int]:
    """Which columns of queries and perhaps a gallery name their rows; at least one other is left.

    ``columns`` are the cells of each source, column by column. A last column whose values both sources share is one of
    classes, even if each source has one row of every class.
    """
    name_indices = [
        column
        for column, cells in enumerate(columns)
        if all(map(are_names, cells)) and not (column == len(columns) - 1 and are_shared(cells))
    ]
    return name_indices[:1] if len(name_indices) == len(columns) > 1 else name_indices[: len(columns) - 1]


def are_shared(cells: Sequence[Collection[Any]]) -> bool:
    """Whether a value of one source is also one of another."""
    return len(set().union(*cells)) < sum(map(len, cells))


def roles_of(level_names: Sequence[str], row_names: Sequence[str]) -> str:
    """What columns are read as, in words.

    >>> roles_of(["kind", "type"], ["file"])
    'levels kind → type, names file'
    """
    return f"levels {' → '.join(level_names)}{', names ' if row_names else ''}{', '.join(row_names)}"


def number_labels(
    sources: Mapping[str, LevelColumns],
) -> tuple[dict[str, NDArray[np.int64]], LabelNames, NDArray[np.int64]]:
    """Integer paths (n, L) of all sources, in one numbering, what the ids stand for, and a number for each label.

    The number −1 is the id of an unknown label, too.

    Raises:
        ShapeError: sources of different depths.
        PathError: a missing label, or one that cannot be a label; the message names source, column and row.
    """
    import pandas as pd

    first_name, first = next(iter(sources.items()))
    for name, source in sources.items():
        if len(source.cells) != len(first.cells):
            problem = f"{name} of {len(source.cells)} levels"
            raise ShapeError(problem, expected=f"those of {first_name}, {len(first.cells)}")
    splits = np.cumsum([len(source.cells[0]) for source in sources.values()])
    parents, levels, classes, columns = np.zeros(splits[-1], np.int64), [], [], []
    for column in range(len(first.cells)):
        try:
            cells = [_labels(name, source, column) for name, source in sources.items()]
            label_numbers, labels = _factorize(np.concatenate(cells))
        except TypeError as error:
            raise PathError(
                f"{first.title(column)}: {error}", expected="text, numbers or other hashable labels"
            ) from None
        distinct = [set(source_labels.tolist()) - {UNKNOWN} for source_labels in cells]
        flags = [{isinstance(label, str) for label in known_labels} for known_labels in distinct]
        _check_same_type(sources, column, flags)
        width = max(len(labels), 1)
        parents, pairs = pd.factorize(parents * width + label_numbers)
        is_unknown = (labels == UNKNOWN)[label_numbers]
        levels.append(np.where(is_unknown, UNKNOWN, parents))
        classes.append(tuple(labels[pairs % width].tolist()))  # of each node
        columns.append(np.where(is_unknown, UNKNOWN, label_numbers))
    numbered = np.split(np.stack(levels, axis=1).astype(np.int64), splits[:-1])
    paths = dict(zip(sources, numbered, strict=True))
    for name, ids in paths.items():
        refuse_negative(ids, name)
    return paths, LabelNames(level_names(sources), tuple(classes)), np.stack(columns, axis=1)


def _factorize(cells: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """A number for each label, and the labels; the spellings of a text that Unicode knows are one."""
    import pandas as pd

    codes, labels = pd.factorize(cells)
    if all(label.isascii() for label in labels if isinstance(label, str)):
        return codes, labels
    spelled = [label_text(label) if isinstance(label, str) else label for label in labels.tolist()]
    merged, distinct = pd.factorize(np.array(spelled, object))
    return merged[codes], distinct


def repeated_labels(names: Sequence[str], columns: NDArray[np.int64]) -> str | None:
    """A warning of columns whose labels mostly stand below several others, as those of what is no level do.

    ``columns`` are the codes of n labels in each column, (n, L).

    >>> repeated_labels(["landmark", "side"], np.array([[0, 0], [0, 1], [1, 0], [1, 1]]))
    "'side' has 2 labels, which below different labels of 'landmark' are 4 classes; leave it out if it is no level"
    """
    import pandas as pd

    repeats, parents = [], np.zeros(len(columns), np.int64)
    for level, column in enumerate(columns.T):
        codes, labels = pd.factorize(column)
        parents, nodes = pd.factorize(parents * max(len(labels), 1) + codes)
        if level and len(nodes) >= _REPEATED * len(labels):
            parent_name = names[level - 1]
            text = f"{names[level]!r} has {len(labels)} labels, which below different labels of {parent_name!r} are"
            repeats.append(f"{text} {len(nodes)} classes")
    return f"{', '.join(repeats)}; leave it out if it is no level" if repeats else None


def level_names(sources: Mapping[str, LevelColumns]) -> tuple[str, ...] | None:
    """The names of the levels, from the first frame."""
    return next((source.names for source in sources.values() if source.names is not None), None)


def match_columns(sources: Mapping[str, LevelColumns]) -> dict[str, LevelColumns]:
    """The sources, the columns of their frames in the order of the first frame.

    Raises:
        PathError: frames that share a column, but at different levels.
    """
    matched = dict(sources)
    first_name = next((name for name, source in sources.items() if source.names), "")
    for name, source in sources.items():
        names, first = source.names, sources[first_name].names if first_name else None
        if names is None or first is None or names == first:
            continue
        if sorted(names) == sorted(first):
            matched[name] = LevelColumns([source.cells[names.index(column)] for column in first], first)
        elif any(column in first and first.index(column) != level for level, column in enumerate(names)):
            listing, expected = (f"the columns {', '.join(columns)}" for columns in (names, first))
            raise PathError(f"{name} with {listing}", expected=f"{expected}, as in {first_name}")
    return matched


def _labels(name: str, source: LevelColumns, column: int) -> NDArray[Any]:
    """A side's labels of one level as objects; refuses rows without one."""
    import pandas as pd

    cells = source.cells[column]
    codes, labels = pd.factorize(cells)
    problem = f"{name} without a label in {source.title(column)}"
    missing = np.array([*map(is_empty, labels.tolist()), True])[codes]  # a number of −1 is the last
    refuse_rows(missing, problem, "a label in every row, or ids with −1 for an unknown rest", choose=_EVEN)
    if cells.dtype.kind == "f":  # as pandas and polars hold integers with missing ones among them
        ids = cells.astype(np.float64)
        exact = 2.0 ** min(np.finfo(cells.dtype).nmant + 1, 53)  # beyond it the type rounds ids
        cells = ids.astype(np.int64) if ((np.abs(ids) < exact) & (ids == np.floor(ids))).all() else cells
    if cells.dtype.kind not in _LABELS:
        problem, remedy = f"{name} of type {cells.dtype}", "turn numbers that are ids into integers, others into text"
        raise PathError(f"{problem} in {source.title(column)}", expected="integer ids or text", remedy=remedy)
    if cells.dtype.kind == "i":
        refuse_rows(cells < UNKNOWN, f"{name} holds negative ids in {source.title(column)}", PATH_IDS)
    kinds = {isinstance(label, str) for label in labels.tolist() if isinstance(label, str) or label != UNKNOWN}
    if cells.dtype.kind == "O" and len(kinds) > 1:
        problem, expected = f"{name} with text and numbers", "labels of one type: '7' and 7 are two classes"
        raise PathError(f"{problem} in {source.title(column)}", expected=expected, remedy=_ONE_TYPE)
    return cells.astype(object)


def _check_same_type(sources: Mapping[str, LevelColumns], column: int, texts: Sequence[set[bool]]) -> None:
    """Refuse text in one source and numbers in the other, which are never equal."""
    (first, source), *other_sides = sources.items()
    for (name, _), text_flags in zip(other_sides, texts[1:], strict=True):
        if text_flags and texts[0] and not text_flags & texts[0]:
            kinds = ("text", "numbers") if texts[0] == {True} else ("numbers", "text")
            problem = f"{source.title(column)}: {kinds[0]} in {first}, {kinds[1]} in {name}"
            raise PathError(problem, expected="labels of one type", remedy=_ONE_TYPE)


def path_nodes(paths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The nodes along each path, (n, L+1), numbered level by level from the root, 0; an unknown id is a node, too."""
    columns = [np.zeros(len(paths), dtype=np.int64)]
    for column in paths.T:
        ids = column if column.max(initial=0) < _SMALL_IDS else np.unique(column, return_inverse=True)[1]
        width = int(ids.max(initial=0)) + 2
        codes = np.unique(columns[-1] * width + ids + 1, return_inverse=True)[1]
        columns.append(codes + int(columns[-1].max(initial=0)) + 1)
    return np.stack(columns, axis=1)


def refuse_negative(paths: NDArray[Any], name: str, *, may_lack_class: bool = False) -> None:
    """Refuse paths (n, L) that are negative, but for the −1 of an unknown rest, or of the whole path on request."""
    if paths.size and paths.min() < 0:
        is_rest = np.maximum.accumulate(paths < 0, axis=1)
        is_bad = (paths < UNKNOWN) | (is_rest & (paths >= 0))
        refuse_rows(is_bad.any(axis=1) | (is_rest[:, 0] & (not may_lack_class)), f"{name} holds negative ids", PATH_IDS)


def refuse_rows(
    bad: Any,
    problem: str,
    expected: str,
    kind: type[EmbeddingError | PathError] = PathError,
    row_numbers: NDArray[np.int64] | None = None,
    choose: Choices | None = None,
) -> None:
    """Refuse marked rows; messages give their numbers, by default their positions."""
    rows = np.flatnonzero(bad) if row_numbers is None else np.unique(row_numbers[bad])
    if len(rows):
        problem = f"{problem} ({len(rows)} rows: {some_of(rows.tolist())})"
        raise kind(problem, expected=expected, remedy="correct or remove these rows", choose=choose)


def split_path(label: Any, separator: str | None) -> list[Any]:
    """The labels that a path is written of, coarse → fine, without empty ones at its ends; "g__" is an unknown genus.

    >>> split_path("k__Bacteria; p__Firmicutes; c__", ";")
    ['k__Bacteria', 'p__Firmicutes']
    """
    if separator is None or not isinstance(label, str):
        return [label]
    labels = ["" if _NO_RANK.fullmatch(text) else text for text in map(str.strip, label.split(separator))]
    known_levels = [level for level, text in enumerate(labels) if text]
    return labels[known_levels[0] : known_levels[-1] + 1] if known_levels else [""]


def check_separator(separator: str, labels: Collection[Any]) -> None:
    """Refuse a separator that divides no label: all would be one flat level."""
    if not separator or (labels and not any(separator in str(label) for label in labels)):
        sign = path_separator([labels])
        problem = f"separator={separator!r}, which none of {len(labels)} labels holds"
        expected = "what stands between the labels of a path, such as ' > '"
        raise OptionError(problem, expected=expected, remedy=f"all hold {sign!r}" if sign else None)


def path_separator(columns: Sequence[Iterable[Any]]) -> str | None:
    """The separator in all labels of the last column, as in paths that are written in one cell; None if there is none.

    Labels that begin with those of a column before, such as lake/17 beside lake, are names and no paths.

    >>> path_separator([["a/b", "a/c"]]), path_separator([["a", "a"], ["a/b", "a/c"]])
    ('/', None)
    """
    *coarser_columns, labels = columns
    signs: Sequence[str] = SEPARATORS
    roots = set()
    for label in filterfalse(is_empty, labels):
        signs = [sign for sign in signs if sign in str(label)]
        if not signs:
            return None
        roots.add(str(label).partition(signs[0])[0])
    is_name = bool(coarser_columns) and roots <= set(map(str, chain.from_iterable(coarser_columns)))
    return signs[0] if roots and not is_name else None


def split_columns(
    columns: Sequence[Any], names: Sequence[str] | None, separator: str | None
) -> tuple[list[Any], tuple[str, ...] | None]:
    """Columns of labels and their names, the last column divided where its labels are paths.

    Shorter paths have empty labels at their ends. The new columns are called ``category_1``, ``category_2`` …
    """
    import pandas as pd

    if separator is None:
        return list(columns), None if names is None else tuple(names)
    codes, labels = pd.factorize(np.asarray(columns[-1], object))
    check_separator(separator, labels.tolist())
    paths = [split_path(label, separator) for label in labels.tolist()]
    depth = max(map(len, paths), default=1)
    levels = [
        np.array([*(path[level] if level < len(path) else "" for path in paths), ""], object) for level in range(depth)
    ]
    level_names = None if names is None else (*names[:-1], *split_names(names[-1], depth))
    return [*columns[:-1], *(level[codes] for level in levels)], level_names


def split_names(name: str, depth: int) -> tuple[str, ...]:
    """Names of the levels in one column of paths."""
    return tuple(f"{name}_{level}" for level in range(1, depth + 1))
