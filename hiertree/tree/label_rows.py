"""Rows of labels: the checks behind :class:`hiertree.LabelTree`, and the numbering of the nodes.

A *row* lists the labels of one leaf, coarse → fine. A *node* is a whole prefix of a row; the nodes of a level are
numbered from 0 in order of first appearance.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict, get_args

import numpy as np
from numpy.typing import NDArray

from ..arrays import MAX_LEVELS, to_numpy
from ..errors import DuplicateLeafError, EmptyLabelError, HierarchyError, InputError, NotATreeError, UnevenDepthError
from ..io.tables import is_empty, is_frame, label_text
from ..level_columns import UNKNOWN, check_separator, path_separator, split_names, split_path
from ..options import Uneven, check_choice, require

_log = logging.getLogger(__name__)
Row: TypeAlias = tuple[Hashable, ...]
Where: TypeAlias = Callable[[int], str]
Nested: TypeAlias = "dict[Hashable, Nested | list[Hashable]]"
Repeats = Literal["error", "merge"]
Homonyms = Literal["separate", "error"]
LeafKey = Literal["label", "path"]
Gaps = Literal["error", "above", "below"]
_EVEN = get_args(Uneven)[1:]
_NO_TEXT = re.compile("[\0\ud800-\udfff]")  # NUL, and what stands for bytes that are not UTF-8


class RowPolicies(TypedDict, total=False):
    """Options of every tree that is made of rows, as :meth:`hiertree.LabelTree.from_paths` describes them."""

    leaf: LeafKey
    uneven: Uneven
    repeats: Repeats
    homonyms: Homonyms
    gaps: Gaps
    separator: str | None


def check_row_policies(
    *,
    leaf: LeafKey = "label",
    uneven: Uneven = "error",
    repeats: Repeats = "error",
    homonyms: Homonyms = "separate",
    gaps: Gaps = "error",
    separator: str | None = None,
) -> None:
    """Refuse an unknown policy."""
    require(separator is None or bool(separator), "separator", separator, "the sign between labels, such as ' > '")
    check_choice("leaf", leaf, LeafKey)
    check_choice("uneven", uneven, Uneven)
    check_choice("repeats", repeats, Repeats)
    check_choice("homonyms", homonyms, Homonyms)
    check_choice("gaps", gaps, Gaps)


class Numbered(NamedTuple):
    """Leaf ids, their (n, L) int32 paths, −1 where unknown, and for every level the labels of its nodes by id."""

    leaf_ids: list[Hashable]
    paths: NDArray[np.int32]
    labels: list[list[Hashable]]

    def columns(self) -> list[Sequence[Hashable]]:
        """For every level the labels of the leaves' nodes; None where they are unknown."""
        pairs = zip(self.labels, self.paths.T, strict=True)
        return [list(map([*labels, None].__getitem__, column.tolist())) for labels, column in pairs]


def check_rows(
    rows: Iterable[Iterable[Hashable]], *, repeats: Repeats, leaf: LeafKey, row_name: Where
) -> tuple[list[Row], list[Hashable]]:
    """Each leaf's row once, in order of first appearance, and the ids of the leaves."""
    first_seen: dict[Hashable, tuple[int, Row]] = {}
    for row_index, labels in enumerate(_iterated(rows, "the rows")):
        row = row_of(labels, row_name(row_index))
        check_labels(row, row_name(row_index))
        key: Hashable = row if leaf == "path" else row[-1]
        index_before, row_before = first_seen.setdefault(key, (row_index, row))
        if index_before == row_index:
            continue
        if row_before != row:
            raise NotATreeError(
                f"{row_name(row_index)}: {row[-1]!r} has the path {row!r}, "
                f"but {row_name(index_before)} gave {row_before!r}",
                expected="one path for every leaf",
                remedy="correct one of the rows",
                choose={"leaf": ["path"]},
            )
        if repeats == "error":
            raise DuplicateLeafError(
                f"{row_name(row_index)}: {row[-1]!r} is already in {row_name(index_before)}",
                expected="one row per leaf",
                remedy="remove one",
                choose={"repeats": ["merge"]},
            )
    return [row for _, row in first_seen.values()], list(first_seen)


