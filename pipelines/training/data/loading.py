"""From a data set's images to batches of tensors.

A batch is asked for by a key that says everything about it (epoch, number in the epoch, indices), so a data loader's
workers need no state, and a run can go on from any batch.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.v2 import functional

from hiertree.datasets import ImageDataset
from hiertree.errors import ImageError
from hiertree.io.progress import track

from ..recipe.components import takes, target
from ..recipe.schema import Recipe
from ..recipe.settings import GlyphAugmentation, ImageSettings, NoAugmentation
from .augmentation import batch_numbers, crop_photo, move_glyphs
from .decoded import DecodedFile

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image

    from hiertree.datasets import ImageSource


class BatchSampler(Protocol):
    """Lists of indices, a batch each, as a function of its own seed and the epoch."""

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go to an ``epoch``, passing over its first ``batch`` batches."""
        ...

    def __iter__(self) -> Iterator[list[int]]: ...

    def __len__(self) -> int: ...


class BatchKey(NamedTuple):
    """Everything that a batch, or a process's part of it, depends on besides the recipe."""

    epoch: int
    number: int
    indices: list[int]
    first: int = 0  # where they begin in the batch


class Batch(NamedTuple):
    """Indices (B,) int64 in the data set, and images (B, C, S, S) uint8."""

    indices: Tensor
    images: Tensor


class Pictured(Protocol):
    """A data set, or whatever else has images by index."""

    @property
    def images(self) -> ImageSource:
        """The images."""
        ...


class Views(Dataset[Batch]):
    """The images of a data set as training or evaluation sees them, a batch at a time.

    Args:
        dataset: where the images come from.
        settings: the recipe's section.
        augment: the seed of the training view; None gives the evaluation view.

    Raises:
        ImageError: an image does not decode (at once where they are cached).
    """

    def __init__(self, dataset: Pictured, settings: ImageSettings, *, augment: int | None = None) -> None:
        self.images, self.settings = dataset.images, settings
        self.augmentation = NoAugmentation() if augment is None else settings.augmentation
        self.seed = augment or 0
        self._cache = self._decoded() if settings.cache else None

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, key: BatchKey) -> Batch:
        return Batch(torch.tensor(key.indices), self._seen(key))

    def _decoded(self) -> Tensor | DecodedFile:
        """The evaluation's view of every image, in memory or in a file."""
        settings, size = self.settings, self.settings.cache_size or self.settings.size
        if settings.cache_folder is None:
            return torch.stack([self._square(row, size) for row in range(len(self.images))])
        view = [size, settings.channels, settings.size, settings.resize]
        decode = partial(self._square, size=size)
        shape = (settings.channels, size, size)
        return DecodedFile(Path(settings.cache_folder), self.images, decode, view=view, shape=shape)

    def _square(self, index: int, size: int) -> Tensor:
        """The evaluation's view of an image that is not cached yet, at another size."""
        image, resize = _pixels(self.images[index], channels=self.settings.channels), self.settings.resize
        scaled = None if resize is None else max(size, round(resize * size / self.settings.size))
        return plain_view(image, size=size, resize=scaled)

    def _seen(self, key: BatchKey) -> Tensor:
        if isinstance(self.augmentation, NoAugmentation):
            return self._stack(key.indices)
        until = key.first + len(key.indices)
        numbers = batch_numbers(until, seed=self.seed, epoch=key.epoch, batch=key.number)[key.first :]
        if isinstance(self.augmentation, GlyphAugmentation):
            return move_glyphs(self._stack(key.indices), numbers, self.augmentation)
        size, photos = self.settings.size, map(self._decode, key.indices)
        crops = [
            crop_photo(photo, row, self.augmentation, size=size) for photo, row in zip(photos, numbers, strict=True)
        ]
        return torch.stack(crops)

    def _stack(self, indices: list[int]) -> Tensor:
        size, kept = self.settings.size, self._cache
        if kept is None:
            return torch.stack(
                [plain_view(self._decode(row), size=size, resize=self.settings.resize) for row in indices]
            )
        return plain_view(kept[indices], size=size, resize=None)

    def _decode(self, index: int) -> Tensor:
        if self._cache is not None:
            return self._cache[[index]][0]
        return _pixels(self.images[index], channels=self.settings.channels)


