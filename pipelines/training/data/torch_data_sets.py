"""Convert torch data sets of images and labels to data sets of hiertree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.datasets import ImageDataset
from hiertree.datasets.labels_to_paths import label_paths
from hiertree.errors import ImageError, RecipeError
from hiertree.io.progress import track

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image


class ItemImages:
    """The images of a data set whose items are tuples: an image, then its labels."""

    def __init__(self, items: Any) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> Image:
        """The image as Pillow holds it, from Pillow, an array (H, W, C) of 8 bits, or a tensor (C, H, W)."""
        from torchvision.transforms.v2 import functional

        try:
            image = self._items[int(index)][0]
            pillow_image: Image = image if hasattr(image, "getexif") else functional.to_pil_image(image)
            return pillow_image
        except (OSError, TypeError, ValueError, LookupError) as error:
            raise ImageError(f"item {index} of the data set ({error})", expected="an image, then its labels") from error

    def name(self, index: int) -> str:
        """The number of the item."""
        return f"{index}"


def as_image_dataset(dataset: Any, *, name: str, split: str) -> ImageDataset:
    """A data set of hiertree as it is, or a map-style one of torch whose items are an image and its labels.

    The labels, coarse → fine, stand in its attribute ``targets`` (n,) or (n, L), as in torchvision; else every item is
    read once to find them.
    """
    if isinstance(dataset, ImageDataset):
        return dataset
    if not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")) or not len(dataset):
        problem = f"data: {name} makes {type(dataset).__name__} for split={split!r}"
        raise RecipeError(problem, expected="an ImageDataset, or items (image, label, …) by index, one or more")
    try:
        columns = _columns(dataset)
    except (TypeError, ValueError, LookupError) as error:
        problem = f"data: labels of {name} ({error})"
        raise RecipeError(problem, expected="items (image, label, …) of equally many labels, coarse → fine") from error
    labels = label_paths(columns, level_names=None, where=lambda row: f"item {row}")
    return ImageDataset(name=name, split=split, tree=labels.tree, paths=labels.paths, images=ItemImages(dataset))


def _columns(items: Any) -> list[NDArray[Any]]:
    """The labels of every level."""
    targets = getattr(items, "targets", None)
    if targets is not None:
        table = np.asarray(targets)
        columns = list(table.reshape(len(table), -1).T)
    else:
        rows = track(range(len(items)), description="reading the labels of the data set")
        columns = [np.array(column) for column in zip(*(_labels(items[row]) for row in rows), strict=True)]
    if not columns or len(columns[0]) != len(items):
        raise ValueError(f"{len(columns)} levels, {len(items)} items")
    return columns


def _labels(item: Any) -> list[Any]:
    """The labels of an item, one by one or in arrays."""
    return [label for part in item[1:] for label in np.asarray(part).reshape(-1).tolist()]
