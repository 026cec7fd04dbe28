"""The samplers with a fixed number of images per class: of any classes, and of those of two super-categories."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from heapq import heapreplace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..arrays import as_paths
from ..errors import OptionError, PathError, some_of
from ..options import check_choice, check_integer, require, with_options_of
from .epochs import (
    PlannedBatches,
    SamplerOptions,
    SmallClasses,  # noqa: F401 - recipes read the signatures
    ids_at,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Unpack


_PLANS = 8  # random epochs, of which the shortest gives the length of all


class ClassBalancedSampler(PlannedBatches):
    """Batches of ``batch_size / images_per_class`` different classes of the finest level.

    An epoch has max(1, ``n // batch_size``) batches, where n is the number of items it may show; fewer ``by_size``.

    Args:
        paths: (n, L) or (n,) integers, coarse → fine; the finest level names the classes. Items whose class is unknown
            (−1) are drawn together with those of the same known node, as a class.
        batch_size: items per batch, a multiple of ``images_per_class``.
        images_per_class: items of each class in a batch.
        visits: every class is visited before any is again (``"even"``); or ``"by_size"``, as Brown et al. (ECCV 2020)
            and Ramzi et al. (2021, 2025) train: a class of m items stays for ``m // images_per_class`` batches, which
            show no item twice, then the next in a random order takes its place, until none is left to do so. The
            shortest of eight such epochs gives the length of all. An epoch ends when too few classes are left for a
            batch: it shows five sixths of the images where classes have like sizes, but half of 22,000 whose 1,000
            classes fall off as 1 / rank (batches of 64 classes, 4 images each).
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

    @with_options_of(PlannedBatches.__init__)
    def __init__(
        self, paths: Any, *, visits: Literal["even", "by_size"] = "even", **options: Unpack[SamplerOptions]
    ) -> None:
        check_choice("visits", visits, Literal["even", "by_size"])
        label_paths = as_paths(paths)
        super().__init__(ids_at(label_paths.shape[1], label_paths), **options)
        available, num_classes = len(self._class_sizes), self.classes_per_batch
        if available < num_classes:
            problem = f"batches of {num_classes} classes from {available}"
            choose = {"batch_size": [available * self.images_per_class], **self._choices_for_more_classes()}
            raise OptionError(problem, expected=f"at most {available} classes a batch", choose=choose)
        self.visits, self._length = visits, super().__len__()
        if visits == "by_size":
            self._visits = np.maximum(1, self._shown_of_class // self.images_per_class)
            generator = np.random.default_rng(self.seed)
            self._length = min(len(_draw_stays(self._visits, num_classes, generator)) for _ in range(_PLANS))

    def __len__(self) -> int:
        return self._length

    def _batches(self, start: int, stop: int, generator: np.random.Generator) -> NDArray[np.int64]:
        return self._items_of_plan(self._plan(generator), generator)[start:stop]

    def _plan(self, generator: np.random.Generator) -> NDArray[np.int64]:
        """The classes of every batch, (len(self), classes_per_batch)."""
        if self.visits == "even":
            return _draw_in_turn(len(self._class_sizes), self.classes_per_batch, len(self), generator)
        stays = _draw_stays(self._visits, self.classes_per_batch, generator)
        while len(stays) < len(self):
            stays = _draw_stays(self._visits, self.classes_per_batch, generator)
        return generator.permutation(stays)[: len(self)]


class RandomSampler(ClassBalancedSampler):
    """Batches drawn at random, whatever their classes: an epoch shows every item at most once.

    An epoch has ``n // batch_size`` batches.

    Args:
        paths: (n, L) or (n,) integers; their number is all that counts.
        batch_size: items per batch.
        seed: seed and epoch determine every batch.

    Raises:
        OptionError: fewer items than a batch.

    >>> [len(batch) for batch in RandomSampler([0, 0, 0, 0, 1], batch_size=2)]
    [2, 2]
    """

    def __init__(self, paths: Any, *, batch_size: int, seed: int = 0) -> None:
        items = np.arange(len(as_paths(paths)))
        check_integer("batch_size", batch_size)
        require(batch_size <= len(items), "batch_size", batch_size, f"at most {len(items)}, the number of items")
        super().__init__(items, batch_size=batch_size, images_per_class=1, seed=seed)


class SuperCategoryPairSampler(PlannedBatches):
    """Batches from two super-categories, half of the classes from each, so that negatives are hard.

    An epoch visits every pair of super-categories ``batches_per_pair`` times, in random order: S·(S−1)/2 ·
    ``batches_per_pair`` batches for S super-categories. This is how FastAP (Cakir et al., *Deep Metric Learning to
    Rank*, CVPR 2019) and HAPPIER (ECCV 2022) train on Stanford Online Products, with batches of 256, 4 items
    per class and 5 batches per pair.

    Args:
        paths: (n, L) integers with L ≥ 2, coarse → fine; the finest level names the classes.
        batch_size: items per batch, a multiple of ``2 · images_per_class``.
        images_per_class: items of each class in a batch.
        super_level: the level, 1 … L−1, whose nodes are the super-categories.
        batches_per_pair: batches of each pair in an epoch.
        seed: this and the next two as for :class:`ClassBalancedSampler`.
        small_classes: see there.
        reduce_per_class: see there.
        small_supers: a super-category of fewer classes than its half of a batch needs is an error (``"error"``), or is
            left out, with a warning that counts them (``"drop"``).

    Attributes:
        supers_left_out: ids of the super-categories that were left out.

    Raises:
        OptionError: a batch size that is not such a multiple, a level that does not exist, fewer than two
            super-categories, or one that is too small.
        PathError: paths that are not non-negative integers, or a class in two super-categories.

    >>> paths = [[0, 0], [0, 0], [0, 1], [0, 1], [1, 2], [1, 2], [1, 3], [1, 3]]
    >>> sampler = SuperCategoryPairSampler(paths, batch_size=4, images_per_class=2, batches_per_pair=3)
    >>> len(sampler), [len(batch) for batch in sampler]
    (3, [4, 4, 4])
    """

    @with_options_of(PlannedBatches.__init__)
    def __init__(
        self,
        paths: Any,
        *,
        super_level: int = 1,
        batches_per_pair: int = 5,
        small_supers: Literal["error", "drop"] = "error",
        **options: Unpack[SamplerOptions],
    ) -> None:
        check_choice("small_supers", small_supers, Literal["error", "drop"])
        label_paths = as_paths(paths)
        super().__init__(ids_at(label_paths.shape[1], label_paths), **options)
        half = self.classes_per_batch // 2
        if self.classes_per_batch % 2:
            problem, expected = f"batches of {self.classes_per_batch} classes", "an even number"
            larger = {"batch_size": [self.batch_size + self.images_per_class]}
            raise OptionError(problem, expected=f"{expected}, half from each super-category", choose=larger)
        check_integer("batches_per_pair", batches_per_pair)
        check_integer("super_level", super_level)
        if super_level >= label_paths.shape[1]:
            problem = f"super_level={super_level} with paths of {label_paths.shape[1]} levels"
            raise OptionError(problem, expected="a level from 1 that is coarser than the finest")
        self.batches_per_pair = batches_per_pair
        ids, classes = self._group_classes(ids_at(super_level, label_paths), super_level)
        sizes = np.array([len(members) for members in classes])
        large = sizes >= half
        if not large.all() and (small_supers == "error" or large.sum() < 2):
            problem = f"{half} classes from each super-category, but {ids[sizes.argmin()]} has {sizes.min()}"
            choose: dict[str, Any] = {
                "batch_size": [2 * int(sizes.min()) * self.images_per_class],
                "small_supers": ["drop"],
            }
            choose |= self._choices_for_more_classes()
            raise OptionError(problem, expected="the same number of classes in every super-category", choose=choose)
        self.supers_left_out: list[int] = ids[~large].tolist()
        self._classes_of_super = [classes[index] for index in np.flatnonzero(large)]
        if self.supers_left_out:
            items = sum(int(self._class_sizes[classes[index]].sum()) for index in np.flatnonzero(~large))
            left_out, count = some_of(self.supers_left_out), len(self.supers_left_out)
            problem = f"{count} of {len(ids)} super-categories left out ({left_out}; {items} items)"
            warnings.warn(f"{problem}: fewer than {half} classes", UserWarning, stacklevel=3)

    def __len__(self) -> int:
        count = len(self._classes_of_super)
        return count * (count - 1) // 2 * self.batches_per_pair

    def _group_classes(
        self, supers: NDArray[np.int64], super_level: int
    ) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
        super_of_item = supers[self._items]
        super_of_class = np.empty(len(self._class_sizes), dtype=np.int64)
        super_of_class[self._class_of_item] = super_of_item
        split = np.flatnonzero(super_of_class[self._class_of_item] != super_of_item)
        if len(split):
            problem = f"the class of item {self._items[split[0]]} lies in two nodes of level {super_level}"
            raise PathError(problem, expected="ids unique inside a level, as LabelTree.paths gives them")
        ids, group = np.unique(super_of_class, return_inverse=True)
        if len(ids) < 2:
            raise OptionError(f"{len(ids)} super-categories at level {super_level}", expected="at least two")
        return ids, np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1])

    def _batches(self, start: int, stop: int, generator: np.random.Generator) -> Iterator[NDArray[np.int64]]:
        """Pair by pair: an epoch of many super-categories has more batches than memory holds."""
        supers = range(len(self._classes_of_super))
        order = generator.permutation(len(self))
        shuffled, half = self._shuffled_items(generator), self.classes_per_batch // 2
        generators = generator.spawn(len(supers))
        pairs, of_batch = np.stack(np.triu_indices(len(supers), k=1), axis=1), order // self.batches_per_pair
        visits_before = np.bincount(pairs[of_batch[:start]].ravel(), minlength=len(supers)).tolist()
        draws = [
            islice(_draws(len(self._classes_of_super[index]), half, generators[index]), count, None)
            for index, count in enumerate(visits_before)
        ]
        for batch in range(start, stop):
            pair = pairs[of_batch[batch]].tolist()
            visits = [next(draws[index]) for index in pair]
            classes = [self._classes_of_super[index][visit[:, 0]] for index, visit in zip(pair, visits, strict=True)]
            yield self._items_of_visits(np.concatenate(classes), np.concatenate(visits)[:, 1], shuffled)


