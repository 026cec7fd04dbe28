"""The splits of a recipe's data set, with or without the images that do not decode."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.datasets import ImageDataset, check_duplicates
from hiertree.datasets.readers.images import reading
from hiertree.errors import (
    HiertreeError,
    ImageError,
    MissingPackageError,
    MissingResourceError,
    NotATreeError,
    RecipeError,
)
from hiertree.io.progress import track

from ..recipe.components import takes, target
from ..recipe.schema import Recipe

if TYPE_CHECKING:
    from numpy.typing import NDArray


def load_split(recipe: Recipe, split: str) -> ImageDataset:
    """Load one split of a recipe's data.

    Args:
        recipe: the experiment.
        split: ``"train"``, ``"test"`` or another split of the data set.

    Raises:
        TableError: a split other than ``"train"`` lists an image twice, which would inflate every metric.
        MissingResourceError: the files are not there; the message says where to get them.
        HiertreeError: the loader finds something wrong with the files.
    """
    options = recipe.data.options()
    skip = recipe.images.on_bad_image == "skip"
    if skip and takes("data", recipe.data.name, "on_bad_image"):
        options["on_bad_image"], skip = "skip", False  # this loader skips them itself, and missing files too
    try:
        with reading(max_pixels=recipe.images.max_pixels, side=recipe.images.largest_view):
            dataset: ImageDataset = target("data", recipe.data.name)(split=split, **options)
            return _checked(dataset, split, skip=skip)
    except MissingResourceError as error:
        if isinstance(error, MissingPackageError) or "root" not in options or error.remedy is None:
            raise
        remedy = f"{error.remedy}; a recipe names it as data.root (--set data.root=PATH)"
        raise MissingResourceError(error.given, expected=error.expected, remedy=remedy) from error
    except NotATreeError as error:
        raise (_of_reversed_levels(recipe, split, options) or error) from None


def _checked(dataset: ImageDataset, split: str, *, skip: bool) -> ImageDataset:
    for part in (dataset, *dataset.beside):
        check_duplicates(part, on_duplicates="warn" if split == "train" else "error")
    return without_unreadable_images(dataset) if skip else dataset


def _of_reversed_levels(recipe: Recipe, split: str, options: dict[str, Any]) -> RecipeError | None:
    """The error of levels that make a tree only the other way round; None if that is not what is wrong."""
    levels = list(options.get("levels", ()))
    try:
        target("data", recipe.data.name)(split=split, **{**options, "levels": levels[::-1]})
    except (HiertreeError, TypeError):
        return None
    given, reverse = (", ".join(map(str, names)) for names in (levels, levels[::-1]))
    return RecipeError(
        f"data.levels=[{given}], where {levels[0]} determines {levels[-1]}: the levels are given fine → coarse",
        expected="coarse → fine",
        remedy=f"reverse them: data.levels=[{reverse}]",
    )


def without_unreadable_images(dataset: ImageDataset) -> ImageDataset:
    """Decode every image once and return the data set without those that fail; ``left_out`` names them.

    Raises:
        ImageError: no image decodes.
    """
    dataset = replace(dataset, beside=tuple(map(without_unreadable_images, dataset.beside)))
    rows = track(range(len(dataset)), description="checking every image")
    unreadable = {row for row in rows if not _decodes(dataset, row)}
    if not unreadable:
        return dataset
    kept = np.array([row for row in range(len(dataset)) if row not in unreadable], dtype=np.int64)
    if not len(kept):
        raise ImageError(f"none of {len(dataset)} images decodes", expected="image files")
    names = tuple(dataset.images.name(row) for row in sorted(unreadable))
    return replace(
        dataset.select(kept, split=dataset.split),
        queries=None if dataset.queries is None else _positions(dataset.queries, kept),
        gallery=None if dataset.gallery is None else _positions(dataset.gallery, kept),
        left_out=dataset.left_out + names,
        beside=dataset.beside,
    )


def _positions(rows: NDArray[np.int64], kept: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions in ``kept`` (ascending) of those rows that are kept."""
    return np.searchsorted(kept, rows[np.isin(rows, kept)])


def _decodes(dataset: ImageDataset, row: int) -> bool:
    try:
        dataset.images[row]
    except ImageError:
        return False
    return True
