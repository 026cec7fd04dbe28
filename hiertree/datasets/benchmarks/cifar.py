"""``cifar``: 60,000 images of 32 × 32 pixels; CIFAR-10 has 10 classes, CIFAR-100 20 coarse → 100 fine.

Krizhevsky, *Learning Multiple Layers of Features from Tiny Images* (2009).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np

from ...errors import TableError
from ...options import check_choice
from ..description import Benchmark, Counts, Download, Verify
from ..image_dataset import ImageDataset
from ..labels_to_paths import label_paths
from ..readers.images import ArrayImages
from ..readers.plain_pickles import read_plain_pickle

if TYPE_CHECKING:
    from numpy.typing import NDArray

Classes = Literal[10, 100]
Setting = Literal["published", "s1", "s2"]
S1_QUERIES, S1_TRAINING = 100, 500  # images of a class
LEVELS = {10: ("class",), 100: ("coarse", "fine")}
FOLDER = {10: "cifar-10-batches-py", 100: "cifar-100-python"}
MD5 = {10: "c58f30108f718f92721af3b95e74349a", 100: "eb9058c3a382ffc7106e4002c42a8d85"}
_BATCHES: dict[tuple[int, str], tuple[str, ...]] = {
    (10, "train"): tuple(f"data_batch_{number}" for number in range(1, 6)),
    (10, "test"): ("test_batch",),
    (100, "train"): ("train",),
    (100, "test"): ("test",),
}
_NAMES = {10: ("batches.meta", ("label_names",)), 100: ("meta", ("coarse_label_names", "fine_label_names"))}
_LABELS = {10: ("labels",), 100: ("coarse_labels", "fine_labels")}


def _benchmark(classes: Classes) -> Benchmark:
    archive = f"cifar-{classes}-python.tar.gz"
    return Benchmark(
        name=f"cifar{classes}",
        title=f"CIFAR-{classes}",
        levels=LEVELS[classes],
        splits={"train": Counts(images=50_000, classes=classes), "test": Counts(images=10_000, classes=classes)},
        license="none stated; cite the report",
        url="https://www.cs.toronto.edu/~kriz/cifar.html",
        steps=(
            f"get {archive} (MD5 {MD5[classes]}) from https://www.cs.toronto.edu/~kriz/cifar.html",
            f"unpack it and pass the folder {FOLDER[classes]}",
        ),
        folder=FOLDER[classes],
        downloads=(Download(url=f"https://www.cs.toronto.edu/~kriz/{archive}", md5=MD5[classes]),),
    )


CIFAR = {classes: _benchmark(classes) for classes in get_args(Classes)}


def load_cifar(
    root: str | os.PathLike[str],
    split: str = "train",
    *,
    classes: Classes = 100,
    setting: Setting = "published",
    seed: int = 0,
    verify: Verify = "published",
) -> ImageDataset:
    """Read CIFAR-10 or CIFAR-100 in its Python format into memory.

    The published files are pickles; no code in them is run (see :mod:`hiertree.datasets.readers.plain_pickles`).

    Args:
        root: the folder ``cifar-10-batches-py`` or ``cifar-100-python``, or its parent.
        split: "train" or "test".
        classes: 10, with one level, or 100, with coarse → fine.
        setting: the ``"published"`` splits of 50,000 and 10,000 images, or those of papers on hashing. ``"s1"``: 100
            images of each class, drawn by the seed, are queries, all others are the gallery, and 500 of those per class
            train. ``"s2"``: the published test images are queries, and the training images are the gallery.
        seed: of the draw in ``"s1"``.
        verify: "published" compares the numbers of images and classes with the published ones; "structure" does not.

    Raises:
        MissingResourceError: files are missing; the message says where to get them.
        TableError: a file is damaged or not as published; the message names it.
        OptionError: an unknown split, setting or number of classes.

    Example:
        ``load_cifar("data/cifar-100-python", "test")``
    """
    check_choice("classes", classes, Classes)
    check_choice("setting", setting, Setting)
    benchmark = CIFAR[classes]
    benchmark.check_options(split, verify)
    alone = setting == "published" or (setting == "s2" and split == "train")
    parts = [_part(benchmark, root, part, classes, verify) for part in ((split,) if alone else ("train", "test"))]
    found = Part(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    queries = gallery = None
    if setting == "s1":
        rank = _rank_in_class(found.labels[:, -1], seed)
        if split == "train":
            found = Part(*(column[(rank >= S1_QUERIES) & (rank < S1_QUERIES + S1_TRAINING)] for column in found))
        else:
            queries, gallery = np.flatnonzero(rank < S1_QUERIES), np.flatnonzero(rank >= S1_QUERIES)
    elif not alone:
        trained = len(parts[0].names)
        queries, gallery = np.arange(trained, len(found.names)), np.arange(trained)
    labeled = label_paths(found.labels.T, level_names=benchmark.levels, where=lambda row: f"image {found.names[row]}")
    images = ArrayImages(found.pixels, names=found.names.tolist())
    return benchmark.dataset(split, labeled, images, verify="structure", queries=queries, gallery=gallery)


class Part(NamedTuple):
    """Pixels (n, 32, 32, 3) uint8, file names (n,), and labels (n, L): numbers in a file, names in a part."""

    pixels: NDArray[Any]
    names: NDArray[Any]
    labels: NDArray[Any]


def _part(benchmark: Benchmark, root: str | os.PathLike[str], part: str, classes: Classes, verify: str) -> Part:
    """The published training or test part."""
    meta, keys = _NAMES[classes]
    _, meta_file, *files = benchmark.files(root, meta, *_BATCHES[classes, part])
    batches = [_batch(file, classes) for file in files]
    pixels, names, numbers = (np.concatenate(columns) for columns in zip(*batches, strict=True))
    texts = read_plain_pickle(meta_file)
    try:
        labels = np.stack([np.array(texts[key])[column] for key, column in zip(keys, numbers.T, strict=True)], axis=1)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise TableError(f"{meta_file} ({error!r})", expected=f"{' and '.join(keys)} for every label") from error
    benchmark.verify(part, len(names), len(np.unique(labels[:, -1])), verify)
    return Part(pixels, names, labels)


def _batch(file: Path, classes: Classes) -> Part:
    """One file of a part; its labels are still numbers."""
    content = read_plain_pickle(file)
    try:
        pixels = np.ascontiguousarray(content["data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        numbers = np.stack([np.array(content[key], dtype=np.int64) for key in _LABELS[classes]], axis=1)
        names = np.array(content["filenames"], dtype=np.str_)
        if pixels.dtype != np.uint8 or not len(pixels) == len(names) == len(numbers) or (numbers < 0).any():
            raise ValueError("pixels, names and labels do not fit together")
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise TableError(f"{file} ({error!r})", expected=f"a batch of CIFAR-{classes}") from error
    return Part(pixels, names, numbers)


def _rank_in_class(labels: NDArray[Any], seed: int) -> NDArray[np.int64]:
    """The rank of each image among those of its class, in an order drawn by the seed."""
    drawn = np.random.default_rng(seed).permutation(len(labels))
    rank = np.empty(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        members = drawn[labels[drawn] == label]
        rank[members] = np.arange(len(members))
    return rank
