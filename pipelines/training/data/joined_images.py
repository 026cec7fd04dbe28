"""The images of several test lists, each image once: DyML tests lists that share most of their images."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hiertree.datasets.readers.images import JoinedImages, SelectedImages

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.datasets import ImageDataset, ImageSource


class ImagesOfLists(NamedTuple):
    """Images of several lists without repetition.

    Attributes:
        images: each image once.
        rows: for each list, the rows of its images among them.
    """

    images: ImageSource
    rows: tuple[NDArray[np.int64] | slice, ...]


def images_of_lists(lists: Sequence[ImageDataset]) -> ImagesOfLists:
    """Join the images of several lists; images of the same name count as the same image."""
    if len(lists) == 1:
        return ImagesOfLists(lists[0].images, (slice(None),))
    names = np.array([part.images.name(row) for part in lists for row in range(len(part))])
    _, first, rows = np.unique(names, return_index=True, return_inverse=True)
    joined: ImageSource = reduce(JoinedImages, (part.images for part in lists))
    ends = np.cumsum([len(part) for part in lists])[:-1]
    return ImagesOfLists(SelectedImages(joined, first), tuple(np.split(rows.reshape(-1), ends)))
