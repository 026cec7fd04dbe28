"""The queries and the gallery that a report shows, and blocks of the scores between them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.arrays import as_paths
from hiertree.datasets.readers.images import SelectedImages
from hiertree.metrics.statistics import paired_randomization_test
from hiertree.tree.label_tree import label_paths

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from hiertree.datasets import ImageDataset, ImageSource
    from hiertree.tree import LabelTree

    from ..stored_embeddings.embeddings_files import LabeledEmbeddings

SIGNIFICANT = 0.05  # of p, after corrections


@dataclass(frozen=True, kw_only=True)
class QueriesAndGallery:
    """Queries and the items that are ranked for them: paths, labels and, where they are at hand, pictures."""

    tree: LabelTree  # of their labels
    paths: Sequence[NDArray[np.int32]]  # (Q, L) of the queries, and (N, L) of a separate gallery if there is one
    images: ImageSource | None = None  # pictures of the queries, followed by those of a separate gallery
    source: str = ""  # the data set and its split; empty where that is unknown
    without: str = ""  # why there are no pictures; empty where there are

    @classmethod
    def from_dataset(cls, dataset: ImageDataset) -> QueriesAndGallery:
        """The queries and the gallery of a data set, or all of its images."""
        dataset = dataset.drop_absent_classes()
        source, paths, images = f"{dataset.name}, {dataset.split} split", dataset.paths, dataset.images
        query, gallery = dataset.queries, dataset.gallery
        if query is None or gallery is None:
            return cls(tree=dataset.tree, paths=[paths], images=images, source=source)
        images = SelectedImages(images, np.concatenate([query, gallery]))
        return cls(tree=dataset.tree, paths=[paths[query], paths[gallery]], images=images, source=source)

    @classmethod
    def from_label_ids(
        cls, paths: Sequence[NDArray[Any]], *, images: ImageSource | None = None, without: str
    ) -> QueriesAndGallery:
        """Queries and perhaps a gallery of numbered classes, without names for classes and levels."""
        rows = [path for ids in paths for path in ids.reshape(len(ids), -1).tolist()]
        names = [f"level {level}" for level in range(1, len(rows[0]) + 1)]
        columns = list(zip(*rows, strict=True))
        tree, all_paths = label_paths(columns, level_names=names, where=lambda row: f"item {row}", leaf="path")
        return cls(tree=tree, paths=np.split(all_paths, [len(paths[0])])[: len(paths)], images=images, without=without)

    @property
    def separate(self) -> bool:
        """Whether the gallery is not the queries themselves."""
        return len(self.paths) > 1

    @property
    def query_paths(self) -> NDArray[np.int32]:
        """(Q, L) of the queries."""
        return self.paths[0]

    @property
    def gallery_paths(self) -> NDArray[np.int32]:
        """(N, L) of the gallery."""
        return self.paths[-1]

    @property
    def gallery_start(self) -> int:
        """The index of the gallery's first picture among the images."""
        return len(self.query_paths) if self.separate else 0

    @property
    def facts(self) -> str:
        """A sentence with the numbers of queries, items and classes."""
        counts = f"{len(self.query_paths):,} queries"
        if self.separate:
            counts += f" in a gallery of {len(self.gallery_paths):,}"
        elif self.source:
            counts = f"the {len(self.query_paths):,} images"
        source = None if self.source == "images" else self.source  # a table of that name
        subject = " of ".join(filter(None, (counts, source)))
        sizes = zip(self.tree.level_names, self.tree.level_sizes, strict=True)
        return f"Measured on {subject}. Levels: {' › '.join(f'{name} ({size:,})' for name, size in sizes)}."

    def label(self, path: NDArray[np.int32]) -> str:
        """The labels of a path, coarse › fine."""
        labels = self.tree.labels_of(path.tolist())
        return " › ".join(own_label(labels[: depth + 1]) for depth in range(len(labels)))


def own_label(labels: tuple[Hashable, ...]) -> str:
    """The last of a node's labels, without the labels above it where a data set wrote those before it.

    >>> own_label(("disc", "striped", "disc/striped/first")), own_label(("natural", "lake"))
    ('first', 'lake')
    """
    return str(labels[-1]).removeprefix("/".join(map(str, labels[:-1])) + "/")


