"""The sampler whose batches hold positives of every level, by construction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import as_paths
from ..errors import OptionError
from .closed_batches import ClassTree, closed_batches
from .epochs import PlannedBatches, SmallClasses

if TYPE_CHECKING:
    from numpy.typing import NDArray


class TreeSampler(PlannedBatches):
    r"""Batches in which every item has positives at each level at which it has any in the data set.

    *Guarantee.* Let level(i, j) be the number of leading path elements that two items share. For every item i of a
    batch and every level l from 0 to L: if any item of the data set other than i is at exactly level l to i, then so is
    an item of the batch other than i. (At level 0 these are its negatives. The data set is what ``small_classes``
    leaves of it.) So no relevance that a hierarchical loss may give is without an example for any query.

    *Why it holds.* A batch's classes are a closed choice: a node of the tree (the root too) above a chosen class that
    has two children or more has chosen classes below at least two of them. Take i of class c, with the nodes v_0 (the
    root), v_1 … v_L = c, and a level l < L. Items at exactly level l lie below children of v_l other than v_{l+1}. If
    there is one, v_l has two children or more and, being above c, chosen classes below a child w ≠ v_{l+1}; every
    chosen class gives items to the batch, and these are at exactly level l to i. At level L: if c has another item, a
    visit to c, of two items or more, shows different ones.

    A closed choice is grown from the class that has waited longest, with the next ones as far as they fit, and the
    other classes that each of them needs drawn at random. What a class needs is the sum of the cheapest siblings along
    its path: 15 classes at most in iNaturalist-2018's seven levels. An epoch has ``n // batch_size`` batches, at least
    one, n being the number of items it may show. Classes with few relatives are drawn more often than others, because
    their relatives need them.

    Args:
        paths: (n, L) or (n,) integers, coarse → fine; a class is a whole path.
        batch_size: items a batch, a multiple of ``images_per_class``.
        images_per_class: items a visit to a class, at least 2; where no further class fits, a class is visited twice.
        seed: together with the epoch it decides everything.
        small_classes: a class of fewer than ``images_per_class`` items is filled up by repeating them evenly
            (``"replace"``) or left out (``"drop"``).
        reduce_per_class: items of a class that an epoch shows at most, drawn anew for each.

    Raises:
        OptionError: a batch size that is no multiple or too small for the tree, or an unknown policy.
        PathError: paths that are no non-negative integers.

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
    """A number for each whole path."""
    classes = np.zeros(len(paths), dtype=np.int64)
    for column in paths.T:
        classes = np.unique(classes * (int(column.max(initial=0)) + 1) + column, return_inverse=True)[1]
    return classes