def check_labels(row: Row, row_name: str) -> None:
    """Refuse a row without labels, or with one that is empty, not hashable, or contains a NUL or half a character."""
    if not row:
        raise EmptyLabelError(f"{row_name} has no label", expected="at least one level")
    for level, label in enumerate(row, start=1):
        if is_empty(label):
            raise EmptyLabelError(
                f"{row_name}: the label of level {level} is {label!r} in {row!r}",
                expected="a non-empty label",
                remedy="fill it in",
                choose={"uneven": _EVEN, "gaps": ["above", "below"]},
            )
        if isinstance(label, str) and _NO_TEXT.search(label):
            problem = f"{row_name}: the label of level {level} is {label!r}"
            raise HierarchyError(problem, expected="text that UTF-8 holds, without NUL characters")
        if not isinstance(label, Hashable):
            raise InputError(
                f"{row_name}: {label!r} at level {level}", expected="text, a number or another hashable label"
            )


def split_rows(rows: Any, separator: str, names: Sequence[str] | None) -> tuple[list[Row], Sequence[str] | None]:
    """The rows, their last labels divided where they are paths, and the names of their levels; a text is a row, too."""
    iterated = enumerate(_iterated(rows, "the rows"))
    row_tuples = [row_of([row] if isinstance(row, str) else row, f"row {i}") for i, row in iterated]
    check_separator(separator, {row[-1] for row in row_tuples if row})
    paths = [(*row[:-1], *split_path(row[-1], separator)) if row else row for row in row_tuples]
    if names is not None and (depth := max(map(len, paths), default=0)) > len(names):
        names = [*names[:-1], *split_names(names[-1], depth - len(names) + 1)]
    return paths, names


def suggest_separator(columns: Sequence[Iterable[Any]], name: str) -> None:
    """Log that all labels of the last column hold a separator of paths, where none was given."""
    if sign := path_separator(columns):
        _log.warning("%s: each label holds %r; pass separator=%r (--separator) if they are paths", name, sign, sign)


def filled_gaps(rows: Any, gaps: Literal["above", "below"]) -> Iterator[Row]:
    """The rows, their empty labels filled by the nearest label above or below; those that have none there stay."""
    for row_index, labels in enumerate(_iterated(rows, "the rows")):
        row = list(row_of(labels, f"row {row_index}"))
        ends = [index for index, label in enumerate(row) if not is_empty(label)]
        indices = range(1, ends[-1] if ends else 0) if gaps == "above" else range(len(row) - 2, -1, -1)
        for index in indices:
            if is_empty(row[index]):
                row[index] = row[index - 1 if gaps == "above" else index + 1]
        yield tuple(row)


def check_depth(row: Row) -> None:
    """Refuse a row of more levels than paths hold."""
    if len(row) > MAX_LEVELS:
        raise HierarchyError(f"a path of {len(row)} levels or more", expected=f"at most {MAX_LEVELS}")


def same_text(labels: Sequence[Hashable]) -> tuple[Hashable, Hashable] | None:
    """Two of the labels that differ in type alone, as 17 and "17" do, in their order; None if there are none.

    >>> same_text(["lake", "17", 5, 17])
    ('17', 17)
    """
    first: dict[str, Hashable] = {}
    for label in labels if len({isinstance(label, str) for label in labels}) == 2 else ():
        if isinstance(label, str | int | float):
            text = f"{label:.0f}" if isinstance(label, float) and label.is_integer() else str(label)
            if isinstance(first_label := first.setdefault(text, label), str) != isinstance(label, str):
                return first_label, label
    return None


def trimmed(row: Row) -> Row:
    """The row without the empty labels at its end."""
    end = len(row)
    while end and is_empty(row[end - 1]):
        end -= 1
    return row[:end]


def row_of(labels: Any, row_name: str) -> Row:
    """One row of labels as a tuple; those of arrays and tensors as plain values."""
    if isinstance(labels, Mapping):
        remedy = "list the labels, or make a frame of the rows for LabelTree.from_frame"
        raise InputError(f"{row_name}: {labels!r:.80}", expected="labels in their order, coarse → fine", remedy=remedy)
    return tuple(map(plain_label, _iterated(labels, row_name)))


