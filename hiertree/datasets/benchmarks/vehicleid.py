"""``vehicleid``: PKU VehicleID, 221,763 photographs of 26,267 vehicles.

Liu, Tian, Wang, Pang and Huang, *Deep Relative Distance Learning: Tell the Difference Between Similar Vehicles* (CVPR
2016). The sizes are those that fast-reid lists (``fastreid/data/datasets/vehicleid.py``).
"""

from __future__ import annotations

import os
from typing import Literal, get_args

import numpy as np

from ...options import check_choice
from ..description import Benchmark, Counts, Verify
from ..image_dataset import ImageDataset
from ..labels_to_paths import label_paths
from ..readers.text_lists import read_words

TestClasses = Literal[800, 1600, 2400]
_TEST_IMAGES = {800: 6_493, 1600: 13_377, 2400: 19_777}


def _benchmark(classes: TestClasses) -> Benchmark:
    images = _TEST_IMAGES[classes]
    return Benchmark(
        name=f"vehicleid-{classes}",
        title=f"VehicleID, {classes} test vehicles",
        levels=("vehicle",),
        splits={
            "train": Counts(images=113_346, classes=13_164),
            "test": Counts(images=images, classes=classes),
            "query": Counts(images=images - classes),
            "gallery": Counts(images=classes, classes=classes),
        },
        protocol="vehicleid",
        license="research, on agreement",
        url="https://www.pkuml.org/resources/pku-vehicleid.html",
        steps=(
            "ask for VehicleID_V1.0 at https://www.pkuml.org/resources/pku-vehicleid.html",
            "unpack it and pass the folder VehicleID_V1.0",
        ),
        folder="VehicleID_V1.0",
    )


VEHICLEID = {classes: _benchmark(classes) for classes in get_args(TestClasses)}


def load_vehicleid(
    root: str | os.PathLike[str],
    split: str = "train",
    *,
    test_classes: TestClasses = 800,
    seed: int = 0,
    verify: Verify = "published",
) -> ImageDataset:
    """Read a split of VehicleID from ``train_test_split/train_list.txt`` or ``test_list_{800,1600,2400}.txt``.

    The gallery has one image per vehicle, drawn by the seed; the other images are queries. Published numbers are means
    over several such draws.

    Args:
        root: the folder ``VehicleID_V1.0`` or its parent.
        split: "train", "test" (queries and gallery, which the data set's ``queries`` and ``gallery`` index),
            "query" or "gallery".
        test_classes: 800, 1600 or 2400, the size of the test list.
        seed: of the draw of the gallery.
        verify: "published" compares the numbers of images and classes with the published ones; "structure" does not.

    Raises:
        MissingResourceError: files are missing; the message says where to get them.
        TableError: a list is not as published; the message names the line.
        OptionError: an unknown split or test list.

    Example:
        ``load_vehicleid("data/VehicleID_V1.0", "test", test_classes=1600)``
    """
    check_choice("test_classes", test_classes, TestClasses)
    benchmark = VEHICLEID[test_classes]
    benchmark.check_options(split, verify)
    name = "train_list" if split == "train" else f"test_list_{test_classes}"
    home, file = benchmark.files(root, f"train_test_split/{name}.txt")
    listed = read_words(file, ("image", "vehicle"))
    labeled = label_paths([listed.integers("vehicle")], level_names=benchmark.levels, where=listed.where)
    images = benchmark.image_files(home, [f"image/{image.zfill(7)}.jpg" for image in listed["image"]], listed.where)
    if split == "train":
        return benchmark.dataset(split, labeled, images, verify=verify)
    drawn = np.random.default_rng(seed).permutation(len(listed))
    gallery = np.sort(drawn[np.unique(labeled.paths[drawn, 0], return_index=True)[1]])
    queries = np.setdiff1d(np.arange(len(listed)), gallery)
    return benchmark.query_and_gallery(split, labeled, images, verify=verify, queries=queries, gallery=gallery)
