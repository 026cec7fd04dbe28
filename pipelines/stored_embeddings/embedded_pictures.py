"""Where the images of embeddings are: in a folder that is given, or where they were embedded from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.datasets.huggingface import HUB
from hiertree.datasets.input_images import load_input_images
from hiertree.datasets.readers.images import FileImages, SelectedImages, inside
from hiertree.errors import HiertreeError, OptionError
from hiertree.io.files import AnyPath
from hiertree.io.provenance import MANIFEST
from hiertree.io.reading import reading_json

if TYPE_CHECKING:
    from hiertree.datasets import ImageSource


def find_pictures(source: Path, names: Sequence[str], images: AnyPath | None) -> tuple[ImageSource | None, str]:
    """The images of these names, or None and the reason."""
    if images is not None:
        if not Path(images).is_dir():
            raise OptionError(f"no folder {images}", expected="the one below which the images lie")
        return _files(Path(images), names, source), ""
    if not source.is_dir():
        return None, "No folder of images was given (--images)."
    file, expected = source / MANIFEST, "the manifest of `hiertree embed` or of a run"
    if not file.is_file():
        return None, "No manifest says where the images are (--images)."
    with reading_json(file, expected=expected) as content:
        stated = content.get("parameters")
        parameters = dict(stated) if isinstance(stated, dict) else {}
    embedded = str(parameters.get("embedded") or "")
    if embedded.startswith(HUB):
        return None, f"The images are those of {embedded}, which is not fetched for a folder (--images)."
    try:
        if embedded:
            options: dict[str, Any] = {"labeled": False, "root": parameters.get("root")}
            pictures = load_input_images(embedded, parameters.get("split"), **options).dataset.images
            if isinstance(pictures, FileImages):
                return _files(pictures.root, names, source), ""
            name_lists = [list(map(pictures.name, range(len(pictures))))]
        else:
            pictures, name_lists = _load_pictures(parameters, source=file)
    except HiertreeError as error:
        return None, f"The images are not where they were embedded from (--images says where they are): {error}"
    if list(names) not in name_lists:
        return None, "There are other images now where these were embedded from."
    return pictures, ""


def _files(root: Path, names: Sequence[str], folder: Path) -> FileImages:
    return FileImages(root, inside(names, root, lambda row: f"{folder}, image {row + 1}"))


def _load_pictures(parameters: dict[str, Any], *, source: Path) -> tuple[ImageSource, list[list[str]]]:
    """The images of the split that a recipe names, and their names or ids, in the order of the tables."""
    from ..training.data.splits import load_split
    from ..training.recipe.reading import check_recipe

    split = parameters.pop("split", "test")  # which a run's manifest does not name
    dataset = load_split(check_recipe(parameters, source=str(source)), split)
    sides = [rows for rows in (dataset.queries, dataset.gallery) if rows is not None]
    rows = np.concatenate(sides) if sides else np.arange(len(dataset))
    images = SelectedImages(dataset.images, rows) if sides else dataset.images
    ids = [] if dataset.ids is None else [list(map(str, dataset.ids[rows]))]
    return images, [list(map(dataset.images.name, rows.tolist())), *ids]
