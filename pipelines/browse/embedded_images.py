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
from hiertree.io.provenance import MANIFEST
from hiertree.io.reading import read_json_object

from ..local_pages.local_server import shrink, thumbnail
from ..stored_embeddings.embedded_files import find_pictures
from ..stored_embeddings.embeddings_files import LabeledEmbeddings, read_embeddings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.datasets import ImageSource

    from ..inference import TrainedModel

_ONE_READER = threading.Lock()  # archives are read at one place at a time


@dataclass(frozen=True)
class Model:
    """A model's embeddings on disk: (Q, d) of the queries, and (N, d) of the gallery, or the queries again.

    ``network`` embeds texts and further photographs; None where it was not named.
    """

    name: str
    queries: Any
    gallery: Any
    network: TrainedModel | None = None

    def vector(self, row: int) -> NDArray[Any]:
        """(1, d) the embedding of one image; rows of a separate gallery follow those of the queries."""
        count = len(self.queries)
        vectors, index = (self.queries, row) if row < count else (self.gallery, row - count)
        return np.array(vectors[index : index + 1])


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


def read_embedded(
    sources: Sequence[AnyPath], *, images: AnyPath | None = None, models: Sequence[str] = ()
) -> BrowsedImages:
    """Read the embeddings of the same images by several models: of runs, in folders of ``hiertree embed``, in files.

    ``images`` is the folder below which the names lie; unless given, where they were embedded from, if they are still
    there. ``models`` are the networks that embedded them, one for each source, by which texts and further photographs
    are embedded.
    """
    paths = [Path(source) for source in sources]
    if models and len(models) != len(paths):
        raise OptionError(f"{len(models)} models", expected=f"{len(paths)}, one for each of the embeddings, or none")
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
    networks = [
        _network(model, path, collection.items.embeddings)
        for model, path, collection in zip(models or [""] * len(paths), paths, collections, strict=True)
    ]
    return BrowsedImages(
        models=tuple(
            Model(name, collection.queries.embeddings, collection.items.embeddings, network)
            for name, collection, network in zip(names_of_models, collections, networks, strict=True)
        ),
        names=names,
        tree=first.tree,
        paths=np.concatenate([as_paths(items.paths) for items in first.image_sets]).astype(np.int32),
        separate=first.separate,
        images=pictures,
        without=reason,
    )


def _names(collection: LabeledEmbeddings) -> list[str]:
    """The names of the images, those of a gallery last; numbers where a file has none."""
    names: list[str] = []
    for kind, items in zip(("query", "item"), collection.image_sets, strict=False):
        ids = items.names if items.ids is None else items.ids
        names += [f"{kind} {row}" for row in range(len(items.embeddings))] if ids is None else map(str, ids)
    return names


def _network(model: str, source: Path, embeddings: Any) -> TrainedModel | None:
    """The network of that name, which must have made the embeddings; None without a name."""
    if not model:
        return None
    from ..inference import load_model

    network, weights = load_model(model), getattr(embeddings, "model", None)
    if network.embedding_size != embeddings.shape[1] or weights not in (None, network.weights):
        problem = f"{source} and {model}, which has not made these embeddings"
        raise InputError(problem, expected="the model of that `hiertree embed`")
    return network


def _model_names(folders: Sequence[Path]) -> list[str]:
    """What `hiertree embed` was given as models, if these differ; else the shortest path endings that are distinct."""
    stated = [_embedding_model(folder) for folder in folders]
    if all(stated) and len(set(stated)) == len(stated):
        return list(map(str, stated))
    paths = [folder.resolve().parts for folder in folders]
    for length in range(1, max(map(len, paths)) + 1):
        names = ["/".join(path[-length:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    raise OptionError(f"folders {', '.join(map(str, folders))}", expected="each folder once")


def _embedding_model(folder: Path) -> str | None:
    """The model that the manifest of `hiertree embed` names."""
    if not (folder / MANIFEST).is_file():
        return None
    parameters = read_json_object(folder / MANIFEST, expected="a manifest", kind=InputError).get("parameters")
    if not isinstance(parameters, dict) or "embedded" not in parameters:
        return None
    return str(parameters["name"]) if parameters.get("name") else None


def picture_of(images: ImageSource, row: int, *, pixels: int, crop: bool) -> bytes | None:
    """A JPEG of one image, or None where it is missing or does not decode; cropped, it is square."""
    if isinstance(images, FileImages):
        return thumbnail(images.root / images.name(row), pixels=pixels, crop=crop)
    try:
        with _ONE_READER:
            return shrink(images[row], pixels=pixels, crop=crop)
    except (ImageError, OSError):
        return None
