"""``dyml``: Dynamic Metric Learning's vehicles, animals and products; coarse → middle → fine.

Sun et al., *Dynamic Metric Learning: Towards a Scalable Metric Space to Accommodate Multiple Semantic Scales* (CVPR
2021).

The published lists lack the line break after their header, so that the first image is glued to it (``fname, coarse_id,
middle_id, fine_id0.jpg, 3, 12, 407``). Reading that line as a header would lose an image; this reader recovers it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from ...errors import TableError
from ...options import check_choice
from ..description import Benchmark, Counts, Verify
from ..image_dataset import ImageDataset
from ..labels_to_paths import label_paths
from ..readers.image_names import first_names
from ..readers.images import FileImages
from ..readers.text_lists import TextList, text_lines, text_list

Collection = Literal["vehicle", "animal", "product"]
LEVELS = ("coarse", "middle", "fine")
SCALES = ("fine", "middle", "coarse")
_HEADER = re.compile(r"\s*fname((?:\s*,\s*(?:(?:coarse|middle|fine)_id|labels))+)(.*)")

_TESTS = tuple(f"test_{scale}" for scale in SCALES)
_SIZES = {
    # The released lists of vehicles and products have other training classes than the paper says (36,301 and 1,609).
    # These are the numbers in HAPPIER's public code, happier/config/dataset/dyml_{vehicle,product}.yaml; no source
    # gives the numbers of their images or of their tests. For animals, paper and code agree.
    "vehicle": {"train": Counts(classes=39_491), **dict.fromkeys(_TESTS, Counts())},
    "animal": {
        "train": Counts(images=407_800, classes=495, within=100),
        **{name: Counts(classes=count) for name, count in zip(_TESTS, (162, 17, 5), strict=True)},
    },
    "product": {"train": Counts(classes=1_639), "test": Counts()},
}


def _benchmark(collection: Collection) -> Benchmark:
    return Benchmark(
        name=f"dyml-{collection}",
        title=f"DyML-{collection.title()}",
        levels=LEVELS,
        splits=_SIZES[collection],
        protocol="dyml",
        license="research; no license stated",
        url="https://github.com/SupetZYK/DynamicMetricLearning",
        steps=(
            (
                f"get dyml_{collection} from the OneDrive or Baidu folder named at "
                "https://github.com/SupetZYK/DynamicMetricLearning"
            ),
            f"unpack it and pass the folder dyml_{collection}",
        ),
        folder=f"dyml_{collection}",
    )


DYML = {collection: _benchmark(collection) for collection in get_args(Collection)}


def load_dyml(
    root: str | os.PathLike[str],
    split: str = "train",
    *,
    collection: Collection = "vehicle",
    verify: Verify = "published",
) -> ImageDataset:
    """Read a split of one of the three DyML collections.

    The training split has three levels. Vehicle and Animal have three test splits of one level each, "test_fine",
    "test_middle" and "test_coarse". Their ``queries`` are also in their ``gallery``, under the same ``ids``. "test" is
    "test_fine" with the two others in ``beside``, where copies of a file in several folders have one name. Product has
    one "test" split of three levels, in which every image is a query.

    Args:
        root: the folder ``dyml_vehicle``, ``dyml_animal`` or ``dyml_product``, or its parent.
        split: "train", or a test split as above.
        collection: "vehicle", "animal" or "product".
        verify: "published" compares the numbers of images and classes with the published ones; "structure" does not.

    Raises:
        MissingResourceError: files are missing; the message says where to get them.
        TableError: a list is not as published; the message names the line.
        OptionError: an unknown split or collection.

    Example:
        ``load_dyml("data/dyml_animal", "test_middle", collection="animal")``
    """
    check_choice("collection", collection, Collection)
    benchmark = DYML[collection]
    if split == "test" and collection != "product":
        benchmark.check_options(_TESTS[0], verify)
        home, _ = benchmark.files(root, f"bmk_{SCALES[0]}/query.csv")
        return _beside_each_other(home, [_pair(benchmark, root, test, verify) for test in _TESTS])
    benchmark.check_options(split, verify)
    if split.startswith("test_"):
        return _pair(benchmark, root, split, verify)
    part = "train" if split == "train" else "mini-bmk_all_in_one"
    home, file = benchmark.files(root, f"{part}/label.csv")
    listed = read_glued(file)
    columns = [listed.integers(f"{level}_id") for level in LEVELS]
    labeled = label_paths(columns, level_names=LEVELS, where=listed.where, leaf="path")
    images = benchmark.image_files(home, [f"{part}/imgs/{name}" for name in listed["fname"]], listed.where)
    return benchmark.dataset(split, labeled, images, verify=verify)


def _pair(benchmark: Benchmark, root: str | os.PathLike[str], split: str, verify: str) -> ImageDataset:
    """Queries followed by the gallery, with one tree for both."""
    scale = split.removeprefix("test_")
    home, *files = benchmark.files(root, f"bmk_{scale}/query.csv", f"bmk_{scale}/gallery.csv")
    query, gallery = map(read_glued, files)
    both = [*query["fname"], *gallery["fname"]]

    def where(row: int) -> str:
        return query.where(row) if row < len(query) else gallery.where(row - len(query))

    labels = np.concatenate([query.integers("labels"), gallery.integers("labels")])
    labeled = label_paths([labels], level_names=(scale,), where=where)
    parts = ["query"] * len(query) + ["gallery"] * len(gallery)
    names = [f"bmk_{scale}/{part}/{name}" for part, name in zip(parts, both, strict=True)]
    return benchmark.dataset(
        split,
        labeled,
        benchmark.image_files(home, names, where),
        verify=verify,
        queries=np.arange(len(query)),
        gallery=np.arange(len(query), len(both)),
        ids=np.array(both),
    )


def _beside_each_other(home: Path, pairs: Sequence[ImageDataset]) -> ImageDataset:
    """The first test with the others beside it; copies of a file in several folders get the name of the first."""
    names = [[pair.images.name(row) for row in range(len(pair))] for pair in pairs]
    called = first_names(home, chain.from_iterable(names))
    first, *others = (
        replace(pair, images=FileImages(home, map(called.__getitem__, own)))
        for pair, own in zip(pairs, names, strict=True)
    )
    return replace(first, beside=tuple(others))


def read_glued(path: Path) -> TextList:
    """Read a list with commas between its cells, whose first row may be glued to the header.

    Raises:
        TableError: no such header, or a line with too many or too few cells; the message names the line.
    """
    lines = text_lines(path)
    header = _HEADER.fullmatch(lines[0]) if lines else None
    if header is None:
        given = f"{path}, line 1: {lines[0][:80]!r}" if lines else f"{path} is empty"
        raise TableError(given, expected="a header of fname and coarse_id, middle_id, fine_id or labels")
    columns = ["fname", *(name.strip() for name in header[1].split(",")[1:])]
    glued = [header[2]] if header[2].strip() else []
    rows = [[cell.strip() for cell in line.split(",")] for line in [*glued, *lines[1:]]]
    return text_list(path, columns, rows, 2 - len(glued))
