"""Data sets: published benchmarks, tables of one's own images, and drawn images, each with label paths.

Every loader returns an :class:`ImageDataset`. Options of a single benchmark are options of its own loader.

>>> from hiertree import datasets
>>> train = datasets.load("synthetic", split="train")
>>> train.tree.level_names, train.paths.shape
(('family', 'kind', 'instance'), (2304, 3))
"""

from __future__ import annotations

import os

from ..errors import OptionError
from .benchmarks.faces import load_ijbc, load_vggface2
from .benchmarks.folders import load_inaturalist2021, load_rp2k
from .benchmarks.gldv2 import load_gldv2
from .benchmarks.hashing import GradedDataset, load_imagenet100, load_labelme, load_nus_wide
from .benchmarks.lists import load_cars, load_cub, load_inshop, load_sop, load_vehicleid
from .benchmarks.multilevel import load_dyml, load_inaturalist
from .benchmarks.objects import load_ilias, load_met
from .benchmarks.omniglot import load_omniglot
from .benchmarks.pickled import RevisitedDataset, load_cifar, load_revisited, load_sfm120k
from .checks import SplitReport, check, statistics
from .description import Benchmark, Counts, Download, Verify
from .duplicate_images import check_duplicates, duplicates
from .huggingface import load_huggingface
from .image_dataset import ImageDataset
from .input_images import load_archives
from .readers.images import ImageSource
from .registry import ENTRIES, entry_of
from .resumable_download import download
from .synthetic import load_synthetic
from .user_images import from_huggingface, load_folder, load_table

__all__ = [
    "Benchmark",
    "Counts",
    "Download",
    "GradedDataset",
    "ImageDataset",
    "ImageSource",
    "RevisitedDataset",
    "SplitReport",
    "available",
    "check",
    "check_duplicates",
    "describe",
    "download",
    "duplicates",
    "from_huggingface",
    "load",
    "load_archives",
    "load_cars",
    "load_cifar",
    "load_cub",
    "load_dyml",
    "load_folder",
    "load_gldv2",
    "load_huggingface",
    "load_ijbc",
    "load_ilias",
    "load_imagenet100",
    "load_inaturalist",
    "load_inaturalist2021",
    "load_inshop",
    "load_labelme",
    "load_met",
    "load_nus_wide",
    "load_omniglot",
    "load_revisited",
    "load_rp2k",
    "load_sfm120k",
    "load_sop",
    "load_synthetic",
    "load_table",
    "load_vehicleid",
    "load_vggface2",
    "statistics",
]


def load(
    name: str, root: str | os.PathLike[str] | None = None, split: str | None = "train", *, verify: Verify = "published"
) -> ImageDataset:
    """Load one split of a named benchmark with its loader's defaults.

    Args:
        name: one of :func:`available`, "synthetic", or "folder" for folders of your own images (:func:`load_folder`).
        root: the folder of the benchmark's files; None for "synthetic", whose images are drawn.
        split: "train", "test", or another of the benchmark's splits; for "folder" also None, all images.
        verify: "published" compares the sizes with the published ones; "structure" does not, so that a part of a
            benchmark can be read.

    Raises:
        OptionError: an unknown name, no root for a benchmark, or a root for drawn images.
        HiertreeError: as the benchmark's own loader.
    """
    if name == "synthetic":
        if root is not None:
            raise OptionError(f"root={str(root)!r} for {name!r}", expected="no root, since its images are drawn")
        return load_synthetic(split or "train")
    if name == "folder" and root is not None:
        return load_folder(root, split)
    entry = entry_of(name)
    if split is None:
        raise OptionError(f"split=None for {name!r}", expected="the name of a split")
    if root is None:
        raise OptionError(f"no root for {name!r}", expected="the file or folder that holds it")
    return entry.load(root, split, verify=verify)


def available() -> tuple[str, ...]:
    """The names of the benchmarks that can be read from files.

    >>> "sop" in available(), "h-gldv2" in available()
    (True, True)
    """
    return tuple(ENTRIES)


def describe(name: str) -> Benchmark:
    """What is known of a benchmark: its levels, splits and published sizes, its license, and how to get it.

    Raises:
        OptionError: an unknown name.

    >>> describe("sop").splits["train"]
    Counts(images=59551, classes=11318, within=0)
    """
    return entry_of(name).benchmark
