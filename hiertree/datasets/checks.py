"""Check that a benchmark is complete (lists, labels, published sizes, every image), and report a split's sizes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import HiertreeError, OptionError
from ..io.files import AnyPath
from ..io.progress import track
from .description import Verify
from .duplicate_images import duplicates
from .readers.images import FileImages, damaged, map_sources, missing_files
from .registry import card_of, load_benchmark

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .image_dataset import ImageDataset
    from .readers.images import ImageSource

QUANTILES = {"least": 0.0, "lower_quartile": 0.25, "median": 0.5, "upper_quartile": 0.75, "most": 1.0}


@dataclass(frozen=True)
class SplitReport:
    """What :func:`check` found in one split.

    Attributes:
        split: its name.
        images: number of images that it lists.
        level_sizes: nodes at each level, coarse → fine.
        problem: why it cannot be loaded, or None.
        remedy: how to fix that, or None.
        bad_images: names of images that are missing, or damaged if all were decoded.
        duplicates: names of images that are listed more than once.
        lists: whose lists these are, if several were published and these are not the usual ones.
    """

    split: str
    images: int = 0
    level_sizes: tuple[int, ...] = ()
    problem: str | None = None
    remedy: str | None = None
    bad_images: tuple[str, ...] = ()
    duplicates: tuple[str, ...] = ()
    lists: str | None = None

    @property
    def sound(self) -> bool:
        """Whether the split loads, no image is bad, and none is listed twice."""
        return self.problem is None and not self.bad_images and not self.duplicates


def check(
    name: str,
    root: AnyPath,
    *,
    splits: Iterable[str] = (),
    verify: Verify = "published",
    decode: bool = False,
    content: bool = False,
) -> list[SplitReport]:
    """Load splits of a benchmark, look for every image, and for images that are listed more than once.

    Args:
        name: one of :func:`hiertree.datasets.available`.
        root: the folder of its files.
        splits: those to check; default: all.
        verify: as in :func:`hiertree.datasets.load`.
        decode: also decode every image.
        content: also compare the content of the images, to find copies under other names.

    Raises:
        OptionError: an unknown name or split.
    """
    card = card_of(name)
    splits_to_check = tuple(splits) or tuple(card.splits)
    for split in splits_to_check:
        card.check_options(split, verify)
    reports = []
    for split in splits_to_check:
        try:
            dataset = load_benchmark(card, root, split, verify=verify)
        except OptionError:
            raise
        except HiertreeError as error:
            reports.append(SplitReport(split, problem=error.given, remedy=error.remedy))
            continue
        images = dataset.images
        missing = np.flatnonzero(map_sources(images, _absent)).tolist() if not decode else ()
        rows = damaged(images, description="decoding images") if decode else missing
        bad = tuple(dict.fromkeys(map(images.name, rows)))
        repeats = tuple(duplicates(dataset, content=content and not bad))
        sizes = tuple(len(np.unique(column)) for column in dataset.paths.T)
        lists = card.lists_of(split, len(dataset), sizes[-1])
        reports.append(SplitReport(split, len(dataset), sizes, bad_images=bad, duplicates=repeats, lists=lists))
    return reports


def _absent(images: ImageSource) -> NDArray[np.bool_]:
    """The missing image files of a source; loading has already found images in archives and in memory."""
    if not isinstance(images, FileImages):
        return np.zeros(len(images), dtype=np.bool_)
    names = list(map(images.name, range(len(images))))
    missing = set(missing_files(images.root, track(names, description="looking for images")))
    return np.array([name in missing for name in names], dtype=np.bool_)


def statistics(dataset: ImageDataset) -> dict[str, Any]:
    """Sizes of a split, as JSON-able values.

    For every level, coarse → fine: its name, the number of nodes with images, and quantiles and mean of the images per
    node and of the children per node.

    >>> from hiertree.datasets import load_synthetic
    >>> found = statistics(load_synthetic("train", families=2, kinds=2, instances=3, images=4))
    >>> found["images"], found["levels"][0]["nodes"], found["levels"][-1]["images"]["median"]
    (24, 2, 4.0)
    """
    paths = dataset.paths
    levels = []
    for level, name in enumerate(dataset.tree.level_names):
        paths = paths[paths[:, level] >= 0]
        _, images = np.unique(paths[:, level], return_counts=True)
        entry = {"name": name, "nodes": len(images), "images": _spread(images)}
        if level + 1 < paths.shape[1]:
            pairs = np.unique(paths[paths[:, level + 1] >= 0, level : level + 2], axis=0)
            entry["children"] = _spread(np.unique(pairs[:, 0], return_counts=True)[1])
        levels.append(entry)
    return {
        "name": dataset.name,
        "split": dataset.split,
        "images": len(dataset),
        "queries": len(dataset) if dataset.queries is None else len(dataset.queries),
        "gallery": len(dataset) if dataset.gallery is None else len(dataset.gallery),
        "protocol": dataset.protocol,
        "levels": levels,
    }


def _spread(counts: NDArray[np.int64]) -> dict[str, float]:
    quantiles = {name: float(np.quantile(counts, share)) for name, share in QUANTILES.items()}
    return {**quantiles, "mean": round(float(counts.mean()), 2)}
