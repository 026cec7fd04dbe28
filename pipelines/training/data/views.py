"""The views of images for training and evaluation: a square of pixels, augmented or plain; and decoded images in files.

The files are memory-mapped, so that workers and runs share them.
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import torch
from numpy.random import mtrand
from numpy.typing import NDArray
from PIL import ImageOps
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample
from torch.utils.data import Dataset
from torchvision.transforms.v2 import InterpolationMode, functional

from hiertree.datasets.readers.images import eight_bit, reading, stamp_of
from hiertree.errors import CheckpointError, MissingResourceError, RecipeError
from hiertree.io import files
from hiertree.io.array_files import read_array
from hiertree.io.files import locked_folder
from hiertree.io.progress import show_progress
from hiertree.io.provenance import digest

from ..distributed.processes import seed_torch
from ..recipe.components import Component
from ..recipe.settings import GlyphAugmentation, ImageSettings, NoAugmentation, PhotoAugmentation
from .batches import BatchKey, ImageBatch

if TYPE_CHECKING:
    from PIL.Image import Image

    from hiertree.datasets import ImageSource

Picture = TypeVar("Picture", "Image", Tensor)
Decode = Callable[[int], Tensor]  # index of an image → (C, S, S) uint8
_ROWS_PER_FILE = 256  # an interrupted call loses at most this many decoded images
DRAWS = 5  # per image; no augmentation needs more


def batch_draws(count: int, *, seed: int, epoch: int, batch: int) -> NDArray[np.float32]:
    """Draw (count, 5) uniform numbers in [0, 1) that depend on the arguments alone, so no process has a state."""
    return np.random.default_rng([seed, epoch, batch]).random((count, DRAWS), dtype=np.float32)


def move_glyphs(images: Tensor, draws: NDArray[np.float32], settings: GlyphAugmentation) -> Tensor:
    """Rotate, scale, shear and shift every image of a batch a little."""
    angle, scale, shear, right, down = torch.from_numpy(2 * draws - 1).unbind(1)
    angle = angle * math.radians(settings.degrees)
    scale = 1 + scale * settings.scale
    cosine, sine, shear = torch.cos(angle) / scale, torch.sin(angle) / scale, shear * settings.shear
    rows = [
        torch.stack([cosine, shear * cosine - sine, 2 * settings.shift * right], dim=1),
        torch.stack([sine, shear * sine + cosine, 2 * settings.shift * down], dim=1),
    ]
    grid = affine_grid(torch.stack(rows, dim=1), list(images.shape), align_corners=False)
    pixels = grid_sample(images.float(), grid, mode="bilinear", padding_mode="border", align_corners=False)
    return pixels.round().to(torch.uint8)


def crop_photo(image: Tensor, draws: NDArray[np.float32], settings: PhotoAugmentation, *, size: int) -> Tensor:
    """Crop a random part of one image, resize it to a square and perhaps mirror it."""
    height, width = image.shape[-2:]
    area = height * width * (settings.smallest_area + draws[0] * (1 - settings.smallest_area))
    aspect = settings.widest_aspect ** (2 * draws[1] - 1)
    crop_height = max(1, min(height, round(math.sqrt(area / aspect))))
    crop_width = max(1, min(width, round(math.sqrt(area * aspect))))
    top, left = int(draws[2] * (height - crop_height + 1)), int(draws[3] * (width - crop_width + 1))
    crop: Tensor = functional.resized_crop(image, top, left, crop_height, crop_width, [size, size], antialias=True)
    return functional.horizontal_flip(crop) if settings.flip and draws[4] < 0.5 else crop


class SeededTransforms:
    """Transforms, one after the other, whose randomness depends on the seeds that each image is given."""

    def __init__(self, components: Sequence[Component], *, size: int) -> None:
        self._transforms = [component.build() for component in components]
        self._size = size

    def __call__(self, image: Tensor, *seeds: int) -> Tensor:
        """(C, H, W) uint8 → (C, S, S) uint8."""
        output: Any = image
        with _drawing_from(*seeds):
            for transform in self._transforms:
                output = transform(output)
        try:
            pixels: Tensor = functional.to_image(output).as_subclass(Tensor)
        except TypeError as error:
            raise _unusable(f"a {type(output).__name__}") from error
        shape = (len(image), self._size, self._size)
        if pixels.shape != shape:
            end = f"end with {{name: Resize, size: [{self._size}, {self._size}]}}"
            raise _unusable(f"an image of shape {tuple(pixels.shape)}", f"{shape}", remedy=end)
        if pixels.is_floating_point() and bool(((pixels >= 0) & (pixels <= 1)).all()):
            pixels = functional.to_dtype(pixels, torch.uint8, scale=True)
        if pixels.dtype != torch.uint8:
            pixel_range = f"{pixels.dtype} from {pixels.min():.3g} to {pixels.max():.3g}"
            raise _unusable(pixel_range, "8 bits, or floats in [0, 1]; model.mean and .std normalize them")
        return pixels

    def check(self, image: Tensor) -> None:
        """Try the transforms on one image, before anything is learned or written."""
        try:
            self(image, 0)
        except RecipeError:
            raise
        except Exception as error:  # whatever transforms raise
            raise _unusable(f"{type(error).__name__}: {error}", "transforms that take this image") from error


def _unusable(result: str, expected: str = "an image", *, remedy: str | None = None) -> RecipeError:
    return RecipeError(f"images.augmentation makes {result}", expected=expected, remedy=remedy)


@contextmanager
def _drawing_from(*seeds: int) -> Iterator[None]:
    """A block in which torch, numpy and Python draw from the given seeds; their states are restored afterwards."""
    of_python, of_numpy = random.getstate(), mtrand.get_bit_generator()
    seed = np.random.SeedSequence(seeds)
    with torch.random.fork_rng(devices=[]):
        try:
            seed_torch(*seeds)
            random.seed(int(seed.generate_state(1)[0]))
            mtrand.set_bit_generator(np.random.MT19937(seed))
            yield
        finally:
            random.setstate(of_python)
            mtrand.set_bit_generator(of_numpy)


class ImageViews(Dataset[ImageBatch]):
    """Images as training or evaluation sees them, one batch at a time."""

    def __init__(self, images: ImageSource, settings: ImageSettings, *, augment: int | None = None) -> None:
        self.images, self.settings = images, settings
        self.augmentation = NoAugmentation() if augment is None else settings.augmentation
        self.seed = augment or 0
        self._cache = self._cached_squares() if settings.cache else None
        self._transforms = self._checked_transforms()

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, key: BatchKey) -> ImageBatch:
        return ImageBatch(torch.tensor(key.indices), self._batch(key))

    def _cached_squares(self) -> Tensor | PixelCache:
        """The evaluation view of every image, (n, C, S, S), in memory or in files."""
        settings, size = self.settings, self.settings.cache_size or self.settings.size
        decode = partial(self._square, size=size)
        if settings.cache_folder is None:
            _require_room(settings, len(self.images), size)
            return torch.stack([decode(row) for row in range(len(self.images))])
        upright = ["upright"] * settings.exif_orientation
        view: list[Any] = [size, settings.channels, settings.size, settings.resize, *upright]
        view += [settings.interpolation, settings.border, "by Pillow"]
        check = partial(_require_room, settings, size=size)
        return PixelCache(Path(settings.cache_folder), self.images, decode, view=view, check_room=check)

    def _square(self, index: int, size: int) -> Tensor:
        """The evaluation view of an image, decoded at the size of the cache."""
        return plain_view(self._image(index), self.settings, size=size)

    def _batch(self, key: BatchKey) -> Tensor:
        augmentation, size = self.augmentation, self.settings.size
        if self._transforms is not None:
            views = [
                self._transforms(self._decode(row), self.seed, key.epoch, key.batch, rank)
                for rank, row in enumerate(key.indices, start=key.first)
            ]
            return torch.stack(views)
        if not isinstance(augmentation, (GlyphAugmentation, PhotoAugmentation)):
            return self._plain_batch(key.indices)
        until = key.first + len(key.indices)
        draws = batch_draws(until, seed=self.seed, epoch=key.epoch, batch=key.batch)[key.first :]
        if isinstance(augmentation, GlyphAugmentation):
            return move_glyphs(self._plain_batch(key.indices), draws, augmentation)
        rows = zip(key.indices, draws, strict=True)
        return torch.stack(
            [crop_photo(self._decode(row), row_draws, augmentation, size=size) for row, row_draws in rows]
        )

    def _checked_transforms(self) -> SeededTransforms | None:
        """The transforms that the augmentation names, if it does, tried on the first image."""
        sections = self.augmentation if isinstance(self.augmentation, tuple) else (self.augmentation,)
        components = [section for section in sections if isinstance(section, Component)]
        if not components:
            return None
        transforms = SeededTransforms(components, size=self.settings.size)
        transforms.check(self._decode(0))
        return transforms

    def _plain_batch(self, indices: list[int]) -> Tensor:
        settings = self.settings
        if self._cache is not None:
            return _resized(self._cache[indices], [settings.size, settings.size], settings)
        return torch.stack([plain_view(self._image(row), settings) for row in indices])

    def _decode(self, index: int) -> Tensor:
        if self._cache is not None:
            return self._cache[[index]][0]
        return _pixels(self._image(index), self.settings)

    def _image(self, index: int) -> Image:
        with reading(max_pixels=self.settings.max_pixels, view_size=self.settings.largest_view):
            image = eight_bit(self.images[index], name=self.images.name(index))
            if self.settings.exif_orientation:
                ImageOps.exif_transpose(image, in_place=True)
        return image


def _require_room(settings: ImageSettings, count: int, size: int) -> None:
    """Refuse a cache larger than the machine's memory, or the room on its disk, before hours of decoding."""
    folder = settings.cache_folder
    if folder is not None:
        free, room = shutil.disk_usage(folder).free, f"on the disk of {folder}"
        remedy = "lower images.cache_size, or choose an images.cache_folder on a larger disk"
    elif hasattr(os, "sysconf"):  # not on Windows
        free, room = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), "of this machine's memory"
        remedy = "set images.cache=false, keep them on a disk by images.cache_folder, or lower images.size"
    else:
        return
    required = count * settings.channels * size * size
    if required > free:
        problem = f"{required / 2**30:.1f} GiB for the pixels of {count} images"
        raise MissingResourceError(problem, expected=f"less than the {free / 2**30:.1f} GiB {room}", remedy=remedy)


