"""Benchmarks of many levels: iNaturalist of 2018 and 2019, tieredImageNet-H, and DyML.

* Van Horn et al., *The iNaturalist Species Classification and Detection Dataset* (CVPR 2018), the images of 2018: 8,142
  species, photographed by the public. The retrieval splits, with different species for training and test, are those of
  Brown et al., *Smooth-AP* (ECCV 2020).
* Bertinetto et al., *Making Better Mistakes: Leveraging Class Hierarchies with Deep Networks* (CVPR 2020): splits and
  trees of iNaturalist-2019, 1,010 species, and of tieredImageNet, 608 classes below 235 nodes of WordNet.
* Sun et al., *Dynamic Metric Learning: Towards a Scalable Metric Space to Accommodate Multiple Semantic Scales* (CVPR
  2021). The published lists lack the line break after their header, so that the first image is glued to it
  (``fname, coarse_id, middle_id, fine_id0.jpg, 3, 12, 407``). Reading that line as a header would lose an image; this
  reader recovers it.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...errors import TableError
from ...io.files import AnyPath
from ...io.reading import naming_file, read_text, reading_file
from ...io.tables import integer_column, line_names
from ...options import check_choice
from ...tree.label_tree import LabelTree
from ..description import BENCHMARKS, Benchmark, Verify, query_and_gallery
from ..image_dataset import ImageDataset
from ..readers.images import FileImages, image_files
from ..readers.text_lists import SplitRows, join_lists, read_words, refuse_first, table_of_words, text_lines

if TYPE_CHECKING:
    import pandas as pd

Hierarchy = Literal["full", "base"]
RANKS = ("kingdom", "phylum", "class", "order", "family", "genus")
INATURALIST_LISTS = {split: f"Inat_dataset_splits/Inaturalist_{split}_set1.txt" for split in ("train", "test")}
MISTAKES_TREES = {
    "inaturalist-2019": ("inaturalist19_isa.txt", "data/inaturalist19_isa.txt"),
    "tieredimagenet-h": ("tiered_imagenet_isa.txt", "data/tiered_imagenet_isa.txt"),
}
CATEGORIES = ("categories.json", "train2018.json", "val2018.json")


def load_inaturalist(
    root: AnyPath, split: str = "train", *, hierarchy: Hierarchy = "full", verify: Verify = "published"
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
        verify: as in :func:`hiertree.datasets.load`.
    """
    check_choice("hierarchy", hierarchy, Hierarchy)
    benchmark = BENCHMARKS[f"inaturalist-{hierarchy}"].checked(split, verify)
    data_folder, file = benchmark.files(root, INATURALIST_LISTS[split])
    earlier_files = [] if split == "train" else [data_folder / INATURALIST_LISTS["train"]]
    lists = join_lists([*earlier_files, file], partial(read_words, columns=("path",)))
    row_name, paths = lists.where, lists.table["path"]
    folders = paths.str.extract(r"^(?:.*/)?([^/]*)/(\d+)/[^/]*$")
    refuse_first(folders[1].isna(), row_name, paths, "train_val2018/<super>/<category id>/<image>.jpg")
    species = list(map(int, folders[1]))
    ranks = _taxonomy(benchmark, data_folder) if hierarchy == "full" else None
    if ranks is not None:
        refuse_first(~np.isin(species, list(ranks)), row_name, "category " + folders[1], "one with a taxonomy")
    labels = [species] if ranks else [folders[0].tolist(), species]
    return benchmark.listed_dataset(split, lists, labels, data_folder, paths, ancestors=ranks)


def _taxonomy(benchmark: Benchmark, data_folder: Path) -> dict[int, tuple[str, ...]]:
    """The six ranks above each category."""
    file = next((data_folder / name for name in CATEGORIES if (data_folder / name).is_file()), None)
    if file is None:
        raise benchmark.missing(f"no taxonomy in {data_folder}", expected=f"one of {', '.join(CATEGORIES)}")
    ranks: dict[int, tuple[str, ...]] = {}
    with reading_file(file, expected=f"categories with one id each, and texts for {', '.join(RANKS)}"):
        for entry in _categories(file):
            texts = tuple(entry[rank] for rank in RANKS)
            if not all(isinstance(text, str) and text.strip() for text in texts):
                raise ValueError(f"category {entry['id']!r:.80} with {dict(zip(RANKS, texts, strict=True))!r:.400}")
            if ranks.setdefault(int(entry["id"]), texts) != texts:
                raise ValueError(f"category {entry['id']!r:.80} twice, with other ranks")
    return ranks


def _categories(path: Path) -> Any:
    """The list of categories alone; the half million images and annotations around it are not parsed."""
    text = read_text(path)
    if text.lstrip().startswith("["):
        return json.loads(text)
    match = re.search(r'"categories"\s*:\s*(?=\[)', text)
    if match is None:
        raise ValueError("no categories")
    return json.JSONDecoder().raw_decode(text, match.end())[0]


MistakesCollection = Literal["inaturalist-2019", "tieredimagenet-h"]


