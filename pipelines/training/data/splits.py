"""The splits of a recipe's data set, hiertree's or torch's: for training, for choosing the best epoch, for testing."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from hiertree.arrays import to_numpy
from hiertree.datasets import ImageDataset, place_above
from hiertree.datasets.archives import TarImages
from hiertree.datasets.readers.images import (
    FileImages,
    channels_last,
    check_pixels,
    image_of_pixels,
    map_sources,
    reading,
)
from hiertree.errors import (
    HiertreeError,
    ImageError,
    MissingPackageError,
    MissingResourceError,
    NotATreeError,
    RecipeError,
    TableError,
    raised_as,
)
from hiertree.io.progress import track
from hiertree.metrics.conventions import PROTOCOLS
from hiertree.tree.label_tree import label_paths

from ..recipe.settings import Recipe

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image

    from hiertree.datasets import ImageSource

SPLIT = "validation"  # what held-out classes are called
SAMPLED_ITEMS = 8  # whose labels are compared with the attribute ``targets``


def load_split(recipe: Recipe, split: str) -> ImageDataset:
    """Load one split of a recipe's data, its classes numbered without gaps."""
    skip, arguments = recipe.images.on_bad_image == "skip", {"split": split}
    if skip and recipe.data.takes("on_bad_image"):
        arguments["on_bad_image"], skip = "skip", False  # this loader skips them itself, and missing files too
    try:
        with reading(max_pixels=recipe.images.max_pixels, view_size=recipe.images.largest_view):
            dataset = as_image_dataset(recipe.data.build(**arguments), name=recipe.data.name, split=split)
            if recipe.data.above is not None:
                dataset = place_above(dataset, recipe.data.above)
            readable_dataset = dataset.drop_unreadable_images() if skip else dataset
            further_lists = tuple(test.drop_absent_classes() for test in readable_dataset.beside)
            return replace(readable_dataset.drop_absent_classes(), beside=further_lists)
    except MissingResourceError as error:
        if isinstance(error, MissingPackageError) or not recipe.data.takes("root") or error.remedy is None:
            raise
        remedy = f"{error.remedy}; a recipe names it as data.root (--set data.root=PATH)"
        raise type(error)(error.given, expected=error.expected, remedy=remedy, choose=error.choose) from error
    except NotATreeError as error:
        raise (_reversed_levels_error(recipe, split) or error) from None


def _reversed_levels_error(recipe: Recipe, split: str) -> RecipeError | None:
    """The error for levels that form a tree only in reverse order; None if that is not the problem."""
    levels = list(recipe.data.options().get("levels", ()))
    try:
        recipe.data.build(split=split, levels=levels[::-1])
    except (HiertreeError, TypeError):
        return None
    order, reverse_order = (", ".join(map(str, names)) for names in (levels, levels[::-1]))
    return RecipeError(
        f"data.levels=[{order}], where {levels[0]} determines {levels[-1]}: the levels are given fine → coarse",
        expected="coarse → fine",
        remedy=f"reverse them: data.levels=[{reverse_order}]",
    )


def load_learning_splits(recipe: Recipe) -> tuple[ImageDataset, ImageDataset | None]:
    """The images available before a run is finished: those to learn from, and those for validation, if any."""
    train, settings = load_split(recipe, "train"), recipe.validation
    if settings is None:
        return train, None
    if settings.classes is None:
        return train, _measurable(load_split(recipe, str(settings.split)))
    train, validation = hold_out_classes(train, fraction=settings.classes, seed=recipe.seed)
    return train, _measurable(validation)


def check_apart(train: ImageDataset, test: ImageDataset) -> None:
    """Refuse a test split that asks for files that the training split has: what was learned by heart is no retrieval.

    Files and members of archives are compared by path; images in memory are not. A gallery apart from the queries may
    hold what was trained on, as benchmarks of hashing do.
    """
    training_files = set(map_sources(train.images, _files)) - {""}
    rows = range(len(test)) if test.queries is None else test.queries.tolist()
    test_files = map_sources(test.images, _files)
    repeats = [row for row in rows if test_files[row] in training_files]
    if repeats:
        problem = (
            f"{test.name}: {len(repeats)} of {len(test)} images of the split {test.split!r} are in {train.split!r}"
        )
        problem += f" as well, the first {test.images.name(repeats[0])!r}"
        remedy = "remove them from one of the splits"
        raise TableError(problem, expected="images that were not trained on", remedy=remedy)


def _files(images: ImageSource) -> NDArray[np.object_]:
    """The whole path of each image that is a file or a member of an archive; of images in memory the empty text."""
    if not isinstance(images, FileImages | TarImages):
        return np.full(len(images), "", dtype=object)
    folder = os.path.realpath(images.root)
    names = map(images.name, range(len(images)))
    return np.array([os.path.normpath(f"{folder}/{name}") for name in names], dtype=object)


def hold_out_classes(dataset: ImageDataset, *, fraction: float, seed: int) -> tuple[ImageDataset, ImageDataset]:
    """Divide a data set into classes to learn and classes held out, each with a tree of its own."""
    classes, of_image = np.unique(dataset.paths[:, -1], return_inverse=True)
    num_held_out = round(fraction * len(classes))
    if not 2 <= num_held_out <= len(classes) - 2:
        problem = f"validation.classes={fraction} of {len(classes)} training classes, which holds out {num_held_out}"
        expected = "at least two classes held out, and two left to learn"
        remedy = "change the fraction, or name a split of the data set by validation.split"
        raise RecipeError(problem, expected=expected, remedy=remedy)
    validation_classes = np.random.default_rng([seed, len(classes)]).permutation(len(classes))[:num_held_out]
    is_held = np.isin(of_image.reshape(-1), validation_classes)
    selections = ((np.flatnonzero(~is_held), dataset.split), (np.flatnonzero(is_held), SPLIT))
    train, held_out = (dataset.select(rows, split=split).drop_absent_classes() for rows, split in selections)
    return train, replace(held_out, left_out=())


