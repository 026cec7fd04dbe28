"""``inshop``: DeepFashion's In-shop clothes, 52,712 photographs of 7,982 items; gender → category → item.

Liu, Luo, Qiu, Wang and Tang, *DeepFashion: Powering Robust Clothes Recognition and Retrieval with Rich Annotations*
(CVPR 2016). The totals are those that open-metric-learning checks (``convert_inshop.py``); the splits add up to them.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from ...errors import TableError
from ..description import Benchmark, Counts, Verify
from ..image_dataset import ImageDataset
from ..labels_to_paths import label_paths
from ..readers.text_lists import TextList, read_words

INSHOP = Benchmark(
    name="inshop",
    title="In-shop clothes",
    levels=("gender", "category", "item"),
    splits={
        "train": Counts(images=25_882, classes=3_997),
        "test": Counts(images=26_830, classes=3_985),
        "query": Counts(images=14_218, classes=3_985),
        "gallery": Counts(images=12_612, classes=3_985),
    },
    protocol="inshop",
    license="non-commercial research, on agreement",
    url="https://mmlab.ie.cuhk.edu.hk/projects/DeepFashion/InShopRetrieval.html",
    steps=(
        "ask for In-shop Clothes Retrieval at https://mmlab.ie.cuhk.edu.hk/projects/DeepFashion.html",
        (
            "unpack Img/img.zip (or img_highres.zip) where it is, or put its folder beside list_eval_partition.txt; "
            "pass the folder that holds Eval and Img"
        ),
    ),
    folder="In-shop Clothes Retrieval Benchmark",
)
COLUMNS = ("image_name", "item_id", "evaluation_status")
LISTS = ("list_eval_partition.txt", "Eval/list_eval_partition.txt", "Anno/list_eval_partition.txt")
IMAGES = ("img", "Img/img", "img_highres", "Img/img_highres")  # where the archives of images are unpacked to


def load_inshop(
    root: str | os.PathLike[str], split: str = "train", *, hierarchy: bool = True, verify: Verify = "published"
) -> ImageDataset:
    """Read a split of In-shop clothes from ``list_eval_partition.txt``.

    Gender and category are the folders of an image, ``img/WOMEN/Dresses/id_00000002/02_1_front.jpg``.

    Args:
        root: the folder that holds ``img`` and the list, or ``Eval`` and ``Img``, as published; or the parent of such a
            folder. Images of high resolution, ``img_highres``, are read where there are no others.
        split: "train", "test" (queries and gallery, which the data set's ``queries`` and ``gallery`` index),
            "query" or "gallery".
        hierarchy: True reads three levels; False the item alone, as in published numbers.
        verify: "published" compares the numbers of images and classes with the published ones; "structure" does not.

    Raises:
        MissingResourceError: files are missing; the message says where to get them.
        TableError: the list is not as published; the message names the line.
        OptionError: an unknown split.

    Example:
        ``load_inshop("data/inshop", "test")``
    """
    INSHOP.check_options(split, verify)
    homes = [Path(root), Path(root, INSHOP.folder)]
    found = (name for name in reversed(LISTS) if any((home / name).is_file() for home in homes))
    home, file = INSHOP.files(root, next(found, LISTS[0]))
    listed = read_words(file, COLUMNS, header=True, count=True)
    status = np.array(listed["evaluation_status"])
    unknown = np.flatnonzero(~np.isin(status, ("train", "query", "gallery")))
    if len(unknown):
        given = f"{listed.where(int(unknown[0]))}: {str(status[unknown[0]])!r}"
        raise TableError(given, expected="train, query or gallery")
    rows = np.flatnonzero((status == "train") == (split == "train"))
    chosen = listed.select(rows)
    columns = [*_folders(chosen), chosen["item_id"]] if hierarchy else [chosen["item_id"]]
    labeled = label_paths(columns, level_names=INSHOP.levels[-len(columns) :], where=chosen.where)
    images = INSHOP.image_files(home, _image_names(home, chosen["image_name"]), chosen.where)
    if split == "train":
        return INSHOP.dataset(split, labeled, images, verify=verify)
    queries, gallery = (np.flatnonzero(status[rows] == part) for part in ("query", "gallery"))
    return INSHOP.query_and_gallery(split, labeled, images, verify=verify, queries=queries, gallery=gallery)


def _image_names(home: Path, listed: list[str]) -> list[str]:
    """The files of the listed names, which all begin with ``img``, below the folder of images that is there."""
    folder = next((folder for folder in IMAGES if (home / folder).is_dir()), IMAGES[0])
    return [f"{folder}/{name.removeprefix('img/')}" if name.startswith("img/") else name for name in listed]


def _folders(listed: TextList) -> list[list[str]]:
    """Gender and category of every image."""
    parts = [name.split("/") for name in listed["image_name"]]
    short = next((row for row, found in enumerate(parts) if len(found) < 4), None)
    if short is not None:
        given = f"{listed.where(short)}: {listed['image_name'][short]!r}"
        raise TableError(given, expected="img/<gender>/<category>/<item>/<image>")
    return [[found[1] for found in parts], [found[2] for found in parts]]
