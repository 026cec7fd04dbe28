"""From rows of labels to integer paths: the checks and the numbering behind :class:`hiertree.LabelTree`.

A *row* lists the labels of one leaf, coarse → fine. A *node* is a whole prefix of a row, so the same text under two
parents makes two nodes. The nodes of a level are numbered from 0 in order of first appearance.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from ..arrays import MAX_LEVELS
from ..errors import (
    DuplicateLeafError,
    EmptyLabelError,
    HierarchyError,
    OptionError,
    SeveralParentsError,
    UnevenDepthError,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

Row: TypeAlias = tuple[Hashable, ...]
Where: TypeAlias = Callable[[int], str]
Uneven = Literal["error", "pad", "truncate"]
Repeats = Literal["error", "merge"]
Homonyms = Literal["separate", "error"]
LeafKey = Literal["label", "path"]


class Numbered(NamedTuple):
    """Leaf ids, their (n, L) int32 paths, and for every level the labels of its nodes by id."""

    leaf_ids: list[Hashable]
    paths: NDArray[np.int32]
    labels: list[list[Hashable]]


def check_choice(name: str, value: object, choices: Any) -> None:
    """Refuse a value that is not among a Literal's."""
    if value not in get_args(choices):
        raise OptionError(f"{name}={value!r}", expected=f"one of {', '.join(map(repr, get_args(choices)))}")


def is_empty(label: object) -> bool:
    """True for None, NaN, pandas' NA, and text without a visible character."""
    if isinstance(label, str):
        return not label.strip()
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas.NA refuses to be a truth value
        return True


def clean_rows(
    rows: Iterable[Iterable[Hashable]], *, repeats: Repeats, leaf: LeafKey, where: Where
) -> tuple[list[Row], list[Hashable]]:
    """Each leaf's row once, in order of first appearance, with the leaf's id."""
    first_seen: dict[Hashable, tuple[int, Row]] = {}
    for number, given in enumerate(rows):
        row = tuple(given)
        check_labels(row, where(number))
        key: Hashable = row if leaf == "path" else row[-1]
        number_before, row_before = first_seen.setdefault(key, (number, row))
        if number_before == number:
            continue
        if row_before != row:
            raise SeveralParentsError(
                f"{where(number)}: {row[-1]!r} has the path {row!r}, but {where(number_before)} gave {row_before!r}",
                expected="one path for every leaf",
                remedy="mend one of the rows, or pass leaf='path' if one text names several leaves",
            )
        if repeats == "error":
            raise DuplicateLeafError(
                f"{where(number)}: {row[-1]!r} is already in {where(number_before)}",
                expected="one row a leaf",
                remedy="remove one, or pass repeats='merge' if the table has one row an image",
            )
    return [row for _, row in first_seen.values()], list(first_seen)


def even_depths(rows: Sequence[Row], uneven: Uneven) -> list[Row]:
    """The rows at one depth, by the policy for those that are not."""
    depths = [len(row) for row in rows]
    shallow, deep = min(depths), max(depths)
    if deep > MAX_LEVELS:
        raise HierarchyError(f"a path of {deep} levels", expected=f"at most {MAX_LEVELS}")
    if shallow == deep:
        return list(rows)
    if uneven == "truncate":
        return [row[:shallow] for row in rows]
    if uneven == "pad":
        return [row + row[-1:] * (deep - len(row)) for row in rows]
    raise UnevenDepthError(
        f"{rows[depths.index(shallow)]!r} has {shallow} levels, {rows[depths.index(deep)]!r} has {deep}",
        expected="leaves of one depth",
        remedy="pass uneven='pad' (repeat the leaf) or uneven='truncate' (cut at the shallowest)",
    )


def number_nodes(rows: Sequence[Row], leaf_ids: list[Hashable]) -> Numbered:
    """Integer ids for every prefix of every row."""
    depth = len(rows[0])
    nodes: list[dict[tuple[int, Hashable], int]] = [{} for _ in range(depth)]
    paths = np.empty((len(rows), depth), dtype=np.int32)
    for position, row in enumerate(rows):
        parent = 0
        for level, label in enumerate(row):
            parent = nodes[level].setdefault((parent, label), len(nodes[level]))
            paths[position, level] = parent
    return Numbered(leaf_ids, paths, [[label for _, label in level] for level in nodes])


def refuse_homonyms(labels: Sequence[Sequence[Hashable]], parents: Callable[[int, int], Row]) -> None:
    """Refuse a text that names two nodes of one level; ``parents(level, node)`` is the node's path."""
    for level, texts in enumerate(labels):
        first: dict[Hashable, int] = {}
        for node, text in enumerate(texts):
            if first.setdefault(text, node) != node:
                raise SeveralParentsError(
                    f"{text!r} stands under {parents(level, first[text])[:-1]!r} and {parents(level, node)[:-1]!r}",
                    expected="one parent for every label",
                    remedy="rename one, or pass homonyms='separate' if they are different things",
                )


def check_labels(row: Row, where: str) -> None:
    """Refuse a row without labels, or with an empty one."""
    if not row:
        raise EmptyLabelError(f"{where} has no label", expected="at least one level")
    for level, label in enumerate(row, start=1):
        if is_empty(label):
            raise EmptyLabelError(
                f"{where}: the label of level {level} is {label!r} in {row!r}",
                expected="a non-empty label",
                remedy="fill it in, or pass uneven='pad' or 'truncate' if the path ends early",
            )