def load_better_mistakes(
    root: AnyPath,
    split: str = "train",
    *,
    collection: MistakesCollection = "inaturalist-2019",
    verify: Verify = "published",
) -> ImageDataset:
    """Read a split of iNaturalist-2019 or tieredImageNet-H, on which the severity of mistakes is reported.

    A class is a folder of images, and the tree is that of the authors' ``*_isa.txt``, a parent and a child a line.
    Classes of tieredImageNet-H lie at depths from 3 to 12: shallower ones repeat their label down to the last level.

    Args:
        root: the folder of ``train``, ``val``, ``test`` and ``inaturalist19_isa.txt`` or ``tiered_imagenet_isa.txt``.
        split: "train", "val" or "test", of the same classes.
        collection: "inaturalist-2019" or "tieredimagenet-h".
        verify: as in :func:`hiertree.datasets.load`.
    """
    check_choice("collection", collection, MistakesCollection)
    benchmark = BENCHMARKS[collection].checked(split, verify)
    _, folder, file = benchmark.files(root, split, MISTAKES_TREES[collection])
    edges = read_words(file, ("parent", "child"))
    with naming_file(file):
        tree = LabelTree.from_edges(list(edges.itertuples(index=False, name=None)), uneven="pad")
    names = image_files(folder)
    classes = [*tree.leaves, *(name.partition("/")[0] for name in names)]  # all are numbered alike in every split
    rows = [*map(tree.labels_of, tree.paths(tree.leaves).tolist())]
    ancestors = {leaf: row[:-1] for leaf, row in zip(tree.leaves, rows, strict=True)}
    stray_row = next((row for row, label in enumerate(classes) if label not in ancestors), None)
    if stray_row is not None:
        raise TableError(f"{folder}: the folder {classes[stray_row]!r}", expected=f"a class of {file.name}")
    level_names = benchmark.levels if len(benchmark.levels) == tree.num_levels else tree.level_names
    return benchmark.dataset(
        split,
        [classes],
        FileImages(folder, names),
        lambda row: str(classes[row]),
        len(tree.leaves),
        level_names=level_names,
        ancestors=ancestors,
    )


Collection = Literal["vehicle", "animal", "product"]
SCALES = ("fine", "middle", "coarse")
_HEADER = re.compile(r"\s*fname((?:\s*,\s*(?:(?:coarse|middle|fine)_id|labels))+)(.*)")

_TESTS = tuple(f"test_{scale}" for scale in SCALES)


def load_dyml(
    root: AnyPath, split: str = "train", *, collection: Collection = "vehicle", verify: Verify = "published"
) -> ImageDataset:
    """Read a split of one of the three DyML collections.

    The training split has three levels. Vehicle and Animal have three test splits of one level each, "test_fine",
    "test_middle" and "test_coarse". Their ``queries`` are also in their ``gallery``, under the same ``ids``. "test" is
    "test_fine" with the two others in ``beside``. Product has one "test" split of three levels, in which every image is
    a query.

    Args:
        root: the folder ``dyml_vehicle``, ``dyml_animal`` or ``dyml_product``, or its parent.
        split: "train", or a test split as above.
        collection: "vehicle", "animal" or "product".
        verify: as in :func:`hiertree.datasets.load`.
    """
    check_choice("collection", collection, Collection)
    is_trio = split == "test" and collection != "product"
    benchmark = BENCHMARKS[f"dyml-{collection}"].checked(_TESTS[0] if is_trio else split, verify)
    if is_trio:
        first, *further_tests = (_pair(benchmark, root, test) for test in _TESTS)
        return replace(first, beside=tuple(further_tests))
    if split.startswith("test_"):
        return _pair(benchmark, root, split)
    folder = "train" if split == "train" else "mini-bmk_all_in_one"
    data_folder, file = benchmark.files(root, f"{folder}/label.csv")
    table = read_glued(file)
    rows, names = SplitRows(table, line_names(table, file)), f"{folder}/imgs/" + table["fname"]
    columns = [integer_column(table, f"{level}_id", path=file) for level in benchmark.levels]
    return benchmark.listed_dataset(split, rows, columns, data_folder, names, leaf="path")


def _pair(benchmark: Benchmark, root: AnyPath, split: str) -> ImageDataset:
    """Queries followed by the gallery, with one tree for both."""
    level = split.removeprefix("test_")
    data_folder, *files = benchmark.files(root, f"bmk_{level}/query.csv", f"bmk_{level}/gallery.csv")
    lists = join_lists(files, _dyml_list)
    every, table = lists._replace(earlier_rows=0), lists.table
    fields = {**query_and_gallery(lists.earlier_rows, len(table)), "ids": np.array(table["fname"].tolist())}
    labels, names = [table["labels"].to_numpy()], f"bmk_{level}/" + table["path"]
    return benchmark.listed_dataset(split, every, labels, data_folder, names, level_names=(level,), fields=fields)


def _dyml_list(file: Path) -> pd.DataFrame:
    table = read_glued(file)
    table["labels"] = integer_column(table, "labels", path=file)
    table["path"] = f"{file.stem}/" + table["fname"]
    return table


def read_glued(path: Path) -> pd.DataFrame:
    """Read a list with commas between its cells, whose first row may be glued to the header."""
    lines = text_lines(path)
    header = _HEADER.fullmatch(lines[0]) if lines else None
    if header is None:
        problem = f"{path}, line 1: {lines[0][:80]!r}" if lines else f"{path} is empty"
        raise TableError(problem, expected="a header of fname and coarse_id, middle_id, fine_id or labels")
    columns = ["fname", *(name.strip() for name in header[1].split(",")[1:])]
    glued = [header[2]] if header[2].strip() else []
    rows = [[cell.strip() for cell in line.split(",")] for line in [*glued, *lines[1:]]]
    return table_of_words(path, columns, rows, 2 - len(glued))
