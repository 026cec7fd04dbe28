"""Images that a split lists more than once. A copy in the gallery is an easy hit, so that every metric is too high."""

from __future__ import annotations

import hashlib
import logging
import os
import posixpath
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..errors import TableError
from ..io.progress import track
from ..io.provenance import sha256
from ..options import check_choice
from .readers.images import FileImages, map_sources
from .readers.tar_images import TarImages

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .image_dataset import ImageDataset
    from .readers.images import ImageSource

OnDuplicates = Literal["error", "warn"]
FILES = FileImages | TarImages  # sources that identify images by their paths
_log = logging.getLogger(__name__)


def duplicates(dataset: ImageDataset, *, content: bool = False) -> dict[str, list[int]]:
    """The images that a split lists more than once: the name of the first one, and all their rows.

    A photograph that is listed once as a query and once in the gallery is no duplicate if ``dataset.ids`` gives both
    the same id, since evaluation by ids keeps them apart.

    Args:
        dataset: the split. Files and members of archives are compared by path.
        content: also compare files of equal size by their bytes, and other images by their pixels.

    Raises:
        ImageError: ``content`` is True and an image does not decode.

    >>> from hiertree.datasets import load_synthetic
    >>> duplicates(load_synthetic("train", families=2, kinds=2, instances=3, images=4))
    {}
    """
    keys = map_sources(dataset.images, _content_keys if content else _file_keys)
    groups = (part for rows in _equal_rows(keys) for part in _separate_twins(dataset, rows))
    return {dataset.images.name(rows[0]): rows for rows in groups if len(rows) > 1}


def check_duplicates(dataset: ImageDataset, *, content: bool = False, on_duplicates: OnDuplicates = "error") -> int:
    """Refuse a split that lists images more than once, or warn of it with their number.

    Args:
        dataset: the split.
        content: as in :func:`duplicates`.
        on_duplicates: ``"error"``, or ``"warn"`` for a log line.

    Returns:
        The number of rows that repeat an earlier one.

    Raises:
        TableError: there are duplicates, and ``on_duplicates`` is ``"error"``; the message names the first.
    """
    check_choice("on_duplicates", on_duplicates, OnDuplicates)
    groups = duplicates(dataset, content=content)
    extra = sum(len(rows) - 1 for rows in groups.values())
    if not groups:
        return 0
    examples = ", ".join(f"{name!r} in rows {rows[0]} and {rows[1]}" for name, rows in list(groups.items())[:3])
    problem = f"{dataset.name}, {dataset.split}: {extra} of {len(dataset)} rows repeat an image ({examples})"
    if on_duplicates == "error":
        raise TableError(problem, expected="every image once", remedy="remove the repeated rows")
    _log.warning("%s; metrics on such a split are too high", problem)
    return extra


def check_apart(train: ImageDataset, test: ImageDataset) -> None:
    """Refuse a test split that asks for files that the training split has: what was learned by heart is no retrieval.

    Files and members of archives are compared by path; images in memory are not. A gallery apart from the queries may
    hold what was trained on, as benchmarks of hashing do.
    """
    if not (_are_files(train.images) and _are_files(test.images)):
        return
    rows = np.arange(len(test)) if test.queries is None else test.queries
    repeats = rows[np.isin(map_sources(test.images, _file_keys)[rows], map_sources(train.images, _file_keys))]
    if len(repeats):
        raise TableError(
            f"{test.name}: {len(repeats)} of {len(test)} images of the split {test.split!r} are in "
            f"{train.split!r} as well, the first {test.images.name(int(repeats[0]))!r}",
            expected="images that were not trained on",
            remedy="remove them from one of the splits",
        )


def _are_files(images: ImageSource) -> bool:
    return bool(map_sources(images, lambda source: np.full(len(source), isinstance(source, FILES))).all())


def _separate_twins(dataset: ImageDataset, rows: list[int]) -> Iterator[list[int]]:
    """The rows as one group, or queries and gallery as two if ids keep them apart."""
    if dataset.ids is None or dataset.queries is None or len({str(dataset.ids[row]) for row in rows}) > 1:
        yield rows
        return
    yield np.intersect1d(rows, dataset.queries).tolist()
    yield np.setdiff1d(rows, dataset.queries).tolist()


def _equal_rows(keys: NDArray[np.int64]) -> list[list[int]]:
    """Groups of two or more rows with equal keys."""
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=keys[order[:1]] - 1)) if len(keys) else order
    groups = np.split(order, starts[1:])
    return [group.tolist() for group in groups if len(group) > 1]


def _file_keys(images: ImageSource) -> NDArray[np.int64]:
    """Keys that are equal for equal files; images in memory all differ."""
    if not isinstance(images, FILES):
        return np.arange(len(images), dtype=np.int64)
    folder = os.path.realpath(images.root)
    boxes = getattr(images, "boxes", None)
    names = zip(map(images.name, range(len(images))), repeat("") if boxes is None else boxes.tolist(), strict=False)
    return _hashes(
        f"{folder}/{posixpath.normpath(name) if '//' in name or './' in name else name}{box}" for name, box in names
    )


def _content_keys(images: ImageSource) -> NDArray[np.int64]:
    """Keys that are equal for equal content; only files of equal size are read."""
    rows = track(range(len(images)), description="comparing images")
    if not isinstance(images, FileImages) or images.boxes is not None:
        return _hashes(hashlib.sha256(np.asarray(images[row]).tobytes()).hexdigest() for row in rows)
    paths = [images.root / images.name(row) for row in range(len(images))]
    sizes = [path.stat().st_size if path.is_file() else -1 for path in paths]
    same_size_rows = {row for group in _equal_rows(np.array(sizes, dtype=np.int64)) for row in group if sizes[row] >= 0}
    return _hashes(sha256(paths[row]) if row in same_size_rows else os.fspath(paths[row]) for row in rows)


def _hashes(texts: Iterable[str]) -> NDArray[np.int64]:
    """A 64-bit hash of each text; a collision among a million is improbable."""
    return np.fromiter(map(hash, texts), dtype=np.int64)