def plain_label(label: Any) -> Any:
    """A scalar of numpy or torch as Python's own, which files hold; a text in one spelling."""
    if isinstance(label, np.generic) or hasattr(label, "detach"):
        label = label.item()
    return label_text(label) if isinstance(label, str) else label


def _iterated(values: Any, name: str) -> Iterable[Any]:
    """Several values in their order; arrays and tensors as lists."""
    if is_frame(values):
        problem = f"{name}: a frame"
        raise InputError(problem, expected="a row of labels for every leaf", remedy="use LabelTree.from_frame")
    if isinstance(values, str | set | frozenset) or not isinstance(values, Iterable):
        raise InputError(f"{name}: {values!r:.80}", expected="a row of labels for every leaf, coarse → fine")
    return to_numpy(values, name=name).tolist() if hasattr(values, "dtype") else values


def even_depths(rows: Sequence[Row], uneven: Uneven) -> list[Row]:
    """The rows brought to one depth: padded, truncated, or refused if their depths differ; None is unknown."""
    depths = [len(row) for row in rows]
    shallow, deep = min(depths), max(depths)
    check_depth(rows[depths.index(deep)])
    if shallow == deep:
        return list(rows)
    if uneven == "truncate":
        return [row[:shallow] for row in rows]
    if uneven == "unknown":
        return [row + (None,) * (deep - len(row)) for row in rows]
    if uneven == "pad":
        padded = [row + row[-1:] * (deep - len(row)) for row in rows]
        if len(set(padded)) < len(set(rows)):
            repeated_row = next(row for row, count in Counter(padded).items() if count > 1)
            problem = f"two leaves have the path {repeated_row!r} once their last labels are repeated"
            raise DuplicateLeafError(problem, expected="no label under itself", remedy="rename one of the two")
        return padded
    problem = f"{rows[depths.index(shallow)]!r} has {shallow} levels, {rows[depths.index(deep)]!r} has {deep}"
    raise UnevenDepthError(problem, expected="leaves of one depth", choose={"uneven": _EVEN})


def number_nodes(rows: Sequence[Row], leaf_ids: list[Hashable]) -> Numbered:
    """Integer ids for every prefix of every row."""
    depth = len(rows[0])
    nodes: list[dict[tuple[int, Hashable], int]] = [{} for _ in range(depth)]
    paths = np.full((len(rows), depth), UNKNOWN, dtype=np.int32)
    for position, row in enumerate(rows):
        parent = 0
        for level, label in enumerate(row):
            if label is None:
                break
            parent = nodes[level].setdefault((parent, label), len(nodes[level]))
            paths[position, level] = parent
    return Numbered(leaf_ids, paths, [[label for _, label in level] for level in nodes])


def first_rows(column: NDArray[np.int32]) -> NDArray[np.int64]:
    """The first row of each node of a level, by the nodes' ids."""
    nodes, first = np.unique(column, return_index=True)
    return first[nodes >= 0]


def refuse_homonyms(rows: Sequence[Row]) -> None:
    """Refuse a text that names two nodes of one level."""
    for level in range(len(rows[0])):
        parent_rows: dict[Hashable, Row] = {}
        for row in rows:
            first = parent_rows.setdefault(row[level], row[:level])
            if first != row[:level] and row[level] is not None:
                problem = f"{row[level]!r} stands under {first!r} and {row[:level]!r}"
                choose = {"homonyms": ["separate"]}
                raise NotATreeError(problem, expected="one parent for every label", remedy="rename one", choose=choose)


def nest(rows: Iterable[Row], leaf_ids: Iterable[Hashable]) -> Nested:
    """Rows as nested dictionaries of labels; the finest labels hold lists of leaf ids, below None where unknown."""
    nested: dict[Hashable, Any] = {}
    for row, leaf in zip(rows, leaf_ids, strict=True):
        node = nested
        for label in row[:-1]:
            node = node.setdefault(label, {})
        node.setdefault(row[-1], []).append(leaf)
    return nested
