"""What a trained model embeds: a folder, files, decoded images, or the images of a data set."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from PIL import Image

from hiertree.datasets import ImageSource
from hiertree.datasets.readers.images import FileImages, image_files
from hiertree.errors import InputError


class DecodedImages:
    """Images that are decoded already."""

    def __init__(self, images: Sequence[Image.Image]) -> None:
        self._images = images

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> Image.Image:
        return self._images[index]

    def name(self, index: int) -> str:
        """The file an image was opened from, or its number."""
        return str(getattr(self._images[index], "filename", "") or f"image {index}")


def as_image_source(images: object) -> ImageSource:
    """Give access by index to images of any kind."""
    if isinstance(images, (str, os.PathLike)):
        path = Path(images)
        return FileImages(Path(), [os.fspath(path)]) if path.is_file() else FileImages(path, image_files(path))
    if isinstance(images, Image.Image):
        return DecodedImages([images])
    if callable(getattr(images, "name", None)) and hasattr(images, "__getitem__") and hasattr(images, "__len__"):
        return cast(ImageSource, images)
    if hasattr(images, "to_list"):  # a column of a data frame
        images = images.to_list()
    if not isinstance(images, Sequence):
        raise InputError(
            f"images of type {type(images).__name__}",
            expected="a folder, files, PIL images, a tensor, or a data set's .images",
        )
    if not len(images):
        raise InputError("no images: an empty list", expected="at least one image")
    if all(isinstance(image, (str, os.PathLike)) for image in images):
        return FileImages(Path(), [os.fspath(file) for file in images])
    if all(isinstance(image, Image.Image) for image in images):
        return DecodedImages(images)
    kinds = ", ".join(sorted({type(image).__name__ for image in images}))
    raise InputError(f"a list of {kinds}", expected="a list of files or a list of PIL images")
