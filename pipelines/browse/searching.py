"""What the search page shows of embedded images: those of a node, and the neighbors of one of them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree import levels
from hiertree.errors import OptionError

from ..stored_embeddings.neighbors import nearest_images

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from .embedded_images import EmbeddedImages

AT_ONCE = 60  # images
Node = tuple[int, ...]  # the first numbers of a path; empty for the whole tree


class Searching:
    """Looks among embedded images.

    Args:
        shown: the images and their embeddings.
    """

    def __init__(self, shown: EmbeddedImages) -> None:
        self.shown = shown

    @cached_property
    def _mixed_order(self) -> NDArray[np.int64]:
        """The queries, in an order that mixes classes and is the same each time."""
        return np.random.default_rng(0).permutation(len(self.shown.models[0].queries))

    @cached_property
    def _photograph(self) -> NDArray[np.int64]:
        """(n,) equal where one photograph is both a query and in the gallery."""
        return np.unique(np.asarray(self.shown.names, dtype=str), return_inverse=True)[1].reshape(-1)

    def children(self, node: Node) -> list[dict[str, Any]]:
        """The nodes below a node: number, label and how many images each has, by label."""
        tree, paths = self.shown.tree, self.shown.paths
        if tree is None or len(node) >= tree.num_levels:
            return []
        numbers, counts = np.unique(paths[self._inside(node), len(node)], return_counts=True)
        labels = [str(tree.labels_of([*node, number])[-1]) for number in numbers.tolist()]
        found = sorted(zip(labels, numbers.tolist(), counts.tolist(), strict=True))
        return [{"label": label, "number": number, "images": count} for label, number, count in found]

    def images(self, node: Node, *, start: int = 0) -> dict[str, Any]:
        """Some queries of a node, and how many it has."""
        rows = self._queries(node)
        return {"images": [self._image(row) for row in rows[start : start + AT_ONCE].tolist()], "of": len(rows)}

    def random(self, node: Node) -> int:
        """One query of a node.

        Raises:
            OptionError: it has none.
        """
        rows = self._queries(node)
        if not len(rows):
            raise OptionError("a node without queries", expected="a node with images that are queries")
        return int(np.random.default_rng().choice(rows))

    def neighbors(self, query: int, *, model: int = 0, within: Node = (), count: int = AT_ONCE) -> dict[str, Any]:
        """The gallery's images most similar to an image by cosine, and how many share each level with it.

        Args:
            query: row of the image.
            model: number of the model.
            within: the node whose images are looked at.
            count: images wanted.

        Returns:
            ``query`` and ``neighbors``, each an image's row, name and labels; a neighbor also has ``similarity`` and
            ``level``, the depth of the lowest common ancestor. ``at_level`` counts those at each level, 0 … L.
        """
        shown, embedded, rows = self.shown, self.shown.models[model], self.shown.gallery_rows
        kept = self._inside(within)[rows] & (self._photograph[rows] != self._photograph[query])
        vector = embedded.vector(query)
        nearest = nearest_images(vector, [0], count=count, gallery=embedded.gallery, left_out=[np.flatnonzero(~kept)])[
            0
        ]
        depths = levels(shown.paths[[query]], shown.paths[rows])[0] if shown.tree else np.zeros(len(rows), np.uint8)
        similarities = _cosines(vector[0], embedded.gallery[nearest])
        return {
            "query": self._image(query),
            "neighbors": [
                {**self._image(row), "level": level, "similarity": similarity}
                for row, level, similarity in zip(
                    rows[nearest].tolist(), depths[nearest].tolist(), similarities.tolist(), strict=True
                )
            ],
            "at_level": np.bincount(depths[kept], minlength=len(self.level_names) + 1).tolist(),
        }

    @property
    def level_names(self) -> Sequence[str]:
        """Names of the levels, coarse → fine; none without labels."""
        return () if self.shown.tree is None else self.shown.tree.level_names

    def _image(self, row: int) -> dict[str, Any]:
        return {"row": row, "name": self.shown.names[row], "labels": self.shown.labels(row)}

    def _queries(self, node: Node) -> NDArray[np.int64]:
        return self._mixed_order[self._inside(node)[self._mixed_order]]

    def _inside(self, node: Node) -> NDArray[np.bool_]:
        """(n,) which images lie below a node."""
        if len(node) > len(self.level_names):
            raise OptionError(f"node {node}", expected=f"at most {len(self.level_names)} numbers, one a level")
        return np.asarray((self.shown.paths[:, : len(node)] == np.array(node, np.int32)).all(axis=1))


def _cosines(vector: NDArray[Any], others: NDArray[Any]) -> NDArray[np.float64]:
    """(k,) cosines, 0 where a vector has no length."""
    own, rest = np.asarray(vector, np.float64), np.asarray(others, np.float64)
    lengths = np.linalg.norm(own) * np.linalg.norm(rest, axis=1)
    return (rest @ own) / np.where(lengths > 0, lengths, 1.0)
