"""Data sets: files on disk, or drawn images, as images by index with their label paths.

Every loader returns an :class:`ImageDataset`; what is particular to one benchmark is an option of its own loader.

>>> from hiertree import datasets
>>> train = datasets.load("synthetic", split="train")
>>> train.tree.level_names, train.paths.shape
(('family', 'kind', 'instance'), (2304, 3))
"""

from __future__ import annotations

import os

from hiertree.datasets._benchmark import Benchmark, Counts, Download, Verify
from hiertree.datasets._cars import load_cars
from hiertree.datasets._checking import SplitReport, check
from hiertree.datasets._cifar import load_cifar
from hiertree.datasets._cub import load_cub
from hiertree.datasets._dataset import ImageDataset, ImageSource
from hiertree.datasets._download import download
from hiertree.datasets._dyml import load_dyml
from hiertree.datasets._gldv2 import load_gldv2
from hiertree.datasets._inaturalist import load_inaturalist
from hiertree.datasets._inshop import load_inshop
from hiertree.datasets._omniglot import load_omniglot
from hiertree.datasets._registry import ENTRIES, entry_of
from hiertree.datasets._revisited import RevisitedDataset, load_revisited
from hiertree.datasets._sop import load_sop
from hiertree.datasets._statistics import statistics
from hiertree.datasets._synthetic import load_synthetic
from hiertree.datasets._table import load_table
from hiertree.datasets._vehicleid import load_vehicleid
from hiertree.errors import OptionError

__all__ = [
    "Benchmark",
    "Counts",
    "Download",
    "ImageDataset",
    "ImageSource",
    "RevisitedDataset",
    "SplitReport",
    "benchmark",
    "benchmarks",
    "check",
    "download",
    "load",
    "load_cars",
    "load_cifar",
    "load_cub",
    "load_dyml",
    "load_gldv2",
    "load_inaturalist",
    "load_inshop",
    "load_omniglot",
    "load_revisited",
    "load_sop",
    "load_synthetic",
    "load_table",
    "load_vehicleid",
    "statistics",
]


def load(
    name: str, root: str | os.PathLike[str] | None = None, split: str = "train", *, verify: Verify = "published"
) -> ImageDataset:
    """Load one split of a named benchmark with its loader's defaults.

    Args:
        name: one of :func:`benchmarks`, or "synthetic".
        root: where the benchmark's files are; None for what is drawn.
        split: "train", "test", or another of the benchmark's splits.
        verify: compare sizes with the "published" ones, or only the "structure", for a part of a benchmark.

    Raises:
        OptionError: an unknown name, a root missing, or one where no files are read.
        HiertreeError: what the benchmark's own loader raises.
    """
    if name == "table":
        raise OptionError("name='table'", expected="a benchmark", remedy="call load_table, which asks for the columns")
    if name == "synthetic":
        if root is not None:
            raise OptionError(f"root={str(root)!r} for {name!r}", expected="no root, as its images are drawn")
        return load_synthetic(split)
    entry = entry_of(name)
    if root is None:
        raise OptionError(f"no root for {name!r}", expected="the file or folder that holds it")
    return entry.load(root, split, verify=verify)


def benchmarks() -> tuple[str, ...]:
    """The names of the benchmarks that are read from files.

    >>> "sop" in benchmarks(), "h-gldv2" in benchmarks()
    (True, True)
    """
    return tuple(ENTRIES)


def benchmark(name: str) -> Benchmark:
    """What a benchmark is known by: its levels, splits and published sizes, its licence, and how to get it.

    Raises:
        OptionError: an unknown name.

    >>> benchmark("sop").splits["train"]
    Counts(images=59551, classes=11318, within=0)
    """
    return entry_of(name).benchmark
