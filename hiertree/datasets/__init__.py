"""Data sets: published benchmarks, tables of one's own images, and drawn images, each with label paths.

Every loader returns an :class:`ImageDataset`. Options of a single benchmark are options of its own loader.

>>> from hiertree import datasets
>>> train = datasets.load("synthetic", split="train")
>>> train.tree.level_names, train.paths.shape
(('family', 'kind', 'instance'), (2304, 3))
"""

from __future__ import annotations

from typing import Any

from ..errors import OptionError
from ..io.files import AnyPath
from .archives import load_archives
from .benchmarks import (
    load_aircraft,
    load_better_mistakes,
    load_cars,
    load_cifar,
    load_cub,
    load_dyml,
    load_gldv2,
    load_ijbc,
    load_ilias,
    load_imagenet100,
    load_inaturalist,
    load_inshop,
    load_nus_wide,
    load_omniglot,
    load_revisited,
    load_sfm120k,
    load_sop,
    load_vehicleid,
    load_vggface2,
)
from .benchmarks.hashing import GradedDataset
from .benchmarks.pickled import RevisitedDataset
from .description import Benchmark, Counts, Download, Verify
from .huggingface import from_huggingface, load_huggingface
from .image_dataset import ImageDataset
from .readers.images import ImageSource
from .registry import CARDS, SplitReport, card_of, check, load_benchmark, place_above
from .resumable_download import download
from .synthetic import load_synthetic
from .user_images import load_folder, load_table

__all__ = ["Benchmark", "Counts", "Download", "GradedDataset", "ImageDataset", "ImageSource", "RevisitedDataset"]
__all__ += ["SplitReport", "available", "check", "describe", "download", "from_huggingface", "load", "place_above"]
__all__ += ["load_archives", "load_folder", "load_huggingface", "load_synthetic", "load_table"]
__all__ += ["load_aircraft", "load_better_mistakes", "load_cars", "load_cifar", "load_cub", "load_dyml", "load_gldv2"]
__all__ += ["load_ijbc", "load_ilias", "load_imagenet100", "load_inaturalist", "load_inshop", "load_nus_wide"]
__all__ += ["load_omniglot", "load_revisited", "load_sfm120k", "load_sop", "load_vehicleid", "load_vggface2"]


def load(
    name: str,
    root: AnyPath | None = None,
    split: str | None = "train",
    *,
    verify: Verify = "published",
    above: Any = None,
) -> ImageDataset:
    """Load one split of a named benchmark with its loader's defaults.

    Args:
        name: one of :func:`available`, "synthetic", or "folder" for folders of your own images (:func:`load_folder`).
        root: the folder of the benchmark's files; None for "synthetic", whose images are drawn.
        split: "train", "test", or another of the benchmark's splits; for "folder" also None, all images.
        verify: "published" compares the sizes with the published ones; "structure" does not, so that a part of a
            benchmark can be read.
        above: what is above the finest classes, as :func:`place_above` takes it: a table, a networkx graph, or the name
            of a ready tree, "order-family" of "cub" and "type" of "cars".

    Raises:
        OptionError: an unknown name, no root for a benchmark, or a root for drawn images.
        HiertreeError: as the benchmark's own loader.
    """
    if above is not None:
        return place_above(load(name, root, split, verify=verify), above)
    if name == "synthetic":
        if root is not None:
            raise OptionError(f"root={str(root)!r} for {name!r}", expected="no root, since its images are drawn")
        return load_synthetic(split or "train")
    if name == "folder" and root is not None:
        return load_folder(root, split)
    card = card_of(name)
    if split is None:
        raise OptionError(f"split=None for {name!r}", expected="the name of a split")
    if root is None:
        raise OptionError(f"no root for {name!r}", expected="the file or folder that holds it")
    return load_benchmark(card, root, split, verify=verify)


def available() -> tuple[str, ...]:
    """The names of the benchmarks that can be read from files.

    >>> "sop" in available(), "h-gldv2" in available()
    (True, True)
    """
    return tuple(CARDS)


def describe(name: str) -> Benchmark:
    """What is known of a benchmark: its levels, splits and published sizes, its license, and how to get it.

    Raises:
        OptionError: an unknown name.

    >>> describe("sop").splits["train"]
    Counts(images=59551, classes=11318, within=0)
    """
    return card_of(name)
