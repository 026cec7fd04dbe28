"""What the search page shows: images, their labels, and the embeddings of one or several models, left on the disk."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree import LabelTree
from hiertree.datasets.readers.images import FileImages, SelectedImages, inside
from hiertree.errors import HiertreeError, ImageError, InputError, OptionError
from hiertree.io.provenance import MANIFEST
from hiertree.io.tables import read_table

from ..local_pages.local_server import shrink, thumbnail
from ..stored_embeddings.label_columns import (
    IMAGE,
    LabelColumns,
    LabeledRows,
    rows_in_shards,
    rows_with_table,
    shared_paths,
)
from ..stored_embeddings.shards import Shards, is_data_set, shard_files

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.datasets import ImageSource

AnyPath = str | os.PathLike[str]
_ONE_READER = threading.Lock()  # archives are read at one place at a time


@dataclass(frozen=True)
class Model:
    """A model's embeddings of all images, on the disk: (Q, d) queries, and (N, d) of a gallery or again the queries."""

    name: str
    queries: Any
    gallery: Any

    def vector(self, row: int) -> NDArray[Any]:
        """(1, d) that of one image; the rows of a separate gallery follow those of the queries."""
        number = len(self.queries)
        side, own = (self.queries, row) if row < number else (self.gallery, row - number)
        return np.array(side[own : own + 1])


@dataclass(frozen=True, kw_only=True)
class EmbeddedImages:
    """Images that models have embedded: the queries, then those of a separate gallery.

    ``paths`` are (n, L) in the tree of their labels, if they have any; ``without`` says why there are no pictures.
    """

    models: tuple[Model, ...]
    names: Sequence[str]
    tree: LabelTree | None
    paths: NDArray[np.int32]
    separate: bool
    images: ImageSource | None
    without: str = ""

    @property
    def gallery_rows(self) -> NDArray[np.int64]:
        """(N,) rows of the images that are retrieved."""
        return np.arange(len(self.models[0].queries) if self.separate else 0, len(self.names))

    def labels(self, row: int) -> list[str]:
        """The labels of an image, coarse → fine."""
        return [] if self.tree is None else [str(label) for label in self.tree.labels_of(self.paths[row].tolist())]


def read_embedded(folders: Sequence[AnyPath], *, images: AnyPath | None = None) -> EmbeddedImages:
    """Read folders that ``hiertree embed`` wrote, one per model, of the same images.

    A folder holds ``embeddings.npy`` and its table, or ``queries.npy`` and ``gallery.npy`` and theirs, or shards.
    ``images`` is the folder below which the names lie; unless given, where they were embedded from, if they are still
    there.
    """
    paths = [Path(folder) for folder in folders]
    called = _model_names(paths)
    sides = [_sides(path) for path in paths]
    models = tuple(_model(*known) for known in zip(called, paths, sides, strict=True))
    queries, *rest = sides[0]
    names = [name for rows in (queries, *rest) for name in rows.ids]
    for path, own in zip(paths[1:], sides[1:], strict=True):
        _require_same_images(paths[0], path, sides[0], own)
    pictures, without = find_pictures(paths[0], names, images)
    tree, labeled = None, np.zeros((len(names), 1), np.int32)
    if queries.levels:
        tree, *parts = shared_paths(queries, rest[0] if rest else None, distractors=False)[:3]
        labeled = np.concatenate([part for part in parts if part is not None])
    return EmbeddedImages(
        models=models,
        names=names,
        tree=tree,
        paths=labeled,
        separate=bool(rest),
        images=pictures,
        without=without,
    )


def _sides(folder: Path) -> list[LabeledRows]:
    """All images, or the queries and the gallery, of a folder of arrays or of shards."""
    if not any((folder / array).is_file() for array in ("embeddings.npy", "queries.npy")) and is_data_set(folder):
        inner = [folder / side for side in ("queries", "gallery") if (folder / side).is_dir()] or [folder]
        return [_rows_of_shards(Shards(shard_files(side) or [])) for side in inner]
    return [_rows(_array(folder / array), folder / table) for array, table in _tables(folder).items()]


def _rows_of_shards(shards: Shards) -> LabeledRows:
    if list(shards.columns) != [IMAGE]:
        return rows_in_shards(shards, LabelColumns(ids=IMAGE))
    return LabeledRows(shards, (), [], shards.row_name, shards.texts(IMAGE))


def _tables(folder: Path) -> dict[str, str]:
    """The arrays of a folder and their tables: of all images, or of the queries and of the gallery."""
    arrays = {"embeddings.npy": "labels.csv" if (folder / "labels.csv").is_file() else "images.csv"}
    if (folder / "queries.npy").is_file():
        arrays = {"queries.npy": "queries.csv", "gallery.npy": "gallery.csv"}
    missing = [name for pair in arrays.items() for name in pair if not (folder / name).is_file()]
    if missing:
        raise OptionError(
            f"{folder} without {' and '.join(missing)}",
            expected="a folder that `hiertree embed` wrote",
            remedy="name the folder given to its --out",
        )
    return arrays


def _array(file: Path) -> NDArray[Any]:
    try:
        found: NDArray[Any] = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be read", expected="an array that numpy saved") from error
    if found.ndim != 2 or 0 in found.shape or found.dtype.kind != "f":
        raise InputError(f"{file}: {found.dtype} of shape {found.shape}", expected="(n, d) floats, not empty")
    return found


def _rows(embeddings: NDArray[Any], table: Path) -> LabeledRows:
    """An array with the rows of its table, whose ids are names of images."""
    if table.name != "images.csv":
        return rows_with_table(embeddings, table, LabelColumns(ids=IMAGE))
    names = read_table(table, required=[IMAGE])[IMAGE].tolist()
    if len(names) != len(embeddings):
        raise InputError(f"{table} with {len(names)} rows", expected=f"{len(embeddings)}, one an embedding")
    return LabeledRows(embeddings, (), [], lambda row: f"{table.name}, line {row + 2}", names)


def _require_same_images(first: Path, other: Path, own: Sequence[LabeledRows], others: Sequence[LabeledRows]) -> None:
    """Refuse a model that embedded other images, or the same in another order."""
    if [list(side.ids) for side in own] != [list(side.ids) for side in others]:
        given = f"the images of {first} and of {other}"
        raise OptionError(given, expected="the same images in the same order", remedy="embed one split with both")


def _model(name: str, folder: Path, sides: Sequence[LabeledRows]) -> Model:
    queries, gallery = sides[0].embeddings, sides[-1].embeddings
    if queries.shape[1] != gallery.shape[1]:
        given = f"{folder}: queries and gallery of {queries.shape[1]} and {gallery.shape[1]} numbers"
        raise InputError(given, expected="as many in both")
    return Model(name, queries, gallery)


def _model_names(folders: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths that tell them apart."""
    parts = [folder.resolve().parts for folder in folders]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    raise OptionError(f"folders {', '.join(map(str, folders))}", expected="each named once")


def find_pictures(
    folder: Path, names: Sequence[str], images: str | os.PathLike[str] | None
) -> tuple[ImageSource | None, str]:
    """The images of these names, or None and the reason."""
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
    """A JPEG of one image, or None where it is missing or does not decode; cropped, it is square."""
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
    return images, list(map(dataset.images.name, rows.tolist()) if dataset.ids is None else map(str, dataset.ids[rows]))
