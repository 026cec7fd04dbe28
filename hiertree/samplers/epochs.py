"""What all samplers share: an epoch planned at once, its state, and how classes and items take turns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..errors import OptionError, TrainingError
from ..options import check_choice, check_integer, is_integer

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch.utils.data import BatchSampler
else:
    try:
        from torch.utils.data import BatchSampler
    except ImportError:  # samplers plan batches without torch too
        BatchSampler = object

SmallClasses = Literal["replace", "drop"]


class PlannedBatches(BatchSampler, ABC):
    """The base of the samplers: items by class, the plan of an epoch, and the batch at which iteration begins.

    Args:
        labels: (n,) the class of each item.
        batch_size: items per batch.
        images_per_class: items of each class in a batch.
        seed: seed and epoch determine every batch.
        small_classes: whether classes of fewer than ``images_per_class`` items are filled up ("replace") or left out
            ("drop").
        reduce_per_class: the most items of a class that an epoch shows; None shows all.
    """

    def __init__(
        self,
        labels: NDArray[np.int64],
        *,
        batch_size: int,
        images_per_class: int,
        seed: int,
        small_classes: SmallClasses,
        reduce_per_class: int | None = None,
    ) -> None:
        check_integer("batch_size", batch_size, least=1)
        check_integer("images_per_class", images_per_class, least=1)
        check_integer("seed", seed, least=0)
        if reduce_per_class is not None:
            check_integer("reduce_per_class", reduce_per_class, least=1)
        if batch_size % images_per_class:
            raise OptionError(
                f"batch_size={batch_size} with images_per_class={images_per_class}",
                expected="a batch size that is a multiple of images_per_class",
                remedy=f"pass batch_size={max(1, batch_size // images_per_class) * images_per_class}",
            )
        check_choice("small_classes", small_classes, SmallClasses)
        if reduce_per_class is not None and reduce_per_class < images_per_class:
            raise OptionError(
                f"reduce_per_class={reduce_per_class}",
                expected=f"at least images_per_class={images_per_class}, or None for all items",
            )
        self.batch_size, self.images_per_class, self.seed = batch_size, images_per_class, seed
        self.classes_per_batch = batch_size // images_per_class
        self._items, self._class_of_item, self._class_sizes = _by_class(
            labels, at_least=images_per_class if small_classes == "drop" else 1
        )
        if not len(self._class_sizes):
            raise OptionError(
                f"no class of {images_per_class} items or more among {len(labels)} items",
                expected="at least one",
                remedy="pass a smaller images_per_class or small_classes='replace'" if len(labels) else None,
            )
        self._first_of_class = np.cumsum(self._class_sizes) - self._class_sizes
        self._shown_of_class = np.minimum(self._class_sizes, reduce_per_class or self._class_sizes)
        self.sampler, self.drop_last = EpochFollower(self), True
        self._epoch = self._start = self._position = 0
        self._is_begun = False  # the first batch of the epoch was yielded, so that the next iteration is a new epoch
        self._is_chosen = False  # set_epoch or load_state_dict has chosen the epoch
        self._is_announced = False  # Lightning has called follow_epoch
        self._ahead_of_lightning = 0

    @abstractmethod
    def __len__(self) -> int:
        """Number of batches in a whole epoch."""

    @abstractmethod
    def _plan_classes(self, generator: np.random.Generator) -> NDArray[np.int64]:
        """The classes of every batch, (len(self), classes_per_batch)."""

    def __iter__(self) -> Iterator[list[int]]:
        return self.next_epoch(stop=len(self))

    def next_epoch(self, *, stop: int) -> Iterator[list[int]]:
        """Yield the batches of the next epoch before number ``stop``; it begins when the first one is taken."""
        if self._is_begun:
            self._go_to(self._epoch + 1, 0)
        self._is_begun = True
        start = self._start
        for position, batch in enumerate(self._plan()[start:stop], start=start + 1):
            self._position = position
            yield batch.tolist()

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration that of this epoch (from 0), from its first batch; without it, epochs count up."""
        check_integer("epoch", epoch, least=0)
        self.load_state_dict({"epoch": epoch, "batch": 0})

    def follow_epoch(self, epoch: int) -> None:
        """As :meth:`set_epoch`, for a count of epochs by Lightning, which may restart at 0 when a run is resumed.

        An epoch that :meth:`set_epoch` or :meth:`load_state_dict` has chosen stands, and the count goes on from it.

        Raises:
            TrainingError: batches of another epoch were taken before Lightning announced its first.
        """
        is_first, self._is_announced = not self._is_announced, True
        if self._is_chosen and (is_first or not self._is_begun):
            self._ahead_of_lightning = self._epoch - epoch
            self._is_chosen = not self._is_begun
        elif is_first and self._is_begun and epoch != self._epoch:
            raise TrainingError(
                f"epoch {epoch} after batches of epoch {self._epoch} were taken",
                expected="its batches from the first on, where a Trainer with worker processes resumes a run",
                remedy=f"call set_epoch({epoch}) of the batch sampler before fit",
            )
        else:
            self._go_to(max(0, epoch + self._ahead_of_lightning), 0)

    def state_dict(self) -> dict[str, int]:
        """The epoch and the number of its batches already yielded.

        A data loader with workers asks for batches before they are used. To resume such a run, set ``"batch"`` to the
        number of batches that were used.
        """
        return {"epoch": self._epoch, "batch": self._position}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Make the next iteration go on where :meth:`state_dict` was taken; ``"batch"`` counts the batches to skip.

        After a whole epoch the next iteration is the epoch after it.

        Raises:
            OptionError: a negative epoch, or more batches than an epoch has.
        """
        epoch, batch = epoch_and_batch(state, most=len(self))
        is_whole = batch == len(self)
        self._go_to(epoch + is_whole, 0 if is_whole else batch)
        self._is_chosen = True

    def _go_to(self, epoch: int, batch: int) -> None:
        self._epoch, self._start, self._position = epoch, batch, batch
        self._is_begun = self._is_chosen = False

    def _items_per_epoch(self) -> int:
        """How many items an epoch may show."""
        return int(self._shown_of_class.sum())

    def _plan(self) -> NDArray[np.int64]:
        """Items of every batch of the epoch, (len(self), batch_size).

        An epoch shows the first ``_shown_of_class`` of each class's shuffled items. Arranged as a circle, the v-th
        visit to the class takes the v-th run of ``images_per_class`` of them.
        """
        generator = np.random.default_rng([self.seed, self._epoch])
        classes = self._plan_classes(generator).ravel()
        shuffled = generator.permutation(len(self._items))
        shuffled = shuffled[np.argsort(self._class_of_item[shuffled], kind="stable")]
        along = _earlier_equals(classes)[:, None] * self.images_per_class + np.arange(self.images_per_class)
        places = self._first_of_class[classes, None] + along % self._shown_of_class[classes, None]
        planned: NDArray[np.int64] = self._items[shuffled[places]].reshape(-1, self.batch_size)
        return planned


def epoch_and_batch(state: object, *, most: int) -> tuple[int, int]:
    """The epoch of a state and the number of batches to skip, which is at most ``most``.

    Raises:
        OptionError: they are not integers ≥ 0, or there are more batches than an epoch has.
    """
    if not isinstance(state, Mapping) or not all(is_integer(state.get(name)) for name in ("epoch", "batch")):
        raise OptionError(f"state {state!r}", expected="an epoch and a batch, as state_dict returns them")
    epoch, batch = int(state["epoch"]), int(state["batch"])
    if epoch < 0 or not 0 <= batch <= most:
        raise OptionError(f"state {dict(state)}", expected=f"an epoch ≥ 0 and a batch from 0 to {most}")
    return epoch, batch


class EpochFollower:
    """The ``sampler`` of a batch sampler, for Lightning's Trainer and Fabric, which announce every epoch to it."""

    def __init__(self, batches: PlannedBatches) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[int]:
        for batch in self._batches:
            yield from batch

    def set_epoch(self, epoch: int) -> None:
        """See :meth:`PlannedBatches.follow_epoch`."""
        self._batches.follow_epoch(epoch)


