"""What a trained model embeds: a folder, files, images in memory, the images of a data set, or a loader's batches."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from hiertree.datasets import ImageSource
from hiertree.datasets.readers.images import FileImages, channels_last, check_pixels, image_files, image_of_pixels
from hiertree.errors import InputError

_TAKEN = (
    "a folder, a file, a PIL image, an array (height, width, channels) or a tensor (channels, height, width); a list, "
    "Series or batch of files or of such images; a data set's .images; or a DataLoader of such batches, alone, first "
    'in a tuple or as "image" in a dict'
)


class ImagesInMemory:
    """Images of PIL, and arrays (height, width[, channels]): uint8, or floating in [0, 1].

    Raises:
        ShapeError: an array of another shape.
        InputError: an array of another type or range.
    """

    def __init__(self, images: Sequence[Image.Image | NDArray[Any]]) -> None:
        self._images = images
        for index, image in enumerate(images):
            if not isinstance(image, Image.Image):
                check_pixels(image, f"image {index}")

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> Image.Image:
        image = self._images[index]
        return image if isinstance(image, Image.Image) else image_of_pixels(image)

    def name(self, index: int) -> str:
        """The file an image was opened from, or its number."""
        return str(getattr(self._images[index], "filename", "") or f"image {index}")


def as_image_source(images: object) -> ImageSource:
    """Give access by index to images of any kind."""
    if isinstance(images, (str, os.PathLike)):
        path = Path(images)
        return FileImages(Path(), [os.fspath(path)]) if path.is_file() else FileImages(path, image_files(path))
    if callable(getattr(images, "name", None)) and hasattr(images, "__getitem__") and hasattr(images, "__len__"):
        return cast(ImageSource, images)
    items = _as_list(images)
    if items is None:
        raise InputError(f"images of type {type(images).__name__}", expected=_TAKEN)
    if not items:
        raise InputError("no images: an empty list", expected="at least one image")
    if all(isinstance(image, (str, os.PathLike)) for image in items):
        return FileImages(Path(), [os.fspath(file) for file in items])
    pictures = [channels_last(image) for image in items]
    if all(isinstance(picture, (Image.Image, np.ndarray)) for picture in pictures):
        return ImagesInMemory(pictures)
    kinds = ", ".join(sorted({type(image).__name__ for image in items}))
    raise InputError(f"a list of {kinds}", expected=_TAKEN)


def _as_list(images: Any) -> Sequence[Any] | None:
    """Single images, files or a batch, one by one; None where it is nothing of the kind."""
    if hasattr(images, "to_list"):  # a column of a data frame
        return cast("list[Any]", images.to_list())
    images = channels_last(images)
    if isinstance(images, np.ndarray) and images.dtype.kind in "OU":
        return cast("list[Any]", images.ravel().tolist())
    if isinstance(images, np.ndarray) and images.ndim == 4:
        return list(images)
    if isinstance(images, (Image.Image, np.ndarray)):
        return [images]
    return images if isinstance(images, Sequence) else None


def images_of_batch(batch: object) -> object:
    """The images in a batch of a DataLoader: alone, first in a tuple (images, labels), or a mapping's ``image``."""
    if isinstance(batch, Mapping):
        if "image" not in batch:
            raise InputError(f"batches with {', '.join(map(str, batch)) or 'nothing'}", expected=_TAKEN)
        return batch["image"]
    if isinstance(batch, (tuple, list)) and batch:
        first = batch[0]
        if isinstance(first, (tuple, list)) or getattr(first, "ndim", 0) == 4:
            return first
    return batch
