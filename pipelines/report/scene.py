"""What queries and gallery show and are called: the pictures and labels of a data set, or paths alone without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.datasets.labeling import label_paths

from .tree import own_label

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hiertree.datasets import ImageDataset, ImageSource
    from hiertree.tree import LabelTree


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Queries and what they are looked up in.

    Attributes:
        facts: what they are, in a sentence.
        tree: of their labels.
        query_paths: (Q, L) of the queries.
        gallery_paths: (N, L); the queries' own where these retrieve each other.
        separate: whether there is a gallery besides the queries.
        images: pictures of queries and gallery, or None.
        query_rows: (Q,) places of the queries among the images.
        gallery_rows: (N,) the same of the gallery.
        without: why there are no pictures; empty where there are.
    """

    facts: str
    tree: LabelTree
    query_paths: NDArray[np.int32]
    gallery_paths: NDArray[np.int32]
    separate: bool
    images: ImageSource | None
    query_rows: NDArray[np.int64]
    gallery_rows: NDArray[np.int64]
    without: str = ""

    def label(self, path: NDArray[np.int32]) -> str:
        """The labels of a path, coarse › fine."""
        labels = self.tree.labels_of(path.tolist())
        return " › ".join(own_label(labels[: depth + 1]) for depth in range(len(labels)))


def scene_of(dataset: ImageDataset) -> Scene:
    """The queries and the gallery of a data set, or all of its images."""
    everything, levels = np.arange(len(dataset)), described_levels(dataset.tree)
    separate = dataset.queries is not None and dataset.gallery is not None
    query = everything if dataset.queries is None else dataset.queries
    gallery = everything if dataset.gallery is None else dataset.gallery
    counts = f"{len(query):,} queries in a gallery of {len(gallery):,}" if separate else f"the {len(query):,} images"
    return Scene(
        facts=f"Measured on {counts} of {dataset.name}, {dataset.split} split. {levels}",
        tree=dataset.tree,
        query_paths=dataset.paths[query],
        gallery_paths=dataset.paths[gallery],
        separate=separate,
        images=dataset.images,
        query_rows=query,
        gallery_rows=gallery,
    )


def scene_of_labels(
    queries: Sequence[Any],
    gallery: Sequence[Any] | None,
    *,
    level_names: Sequence[str],
    images: ImageSource | None = None,
    without: str = "",
) -> Scene:
    """Queries and gallery that are known by their labels alone, perhaps with pictures: queries first, then gallery.

    Args:
        queries: L columns of labels, coarse → fine, or of ids.
        gallery: the same of a separate gallery.
        level_names: L names.
        images: as many, in that order.
        without: why there are none.
    """
    columns = queries if gallery is None else [[*own, *other] for own, other in zip(queries, gallery, strict=True)]
    tree, paths = label_paths(columns, level_names=level_names, where=lambda row: f"item {row}", leaf="path")
    number = len(queries[0])
    query, rest = np.arange(number), np.arange(number, len(paths))
    counts = f"{number:,} queries" + ("" if gallery is None else f" in a gallery of {len(rest):,}")
    found = query if gallery is None else rest
    return Scene(
        facts=f"Measured on {counts}. {described_levels(tree)}",
        tree=tree,
        query_paths=paths[query],
        gallery_paths=paths[found],
        separate=gallery is not None,
        images=images,
        query_rows=query,
        gallery_rows=found,
        without=without,
    )


def described_levels(tree: LabelTree) -> str:
    """Names and sizes of the levels, in a sentence."""
    levels = zip(tree.level_names, tree.level_sizes, strict=True)
    return f"Levels: {' › '.join(f'{name} ({size:,})' for name, size in levels)}."