def matching_rows(names: Sequence[str] | None, targets: Sequence[str] | None) -> NDArray[np.int64] | None:
    """For each wanted image the row of the same name, below the folder that all have in common; None if they differ.

    >>> matching_rows(["peak/1.jpg", "lake/2.jpg"], ["photos/lake/2.jpg", "photos/peak/1.jpg"])
    array([1, 0])
    """
    if names is None or targets is None:
        return None
    source_names, target_names = _below_common_folder(names), _below_common_folder(targets)
    row_of = {name: row for row, name in enumerate(source_names)}
    if len(row_of) < len(source_names) or sorted(source_names) != sorted(target_names):
        return None
    return np.array([row_of[name] for name in target_names])


def rows_of(embeddings: LabeledEmbeddings, targets: LabeledEmbeddings) -> list[NDArray[np.int64]] | None:
    """For each wanted query, and each item of a gallery, the row of the same name; None where the images differ."""
    if len(embeddings.image_sets) != len(targets.image_sets):
        return None
    pairs = zip(embeddings.image_sets, targets.image_sets, strict=True)
    rows = [matching_rows(images.image_names, target.image_names) for images, target in pairs]
    orders = [order for order in rows if order is not None]
    return orders if len(orders) == len(rows) else None


def have_same_classes(
    embeddings: LabeledEmbeddings, targets: LabeledEmbeddings, rows: Sequence[NDArray[np.int64]] | None = None
) -> bool:
    """Whether the paths of the rows tell the same images apart at each level as the wanted ones."""
    orders: Sequence[Any] = [slice(None)] * len(embeddings.image_sets) if rows is None else rows
    paths = [as_paths(images.paths)[order] for images, order in zip(embeddings.image_sets, orders, strict=True)]
    target_paths = [as_paths(images.paths) for images in targets.image_sets]
    if [ids.shape[1:] for ids in paths] != [ids.shape[1:] for ids in target_paths]:
        return False
    return same_classes(np.concatenate(paths), np.concatenate(target_paths))


def _below_common_folder(names: Sequence[str]) -> list[str]:
    paths = [PurePosixPath("/", name) for name in names]
    common = os.path.commonpath([path.parent for path in paths])
    return [str(path.relative_to(common)) for path in paths]


def same_classes(paths: NDArray[np.integer], other_paths: NDArray[np.integer]) -> bool:
    """Whether two sets of paths tell the same rows apart at each level, whatever the numbers.

    >>> same_classes(np.array([[0, 0], [0, 1]]), np.array([[5, 3], [5, 2]]))
    True
    """
    depths = range(1, paths.shape[1] + 1)
    return paths.shape == other_paths.shape and all(
        len({len(np.unique(rows, axis=0)) for rows in (left, right, np.hstack([left, right]))}) == 1
        for left, right in ((paths[:, :depth], other_paths[:, :depth]) for depth in depths)
    )


def paired_test(first: Any, second: Any, paths: Any) -> tuple[int, int, float, float] | None:
    """Queries, classes, mean difference and p of a paired randomization test; None where no query has two values.

    Args:
        first: (Q,) values of one model, NaN where a query has none.
        second: (Q,) those of another.
        paths: (Q, L) of the queries, or (Q,) classes; one class changes its sign together.
    """
    differences = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    has_both = ~np.isnan(differences)
    if not has_both.any():
        return None
    every_path = np.asarray(paths).reshape(len(has_both), -1)
    classes = np.unique(every_path[has_both], axis=0, return_inverse=True)[1].reshape(-1)
    p = paired_randomization_test(differences[has_both], np.zeros(int(has_both.sum())), clusters=classes)
    return int(has_both.sum()), int(classes.max()) + 1, float(differences[has_both].mean()), p


def sample_of(rows: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """The rows, or a sample of them drawn by a fixed seed, in their order.

    >>> sample_of(np.arange(5), 9), len(sample_of(np.arange(5), 2))
    (array([0, 1, 2, 3, 4]), 2)
    """
    return rows if len(rows) <= limit else np.sort(np.random.default_rng(0).choice(rows, limit, replace=False))