def plain_view(image: Image, settings: ImageSettings, *, size: int | None = None) -> Tensor:
    """Give the evaluation view of a decoded image of 8 bits, (C, S, S) uint8: resized, then the central crop.

    Pillow resizes, as in the transforms of torchvision, timm and open_clip: torch's tensors differ in some pixels. At
    another ``size`` than that of the settings, everything else is scaled with it.
    """
    size, view = size or settings.size, image.convert(settings.mode)
    lengths = [round(length * size / settings.size) for length in settings.resized_sides] or [size, size]
    if settings.border is None:
        view = _resized(view, lengths, settings)
    else:
        ratio = max(view.size) / lengths[0]
        view = _resized(view, [max(1, round(edge / ratio)) for edge in (view.height, view.width)], settings)
        right, down = (max(0, size - edge) for edge in view.size)
        margins = [right // 2, down // 2, (right + 1) // 2, (down + 1) // 2]
        view = functional.pad(view, margins, fill=settings.border)
    return _pixels(functional.center_crop(view, [size, size]), settings)


def _resized(image: Picture, lengths: list[int], settings: ImageSettings) -> Picture:
    """An image, or a batch of tensors, with these height and width, or this shorter side."""
    return cast(Picture, functional.resize(image, lengths, InterpolationMode(settings.interpolation), antialias=True))


def _pixels(image: Image, settings: ImageSettings) -> Tensor:
    """The (C, H, W) uint8 tensor of a decoded image of 8 bits, gray or RGB."""
    array = np.array(image.convert(settings.mode))
    return torch.from_numpy(array).reshape(*array.shape[:2], settings.channels).permute(2, 0, 1).contiguous()


class PixelCache:
    """Every image of a data set as a square, (C, S, S) uint8, in files of 256 images each.

    A file is named by its images and the view: those of an image that has changed are decoded again. Splits and runs
    share a folder: one process decodes and the others wait. An interrupted call resumes.
    """

    def __init__(
        self, folder: Path, images: ImageSource, decode: Decode, *, view: Any, check_room: Callable[[int], None]
    ) -> None:
        starts = range(0, len(images), _ROWS_PER_FILE)
        row_blocks = [range(start, min(start + _ROWS_PER_FILE, len(images))) for start in starts]
        self._files = [f"{folder}/{digest(_identity(images, rows, view))[:32]}.npy" for rows in row_blocks]
        with locked_folder(folder, seconds=math.inf):
            pairs = zip(self._files, row_blocks, strict=True)
            missing = {file: rows for file, rows in pairs if not Path(file).is_file()}
            if missing:
                check_room(sum(map(len, missing.values())))
                _decode(missing, decode)

    def __getitem__(self, indices: Sequence[int]) -> Tensor:
        origins = (divmod(index, _ROWS_PER_FILE) for index in indices)
        return torch.from_numpy(np.stack([_mapped(self._files[file])[row] for file, row in origins]))


def _identity(images: ImageSource, rows: range, view: Any) -> Iterator[str]:
    yield json.dumps(view)
    for row in rows:
        yield f"{images.name(row)}\0{stamp_of(images, row)}\0"


def _decode(missing: dict[str, range], decode: Decode) -> None:
    progress = show_progress(description="decoding images", total=sum(map(len, missing.values())))
    with ThreadPoolExecutor() as threads, progress as advance:
        for file, rows in missing.items():
            squares = np.stack([square.numpy() for square in threads.map(decode, rows)])
            with files.replacing(file) as temporary:
                np.save(temporary, squares)
            advance(len(rows))


@lru_cache(maxsize=256)  # each holds a file open
def _mapped(file: str) -> NDArray[np.uint8]:
    remedy = "remove it to have its images decoded again"
    return read_array(file, expected="decoded images", remedy=remedy, kind=CheckpointError, mapped=True)
