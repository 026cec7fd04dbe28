"""Decoded images in memory-mapped files that data-loading workers and runs share."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from hiertree.datasets.readers.images import stamp_of
from hiertree.errors import CheckpointError, MissingResourceError
from hiertree.io import files
from hiertree.io.files import locked_folder
from hiertree.io.progress import show_progress
from hiertree.io.provenance import digest
from hiertree.io.reading import read_array

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.datasets import ImageSource

Decode = Callable[[int], Tensor]  # index of an image → (C, S, S) uint8
_ROWS_PER_FILE = 256  # an interrupted call loses at most this many decoded images


class PixelCache:
    """Every image of a data set as a square, (C, S, S) uint8, in files of 256 images each.

    A file is named by its images and the view: those of an image that has changed are decoded again. Splits and runs
    share a folder: one process decodes and the others wait. An interrupted call resumes.
    """

    def __init__(
        self, folder: Path, images: ImageSource, decode: Decode, *, view: Any, shape: tuple[int, int, int]
    ) -> None:
        starts = range(0, len(images), _ROWS_PER_FILE)
        parts = [range(start, min(start + _ROWS_PER_FILE, len(images))) for start in starts]
        self._files = [f"{folder}/{digest(_identity(images, rows, view))[:32]}.npy" for rows in parts]
        with locked_folder(folder, seconds=math.inf):
            missing = {file: rows for file, rows in zip(self._files, parts, strict=True) if not Path(file).is_file()}
            if missing:
                _require_room(folder, sum(map(len, missing.values())), bytes_each=int(np.prod(shape)))
                _decode(missing, decode)

    def __getitem__(self, indices: Sequence[int]) -> Tensor:
        places = (divmod(index, _ROWS_PER_FILE) for index in indices)
        return torch.from_numpy(np.stack([_mapped(self._files[part])[row] for part, row in places]))


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


def _require_room(folder: Path, count: int, *, bytes_each: int) -> None:
    """Check for disk space before hours of decoding."""
    required_bytes, free_bytes = count * bytes_each, shutil.disk_usage(folder).free
    if required_bytes > free_bytes:
        raise MissingResourceError(
            f"{required_bytes / 2**30:.1f} GiB for the pixels of {count} images at {folder}",
            expected=f"that much disk space; {free_bytes / 2**30:.1f} GiB are free",
            remedy="lower images.cache_size, or choose an images.cache_folder on a larger disk",
        )
