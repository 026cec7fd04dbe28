"""The names of splits, of folders, cells, archives and Hugging Face data sets alike, and the rows of a split."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..errors import OptionError, TableError
from ..options import check_choice, check_integer, check_number, require
from ..tree.label_rows import Row

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

HoldoutBy = Literal["classes", "images"]
_log = logging.getLogger(__name__)

SPLIT_NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"train": ("train", "training"), "val": ("val", "valid", "validation"), "test": ("test", "testing")}
)


def names_of_split(split: str) -> tuple[str, ...]:
    """A name and the others that mean the same split, that name first.

    >>> names_of_split("validation"), names_of_split("query")
    (('validation', 'val', 'valid'), ('query',))
    """
    synonyms = next((names for names in SPLIT_NAMES.values() if split in names), ())
    return (split, *(name for name in synonyms if name != split))


def name_in(names: Collection[str], split: str) -> str | None:
    """Of the names that are present, that of the split; None if there is none.

    >>> name_in(["train", "validation"], "val")
    'validation'
    """
    return next((name for name in names_of_split(split) if name in names), None)


def split_to_measure(names: Collection[str]) -> str | None:
    """Of splits beside a training split, the one to measure on: test or else val; None if there is none.

    >>> split_to_measure(["training", "validation"]), split_to_measure(["train", "lakes"])
    ('validation', None)
    """
    if name_in(names, "train") is None:
        return None
    return name_in(names, "test") or name_in(names, "val")


def split_order(name: str) -> int:
    """The place of a split among those of its data set: training first, as its classes are numbered first.

    >>> sorted(["query", "test", "validation", "train"], key=split_order)
    ['train', 'validation', 'query', 'test']
    """
    return next((place for place, names in enumerate(SPLIT_NAMES.values()) if name in names), 2)


def splits_before(names: Iterable[str], split: str | None) -> list[str]:
    """Of the splits, those whose classes are numbered before those of one, in that order; all of them before None.

    >>> splits_before(["test", "query", "train"], "test")
    ['train']
    """
    order = sorted(dict.fromkeys(names), key=split_order)
    return order if split is None else order[: order.index(split)]


def held_out_rows(
    classes: Sequence[Row], split: str | None, *, share: float, by: HoldoutBy, seed: int
) -> tuple[list[int], list[int]]:
    """The rows of ``"test"``, which gets the share, or of ``"train"``, which gets the rest; and those before them."""
    if split not in ("train", "test"):
        raise OptionError(f"split={split!r} with holdout", expected="'train' or 'test'")
    parts = draw_parts(classes, {"holdout": share}, by=by, seed=seed)
    train = [row for row, part in enumerate(parts) if part == "train"]
    test = [row for row, part in enumerate(parts) if part != "train"]
    return (train, []) if split == "train" else (test, train)


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
        part_of_class, class_rows = _named(random.permutation(len(rows_of)).tolist(), shares), list(rows_of.values())
        parts = {row: part for number, part in part_of_class.items() for row in class_rows[number]}
        left = len(part_of_class) < len(rows_of)
    else:
        permutations = (random.permutation(rows).tolist() for rows in rows_of.values())
        parts = {row: part for rows in permutations for row, part in _named(rows[:-1], shares, of=len(rows)).items()}
        left = True
    if not left or set(parts.values()) != set(shares):
        problem = " and ".join(f"{name}={share}" for name, share in shares.items())
        problem += f" of {'' if by == 'classes' else 'the images of each of '}{len(rows_of)} classes"
        raise OptionError(problem, expected=f"at least one {'class' if by == 'classes' else 'image'} in every split")
    return [parts.get(row, "train") for row in range(len(classes))]


def _named(items: Sequence[int], shares: Mapping[str, float], of: int | None = None) -> dict[int, str]:
    """The part of each item drawn, by the shares of the total number; later items get none."""
    number = len(items) if of is None else of
    names = [name for name, share in shares.items() for _ in range(round(share * number))]
    return dict(zip(items, names, strict=False))


def rows_of_split(
    table: pd.DataFrame, split: str | None, column: str | None, file: Path
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows with that text in the column, or another name of the split, and those whose classes are numbered before.

    None takes all rows.
    """
    require(split != "", "split", split, "the name of a split, or None for all rows")
    if column is None and split is not None:
        raise OptionError(
            f"split={split!r} without split_column",
            expected="the column of splits",
            remedy="name it (split_column=… in Python, split in a recipe), give holdout=0.5 to hold out half of the "
            "classes as 'test', or pass split=None for all rows",
        )
    every = np.arange(len(table))
    if column is None:
        return every, every[:0]
    split_name = None if split is None else _name_in_column(table[column], split, file)
    order = {name: place for place, name in enumerate(splits_before(table[column], split_name))}
    places = table[column].map(order).to_numpy(dtype=np.float64)  # NaN of other splits, which sort last
    earlier_rows = np.argsort(places, kind="stable")[: np.isfinite(places).sum()]
    return every if split is None else np.flatnonzero(table[column] == split_name), earlier_rows


def _name_in_column(cells: pd.Series[str], split: str, file: Path) -> str:
    """What a column calls a split; rows with a misspelled name are logged."""
    counts = cells.value_counts()
    split_name = name_in(counts.index, split)
    if split_name is None:
        splits = ", ".join(f"{name!r} ({count} rows)" for name, count in counts.head(10).items())
        problem = f"{file}: no row has {split!r} in column {cells.name!r}"
        raise TableError(problem, expected=f"one of {splits or 'no rows'}")
    for name, count in counts.items():
        if _misspells(str(name), split_name):
            text = "%s: left out: %d rows with %r in column %r, which is not %r"
            _log.warning(text, file, count, name, cells.name, split_name)
    return split_name


def _misspells(name: str, split: str) -> bool:
    """Whether a name differs from a split's only by case, spaces or a typo; ``train2`` is a name of its own."""
    bare = name.strip().casefold()
    if name == split or bare == split.casefold():
        return name != split
    return not bare.startswith(split) and bool(get_close_matches(bare, [split], cutoff=0.75))
