"""``sop``: Stanford Online Products, 120,053 photographs of 22,634 products; super-category → product.

Oh Song, Xiang, Jegelka and Savarese, *Deep Metric Learning via Lifted Structured Feature Embedding* (CVPR 2016), whose
sizes are also in the public code of SupRank and open-metric-learning.
"""

from __future__ import annotations

import os

from ..description import Benchmark, Counts, Verify
from ..image_dataset import ImageDataset
from ..labels_to_paths import label_paths
from ..readers.text_lists import read_words

SOP = Benchmark(
    name="sop",
    title="Stanford Online Products",
    levels=("super_category", "product"),
    splits={
        "train": Counts(images=59_551, classes=11_318),
        "test": Counts(images=60_502, classes=11_316),
        "info": Counts(images=120_053, classes=22_634),
    },
    protocol="sop",
    license="research; no license stated, photographs of eBay sellers",
    url="https://cvgl.stanford.edu/projects/lifted_struct/",
    steps=(
        (
            "get Stanford_Online_Products.zip (2.9 GB, MD5 7f73d41a2f44250d4779881525aea32e) from "
            "https://cvgl.stanford.edu/projects/lifted_struct/ (its ftp server is often unreachable)"
        ),
        "unzip it and pass the folder Stanford_Online_Products",
    ),
    folder="Stanford_Online_Products",
)
COLUMNS = ("image_id", "class_id", "super_class_id", "path")


def load_sop(root: str | os.PathLike[str], split: str = "train", *, verify: Verify = "published") -> ImageDataset:
    """Read a split of Stanford Online Products from ``Ebay_train.txt``, ``Ebay_test.txt`` or ``Ebay_info.txt``.

    Args:
        root: the folder ``Stanford_Online_Products`` or its parent.
        split: "train", "test", or "info" for both.
        verify: "published" compares the numbers of images and classes with the published ones; "structure" does not.

    Raises:
        MissingResourceError: files are missing; the message says where to get them.
        TableError: a list is not as published; the message names the line.
        OptionError: an unknown split.

    Example:
        ``load_sop("data/Stanford_Online_Products", "test")``
    """
    SOP.check_options(split, verify)
    home, file = SOP.files(root, f"Ebay_{split}.txt")
    listed = read_words(file, COLUMNS, header=True)
    supers = [path.partition("/")[0].removesuffix("_final") for path in listed["path"]]
    labeled = label_paths([supers, listed.integers("class_id")], level_names=SOP.levels, where=listed.where)
    return SOP.dataset(split, labeled, SOP.image_files(home, listed["path"], listed.where), verify=verify)
