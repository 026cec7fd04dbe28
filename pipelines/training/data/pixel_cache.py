"""Decoded images in a memory-mapped file that data-loading workers and runs share."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from hiertree.errors import ImageError, MissingResourceError
from hiertree.io import files
from hiertree.io.progress import show_progress

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.datasets import ImageSource

MappedPixels: TypeAlias = "np.memmap[Any, np.dtype[np.uint8]]"
Decode = Callable[[int], Tensor]  # index of an image → (C, S, S) uint8
_PIXELS, _ROWS = "pixels.npy", "rows.json"
_ROWS_PER_FLUSH = 256  # an interrupted call loses at most this many decoded images


class PixelCache:
    """Every image of a data set as a square in one memory-mapped file, (n, C, S, S) uint8; one for each set and view.

    Splits and runs share it: one process decodes and the others wait. An interrupted call resumes.
    """

    def __init__(
        self, folder: Path, images: ImageSource, decode: Decode, *, view: Any, shape: tuple[int, int, int]
    ) -> None:
        self.path = folder / f"{_identity(images, view)}.decoded"
        self._fill(decode, (len(images), *shape))

    def __getitem__(self, indices: Sequence[int]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(self._pixels[indices]))

    @cached_property
    def _pixels(self) -> NDArray[np.uint8]:
        pixels: NDArray[np.uint8] = np.load(self.path / _PIXELS, mmap_mode="r")
        return pixels

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path}

    def _fill(self, decode: Decode, shape: tuple[int, ...]) -> None:
        from filelock import FileLock

        self.path.mkdir(parents=True, exist_ok=True)
        noted = self.path / _ROWS
        with FileLock(self.path / "lock"):
            done = int(json.loads(noted.read_text(encoding="utf-8"))["rows"]) if noted.is_file() else 0
            if done:
                self._require_same(decode, done)
            if done < shape[0]:
                self._decode_rows(decode, _open_pixels(self.path / _PIXELS, shape, fresh=done == 0), first=done)

    def _require_same(self, decode: Decode, done: int) -> None:
        """Decode the first and the last image again: files of the same names may have been replaced."""
        for row in {0, done - 1}:
            if not np.array_equal(np.load(self.path / _PIXELS, mmap_mode="r")[row], decode(row).numpy()):
                raise ImageError(
                    f"{self.path} holds other pixels of image {row}",
                    expected="those of this data set's images",
                    remedy="remove that folder, or choose another images.cache_folder",
                )

    def _decode_rows(self, decode: Decode, pixels: MappedPixels, *, first: int) -> None:
        count = len(pixels)
        shown = show_progress(description="decoding images", total=count - first)
        with ThreadPoolExecutor() as threads, shown as advance:
            for start in range(first, count, _ROWS_PER_FLUSH):
                rows = range(start, min(start + _ROWS_PER_FLUSH, count))
                for row, square in zip(rows, threads.map(decode, rows), strict=True):
                    pixels[row] = square.numpy()
                pixels.flush()
                files.write_json(self.path / _ROWS, {"rows": rows.stop})
                advance(len(rows))


def _identity(images: ImageSource, view: Any) -> str:
    digest = hashlib.sha256(json.dumps(view, sort_keys=True).encode())
    for row in range(len(images)):
        digest.update(images.name(row).encode("utf-8", "surrogateescape") + b"\0")
    return digest.hexdigest()[:20]


def _open_pixels(path: Path, shape: tuple[int, ...], *, fresh: bool) -> MappedPixels:
    """Open the file for writing; check for disk space first, as writing mapped pixels to a full disk is fatal."""
    if not fresh:
        existing: MappedPixels = np.load(path, mmap_mode="r+")
        return existing
    needed, free = int(np.prod(shape)), shutil.disk_usage(path.parent).free
    if needed > free:
        raise MissingResourceError(
            f"{needed / 2**30:.1f} GiB for the pixels of {shape[0]} images at {path.parent}",
            expected=f"as much room on the disk, where {free / 2**30:.1f} GiB are free",
            remedy="lower images.cache_size, or choose an images.cache_folder on a larger disk",
        )
    return np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=shape)
