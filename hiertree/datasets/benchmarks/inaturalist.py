"""``inaturalist``: 8,142 species, photographed by the public; kingdom → … → species, or super-category → species.

Van Horn et al., *The iNaturalist Species Classification and Detection Dataset* (CVPR 2018), the images of 2018. The
retrieval splits, with different species for training and test, are those of Brown et al., *Smooth-AP* (ECCV 2020). The
size of the training split is that of SupRank (``suprank/config/dataset/inat_full.yaml``); the test split has the rest
of the 437,513 + 24,426 images and 8,142 species.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Literal, get_args

from ...errors import TableError
from ...options import check_choice
from ..description import Benchmark, Counts, Download, Verify
from ..image_dataset import ImageDataset
from ..labels_to_paths import label_leaves, label_paths
from ..readers.text_lists import TextList, read_words

Hierarchy = Literal["full", "base"]
RANKS = ("kingdom", "phylum", "class", "order", "family", "genus")
LEVELS = {"full": (*RANKS, "species"), "base": ("super_category", "species")}
LISTS = {split: f"Inat_dataset_splits/Inaturalist_{split}_set1.txt" for split in ("train", "test")}
CATEGORIES = ("categories.json", "train2018.json", "val2018.json")
SPLITS_BY_HAND = "get the splits, folder Inat_dataset_splits, from https://github.com/elias-ramzi/HAPPIER (Datasets)"
_FILES = "https://ml-inat-competition-datasets.s3.amazonaws.com/2018"


def _benchmark(hierarchy: Hierarchy) -> Benchmark:
    return Benchmark(
        name=f"inaturalist-{hierarchy}",
        title=f"iNaturalist-2018, {hierarchy} hierarchy",
        levels=LEVELS[hierarchy],
        splits={"train": Counts(images=325_846, classes=5_690), "test": Counts(images=136_093, classes=2_452)},
        protocol="inat",
        license="non-commercial research and education",
        url="https://github.com/visipedia/inat_comp/tree/master/2018",
        steps=(
            f"get train_val2018.tar.gz (120 GB) and train2018.json.tar.gz from {_FILES}/ and unpack them in one folder",
            "for readable names put categories.json of categories.json.tar.gz, from the same place, beside them",
            SPLITS_BY_HAND,
        ),
        downloads=(
            Download(url=f"{_FILES}/train2018.json.tar.gz", md5="bfa29d89d629cbf04d826a720c0a68b0"),
            Download(url=f"{_FILES}/train_val2018.tar.gz", md5="b1c6952ce38f31868cc50ea72d066cc3"),
        ),
        by_hand=(SPLITS_BY_HAND,),
    )


INATURALIST = {hierarchy: _benchmark(hierarchy) for hierarchy in get_args(Hierarchy)}


def load_inaturalist(
    root: str | os.PathLike[str],
    split: str = "train",
    *,
    hierarchy: Hierarchy = "full",
    verify: Verify = "published",
) -> ImageDataset:
    """Read a retrieval split of iNaturalist-2018.

    ``root`` holds ``train_val2018/``, ``Inat_dataset_splits/`` and, for the full hierarchy, the ``categories`` of
    ``categories.json``, ``train2018.json`` or ``val2018.json``, whichever exists first. The id of a leaf
    is its category id.

    Args:
        root: the folder.
        split: "train" or "test".
        hierarchy: "full", kingdom → phylum → class → order → family → genus → species; or "base", the folder's
            super-category → species.
        verify: "published" compares the numbers of images and classes with the published ones; "structure" does not.

    Raises:
        MissingResourceError: files are missing; the message says where to get them.
        TableError: a file is not as published; the message names the line.
        OptionError: an unknown split or hierarchy.

    Example:
        ``load_inaturalist("data/inaturalist", "test", hierarchy="base")``
    """
    check_choice("hierarchy", hierarchy, Hierarchy)
    benchmark = INATURALIST[hierarchy]
    benchmark.check_options(split, verify)
    home, file = benchmark.files(root, LISTS[split])
    listed = read_words(file, ("path",))
    supers, species = _of_folders(listed)
    if hierarchy == "base":
        labeled = label_paths([supers, species], level_names=benchmark.levels, where=listed.where)
    else:
        ranks = _taxonomy(benchmark, home)
        unknown = set(species) - set(ranks)
        if unknown:
            row = next(row for row, category in enumerate(species) if category in unknown)
            raise TableError(f"{listed.where(row)}: category {species[row]}", expected="one with a taxonomy")
        labeled = label_leaves(
            species, lambda ids: map(ranks.__getitem__, ids), level_names=benchmark.levels, where=listed.where
        )
    images = benchmark.image_files(home, listed["path"], listed.where)
    return benchmark.dataset(split, labeled, images, verify=verify)


def _of_folders(listed: TextList) -> tuple[list[str], list[int]]:
    """Super-category and category id, the names of an image's folders."""
    supers, species = [], []
    for row, path in enumerate(listed["path"]):
        parts = path.rsplit("/", 3)[-3:]
        if len(parts) < 3 or not parts[1].isdecimal():
            raise TableError(
                f"{listed.where(row)}: {path!r}", expected="train_val2018/<super>/<category id>/<image>.jpg"
            )
        supers.append(parts[0])
        species.append(int(parts[1]))
    return supers, species


def _taxonomy(benchmark: Benchmark, home: Path) -> dict[int, tuple[str, ...]]:
    """The six ranks above every category."""
    present = next((home / name for name in CATEGORIES if (home / name).is_file()), None)
    if present is None:
        raise benchmark.missing(f"no taxonomy in {home}", expected=f"one of {', '.join(CATEGORIES)}")
    try:
        return {int(entry["id"]): tuple(str(entry[rank]) for rank in RANKS) for entry in _categories(present)}
    except (ValueError, KeyError, TypeError) as error:
        raise TableError(f"{present} ({error!r})", expected=f"categories with id, {', '.join(RANKS)}") from error


def _categories(path: Path) -> Any:
    """The list of categories alone; the half million images and annotations around it are not parsed."""
    text = path.read_text(encoding="utf-8")
    if text.lstrip().startswith("["):
        return json.loads(text)
    found = re.search(r'"categories"\s*:\s*(?=\[)', text)
    if found is None:
        raise ValueError("no categories")
    return json.JSONDecoder().raw_decode(text, found.end())[0]
