"""From columns of labels, one per level, to a label tree and the paths of the images, without an object per image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import ShapeError
from ..io.tables import is_empty
from ..level_columns import split_columns
from ..options import Uneven, check_choice
from .label_rows import Gaps, LeafKey, Row, Where, filled_gaps, plain_label, trimmed
from .label_tree import LabelTree

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Labeled(NamedTuple):
    """A tree and the (n, L) int32 paths of the images."""

    tree: LabelTree
    paths: NDArray[np.int32]


def label_paths(
    columns: Sequence[Any],
    level_names: Sequence[str] | None,
    where: Where,
    earlier_rows: int = 0,
    *,
    leaf: LeafKey = "label",
    uneven: Uneven = "error",
    gaps: Gaps = "error",
    ancestors: Mapping[Any, Row] | None = None,
    separator: str | None = None,
) -> Labeled:
    """The tree of the distinct rows of labels, in order of first appearance, and the images' paths in it.

    ``columns`` are L sequences of n labels, coarse → fine; with ``ancestors``, the labels above each leaf, the leaves
    alone. ``where`` names image i in messages. With a policy ``uneven``, a path ends where the rest of a row has no
    label; ``leaf``, ``gaps`` and ``separator`` are as in :meth:`LabelTree.from_paths`. The first ``earlier_rows``
    labels are those of other splits: they are numbered, too, where they are complete, but have no paths in the result.

    >>> tree, paths = label_paths(
    ...     [["cat", "dog", "cat"], [7, 4, 7]], ["kind", "pet"], lambda row: f"line {row + 2}")
    >>> tree.leaves, paths.tolist()
    ((7, 4), [[0, 0], [1, 1], [0, 0]])
    """
    check_choice("gaps", gaps, Gaps)
    columns, level_names = split_columns(columns, level_names, separator)
    group, first_images, rows = _distinct_rows(columns)
    group, is_needed = group[earlier_rows:], np.zeros(len(rows), dtype=np.bool_)
    is_needed[group] = True
    if not is_needed.all():
        holds_enough = all if uneven == gaps == "error" else any
        is_needed |= [holds_enough(not is_empty(label) for label in row) for row in rows]
        rows = list(compress(rows, is_needed))
        group, first_images = (np.cumsum(is_needed) - 1)[group], first_images[is_needed]
    if ancestors is not None:
        rows = [(*ancestors[leaf_id], leaf_id) for (leaf_id,) in rows]
    rows = [tuple(map(plain_label, row)) for row in rows]
    if gaps != "error":
        rows = list(filled_gaps(rows, gaps))
    if uneven != "error":
        rows = [trimmed(row) for row in rows]
        _check_finest(rows, level_names)
    tree = LabelTree.from_paths(
        rows,
        level_names=level_names,
        leaf=leaf,
        uneven=uneven,
        repeats="merge",
        where=lambda row: where(int(first_images[row])),
    )
    return Labeled(tree, tree.paths(rows if leaf == "path" else [row[-1] for row in rows])[group])


def _check_finest(rows: Sequence[Row], level_names: Sequence[str] | None) -> None:
    """Refuse levels at which no row has a label."""
    depth = max(map(len, rows), default=0)
    if level_names is not None and 0 < depth < len(level_names):
        problem = f"the level {level_names[depth]!r} without any label"
        raise ShapeError(problem, expected="a label in some row", remedy="leave it out of the levels")


def _distinct_rows(columns: Sequence[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64], list[Row]]:
    """The number of each image's distinct row, by first appearance; the first image of each such row; these rows."""
    import pandas as pd

    arrays = [_array(column) if isinstance(column, list | tuple) else column for column in columns]
    group = np.zeros(len(arrays[0]), dtype=np.int64)
    for array in arrays:
        labels, distinct_labels = pd.factorize(array)
        group = pd.factorize(group * (len(distinct_labels) + 1) + labels)[0].astype(np.int64)
    first_images = np.flatnonzero(np.diff(np.maximum.accumulate(group), prepend=-1))
    return group, first_images, list(zip(*(array[first_images].tolist() for array in arrays), strict=True))


def _array(column: Sequence[Any]) -> NDArray[Any]:
    return np.array(column, dtype=object if column and isinstance(column[0], str) else None)
