"""``cub``: Caltech-UCSD Birds-200-2011, 11,788 photographs of 200 kinds of birds.

Wah, Branson, Welinder, Perona and Belongie, *The Caltech-UCSD Birds-200-2011 Dataset* (2011). For retrieval the first
100 classes train and the last 100 test, after Oh Song et al. (CVPR 2016); ``train_test_split.txt``, which is for
classification, is not used. The sizes are those that pytorch-metric-learning's tests find
(``tests/datasets/test_cub.py``).
"""

from __future__ import annotations

import os

import numpy as np

from ...errors import TableError
from ..description import Benchmark, Counts, Download, Verify
from ..image_dataset import ImageDataset
from ..labels_to_paths import label_paths
from ..readers.text_lists import read_words

CUB = Benchmark(
    name="cub",
    title="CUB-200-2011",
    levels=("species",),
    splits={"train": Counts(images=5_864, classes=100), "test": Counts(images=5_924, classes=100)},
    protocol="cub",
    license="non-commercial research and education",
    url="https://www.vision.caltech.edu/datasets/cub_200_2011/",
    steps=(
        (
            "get CUB_200_2011.tgz (1.1 GB, MD5 97eceeb196236b17998738112f37df78) from "
            "https://data.caltech.edu/records/65de6-vp158"
        ),
        "unpack it and pass the folder CUB_200_2011",
    ),
    folder="CUB_200_2011",
    downloads=(
        Download(
            url="https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz?download=1",
            md5="97eceeb196236b17998738112f37df78",
        ),
    ),
)
TRAINING_CLASSES = 100


def load_cub(root: str | os.PathLike[str], split: str = "train", *, verify: Verify = "published") -> ImageDataset:
    """Read a retrieval split of CUB-200-2011 from ``images.txt``, ``image_class_labels.txt`` and ``classes.txt``.

    Args:
        root: the folder ``CUB_200_2011`` or its parent.
        split: "train", classes 1 to 100, or "test", classes 101 to 200.
        verify: "published" compares the numbers of images and classes with the published ones; "structure" does not.

    Raises:
        MissingResourceError: files are missing; the message says where to get them.
        TableError: a list is not as published, or two lists do not fit together; the message names the line.
        OptionError: an unknown split.

    Example:
        ``load_cub("data/CUB_200_2011", "test")``
    """
    CUB.check_options(split, verify)
    home, *files = CUB.files(root, "images.txt", "image_class_labels.txt", "classes.txt")
    images = read_words(files[0], ("image_id", "path"))
    labels = read_words(files[1], ("image_id", "class_id"))
    classes = read_words(files[2], ("class_id", "name"))
    if images["image_id"] != labels["image_id"]:
        raise TableError(f"{files[1]}: other image ids than {files[0].name}", expected="the same, in the same order")
    class_ids = labels.integers("class_id")
    name_of = dict(zip(classes.integers("class_id").tolist(), classes["name"], strict=True))
    rows = np.flatnonzero((class_ids > TRAINING_CLASSES) == (split == "test"))
    try:
        names = [name_of[class_id] for class_id in class_ids[rows].tolist()]
    except KeyError as error:
        raise TableError(f"{files[1]}: class {error}", expected=f"a class of {files[2].name}") from None
    chosen = images.select(rows)
    labeled = label_paths([names], level_names=CUB.levels, where=chosen.where)
    files_of_images = CUB.image_files(home, [f"images/{path}" for path in chosen["path"]], chosen.where)
    return CUB.dataset(split, labeled, files_of_images, verify=verify)
