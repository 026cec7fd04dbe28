"""The data of the search page: images, labels, and embeddings of one or several models, read from disk."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree import LabelTree
from hiertree.arrays import as_paths
from hiertree.datasets.readers.images import FileImages
from hiertree.errors import ImageError, InputError, OptionError
from hiertree.io.files import AnyPath

from ..local_pages.local_server import shrink, thumbnail
from ..stored_embeddings.embedded_pictures import find_pictures
from ..stored_embeddings.embeddings_files import LabeledEmbeddings, read_embeddings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.datasets import ImageSource

_ONE_READER = threading.Lock()  # archives are read at one place at a time


@dataclass(frozen=True)
class Model:
    """A model's embeddings on disk: (Q, d) of the queries, and (N, d) of the gallery, or the queries again."""

    name: str
    queries: Any
    gallery: Any

    def vector(self, row: int) -> NDArray[Any]:
        """(1, d) the embedding of one image; rows of a separate gallery follow those of the queries."""
        number = len(self.queries)
        side, side_row = (self.queries, row) if row < number else (self.gallery, row - number)
        return np.array(side[side_row : side_row + 1])


@dataclass(frozen=True, kw_only=True)
class BrowsedImages:
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
        """(N,) rows of the gallery's images."""
        return np.arange(len(self.models[0].queries) if self.separate else 0, len(self.names))

    def labels(self, row: int) -> list[str]:
        """The labels of an image, coarse → fine."""
        return [] if self.tree is None else [str(label) for label in self.tree.labels_of(self.paths[row].tolist())]


def read_embedded(sources: Sequence[AnyPath], *, images: AnyPath | None = None) -> BrowsedImages:
    """Read the embeddings of the same images by several models: of runs, in folders of ``hiertree embed``, in files.

    ``images`` is the folder below which the names lie; unless given, where they were embedded from, if they are still
    there.
    """
    paths = [Path(source) for source in sources]
    names_of_models = _model_names(paths)
    collections = [read_embeddings(path, in_parts=True, needs_labels=False, uneven="unknown") for path in paths]
    first, names = collections[0], _names(collections[0])
    for path, collection in zip(paths, collections, strict=True):
        if collection.queries.embeddings.dtype.kind != "f":
            raise InputError(f"{path}: embeddings of {collection.queries.embeddings.dtype}", expected="floats")
        if len(collection.queries.embeddings) != len(first.queries.embeddings) or _names(collection) != names:
            problem, remedy = f"the images of {paths[0]} and of {path}", "embed one split with both"
            raise OptionError(problem, expected="the same images in the same order", remedy=remedy)
    pictures, reason = find_pictures(paths[0], names, images)
    return BrowsedImages(
        models=tuple(
            Model(name, collection.queries.embeddings, collection.items.embeddings)
            for name, collection in zip(names_of_models, collections, strict=True)
        ),
        names=names,
        tree=first.tree,
        paths=np.concatenate([as_paths(side.paths) for side in first.image_sets]).astype(np.int32),
        separate=first.separate,
        images=pictures,
        without=reason,
    )


def _names(collection: LabeledEmbeddings) -> list[str]:
    """The names of the images, those of a gallery last; numbers where a file has none."""
    names: list[str] = []
    for kind, side in zip(("query", "item"), collection.image_sets, strict=False):
        ids = side.names if side.ids is None else side.ids
        names += [f"{kind} {row}" for row in range(len(side.embeddings))] if ids is None else map(str, ids)
    return names


def _model_names(folders: Sequence[Path]) -> list[str]:
    """The shortest path endings that are distinct."""
    parts = [folder.resolve().parts for folder in folders]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    raise OptionError(f"folders {', '.join(map(str, folders))}", expected="each folder once")


def picture_of(images: ImageSource, row: int, *, side: int, crop: bool) -> bytes | None:
    """A JPEG of one image, or None where it is missing or does not decode; cropped, it is square."""
    if isinstance(images, FileImages):
        return thumbnail(images.root / images.name(row), side=side, crop=crop)
    try:
        with _ONE_READER:
            return shrink(images[row], side=side, crop=crop)
    except (ImageError, OSError):
        return None