def describe_validation(train: ImageDataset, validation: ImageDataset, *, select: str) -> str:
    """One line on how many classes and images pick the best epoch."""
    classes, images = len(validation.tree), len(validation)
    if validation.split == SPLIT:
        every = classes + len(train.tree), images + len(train)
        counts = f"{classes} of {every[0]} training classes held out, {images} of {every[1]}"
    else:
        counts = f"split {validation.split}, {classes} classes, {images}"
    return f"validation: {counts} images; {select} picks the best epoch"


def _measurable(dataset: ImageDataset) -> ImageDataset:
    """The data set without a protocol that applies only to its benchmark's queries and gallery."""
    if dataset.gallery is None and np.unique(dataset.paths[:, -1], return_counts=True)[1].max() < 2:
        problem = f"validation: {len(dataset)} images of {len(dataset)} classes"
        raise RecipeError(problem, expected="a class of at least two images")
    if dataset.protocol is None or dataset.gallery is not None or PROTOCOLS[dataset.protocol].gallery != "separate":
        return dataset
    return replace(dataset, protocol=None)


class ItemImages:
    """The images of a data set whose items are tuples: an image, then its labels."""

    def __init__(self, items: Any) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> Image:
        """The image of Pillow, or that of an array (H, W[, C]) or a tensor (C, H, W): uint8, or floating in [0, 1]."""
        problem, errors = f"item {index} of the data set", (OSError, TypeError, LookupError)
        with raised_as(ImageError, problem, expected="an image, then its labels", on=errors):
            image = self._items[int(index)][0]
        if hasattr(image, "getexif"):
            return cast("Image", image)
        pixels = channels_last(image)
        check_pixels(pixels, f"{problem}: an image")
        return image_of_pixels(pixels)

    def name(self, index: int) -> str:
        """The number of the item."""
        return f"{index}"


def as_image_dataset(dataset: Any, *, name: str, split: str) -> ImageDataset:
    """A data set of hiertree as it is, or a map-style one of torch whose items are an image and its labels.

    The labels, coarse → fine, are those of the items. Its attribute ``targets`` (n,) or (n, L), as in torchvision,
    saves reading every item where it says the same as some of them and no transform of targets is set.
    """
    if isinstance(dataset, ImageDataset):
        return dataset
    if not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")) or not len(dataset):
        problem = f"data: {name} makes {type(dataset).__name__} for split={split!r}"
        raise RecipeError(problem, expected="an ImageDataset, or items (image, label, …) by index, one or more")
    problem, expected = f"data: labels of {name}", "items (image, label, …) of equally many labels, coarse → fine"
    errors = (TypeError, ValueError, LookupError, NotImplementedError)
    with raised_as(RecipeError, problem, expected=expected, on=errors):
        labels = _whole_labels(_targets(dataset))
    if _is_one_hot(labels):
        problem += f": {labels.shape[1]} columns with a single 1 in every row, which is one-hot"
        remedy = "pass the column of the 1, as by argmax"
        raise RecipeError(problem, expected="a number of each class, one column a level", remedy=remedy)
    images = ItemImages(dataset)
    images[0]  # an image that is none is refused now, not in the first step of training
    labeling = label_paths(list(labels.T), None, lambda row: f"item {row}")
    return ImageDataset(name=name, split=split, images=images, **labeling._asdict())


def _is_one_hot(labels: NDArray[Any]) -> bool:
    """Whether every row of three or more labels holds a single 1, and zeros."""
    if labels.shape[1] < 3 or labels.dtype.kind not in "biu":
        return False
    return bool(np.isin(labels, (0, 1)).all() and (labels.sum(axis=1) == 1).all())


def _whole_labels(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels as they are, floating ones as the integers that they must be."""
    if labels.dtype.kind != "f":
        return labels
    is_whole = np.isfinite(labels) & (labels == np.floor(labels))
    if not is_whole.all():
        raise ValueError(f"floating labels such as {labels[~is_whole][0]}")
    return labels.astype(np.int64)


def _targets(items: Any) -> NDArray[Any]:
    """(n, L) labels, by the attribute ``targets`` where it gives what the items hold."""
    targets = getattr(items, "targets", None)
    if targets is not None and len(targets) == len(items) and not _transforms_targets(items):
        table = to_numpy(targets).reshape(len(items), -1)
        rows = np.unique(np.linspace(0, len(items) - 1, SAMPLED_ITEMS).astype(int)).tolist()
        if all(table[row].tolist() == _labels(items[row]) for row in rows):
            return table
    rows = track(range(len(items)), description="reading the labels of the data set")
    label_rows = [_labels(items[row]) for row in rows]
    array = np.array(label_rows)  # refuses rows of several lengths
    return array if array.dtype.kind in "biuf" else np.array(label_rows, dtype=object)  # texts beside numbers


def _transforms_targets(items: Any) -> bool:
    """Whether a data set of torchvision changes its targets, alone or together with the images."""
    joint = getattr(items, "transforms", None)
    changes = (getattr(items, "target_transform", None), getattr(joint, "target_transform", joint))
    return any(change is not None for change in changes)


def _labels(item: Any) -> list[Any]:
    """The labels of an item, one by one or in arrays."""
    return [label for labels in item[1:] for label in to_numpy(labels).reshape(-1).tolist()]
