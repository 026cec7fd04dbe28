"""The base of all samplers: the batches of an epoch, its state, and one process's share of its batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np
from typing_extensions import Required

from ..errors import OptionError
from ..level_columns import path_nodes
from ..options import check_choice, check_integer, is_integer, require

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch.utils.data import BatchSampler

    distributed: Any
else:
    try:
        from torch import distributed
        from torch.utils.data import BatchSampler
    except ImportError:
        distributed = None

        class BatchSampler:
            """Samplers plan batches without torch too."""


SmallClasses = Literal["replace", "drop"]


class SamplerOptions(TypedDict, total=False):
    """Options of every sampler, as :class:`hiertree.samplers.ClassBalancedSampler` describes them."""

    batch_size: Required[int]
    images_per_class: Required[int]
    seed: int
    small_classes: SmallClasses
    reduce_per_class: int | None


class PlannedBatches(BatchSampler, ABC):
    """The base of the samplers: items by class, the plan of an epoch, and the batch at which iteration begins."""

    def __init__(
        self,
        labels: NDArray[np.int64],
        *,
        batch_size: int,
        images_per_class: int,
        seed: int = 0,
        small_classes: SmallClasses = "replace",
        reduce_per_class: int | None = None,
    ) -> None:
        check_integer("batch_size", batch_size)
        check_integer("images_per_class", images_per_class)
        check_integer("seed", seed, least=0)
        check_integer("reduce_per_class", reduce_per_class, or_none=True)
        if batch_size % images_per_class:
            problem = f"batch_size={batch_size} with images_per_class={images_per_class}"
            choose = {"batch_size": [max(1, batch_size // images_per_class) * images_per_class]}
            raise OptionError(problem, expected="a batch size that is a multiple of images_per_class", choose=choose)
        check_choice("small_classes", small_classes, SmallClasses)
        is_large = reduce_per_class is None or reduce_per_class >= images_per_class
        expected = f"at least images_per_class={images_per_class}, or None for all items"
        require(is_large, "reduce_per_class", reduce_per_class, expected)
        self.batch_size, self.images_per_class, self.seed = batch_size, images_per_class, seed
        self.classes_per_batch, self._small_classes = batch_size // images_per_class, small_classes
        smallest_class = images_per_class if small_classes == "drop" else 1
        self._items, self._class_of_item, self._class_sizes = _group_by_class(labels, at_least=smallest_class)
        if not len(self._class_sizes):
            problem = f"no class of {images_per_class} items or more among {len(labels)} items"
            remedies = {"small_classes": ["replace"]} if len(labels) else None
            raise OptionError(problem, expected="at least one", choose=remedies)
        self._first_of_class = np.cumsum(self._class_sizes) - self._class_sizes
        self._shown_of_class = np.minimum(self._class_sizes, reduce_per_class or self._class_sizes)
        self.sampler, self.drop_last = range(len(self._items)), True  # what a BatchSampler has; nothing draws from it
        self._epoch = self._start = self._position = 0
        self._is_begun = False  # the epoch's first batch was yielded, so the next iteration is a new epoch

    def __len__(self) -> int:
        """Number of batches in a whole epoch: as many as the items that it may show fill, but at least one."""
        return max(1, int(self._shown_of_class.sum()) // self.batch_size)

    @abstractmethod
    def _batches(self, start: int, stop: int, generator: np.random.Generator) -> Iterable[NDArray[np.int64]]:
        """The items of the epoch's batches from ``start`` to before ``stop``."""

    def __iter__(self) -> Iterator[list[int]]:
        """Yield the batches of the next epoch; it begins when the first one is taken."""
        if self._is_begun:
            self._go_to(self._epoch + 1, 0)
        self._is_begun = True
        start, generator = self._start, np.random.default_rng([self.seed, self._epoch])
        for position, batch in enumerate(self._batches(start, len(self), generator), start=start + 1):
            self._position = position
            yield batch.tolist()

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration that of this epoch (from 0), from its first batch; without it, epochs count up."""
        check_integer("epoch", epoch, least=0)
        self.load_state_dict({"epoch": epoch, "batch": 0})

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
        epoch, batch = _epoch_and_batch(state, limit=len(self))
        is_whole = batch == len(self)
        self._go_to(epoch + is_whole, 0 if is_whole else batch)

    def _go_to(self, epoch: int, batch: int) -> None:
        self._epoch, self._start, self._position = epoch, batch, batch
        self._is_begun = False

    def _choices_for_more_classes(self) -> dict[str, Sequence[object]]:
        return {"small_classes": ["replace"]} if self._small_classes == "drop" else {}

    def _items_of_plan(self, plan: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
        """The items of whole batches, (batches, batch_size), from their classes, (batches, classes_per_batch)."""
        import pandas as pd

        classes = plan.ravel()
        visits = pd.Series(classes).groupby(classes).cumcount().to_numpy()
        return self._items_of_visits(classes, visits, self._shuffled_items(generator)).reshape(-1, self.batch_size)

    def _shuffled_items(self, generator: np.random.Generator) -> NDArray[np.int64]:
        """The items class by class, those of each class in random order."""
        shuffled = generator.permutation(len(self._items))
        return self._items[shuffled[np.argsort(self._class_of_item[shuffled], kind="stable")]]

    def _items_of_visits(
        self, classes: NDArray[np.int64], visits: NDArray[np.int64], shuffled: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The items of visits to classes, each the v-th to its class, v from 0.

        An epoch shows the first ``_shown_of_class`` of each class's shuffled items. Arranged as a circle, the v-th
        visit to the class takes the v-th run of ``images_per_class`` of them.
        """
        offsets = visits[:, None] * self.images_per_class + np.arange(self.images_per_class)
        return shuffled[self._first_of_class[classes, None] + offsets % self._shown_of_class[classes, None]].ravel()


