"""The result of every loader: images by index, their paths in a label tree, and the split they belong to."""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import as_integer_paths
from ..errors import ImageError, OptionError, ShapeError, some_of
from ..level_columns import UNKNOWN
from .readers.images import ImageSource, SelectedImages, damaged

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL import Image

    from ..tree.label_tree import LabelTree

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ImageDataset:
    """The images of one split, and a label tree that holds their classes.

    It is a map-style data set of torch: ``dataset[i]`` is an image and its path, the image as ``transform`` makes it.

    An id means the same in all splits of a data set, so that queries of one may search a gallery of another; but labels
    of ``gldv2``'s training and index, of ``sfm120k`` and of ``dyml`` are unrelated, and numbered apart. Training
    classes are numbered first: the ids of a training split run from 0 without gaps, as class proxies require. The tree
    of another split holds the classes of the splits before it, too; :meth:`drop_absent_classes` numbers its own alone.

    Attributes:
        name: of the benchmark.
        split: for instance "train" or "test".
        tree: the classes of this split and of those that are numbered before it.
        paths: (n, L) int32, coarse → fine; ``paths[i, l]`` indexes the tree's level l + 1, or is −1: unknown.
        images: n images by index.
        queries: rows of the queries, or None if every image is a query with all others as its gallery.
        gallery: rows of the gallery, or None.
        ids: (n,) names of the photographs, equal where one is both a query and in the gallery; or None.
        protocol: the evaluation protocol of the benchmark's published numbers, or None for hiertree's defaults.
        left_out: names of images that did not decode and were skipped at the caller's request.
        transform: what ``dataset[i]`` makes of the decoded image, for instance one of torchvision's; None leaves it as
            it is. Training has its own, and reads ``images``.
        beside: further tests, each of one level, if the benchmark reports the mean over this one and those. An image
            that is in several of them has the same name in each.

    Raises:
        ShapeError: paths and images differ in number, or paths and tree in depth; queries without a gallery or the
            reverse; or further tests of more than one level.

    >>> from hiertree.datasets import load_synthetic
    >>> train = load_synthetic("train", families=2, kinds=2, instances=3, images=4)
    >>> len(train), train.paths.shape, train.images[0].size
    (24, (24, 3), (32, 32))
    >>> image, path = train.with_transform(np.asarray)[23]
    >>> image.shape, path.tolist()
    ((32, 32, 3), [1, 1, 5])
    """

    name: str
    split: str
    tree: LabelTree
    paths: NDArray[np.int32]
    images: ImageSource
    queries: NDArray[np.int64] | None = None
    gallery: NDArray[np.int64] | None = None
    ids: NDArray[np.str_] | None = None
    protocol: str | None = None
    left_out: tuple[str, ...] = ()
    transform: Callable[[Image.Image], Any] | None = None
    beside: tuple[ImageDataset, ...] = ()

    def __post_init__(self) -> None:
        paths = as_integer_paths(self.paths, name=f"paths of {self.name}", num_items=len(self.images))
        if paths.shape[1] != self.tree.num_levels:
            raise ShapeError(f"paths of {paths.shape[1]} levels", expected=f"the tree's {self.tree.num_levels}")
        if (self.queries is None) != (self.gallery is None):
            raise ShapeError("only one of queries and gallery", expected="both or neither")
        depths = {test.tree.num_levels for test in (self, *self.beside)} if self.beside else {1}
        if depths != {1}:
            raise ShapeError(f"further tests of up to {max(depths)} levels", expected="one level in each test")

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Any, NDArray[np.int64]]:
        """An image and its (L,) path as int64, which losses and ``torch.utils.data.DataLoader`` take."""
        row = operator.index(index)
        if not -len(self) <= row < len(self):
            raise IndexError(f"image {index} of {len(self)}")
        image = self.images[row % len(self)]
        return image if self.transform is None else self.transform(image), self.paths[row].astype(np.int64)

    def with_transform(self, transform: Callable[[Image.Image], Any] | None) -> ImageDataset:
        """A copy whose ``dataset[i]`` applies a transform to each image."""
        if transform is not None and not callable(transform):
            raise OptionError(f"transform={transform!r}", expected="a function of a PIL image, or None")
        return replace(self, transform=transform)

    def drop_absent_classes(self) -> ImageDataset:
        """A data set of the same images whose tree holds their classes alone: the ids of each level have no gaps.

        Ids then differ from those of the data set's other splits.

        >>> from hiertree.datasets import load_synthetic
        >>> test = load_synthetic("test", families=2, kinds=1, instances=3, images=1)
        >>> test.paths[:, -1].tolist(), test.drop_absent_classes().paths[:, -1].tolist()
        ([6, 7, 8, 9, 10, 11], [0, 1, 2, 3, 4, 5])
        """
        earlier_paths = self.tree.paths(self.tree.leaves)
        depth, has_images = (earlier_paths >= 0).sum(axis=1), np.zeros(len(earlier_paths), np.bool_)
        for level, ids in enumerate(self.paths.T):
            has_images |= (depth == level + 1) & np.isin(earlier_paths[:, level], ids)
        if has_images.all():
            return self
        leaves = [leaf for leaf, is_present in zip(self.tree.leaves, has_images, strict=True) if is_present]
        tree, paths = self.tree.restrict(leaves), np.empty_like(self.paths)
        pairs = zip(earlier_paths[has_images].T, tree.paths(leaves).T, strict=True)
        for level, (earlier_nodes, nodes) in enumerate(pairs):
            new_ids = np.full(self.tree.level_sizes[level] + 1, UNKNOWN, paths.dtype)  # the last one for an unknown id
            new_ids[earlier_nodes] = nodes
            paths[:, level] = new_ids[self.paths[:, level]]
        return replace(self, tree=tree, paths=paths)

    def drop_unreadable_images(self) -> ImageDataset:
        """A data set without the images that do not decode, which ``left_out`` and a warning name; all are decoded now.

        Raises:
            ImageError: none decodes.

        >>> from hiertree.datasets import load_synthetic
        >>> len(load_synthetic("train", families=2, kinds=1, instances=3, images=1).drop_unreadable_images())
        6
        """
        beside = tuple(test.drop_unreadable_images() for test in self.beside)
        bad = damaged(self.images, description="checking images")
        if not bad:
            return replace(self, beside=beside)
        names = tuple(dict.fromkeys(map(self.images.name, bad)))
        if len(bad) == len(self):
            raise ImageError(f"none of {len(bad)} images of {self.name} decodes: {some_of(names)}", expected="images")
        _log.warning("%d of %d images cannot be decoded and are left out: %s", len(bad), len(self), some_of(names))
        good_rows = np.delete(np.arange(len(self)), bad)
        queries, gallery = (
            None if rows is None else np.searchsorted(good_rows, rows[np.isin(rows, good_rows)])
            for rows in (self.queries, self.gallery)
        )
        rest, left_out = self.select(good_rows, split=self.split), self.left_out + names
        return replace(rest, queries=queries, gallery=gallery, left_out=left_out, beside=beside)

    def select(self, rows: Any, *, split: str) -> ImageDataset:
        """A data set of some of the images, with the same tree.

        Args:
            rows: (k,) indices.
            split: its name.

        Raises:
            OptionError: an index outside the data set.

        >>> from hiertree.datasets import load_synthetic
        >>> train = load_synthetic("train", families=2, kinds=2, instances=3, images=4)
        >>> len(train.select([0, 5], split="two images"))
        2
        """
        indices = np.asarray(rows, dtype=np.int64)
        if indices.size and not 0 <= indices.min() <= indices.max() < len(self):
            raise OptionError(f"rows from {indices.min()} to {indices.max()}", expected=f"0 to {len(self) - 1}")
        return replace(
            self,
            split=split,
            paths=self.paths[indices],
            images=SelectedImages(self.images, indices),
            queries=None,
            gallery=None,
            ids=None if self.ids is None else self.ids[indices],
            beside=(),
        )
