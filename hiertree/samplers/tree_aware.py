"""The sampler whose batches contain positives of every level, by construction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import as_paths
from ..errors import OptionError
from ..options import check_integer
from .closed_choices import ClassTree, closed_batches
from .epochs import PlannedBatches, SmallClasses

if TYPE_CHECKING:
    from numpy.typing import NDArray


class TreeSampler(PlannedBatches):
    r"""Batches in which every item has positives at each level at which it has any in the data set.

    *Guarantee.* Let level(i, j) be the number of leading path elements that two items share. For every item i of a
    batch and every level l from 0 to L: if the data set has an item other than i at exactly level l to i, so has the
    batch. (At level 0 these are negatives of i. With ``small_classes="drop"`` the dropped classes are not part of the
    data set.) So each query meets an example of every relevance that a hierarchical loss can assign to it.

    *Proof.* The classes of a batch are a *closed choice*: if a node of the tree, the root included, is above a chosen
    class and has two or more children, then at least two of its children are above chosen classes. Take an item i of
    class c, with the nodes v_0 (the root), v_1 … v_L = c, and a level l < L. Items at exactly level l to i lie below
    children of v_l other than v_{l+1}. If there are any, v_l has two or more children and is above c, so a chosen class
    lies below some child w ≠ v_{l+1}. Every chosen class contributes items to the batch, and these are at exactly level
    l to i. At level L: if c has another item, a visit to c, which takes two or more items, takes different ones.

    A closed choice starts with the class that has waited longest and takes the next ones as far as they fit; the
    further classes that each of them requires are drawn at random. How many a class requires is the sum of the
    cheapest siblings along its path: at most 15 classes in the seven levels of iNaturalist-2018. An epoch has
    max(1, ``n // batch_size``) batches, where n is the number of items it may show. Classes with few relatives are
    drawn more often than others, because their relatives require them.

    Args:
        paths: (n, L) or (n,) integers, coarse → fine; a class is a whole path.
        batch_size: items per batch, a multiple of ``images_per_class``.
        images_per_class: items per visit to a class, at least 2. Where no further class fits, a class is visited twice.
        seed: seed and epoch determine every batch.
        small_classes: a class of fewer than ``images_per_class`` items is filled up by repeating them evenly
            (``"replace"``) or left out (``"drop"``).
        reduce_per_class: the most items of a class that an epoch shows, drawn anew for each epoch.

    Raises:
        OptionError: a batch size that is not such a multiple or too small for the tree, or an unknown policy.
        PathError: paths that are not non-negative integers.

    >>> paths = [[0, 0], [0, 0], [0, 1], [0, 1], [1, 2], [1, 2], [1, 3], [1, 3]]
    >>> batch = next(iter(TreeSampler(paths, batch_size=8, images_per_class=2)))
    >>> sorted(batch)
    [0, 1, 2, 3, 4, 5, 6, 7]
    """

    def __init__(
        self,
        paths: Any,
        *,
        batch_size: int,
        images_per_class: int,
        seed: int = 0,
        small_classes: SmallClasses = "replace",
        reduce_per_class: int | None = None,
    ) -> None:
        check_integer("images_per_class", images_per_class, least=1)
        if images_per_class < 2:
            raise OptionError(f"images_per_class={images_per_class}", expected="at least 2, for positives of a class")
        checked = as_paths(paths)
        super().__init__(
            _classes(checked),
            batch_size=batch_size,
            images_per_class=images_per_class,
            seed=seed,
            small_classes=small_classes,
            reduce_per_class=reduce_per_class,
        )
        first_items = np.unique(self._class_of_item, return_index=True)[1]
        self._tree = ClassTree(checked[self._items[first_items]])
        needed = self._tree.largest_cost()
        if needed > self.classes_per_batch:
            raise OptionError(
                f"batches of {self.classes_per_batch} classes",
                expected=f"at least {needed}, for positives at every level of this tree",
                remedy=f"pass batch_size={needed * images_per_class} or more, or smaller images_per_class",
            )

    def __len__(self) -> int:
        return max(1, self._items_per_epoch() // self.batch_size)

    def _plan_classes(self, generator: np.random.Generator) -> NDArray[np.int64]:
        return closed_batches(self._tree, self.classes_per_batch, len(self), generator)


def _classes(paths: NDArray[np.int64]) -> NDArray[np.int64]:
    """A class id for each whole path."""
    classes = np.zeros(len(paths), dtype=np.int64)
    for column in paths.T:
        classes = np.unique(classes * (int(column.max(initial=0)) + 1) + column, return_inverse=True)[1]
    return classes