def _epoch_and_batch(state: object, *, limit: int) -> tuple[int, int]:
    """The epoch of a state and the number of batches to skip, which is at most ``limit``."""
    if not isinstance(state, Mapping) or not all(is_integer(state.get(name)) for name in ("epoch", "batch")):
        raise OptionError(f"state {state!r}", expected="an epoch and a batch, as state_dict returns them")
    epoch, batch = int(state["epoch"]), int(state["batch"])
    if epoch < 0 or not 0 <= batch <= limit:
        raise OptionError(f"state {dict(state)}", expected=f"an epoch ≥ 0 and a batch from 0 to {limit}")
    return epoch, batch


def ids_at(level: int, paths: NDArray[np.int64]) -> NDArray[np.int64]:
    """(n,) the ids of a level; for paths that are unknown there a negative one of each node that is known."""
    ids = paths[:, level - 1]
    return ids if ids.min(initial=0) >= 0 else np.where(ids < 0, -1 - path_nodes(paths)[:, level], ids)


def _group_by_class(
    labels: NDArray[np.int64], *, at_least: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Items of the classes that are large enough, the class of each (numbered from 0), and the classes' sizes."""
    _, class_of_item, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    is_large = sizes >= at_least
    items = np.flatnonzero(is_large[class_of_item])
    return items, (np.cumsum(is_large) - 1)[class_of_item[items]], sizes[is_large]


class DistributedBatches(BatchSampler):
    """The part of one process in a sampler's batches. Every process plans the same epoch, without communication.

    Every batch is cut into ``world_size`` pieces of whole class visits, one per process. Gathered embeddings
    (:func:`hiertree.losses.all_gather`) are the batch again, in its order. All processes take the same number of
    batches and have equal states: a run can resume from the state of any.

    Args:
        sampler: a sampler of :mod:`hiertree.samplers`, made with equal arguments in every process.
        rank: of this process, from 0. Default: that of ``torch.distributed``, or 0 if it is not initialized.
        world_size: number of processes. Default: that of ``torch.distributed``, or 1.

    Raises:
        OptionError: a rank outside, or a batch that does not split evenly.

    >>> from hiertree.samplers import ClassBalancedSampler
    >>> labels = [0, 0, 1, 1, 2, 2, 3, 3]
    >>> def batches(rank):
    ...     sampler = ClassBalancedSampler(labels, batch_size=8, images_per_class=2)
    ...     return [len(batch) for batch in DistributedBatches(sampler, rank=rank, world_size=2)]
    >>> batches(0), batches(1)
    ([4], [4])
    """

    def __init__(self, sampler: PlannedBatches, *, rank: int | None = None, world_size: int | None = None) -> None:
        own_rank, own_size = _rank_and_size()
        self.rank = own_rank if rank is None else rank
        self.world_size = own_size if world_size is None else world_size
        check_integer("rank", self.rank, least=0)
        check_integer("world_size", self.world_size)
        if self.rank >= self.world_size:
            raise OptionError(f"rank={self.rank} of {self.world_size}", expected="0 ≤ rank < world_size")
        if sampler.classes_per_batch % self.world_size:
            problem = f"batches of {sampler.classes_per_batch} class visits for {self.world_size} processes"
            images_of_all = self.world_size * sampler.images_per_class
            choose = {"batch_size": [max(1, sampler.batch_size // images_of_all) * images_of_all]}
            raise OptionError(problem, expected="the same number for each", choose=choose)
        self.planned, self.sampler, self.drop_last = sampler, sampler.sampler, True
        self.batch_size = sampler.batch_size // self.world_size

    def __len__(self) -> int:
        """Number of batches in a whole epoch."""
        return len(self.planned)

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self.planned:
            yield batch[self.rank * self.batch_size : (self.rank + 1) * self.batch_size]

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration that of this epoch (from 0), from its first batch; without it, epochs count up."""
        self.planned.set_epoch(epoch)

    def state_dict(self) -> dict[str, int]:
        """The epoch, and how many of its batches each process has taken."""
        return self.planned.state_dict()

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Make the next iteration go on where :meth:`state_dict` was taken, in this process or another.

        Raises:
            OptionError: a negative epoch, or more batches than an epoch has.
        """
        self.planned.load_state_dict(state)


def _rank_and_size() -> tuple[int, int]:
    if distributed is None or not (distributed.is_available() and distributed.is_initialized()):
        return 0, 1
    return distributed.get_rank(), distributed.get_world_size()
