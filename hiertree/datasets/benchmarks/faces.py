"""Benchmarks of faces, whose label is the person: ``vggface2`` and ``ijb-c``.

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
from ...io.reading import reading_file
from ...io.tables import line_names, read_table
from ..description import BENCHMARKS, Verify
from ..image_dataset import ImageDataset
from ..readers.text_lists import join_lists, read_words, refuse_first

if TYPE_CHECKING:
    import pandas as pd

VGGFACE2, IJBC = BENCHMARKS["vggface2"], BENCHMARKS["ijb-c"]
IJBC_LISTS = ("protocols/ijbc_metadata.csv", "protocols/ijbc_metadata_with_age.csv")
BOX = ("FACE_X", "FACE_Y", "FACE_WIDTH", "FACE_HEIGHT")
FEWEST = 5  # images of a person of IJB-C


def load_vggface2(root: AnyPath, split: str = "train", *, verify: Verify = "published") -> ImageDataset:
    """Read a split of VGGFace2 from ``train_list.txt`` or ``test_list.txt``, whose lines are ``n000002/0001_01.jpg``.

    Args:
        root: the folder that holds the lists and the folders ``train`` and ``test``, or all of these in ``data``; or
            its parent, if it is called ``VGG-Face2``.
        split: "train" or "test", of other people.
        verify: as in :func:`hiertree.datasets.load`.
    """
    VGGFACE2.check_options(split, verify)
    _, file, folder = VGGFACE2.files(
        root,
        *((f"data/{name}", name, f"data/vggface2_{name}", f"vggface2_{name}") for name in (f"{split}_list.txt", split)),
    )
    rows = join_lists([file.with_name(file.name.replace("test", "train")), file][split == "train" :], _images_of_people)
    people, names = (rows.table[column].tolist() for column in ("person", "image"))
    return VGGFACE2.listed_dataset(split, rows, [people], folder, names, verify=verify)


def _images_of_people(file: Path) -> pd.DataFrame:
    images = read_words(file, ("image",))
    people = images["image"].str.extract("^([^/]+)/[^/]+$")[0]
    refuse_first(people.isna(), line_names(images, file), images["image"], "<person>/<image>")
    table: pd.DataFrame = images.assign(person=people)
    return table


def load_ijbc(root: AnyPath, split: str = "test", *, margin: float = 0.3, verify: Verify = "published") -> ImageDataset:
    """Read the faces of IJB-C from ``ijbc_metadata.csv``: every image of a person is a query, all others its gallery.

    As Smooth-AP has it (Brown et al., ECCV 2020, Sec. 5.1), people with fewer than 5 images are left out, and here so
    are rows without a box. Each frame is an image, as Smooth-AP's Tab. 1 counts them; its text averages a video.

    Args:
        root: the folder that holds ``protocols`` and ``images``, or its parent, if it is called ``IJB-C``.
        split: "test"; nothing trains.
        margin: by what share of its sides a box grows, 0.3 as VGGFace2's own networks are trained.
        verify: as in :func:`hiertree.datasets.load`.
    """
    IJBC.check_options(split, verify)
    data_folder, file = IJBC.files(root, IJBC_LISTS)
    faces = read_table(file, required=("SUBJECT_ID", "FILENAME", *BOX), needs_rows=True)
    faces = faces.drop_duplicates(["SUBJECT_ID", "FILENAME"])
    with reading_file(file, expected=f"numbers in {', '.join(BOX)}"):
        numbers = faces[list(BOX)].replace("", "nan").to_numpy(dtype=np.float64)
    faces, numbers = faces[boxed := np.isfinite(numbers).all(axis=1)], numbers[boxed]
    often = (faces.groupby("SUBJECT_ID")["FILENAME"].transform("size") >= FEWEST).to_numpy(dtype=np.bool_)
    if not often.any():
        raise TableError(f"{file}: no person has {FEWEST} images with a box", expected=f"numbers in {', '.join(BOX)}")
    faces, (left, upper, width, height) = faces[often], numbers[often].T
    row_name = line_names(faces, file)
    margin_x, margin_y = margin * width / 2, margin * height / 2
    boxes = np.stack([left - margin_x, upper - margin_y, left + width + margin_x, upper + height + margin_y], axis=1)
    images = IJBC.image_files(data_folder, "images/" + faces["FILENAME"], row_name, boxes=boxes)
    return IJBC.dataset(split, [faces["SUBJECT_ID"].tolist()], images, where=row_name, verify=verify)
