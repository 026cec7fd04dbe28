"""The rows of a folder or table that belong to a split: named by a column, or a share drawn by a seed."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..errors import OptionError, TableError
from ..options import check_choice, check_integer, check_number
from ..tree.label_rows import Row
from .split_names import name_in, split_order

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

HoldoutBy = Literal["classes", "images"]
_log = logging.getLogger(__name__)


def held_out_rows(classes: Sequence[Row], split: str | None, *, share: float, by: HoldoutBy, seed: int) -> list[int]:
    """The rows of ``"test"``, which gets the given share, or of ``"train"``, which gets the rest."""
    if split not in ("train", "test"):
        raise OptionError(f"split={split!r} with holdout", expected="'train' or 'test'")
    parts = draw_parts(classes, {"holdout": share}, by=by, seed=seed)
    return [row for row, part in enumerate(parts) if (part == "train") == (split == "train")]


def draw_parts(
    classes: Sequence[Row], shares: Mapping[str, float], *, by: HoldoutBy = "classes", seed: int = 0
) -> list[str]:
    """The part of each row, given its class: parts hold these shares, of the classes or of each one's rows.

    Those that no part holds are of ``"train"``, at least one row of every class where each is divided.

    >>> draw_parts([("lake",), ("lake",), ("peak",), ("peak",)], {"test": 0.5})
    ['test', 'test', 'train', 'train']
    >>> draw_parts([("lake",), ("lake",), ("peak",), ("peak",)], {"test": 0.5}, by="images")
    ['test', 'train', 'test', 'train']
    """
    check_choice("holdout_by", by, HoldoutBy)
    check_integer("seed", seed, least=0)
    for name, share in shares.items():
        check_number(name, share, above=0, most=1)
    rows_of: dict[Row, list[int]] = {name: [] for name in sorted(set(classes), key=str)}
    for row, row_class in enumerate(classes):
        rows_of[row_class].append(row)
    random = np.random.default_rng(seed)
    if by == "classes":
        part_of_class = _named(random.permutation(len(rows_of)).tolist(), shares)
        parts = {
            row: part
            for place, rows in enumerate(rows_of.values())
            if (part := part_of_class.get(place))
            for row in rows
        }
        left = len(part_of_class) < len(rows_of)
    else:
        permutations = (random.permutation(rows).tolist() for rows in rows_of.values())
        parts = {row: part for rows in permutations for row, part in _named(rows[:-1], shares, of=len(rows)).items()}
        left = True
    if not left or set(parts.values()) != set(shares):
        problem = " and ".join(f"{name}={share}" for name, share in shares.items())
        problem += (
            f" of {len(rows_of)} classes" if by == "classes" else f" of the images of each of {len(rows_of)} classes"
        )
        raise OptionError(problem, expected=f"at least one {'class' if by == 'classes' else 'image'} in every split")
    return [parts.get(row, "train") for row in range(len(classes))]


def _named(items: Sequence[int], shares: Mapping[str, float], of: int | None = None) -> dict[int, str]:
    """The part of each item drawn, by the shares of the total number; later items get none."""
    number = len(items) if of is None else of
    names = [name for name, share in shares.items() for _ in range(round(share * number))]
    return dict(zip(items, names, strict=False))


def rows_of_earlier_splits(names: Sequence[str], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows of the splits whose classes are numbered before those of some rows; before all rows, all in that order.

    >>> rows_of_earlier_splits(["test", "train", "test"], np.array([0, 2])).tolist()
    [1]
    >>> rows_of_earlier_splits(["test", "train", "test"], np.arange(3)).tolist()
    [1, 0, 2]
    """
    order = {name: place for place, name in enumerate(sorted(dict.fromkeys(names), key=split_order))}
    places = np.array([order[name] for name in names])
    by_split = np.argsort(places, kind="stable")
    last = len(order) if len(rows) == len(names) > 0 and len(order) > 1 else places[rows].max(initial=0)
    return by_split[places[by_split] < last]


def rows_of_split(table: pd.DataFrame, split: str, column: str | None, file: Path) -> NDArray[np.int64]:
    """The rows with that text in the column, or another name of the split; those of a misspelled name are logged."""
    if column is None:
        raise OptionError(
            f"split={split!r} without split_column",
            expected="the column of splits",
            remedy="name it (split_column=… in Python, split in a recipe), give holdout=0.5 to hold out half of the "
            "classes as 'test', or pass split=None for all rows",
        )
    if not split:
        raise OptionError("split=''", expected="the name of a split, or None for all rows")
    counts = table[column].value_counts()
    split_name = name_in(counts.index, split)
    if split_name is None:
        splits = ", ".join(f"{name!r} ({count} rows)" for name, count in counts.head(10).items())
        raise TableError(f"{file}: no row has {split!r} in column {column!r}", expected=f"one of {splits or 'no rows'}")
    for name, count in counts.items():
        if _misspells(str(name), split_name):
            text = "%s: left out: %d rows with %r in column %r, which is not %r"
            _log.warning(text, file, count, name, column, split_name)
    return np.flatnonzero(table[column] == split_name)


def _misspells(name: str, split: str) -> bool:
    """Whether a name differs from a split's only by case, spaces or a typo; ``train2`` is a name of its own."""
    bare = name.strip().casefold()
    if name == split or bare == split.casefold():
        return name != split
    return not bare.startswith(split) and bool(get_close_matches(bare, [split], cutoff=0.75))
