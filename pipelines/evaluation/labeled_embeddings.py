"""Embeddings with their label paths, perhaps with a gallery, and what each ranked list leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.tree import LabelTree


class LabeledEmbeddings(NamedTuple):
    """What :func:`hiertree.metrics.evaluate` needs, under the names that the arrays of an ``.npz`` file have.

    Attributes:
        embeddings: (Q, d) of the queries.
        paths: (Q, L) of the queries, coarse → fine.
        gallery_embeddings: (N, d); None where the queries retrieve each other.
        gallery_paths: (N, L).
        ids: Q ids; a query never retrieves an item of its own id.
        gallery_ids: N ids.
        junk: for each query, the rows of the gallery that its list leaves out.
        distractors: (N,) booleans, True for gallery items without a label.
        tree: of the labels that tables gave; None where a file holds paths.
        names: Q names of images.
        gallery_names: N names of images.
    """

    embeddings: NDArray[Any]
    paths: NDArray[Any]
    gallery_embeddings: NDArray[Any] | None = None
    gallery_paths: NDArray[Any] | None = None
    ids: Sequence[Any] | None = None
    gallery_ids: Sequence[Any] | None = None
    junk: Sequence[NDArray[Any]] | None = None
    distractors: NDArray[Any] | None = None
    tree: LabelTree | None = None
    names: Sequence[str] | None = None
    gallery_names: Sequence[str] | None = None

    @property
    def masked(self) -> bool:
        """Whether lists leave out more than the query itself, or hold distractors."""
        return any(value is not None for value in self[4:8])

    @property
    def masks(self) -> dict[str, Any]:
        """What lists leave out, by the keywords of :func:`hiertree.metrics.evaluate`."""
        return {
            "query_ids": self.ids,
            "gallery_ids": self.gallery_ids,
            "junk": self.junk,
            "distractors": self.distractors,
        }

    def as_codes(self) -> LabeledEmbeddings:
        """The same of binary codes: booleans, True where a number of an embedding is positive.

        Raises:
            EmbeddingError: NaN or infinite embeddings; the message names the rows.
        """
        gallery = None if self.gallery_embeddings is None else _codes(self.gallery_embeddings)
        return self._replace(embeddings=_codes(self.embeddings), gallery_embeddings=gallery)


def _codes(embeddings: NDArray[Any]) -> NDArray[np.bool_]:
    from hiertree.losses import binary_codes

    return np.unpackbits(binary_codes(embeddings), axis=1, count=embeddings.shape[1]).astype(np.bool_)