def _rounds(count: int, per_batch: int, generator: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Endless permutations of the numbers below ``count``, of which no batch, cut from them in a row, repeats one.

    Where a batch spans two rounds, the second begins with numbers that it lacks.
    """
    order, overlap = np.arange(0), 0
    while True:
        previous_order, order = order, generator.permutation(count)
        if overlap:
            is_new = ~np.isin(order, previous_order[-overlap:])
            lacking = np.flatnonzero(is_new)[: per_batch - overlap]
            order = np.concatenate([order[lacking], np.delete(order, lacking)])
        yield order
        overlap = (overlap + count) % per_batch


def _draw_in_turn(count: int, per_batch: int, batches: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """(batches, per_batch) numbers below ``count``: all are drawn before any recurs, and none recurs within a batch."""
    return np.stack([draw[:, 0] for draw in islice(_draws(count, per_batch, generator), batches)])


def _draws(count: int, per_batch: int, generator: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """As :func:`_draw_in_turn`, batch by batch without end: (per_batch, 2), each number with its round from 0."""
    waiting = np.empty((0, 2), np.int64)
    for index, order in enumerate(_rounds(count, per_batch, generator)):
        waiting = np.concatenate([waiting, np.stack([order, np.full(count, index)], axis=1)])
        end = len(waiting) // per_batch * per_batch
        yield from waiting[:end].reshape(-1, per_batch, 2)
        waiting = waiting[end:]


def _draw_stays(visits: NDArray[np.int64], per_batch: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """(batches, per_batch) classes, each in successive batches, in whose place then comes the next of a random order.

    The plan ends with the first slot that no class is left to take.
    """
    stays_of_slot: list[list[int]] = [[] for _ in range(per_batch)]
    free = [(0, slot) for slot in range(per_batch)]  # a heap: the batch from which each slot is free
    for label in generator.permutation(len(visits)).tolist():
        batch, slot = free[0]
        stays_of_slot[slot].append(label)
        heapreplace(free, (batch + int(visits[label]), slot))
    batches = free[0][0]
    return np.stack([np.repeat(stays, visits[stays])[:batches] for stays in stays_of_slot], axis=1)
