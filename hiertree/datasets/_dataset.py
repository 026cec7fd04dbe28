"""What a loader hands over: images by index, their paths in a label tree, and the split they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hiertree.arrays import as_paths
from hiertree.errors import ShapeError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

    from hiertree.tree import LabelTree


class ImageSource(Protocol):
    """Images by index. It is picklable and cheap to send to the worker processes of a data loader."""

    def __len__(self) -> int:
        """Number of images."""
        ...

    def __getitem__(self, index: int) -> Image:
        """Decode one image.

        Raises:
            ImageError: it does not decode; the message names it.
        """
        ...

    def name(self, index: int) -> str:
        """What error messages and retrieval grids call an image: its file name, for instance."""
        ...


@dataclass(frozen=True, kw_only=True)
class ImageDataset:
    """The images of one split and the label tree of that split.

    Every split has its own tree, so that the ids of each level run from 0 without gaps, as class proxies need them.

    Attributes:
        name: the benchmark.
        split: which of its parts, "train" or "test" for instance.
        tree: the classes of this split.
        paths: (n, L) int32, coarse → fine; ``paths[i, l]`` indexes the tree's level l + 1.
        images: n images by index.
        protocol: the evaluation protocol the benchmark is published with, or None for the package's defaults.
        left_out: names of the images that did not decode and were skipped because the caller asked for it.

    Raises:
        ShapeError: paths and images differ in number, or paths and tree in depth.

    >>> from hiertree.datasets import load_synthetic
    >>> train = load_synthetic("train", families=2, kinds=2, instances=3, images=4)
    >>> len(train), train.paths.shape, train.images[0].size
    (24, (24, 3), (32, 32))
    """

    name: str
    split: str
    tree: LabelTree
    paths: NDArray[np.int32]
    images: ImageSource
    protocol: str | None = None
    left_out: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        paths = as_paths(self.paths, name=f"paths of {self.name}", num_items=len(self.images))
        if paths.shape[1] != self.tree.num_levels:
            raise ShapeError(f"paths of {paths.shape[1]} levels", expected=f"the tree's {self.tree.num_levels}")

    def __len__(self) -> int:
        return len(self.images)