class EpochKeys:
    """The keys of one epoch's batches from a given one on; a data loader asks again for every epoch.

    Args:
        sampler: of batches, as :mod:`hiertree.samplers` has them, or of one process's part of each.
        part: which part, from 0; all are of one size.
    """

    def __init__(self, sampler: BatchSampler, *, part: int = 0) -> None:
        self.sampler, self.part = sampler, part
        self.epoch = self.first = 0

    def start(self, epoch: int, *, first: int = 0) -> None:
        """Go to an epoch, leaving out its first batches."""
        self.epoch, self.first = epoch, first
        self.sampler.load_state_dict({"epoch": epoch, "batch": first})

    def __iter__(self) -> Iterator[BatchKey]:
        for number, indices in enumerate(self.sampler, start=self.first):
            yield BatchKey(self.epoch, number, indices, first=self.part * len(indices))

    def __len__(self) -> int:
        return len(self.sampler) - self.first


def load_split(recipe: Recipe, split: str) -> ImageDataset:
    """The "train" or "test" split of a recipe's data.

    Raises:
        HiertreeError: whatever the loader finds wrong with the files.
    """
    options = recipe.data.options()
    skipping = recipe.images.on_bad_image == "skip"
    if skipping and takes("data", recipe.data.name, "on_bad_image"):
        options["on_bad_image"], skipping = "skip", False  # this loader does it itself, also for missing files
    dataset: ImageDataset = target("data", recipe.data.name)(split=split, **options)
    return without_bad_images(dataset) if skipping else dataset


def without_bad_images(dataset: ImageDataset) -> ImageDataset:
    """The data set without the images that do not decode, which ``left_out`` names; each is decoded once to see.

    Raises:
        ImageError: none decodes.
    """
    dataset = replace(dataset, beside=tuple(map(without_bad_images, dataset.beside)))
    bad = {row for row in track(range(len(dataset)), description="decoding every image") if _is_bad(dataset, row)}
    if not bad:
        return dataset
    kept = np.array([row for row in range(len(dataset)) if row not in bad], dtype=np.int64)
    if not len(kept):
        raise ImageError(f"none of {len(dataset)} images decodes", expected="image files")
    names = tuple(dataset.images.name(row) for row in sorted(bad))
    return replace(
        dataset.select(kept, split=dataset.split),
        queries=None if dataset.queries is None else _places(dataset.queries, kept),
        gallery=None if dataset.gallery is None else _places(dataset.gallery, kept),
        left_out=dataset.left_out + names,
        beside=dataset.beside,
    )


def _places(rows: NDArray[np.int64], kept: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the rows that are kept, in ascending order, stand now."""
    return np.searchsorted(kept, rows[np.isin(rows, kept)])


def _is_bad(dataset: ImageDataset, row: int) -> bool:
    try:
        dataset.images[row]
    except ImageError:
        return True
    return False


def loader_of(views: Views, keys: Iterable[BatchKey], *, workers: int, pin_memory: bool) -> DataLoader[Batch]:
    """A data loader that fetches whole batches by their keys."""
    return DataLoader(
        views,
        batch_size=None,
        sampler=keys,
        num_workers=workers,
        pin_memory=pin_memory,
        persistent_workers=workers > 0,
        worker_init_fn=_outlive_sigterm,
        generator=torch.Generator(),  # the workers' seeds are never used; this leaves torch's own generator alone
    )


def _outlive_sigterm(_worker: int) -> None:
    """A scheduler signals the whole group; the training process finishes its step first, and needs its workers."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def evaluation_keys(count: int, batch_size: int) -> list[BatchKey]:
    """Keys that go through all images once, in order."""
    return [
        BatchKey(0, start, list(range(start, min(start + batch_size, count)))) for start in range(0, count, batch_size)
    ]


def plain_view(image: Tensor, *, size: int, resize: int | None) -> Tensor:
    """The evaluation view (…, C, H, W) → (…, C, size, size): squeezed into the square, or the centre after a resize."""
    if resize is None and image.shape[-2:] == (size, size):
        return image
    view: Tensor = functional.resize(image, [size, size] if resize is None else [resize], antialias=True)
    return view if resize is None else functional.center_crop(view, [size, size])


def _pixels(image: Image, *, channels: int) -> Tensor:
    """A decoded image as a (C, H, W) uint8 tensor."""
    array = np.array(image.convert("L" if channels == 1 else "RGB"))
    return torch.from_numpy(array if channels == 3 else array[:, :, None]).permute(2, 0, 1).contiguous()
