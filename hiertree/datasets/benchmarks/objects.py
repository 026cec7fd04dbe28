"""Benchmarks of particular objects: ``ilias`` and ``met``.

* Kordopatis-Zilos et al., *ILIAS: Instance-Level Image retrieval At Scale* (CVPR 2025): 1,000 objects of all kinds.
* Ypsilantis et al., *The Met Dataset: Instance-level Recognition for Artworks* (NeurIPS 2021): exhibits of a museum, as
  it photographs them and as its visitors do.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...io.files import AnyPath
from ...io.reading import read_json, reading_file
from ..description import BENCHMARKS, Verify, query_and_gallery
from ..image_dataset import ImageDataset
from ..readers.text_lists import join_lists, refuse_first, table_of_words, text_lines

if TYPE_CHECKING:
    import pandas as pd

_log = logging.getLogger(__name__)
ILIAS, MET = BENCHMARKS["ilias"], BENCHMARKS["met"]
ILIAS_LISTS = ("image_ids/image_query_ids.txt", "image_ids/positive_ids.txt")
DATABASE, TESTS = "MET_database.json", ("MET_database.json", "testset.json")
MET_LISTS = {
    "train": (DATABASE,),
    "train_mini": ("mini_MET_database.json",),
    "val": (DATABASE, "valset.json"),
    **dict.fromkeys(("test", "query", "gallery"), TESTS),
}


def load_ilias(root: AnyPath, split: str = "test", *, verify: Verify = "published") -> ImageDataset:
    """Read the image queries of ILIAS and their positives, with the authors' taxonomy above the objects.

    The 100 million distractors have no labels: embed their archives, and give them to evaluate as distractors.

    Args:
        root: the folder of ``ilias_core``, ``image_ids`` and ``taxonomy.json``.
        split: "test", or its parts "query" and "gallery"; nothing trains.
        verify: as in :func:`hiertree.datasets.load`.
    """
    ILIAS.check_options(split, verify)
    data_folder, *files, taxonomy = ILIAS.files(root, *ILIAS_LISTS, "taxonomy.json")
    lists = join_lists(files, _first_cells)
    images = lists.table["image"]
    objects, ancestors = images.str.partition("/")[0], _taxonomy(taxonomy)
    refuse_first(~np.isin(objects, list(ancestors)), lists.where, images, f"an image of an object in {taxonomy.name}")
    every, parts = lists._replace(earlier_rows=0), query_and_gallery(lists.earlier_rows, len(images))
    options: Any = {"ancestors": ancestors, "parts": parts, "verify": verify}
    return ILIAS.listed_dataset(split, every, [objects.tolist()], data_folder, "ilias_core/" + images, **options)


def load_met(root: AnyPath, split: str = "train", *, verify: Verify = "published") -> ImageDataset:
    """Read a split of the Met, whose label is the exhibit; a log line counts the queries of none, which are left out.

    Args:
        root: the folder of ``ground_truth`` and ``images``.
        split: "train", the museum's photographs, or "train_mini"; "test", those of visitors as queries with "train" as
            their gallery, or its parts "query" and "gallery"; "val", other queries with that gallery.
        verify: as in :func:`hiertree.datasets.load`.
    """
    MET.check_options(split, verify)
    names = [(f"ground_truth/{name}", name) for name in MET_LISTS[split]]
    _, *files, folder = MET.files(root, *names, ("images", "."))
    lists = join_lists(files, _exhibits, row_kind="entry")
    table, count = lists.table, lists.earlier_rows
    parts = {"queries": np.arange(count, len(table)), "gallery": np.arange(count)} if count else {}
    every, exhibits = lists._replace(earlier_rows=0), [table["exhibit"].tolist()]
    return MET.listed_dataset(split, every, exhibits, folder, table["path"], parts=parts, verify=verify)


def _first_cells(file: Path) -> pd.DataFrame:
    """The images that lines name in front of a comma."""
    return table_of_words(file, ("image",), [[line.partition(",")[0].strip()] for line in text_lines(file)], 1)


def _taxonomy(file: Path) -> dict[str, tuple[str, str, str]]:
    """The three labels above each object."""
    expected = "lists of objects below three levels of labels"
    content = read_json(file, expected=expected)
    with reading_file(file, expected=expected):
        return {
            name: (category, subcategory, kind)
            for category, subcategories in content.items()
            for subcategory, kinds in subcategories.items()
            for kind, names in kinds.items()
            for name in names
        }


def _exhibits(file: Path) -> pd.DataFrame:
    """The exhibit and the path of each photograph that shows one."""
    import pandas as pd

    key = "id" if file.name.endswith(DATABASE) else "MET_id"
    expected = f"a list of objects of {key} and path"
    entries: Any = read_json(file, expected=expected)
    with reading_file(file, expected=expected):
        numbers = [number for number, entry in enumerate(entries, start=1) if key == "id" or key in entry]
        rows = [(int(entries[number - 1][key]), str(entries[number - 1]["path"])) for number in numbers]
        if not rows:
            raise ValueError("no photograph of an exhibit")
    if left_out := len(entries) - len(rows):
        _log.info("%s: %d of %d photographs show no exhibit and are left out", file.name, left_out, len(entries))
    table: pd.DataFrame = pd.DataFrame(rows, columns=["exhibit", "path"], index=numbers)
    return table
