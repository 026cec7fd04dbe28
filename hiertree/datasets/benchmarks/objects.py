"""Benchmarks of particular objects, ``ilias``, and of people, ``vggface2`` and ``ijb-c``.

* Kordopatis-Zilos et al., *ILIAS: Instance-Level Image retrieval At Scale* (CVPR 2025): 1,000 objects of all kinds.
* Cao, Shen, Xie, Parkhi and Zisserman, *VGGFace2: A Dataset for Recognising Faces across Pose and Age* (FG 2018): 3.31
  million photographs of 9,131 people, of whom 8,631 train.
* Maze et al., *IARPA Janus Benchmark – C: Face Dataset and Protocol* (ICB 2018): photographs and frames of videos, with
  a box around each face.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...errors import TableError
from ...io.files import AnyPath
from ...io.reading import read_json, reading_file
from ...io.tables import line_names, read_table
from ..description import BENCHMARKS, Verify, query_and_gallery
from ..image_dataset import ImageDataset
from ..readers.text_lists import join_lists, read_words, refuse_first, table_of_words, text_lines

if TYPE_CHECKING:
    import pandas as pd

ILIAS_LISTS = ("image_ids/image_query_ids.txt", "image_ids/positive_ids.txt")
IJBC_LISTS = ("protocols/ijbc_metadata.csv", "protocols/ijbc_metadata_with_age.csv")
BOX = ("FACE_X", "FACE_Y", "FACE_WIDTH", "FACE_HEIGHT")
FEWEST = 5  # images of a person of IJB-C


def load_ilias(root: AnyPath, split: str = "test", *, verify: Verify = "published") -> ImageDataset:
    """Read the image queries of ILIAS and their positives, with the authors' taxonomy above the objects.

    The 100 million distractors have no labels: embed their archives, and give them to evaluate as distractors.

    Args:
        root: the folder of ``ilias_core``, ``image_ids`` and ``taxonomy.json``.
        split: "test", or its parts "query" and "gallery"; nothing trains.
        verify: as in :func:`hiertree.datasets.load`.
    """
    benchmark = BENCHMARKS["ilias"].checked(split, verify)
    data_folder, *files, taxonomy = benchmark.files(root, *ILIAS_LISTS, "taxonomy.json")
    lists = join_lists(files, _first_cells)
    images = lists.table["image"]
    objects, ancestors = images.str.partition("/")[0], _taxonomy(taxonomy)
    refuse_first(~np.isin(objects, list(ancestors)), lists.where, images, f"an image of an object in {taxonomy.name}")
    every, fields = lists._replace(earlier_rows=0), query_and_gallery(lists.earlier_rows, len(images))
    labels, names = [objects.tolist()], "ilias_core/" + images
    return benchmark.listed_dataset(split, every, labels, data_folder, names, ancestors=ancestors, fields=fields)


def _first_cells(file: Path) -> pd.DataFrame:
    """The images that lines name in front of a comma."""
    return table_of_words(file, ("image",), [[line.partition(",")[0].strip()] for line in text_lines(file)], 1)


def _taxonomy(file: Path) -> dict[str, tuple[str, str, str]]:
    """The three labels above each object."""
    expected = "lists of objects below three levels of labels"
    categories = read_json(file, expected=expected)
    with reading_file(file, expected=expected):
        return {
            name: (category, subcategory, kind)
            for category, subcategories in categories.items()
            for subcategory, kinds in subcategories.items()
            for kind, names in kinds.items()
            for name in names
        }


def load_vggface2(root: AnyPath, split: str = "train", *, verify: Verify = "published") -> ImageDataset:
    """Read a split of VGGFace2 from ``train_list.txt`` or ``test_list.txt``, whose lines are ``n000002/0001_01.jpg``.

    Args:
        root: the folder that holds the lists and the folders ``train`` and ``test``, or all of these in ``data``; or
            its parent, if it is called ``VGG-Face2``.
        split: "train" or "test", of other people.
        verify: as in :func:`hiertree.datasets.load`.
    """
    benchmark = BENCHMARKS["vggface2"].checked(split, verify)
    _, file, folder = benchmark.files(
        root,
        *((f"data/{name}", name, f"data/vggface2_{name}", f"vggface2_{name}") for name in (f"{split}_list.txt", split)),
    )
    names = read_words(file, ("image",))["image"]
    row_name, people = line_names(names.to_frame(), file), names.str.extract("^([^/]+)/[^/]+$")[0]
    refuse_first(people.isna(), row_name, names, "<person>/<image>")
    training_list = file.with_name(file.name.replace("test", "train"))
    training_people: list[str] = []
    if split == "test" and training_list.is_file():  # three million lines, of which only the people count here
        training_people = list(dict.fromkeys(line.partition("/")[0] for line in text_lines(training_list)))
    count = len(training_people)

    def labeled_row_name(row: int) -> str:
        return training_list.name if row < count else row_name(row - count)

    labels, files = [[*training_people, *people.tolist()]], benchmark.image_files(folder, names, row_name)
    return benchmark.dataset(split, labels, files, labeled_row_name, count)


def load_ijbc(root: AnyPath, split: str = "test", *, margin: float = 0.3, verify: Verify = "published") -> ImageDataset:
    """Read the faces of IJB-C from ``ijbc_metadata.csv``: every image of a person is a query, all others its gallery.

    As Smooth-AP has it (Brown et al., ECCV 2020, Sec. 5.1), people with fewer than 5 images are left out, and here so
    are rows without a box. Each frame is an image, as Smooth-AP's Tab. 1 counts them; its text averages a video.

    Args:
        root: the folder that holds ``protocols`` and ``images``, or its parent, if it is called ``IJB-C``.
        split: "test"; nothing trains.
        margin: by what fraction of its width and height a box grows, 0.3 as VGGFace2's own networks are trained.
        verify: as in :func:`hiertree.datasets.load`.
    """
    benchmark = BENCHMARKS["ijb-c"].checked(split, verify)
    data_folder, file = benchmark.files(root, IJBC_LISTS)
    faces = read_table(file, required=("SUBJECT_ID", "FILENAME", *BOX), needs_rows=True)
    faces = faces.drop_duplicates(["SUBJECT_ID", "FILENAME"])
    with reading_file(file, expected=f"numbers in {', '.join(BOX)}"):
        boxes = faces[list(BOX)].replace("", "nan").to_numpy(dtype=np.float64)
    faces, boxes = faces[is_boxed := np.isfinite(boxes).all(axis=1)], boxes[is_boxed]
    often = (faces.groupby("SUBJECT_ID")["FILENAME"].transform("size") >= FEWEST).to_numpy(dtype=np.bool_)
    if not often.any():
        raise TableError(f"{file}: no person has {FEWEST} images with a box", expected=f"numbers in {', '.join(BOX)}")
    faces, (left, upper, width, height) = faces[often], boxes[often].T
    row_name = line_names(faces, file)
    margin_x, margin_y = margin * width / 2, margin * height / 2
    boxes = np.stack([left - margin_x, upper - margin_y, left + width + margin_x, upper + height + margin_y], axis=1)
    images = benchmark.image_files(data_folder, "images/" + faces["FILENAME"], row_name, boxes=boxes)
    return benchmark.dataset(split, [faces["SUBJECT_ID"].tolist()], images, row_name)
