"""A gallery to search in: embeddings on disk with the names and labels of their images."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from hiertree.arrays import as_paths, unit_rows
from hiertree.errors import InputError, OptionError, ShapeError
from hiertree.level_columns import UNKNOWN
from hiertree.options import check_integer

from ..pair_scores import nearest_images
from ..stored_embeddings.embeddings_files import read_embeddings

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


class TextModel(Protocol):
    """What embeds texts as it has embedded the gallery, a :class:`TrainedModel` for instance."""

    @property
    def embedding_size(self) -> int:
        """Dimensions of an embedding."""

    @property
    def weights(self) -> str:
        """SHA-256 of its weights."""

    def embed(self, *, texts: Sequence[str], templates: Sequence[str], progress: bool) -> NDArray[np.float32]:
        """(n, d) rows of unit norm."""


class GalleryIndex:
    """Embeddings to search in exactly, by cosine, and a row of a table for each.

    Args:
        embeddings: (n, d).
        table: one row per image, in this order: its name in the column ``image``, then its labels, coarse → fine, where
            they are known.
        model: embeds texts that are searched for.
        weights: SHA-256 of the weights that made the embeddings, where it is known.

    Raises:
        ShapeError: not one row per embedding.

    >>> import pandas as pd
    >>> index = GalleryIndex(np.eye(3, dtype=np.float32), pd.DataFrame({"image": ["a.jpg", "b.jpg", "c.jpg"]}))
    >>> scores, rows = index.search(np.array([[0.0, 2.0, 1.0]], np.float32), k=2)
    >>> index.table["image"][rows[0]].tolist()
    ['b.jpg', 'c.jpg']
    """

    def __init__(
        self, embeddings: Any, table: pd.DataFrame, *, model: TextModel | None = None, weights: str | None = None
    ) -> None:
        if len(embeddings) != len(table):
            raise ShapeError(f"{len(table)} rows of names", expected=f"{len(embeddings)}, one for each embedding")
        self.embeddings, self.table, self.model, self.weights = embeddings, table, model, weights
        if model is not None:
            self.require_model(model)

    @classmethod
    def load(cls, source: str | os.PathLike[str], *, model: TextModel | None = None) -> GalleryIndex:
        """Read a folder that ``hiertree embed`` wrote, a finished run, or a file of embeddings.

        Of queries and a gallery of their own, the gallery is read.

        Raises:
            OptionError: nothing is there.
            InputError: damaged embeddings, or of another model.
        """
        import pandas as pd

        collection = read_embeddings(Path(source), in_parts=True, needs_labels=False, uneven="unknown")
        items = collection.items
        columns: dict[str, Any] = {"image": items.image_names or np.arange(len(items.paths)).astype(str)}
        if collection.tree is not None:
            labels = ((path, collection.tree.labels_of(path)) for path in as_paths(items.paths).tolist())
            rows = ([*row, *[None] * path.count(UNKNOWN)] for path, row in labels)
            columns |= zip(collection.tree.level_names, zip(*rows, strict=True), strict=True)
        weights = getattr(items.embeddings, "model", None)
        return cls(np.asarray(items.embeddings), pd.DataFrame(columns), model=model, weights=weights)

    def search(
        self, queries: NDArray[np.floating] | str | Sequence[str], *, k: int = 10
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The (Q, k) cosines and rows of the nearest images, best first; of fewer images all.

        Args:
            queries: (Q, d) embeddings; or a text, or several, which the index's ``model`` embeds.
            k: images for each query.

        Raises:
            OptionError: k is below 1, or texts in an index without a model.
            ShapeError: embeddings of another network.
        """
        check_integer("k", k)
        if isinstance(queries, str):
            queries = [queries]
        if not isinstance(queries, np.ndarray):
            if self.model is None:
                expected = "GalleryIndex.load(…, model=load_model('open_clip:…')), by which texts are embedded"
                raise OptionError("texts in an index without a model", expected=expected)
            queries = self.model.embed(texts=queries, templates=("{}",), progress=False)
        if queries.ndim != 2 or queries.shape[1] != self.embeddings.shape[1]:
            problem = f"queries of shape {queries.shape} in an index of {self.embeddings.shape[1]} dimensions"
            raise ShapeError(problem, expected="embeddings (Q, d) of the model that embedded the gallery")
        left_out = [np.empty(0, np.int64)] * len(queries)
        rows = nearest_images(queries, self.embeddings, count=k, left_out=left_out)
        nearest = unit_rows(np.asarray(self.embeddings, np.float32)[rows.ravel()]).reshape(*rows.shape, -1)
        return np.einsum("qd,qkd->qk", unit_rows(queries), nearest).astype(np.float32), rows

    def require_model(self, model: TextModel) -> None:
        """Refuse a model that has not embedded the gallery, as far as that is known."""
        width = self.embeddings.shape[1]
        if model.embedding_size != width:
            problem = f"embeddings of {model.embedding_size} dimensions in an index of {width}"
            raise ShapeError(problem, expected="an index made with this model")
        if self.weights not in (None, model.weights):
            remedy = "embed the gallery with this model: `hiertree embed MODEL PHOTOS --out embedded`"
            raise InputError("a gallery that another model has embedded", expected="the same weights", remedy=remedy)
