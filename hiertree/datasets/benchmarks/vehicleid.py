"""``vehicleid``: PKU VehicleID, 221,763 photographs of 26,267 vehicles.

Liu, Tian, Wang, Pang and Huang, *Deep Relative Distance Learning: Tell the Difference Between Similar Vehicles* (CVPR
2016). Its sizes are those of the lists as fast-reid counts them (``fastreid/data/datasets/vehicleid.py``); Smooth-AP
(Brown et al., ECCV 2020, Sec. 5.1 and Tab. 1) counts others, which are accepted too.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from ...options import check_choice
from ..description import Benchmark, Counts, Verify
from ..image_dataset import ImageDataset
from ..labels_to_paths import label_paths
from ..readers.text_lists import read_words

TestClasses = Literal[800, 1600, 2400]
TestGallery = Literal["list", "one-image"]
_TEST_IMAGES = {800: 6_493, 1600: 13_377, 2400: 19_777}
_SMOOTH_AP_IMAGES = {800: 7_332, 1600: 12_995, 2400: 20_038}


def _benchmark(classes: TestClasses) -> Benchmark:
    train, other_train = Counts(images=113_346, classes=13_164), Counts(images=110_178, classes=13_134)
    return Benchmark(
        name=f"vehicleid-{classes}",
        title=f"VehicleID, {classes} test vehicles",
        levels=("vehicle",),
        splits={"train": train, **_test_sizes(_TEST_IMAGES[classes], classes)},
        other_lists={"Smooth-AP": {"train": other_train, **_test_sizes(_SMOOTH_AP_IMAGES[classes], classes)}},
        protocol="vehicleid",
        license="research, on agreement",
        url="https://www.pkuml.org/resources/pku-vehicleid.html",
        steps=(
            "ask for VehicleID_V1.0 at https://www.pkuml.org/resources/pku-vehicleid.html",
            "unpack it and pass the folder VehicleID_V1.0",
        ),
        folder="VehicleID_V1.0",
    )


def _test_sizes(images: int, classes: int) -> dict[str, Counts]:
    return {
        "test": Counts(images=images, classes=classes),
        "query": Counts(images=images - classes),
        "gallery": Counts(images=classes, classes=classes),
    }


VEHICLEID = {classes: _benchmark(classes) for classes in get_args(TestClasses)}


def load_vehicleid(
    root: str | os.PathLike[str],
    split: str = "train",
    *,
    test_classes: TestClasses = 800,
    gallery: TestGallery = "list",
    seed: int = 0,
    verify: Verify = "published",
) -> ImageDataset:
    """Read a split of VehicleID from ``train_test_split/train_list.txt`` or ``test_list_{800,1600,2400}.txt``.

    Every test image is a query and its gallery are all others of its list, as Smooth-AP measures (protocol
    "vehicleid"). Others in the literature draw one image of each vehicle as the gallery and query with the rest
    (``gallery="one-image"``, protocol "vehicleid-one-image"); their numbers are means over several draws and cannot be
    compared with the first protocol's.

    Args:
        root: the folder ``VehicleID_V1.0`` or its parent.
        split: "train" or "test"; "query" or "gallery" are the parts of a one-image gallery.
        test_classes: 800, 1600 or 2400, the size of the test list.
        gallery: what a test image is searched in: the rest of its "list", or a gallery of "one-image" of each vehicle.
        seed: of the draw of that gallery.
        verify: "published" compares the numbers of images and classes with fast-reid's and Smooth-AP's; "structure"
            does not.

    Raises:
        MissingResourceError: files are missing; the message says where to get them.
        TableError: a list is not as published; the message names the line.
        OptionError: an unknown split, test list or kind of gallery.

    Example:
        ``load_vehicleid("data/VehicleID_V1.0", "test", test_classes=1600)``
    """
    check_choice("test_classes", test_classes, TestClasses)
    check_choice("gallery", gallery, TestGallery)
    benchmark = VEHICLEID[test_classes]
    benchmark.check_options(split, verify)
    name = "train_list" if split == "train" else f"test_list_{test_classes}"
    home, file = benchmark.files(root, f"train_test_split/{name}.txt")
    listed = read_words(file, ("image", "vehicle"))
    labeled = label_paths([listed.integers("vehicle")], level_names=benchmark.levels, where=listed.where)
    images = benchmark.image_files(home, [f"image/{image.zfill(7)}.jpg" for image in listed["image"]], listed.where)
    if split == "train" or (split == "test" and gallery == "list"):
        return benchmark.dataset(split, labeled, images, verify=verify)
    drawn = np.random.default_rng(seed).permutation(len(listed))
    one_each = np.sort(drawn[np.unique(labeled.paths[drawn, 0], return_index=True)[1]])
    queries = np.setdiff1d(np.arange(len(listed)), one_each)
    with_gallery = replace(benchmark, protocol="vehicleid-one-image")
    return with_gallery.query_and_gallery(split, labeled, images, verify=verify, queries=queries, gallery=one_each)
