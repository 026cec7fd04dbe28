"""Where the images of a folder of embeddings are, and small pictures of them."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.datasets.readers.images import FileImages, SelectedImages, inside
from hiertree.errors import HiertreeError, ImageError, OptionError
from hiertree.io.provenance import MANIFEST

from ..local_pages.thumbnails import shrink, thumbnail

if TYPE_CHECKING:
    from hiertree.datasets import ImageDataset, ImageSource

_ONE_READER = threading.Lock()  # archives are read at one place at a time


def find_pictures(
    folder: Path, names: Sequence[str], images: str | os.PathLike[str] | None
) -> tuple[ImageSource | None, str]:
    """The images of these names, or None and the reason.

    Args:
        folder: where ``hiertree embed`` wrote the embeddings.
        names: of the images, in the order of its tables.
        images: the folder below which they lie; default: where they were embedded from.

    Raises:
        OptionError: no such folder.
        TableError: a name that leads out of it.
    """
    if images is not None:
        if not Path(images).is_dir():
            raise OptionError(f"no folder {images}", expected="the one below which the images lie")
        return _files(Path(images), names, folder), ""
    try:
        made = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["parameters"]
        if "embedded" in made:
            photos = Path(made["embedded"])
            return _files(photos if photos.is_dir() else photos.resolve(strict=True).parent, names, folder), ""
        found, listed = _of_recipe(made, source=folder / MANIFEST)
    except (HiertreeError, OSError, KeyError, ValueError) as error:
        return None, f"The images are not where they were embedded from: {error}"
    if listed != list(names):
        return None, "There are other images now where these were embedded from."
    return found, ""


def picture_of(images: ImageSource, row: int, *, side: int, crop: bool) -> bytes | None:
    """A JPEG of one image, or None where it is missing or does not decode.

    Args:
        images: the source.
        row: of the image.
        side: pixels of the longer side.
        crop: whether to make it square.
    """
    if isinstance(images, FileImages):
        return thumbnail(images.root / images.name(row), side=side, crop=crop)
    try:
        with _ONE_READER:
            return shrink(images[row], side=side, crop=crop)
    except (ImageError, OSError):
        return None


def _files(root: Path, names: Sequence[str], folder: Path) -> FileImages:
    return FileImages(root, inside(names, lambda row: f"{folder}, image {row + 1}"))


def _of_recipe(made: dict[str, Any], *, source: Path) -> tuple[ImageSource, list[str]]:
    """The images of the split that a recipe names, and their names, in the order of the tables."""
    from ..training.data.splits import load_split
    from ..training.recipe.reading import check_recipe

    split = made.pop("split")
    dataset = load_split(check_recipe(made, source=str(source)), split)
    parts = [part for part in (dataset.queries, dataset.gallery) if part is not None]
    rows = np.concatenate(parts) if parts else np.arange(len(dataset))
    images = SelectedImages(dataset.images, rows) if parts else dataset.images
    return images, [_name(dataset, row) for row in rows.tolist()]


def _name(dataset: ImageDataset, row: int) -> str:
    """As the table of ``hiertree embed`` has it."""
    return dataset.images.name(row) if dataset.ids is None else str(dataset.ids[row])
