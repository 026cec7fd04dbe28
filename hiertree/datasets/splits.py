"""The names of splits, of folders, cells, archives and Hugging Face data sets alike, and the rows of a split."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
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
    """Of the names that are present, that of the split, exactly or else in another case; None if there is none.

    >>> name_in(["Train", "Validation"], "val")
    'Validation'
    """
    name_of = {name.strip().casefold(): name for name in names} | {name: name for name in names}
    return next((name_of[name] for name in names_of_split(split) if name in name_of), None)


def split_to_measure(names: Collection[str]) -> str | None:
    """Of splits beside a training split, the one to measure on: test or else val; None if there is none.

    >>> split_to_measure(["training", "validation"]), split_to_measure(["train", "lakes"])
    ('validation', None)
    """
    if name_in(names, "train") is None:
        return None
    return name_in(names, "test") or name_in(names, "val")


def split_order(name: str) -> int:
    """The rank of a split among those of its data set: training first, as its classes are numbered first.

    >>> sorted(["query", "test", "validation", "train"], key=split_order)
    ['train', 'validation', 'query', 'test']
    """
    return next((rank for rank, names in enumerate(SPLIT_NAMES.values()) if name.casefold() in names), 2)


def splits_before(names: Iterable[str], split: str | None) -> list[str]:
    """Of the splits, those whose classes are numbered before those of one, in that order; all of them before None.

    >>> splits_before(["test", "query", "train"], "test")
    ['train']
    """
    order = sorted(dict.fromkeys(names), key=split_order)
    return order if split is None else order[: order.index(split)]


def held_out_rows(
    classes: Sequence[Row], split: str | None, *, fraction: float, by: HoldoutBy, seed: int
) -> tuple[list[int], list[int]]:
    """The rows of ``"test"``, which gets the fraction, or of ``"train"``, the others; and those before them."""
    if split not in ("train", "test"):
        raise OptionError(f"split={split!r} with holdout", expected="'train' or 'test'")
    split_of_row = np.array(draw_splits(classes, {"holdout": fraction}, by=by, seed=seed))
    train, test = (np.flatnonzero(split_of_row == name).tolist() for name in ("train", "holdout"))
    return (train, []) if split == "train" else (test, train)


def draw_splits(
    classes: Sequence[Row], fractions: Mapping[str, float], *, by: HoldoutBy = "classes", seed: int = 0
) -> list[str]:
    """The split of each row, given its class: splits hold these fractions, of the classes or of each one's rows.

    Those that no split holds are of ``"train"``, at least one row of every class where each is divided.

    >>> draw_splits([("lake",), ("lake",), ("peak",), ("peak",)], {"test": 0.5})
    ['test', 'test', 'train', 'train']
    >>> draw_splits([("lake",), ("lake",), ("peak",), ("peak",)], {"test": 0.5}, by="images")
    ['test', 'train', 'test', 'train']
    """
    check_choice("holdout_by", by, HoldoutBy)
    check_integer("seed", seed, least=0)
    for name, fraction in fractions.items():
        check_number(name, fraction, above=0, most=1)
    rows_of: dict[Row, list[int]] = {name: [] for name in sorted(set(classes), key=str)}
    for row, row_class in enumerate(classes):
        rows_of[row_class].append(row)
    random, class_rows = np.random.default_rng(seed), list(rows_of.values())
    if by == "classes":
        drawn_classes = _divided(random.permutation(len(class_rows)).tolist(), fractions, of=len(class_rows))
        split_of = {row: split for index, split in drawn_classes.items() for row in class_rows[index]}
        is_possible = len(drawn_classes) < len(class_rows)
    else:
        permutations = (random.permutation(rows).tolist() for rows in class_rows)
        draws = (_divided(rows[:-1], fractions, of=len(rows)) for rows in permutations)
        split_of, is_possible = {row: split for draw in draws for row, split in draw.items()}, True
    if not is_possible or set(split_of.values()) != set(fractions):
        problem = " and ".join(f"{name}={fraction}" for name, fraction in fractions.items())
        problem += f" of {'' if by == 'classes' else 'the images of each of '}{len(class_rows)} classes"
        raise OptionError(problem, expected=f"at least one {'class' if by == 'classes' else 'image'} in every split")
    return [split_of.get(row, "train") for row in range(len(classes))]


def _divided(items: Sequence[int], fractions: Mapping[str, float], *, of: int) -> dict[int, str]:
    """The split of each item drawn, by fractions of the total count; later items get none."""
    names = [name for name, fraction in fractions.items() for _ in range(round(fraction * of))]
    return dict(zip(items, names, strict=False))


def rows_of_split(
    table: pd.DataFrame, split: str | None, column: str | None, file: Path
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows with that text in the column, in any case, or another name of the split, and those numbered before.

    None takes all rows.
    """
    require(split != "", "split", split, "the name of a split, or None for all rows")
    if column is None and split is not None:
        remedy = (
            "name it (split_column=… in Python, split in a recipe), give holdout=0.5 to hold out half of the classes"
        )
        remedy += " as 'test', or pass split=None for all rows"
        raise OptionError(f"split={split!r} without split_column", expected="the column of splits", remedy=remedy)
    every = np.arange(len(table))
    if column is None:
        return every, every[:0]
    cells = table[column].str.strip().str.casefold()
    split_name = None if split is None else _name_in_column(cells, split.casefold(), file)
    order = {name: rank for rank, name in enumerate(splits_before(cells, split_name))}
    ranks = cells.map(order).to_numpy(dtype=np.float64)  # NaN of other splits, which sort last
    earlier_rows = np.argsort(ranks, kind="stable")[: np.isfinite(ranks).sum()]
    return every if split is None else np.flatnonzero(cells == split_name), earlier_rows


def _name_in_column(cells: pd.Series[str], split: str, file: Path) -> str:
    """What a column calls a split."""
    counts = cells.value_counts()
    split_name = name_in(counts.index, split)
    if split_name is None:
        splits = ", ".join(f"{name!r} ({count} rows)" for name, count in counts.head(10).items())
        problem = f"{file}: no row has {split!r} in column {cells.name!r}"
        raise TableError(problem, expected=f"one of {splits or 'no rows'}")
    return split_name
