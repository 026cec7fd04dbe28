"""The names of splits, of folders, cells, archives and Hugging Face data sets alike."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

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
    position = next((place for place, names in enumerate(SPLIT_NAMES.values()) if name in names), None)
    return 2 if position is None else position