def _by_class(
    labels: NDArray[np.int64], *, at_least: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Items of the classes that are large enough, the class of each (numbered from 0), and the classes' sizes."""
    _, class_of_item, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    kept = sizes >= at_least
    items = np.flatnonzero(kept[class_of_item])
    return items, (np.cumsum(kept) - 1)[class_of_item[items]], sizes[kept]


def in_turn(count: int, per_batch: int, batches: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Numbers below ``count`` for every batch; all are drawn before any is drawn again, and no batch has one twice.

    Each round is a new permutation. Where a batch spans two rounds, the second round begins with numbers that the
    batch does not have yet.

    Returns:
        (batches, per_batch), with per_batch ≤ count.
    """
    drawn = np.empty(batches * per_batch + count, dtype=np.int64)
    for start in range(0, batches * per_batch, count):
        order = generator.permutation(count)
        behind = start % per_batch
        if behind:
            lacking = np.flatnonzero(~np.isin(order, drawn[start - behind : start]))[: per_batch - behind]
            order = np.concatenate([order[lacking], np.delete(order, lacking)])
        drawn[start : start + count] = order
    return drawn[: batches * per_batch].reshape(batches, per_batch)


def remedy_for_few_classes(small_classes: SmallClasses, remedy: str) -> str:
    """How to get enough classes into a batch: the given remedy, or the option that yields more classes."""
    return f"{remedy} {'small_classes=' + repr('replace') if small_classes == 'drop' else 'a larger images_per_class'}"


def _earlier_equals(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each value, how many equal values stand before it."""
    order = np.argsort(values, kind="stable")
    places = np.arange(len(values))
    fresh = np.concatenate([[True], np.diff(values[order]) != 0])
    first = np.maximum.accumulate(np.where(fresh, places, 0))
    earlier = np.empty(len(values), dtype=np.int64)
    earlier[order] = places - first
    return earlier
