"""The sampler with a fixed number of images per class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import as_paths
from ..errors import OptionError
from .epochs import PlannedBatches, SmallClasses, in_turn, remedy_for_few_classes

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ClassBalancedSampler(PlannedBatches):
    """Batches of ``batch_size / images_per_class`` different classes of the finest level.

    An epoch has max(1, ``n // batch_size``) batches, where n is the number of items it may show.

    Args:
        paths: (n, L) or (n,) integers, coarse → fine; the finest level names the classes.
        batch_size: items per batch, a multiple of ``images_per_class``.
        images_per_class: items of each class in a batch.
        seed: seed and epoch determine every batch.
        small_classes: a class of fewer than ``images_per_class`` items is filled up by repeating them evenly
            (``"replace"``) or left out (``"drop"``).
        reduce_per_class: the most items of a class that an epoch shows, drawn anew for each epoch, as H-GLDv2
            is trained.

    Raises:
        OptionError: a batch size that is not such a multiple, an unknown policy, or fewer classes than a batch needs.
        PathError: paths that are not non-negative integers.

    >>> sampler = ClassBalancedSampler([0, 0, 0, 1, 1, 2, 2, 2], batch_size=4, images_per_class=2)
    >>> len(sampler), [len(batch) for batch in sampler]
    (2, [4, 4])
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
        labels = as_paths(paths)[:, -1]
        super().__init__(
            labels,
            batch_size=batch_size,
            images_per_class=images_per_class,
            seed=seed,
            small_classes=small_classes,
            reduce_per_class=reduce_per_class,
        )
        available, needed = len(self._class_sizes), self.classes_per_batch
        if available < needed:
            raise OptionError(
                f"batches of {needed} classes from {available}",
                expected=f"at most {available} classes a batch",
                remedy=remedy_for_few_classes(small_classes, f"pass batch_size ≤ {available * images_per_class} or"),
            )

    def __len__(self) -> int:
        return max(1, self._items_per_epoch() // self.batch_size)

    def _plan_classes(self, generator: np.random.Generator) -> NDArray[np.int64]:
        return in_turn(len(self._class_sizes), self.classes_per_batch, len(self), generator)
