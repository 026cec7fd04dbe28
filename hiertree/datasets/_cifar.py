"""``cifar``: 60,000 images of 32 × 32 pixels; CIFAR-10 has 10 classes, CIFAR-100 20 coarse → 100 fine.

Krizhevsky, *Learning Multiple Layers of Features from Tiny Images* (2009).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from hiertree.datasets._benchmark import Benchmark, Counts, Download, Verify
from hiertree.datasets._dataset import ImageDataset
from hiertree.datasets._labelling import label_paths
from hiertree.datasets._plain_pickles import read_plain_pickle
from hiertree.datasets._sources import ArrayImages
from hiertree.errors import OptionError, TableError

Classes = Literal[10, 100]
LEVELS = {10: ("class",), 100: ("coarse", "fine")}
FOLDER = {10: "cifar-10-batches-py", 100: "cifar-100-python"}
MD5 = {10: "c58f30108f718f92721af3b95e74349a", 100: "eb9058c3a382ffc7106e4002c42a8d85"}
_BATCHES: dict[tuple[int, str], tuple[str, ...]] = {
    (10, "train"): tuple(f"data_batch_{number}" for number in range(1, 6)),
    (10, "test"): ("test_batch",),
    (100, "train"): ("train",),
    (100, "test"): ("test",),
}
_NAMES = {
    10: ("batches.meta", {"class": "label_names"}),
    100: ("meta", {f"{k}": f"{k}_label_names" for k in LEVELS[100]}),
}
_LABELS = {"class": "labels", "coarse": "coarse_labels", "fine": "fine_labels"}


def _benchmark(classes: Classes) -> Benchmark:
    archive = f"cifar-{classes}-python.tar.gz"
    return Benchmark(
        name=f"cifar{classes}",
        title=f"CIFAR-{classes}",
        levels=LEVELS[classes],
        splits={"train": Counts(images=50_000, classes=classes), "test": Counts(images=10_000, classes=classes)},
        licence="none stated; cite the report",
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
    verify: Verify = "published",
) -> ImageDataset:
    """Read CIFAR-10 or CIFAR-100 in its Python format into memory.

    The published files are pickles; no code in them is run (see :mod:`hiertree.datasets._plain_pickles`).

    Args:
        root: the folder ``cifar-10-batches-py`` or ``cifar-100-python``, or its parent.
        split: "train", 50,000 images, or "test", 10,000.
        classes: 10, with one level, or 100, with coarse → fine.
        verify: compare the number of images and classes with the "published" ones, or only the "structure".

    Raises:
        MissingResourceError: files are missing; the message says where to get them.
        TableError: a file is damaged or not as published; the message names it.
        OptionError: an unknown split or number of classes.

    Example:
        ``load_cifar("data/cifar-100-python", "test")``
    """
    if classes not in CIFAR:
        raise OptionError(f"classes={classes}", expected="10 or 100")
    benchmark = CIFAR[classes]
    benchmark.check_options(split, verify)
    meta, names = _NAMES[classes]
    _, meta_file, *files = benchmark.files(root, meta, *_BATCHES[classes, split])
    batches = [_batch(file, classes) for file in files]
    pixels = np.concatenate([batch["data"] for batch in batches])
    columns = [_named(meta_file, names[level], [batch[level] for batch in batches]) for level in LEVELS[classes]]
    labelled = label_paths(columns, level_names=LEVELS[classes], where=lambda row: f"{split} image {row}")
    images = ArrayImages(pixels, names=[name for batch in batches for name in batch["filenames"]])
    return benchmark.dataset(split, labelled, images, verify=verify)


def _batch(file: Path, classes: Classes) -> dict[str, Any]:
    """Pixels (n, 32, 32, 3), file names and labels by level."""
    content = read_plain_pickle(file)
    try:
        pixels = np.ascontiguousarray(content["data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        labels = {level: np.array(content[_LABELS[level]], dtype=np.int64) for level in LEVELS[classes]}
        columns = [content["filenames"], *labels.values()]
        if pixels.dtype != np.uint8 or {len(column) for column in columns} != {len(pixels)}:
            raise ValueError("pixels, names and labels do not fit together")
        return {"data": pixels, "filenames": content["filenames"], **labels}
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise TableError(f"{file} ({error!r})", expected=f"a batch of CIFAR-{classes}") from error


def _named(meta_file: Path, key: str, labels: list[Any]) -> Any:
    """The labels' names."""
    content, numbers = read_plain_pickle(meta_file), np.concatenate(labels)
    try:
        return np.array(content[key])[numbers]
    except (KeyError, IndexError, TypeError) as error:
        raise TableError(f"{meta_file} ({error!r})", expected=f"{key} for every label") from error
