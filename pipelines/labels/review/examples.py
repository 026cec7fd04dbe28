"""Examples of each label: names of landmarks that carry it, and where their images are."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hiertree.errors import CategoryError, OptionError, TableError
from hiertree.pipelines.labels.cleaning import Kept
from hiertree.pipelines.labels.scrape.titles import PREFIX, category_title
from hiertree.tables import integer_column, read_table

SHOWN, LOOKED_AT = 6, 24  # of a label's landmarks; those with an image come first
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
_SIMPLE = re.compile(r"[\w.-]+")


@dataclass(frozen=True)
class Example:
    """A landmark that carries a label: its id, its name, and whether there is an image of it."""

    landmark: int
    name: str
    image: bool


class ImageFolder:
    """Images of landmarks, one each.

    They lie in the folder as ``<landmark id>.jpg`` or in a folder ``<landmark id>``; with a table of images, as
    ``<image id>.jpg``, beside each other or in folders of the id's first three characters, as GLDv2's do (``a/b/c``).
    Nothing outside the folder is ever read, whatever links lead there.

    Args:
        folder: where they are.
        table: CSV or Parquet with the columns ``id`` or ``image_id``, and ``landmark_id`` (GLDv2's ``train.csv``).

    Raises:
        OptionError: no such folder.
        TableError: a table that cannot be read, or an image id that is no plain file name.
    """

    def __init__(self, folder: str | os.PathLike[str], table: str | os.PathLike[str] | None = None) -> None:
        if not Path(folder).is_dir():
            raise OptionError(f"no folder {folder}", expected="one of landmarks' images")
        self._root = Path(folder).resolve()
        self._images_of = None if table is None else _image_ids(table)

    def find(self, landmark: int) -> Path | None:
        """The first image of a landmark, or None; never one outside the folder."""
        for path in self._candidates(landmark):
            resolved = path.resolve()
            if resolved.is_file() and resolved.is_relative_to(self._root):
                return resolved
        return None

    def _candidates(self, landmark: int) -> Iterable[Path]:
        if self._images_of is None:
            yield from (self._root / f"{landmark}{suffix}" for suffix in SUFFIXES)
            within = self._root / str(landmark)
            if within.is_dir():
                yield from sorted(path for path in within.iterdir() if path.suffix.lower() in SUFFIXES)
            return
        for image in self._images_of.get(landmark, ()):
            for folder in (self._root, self._root.joinpath(*image[:3])):
                yield from (folder / f"{image}{suffix}" for suffix in SUFFIXES)


def examples(kept: Iterable[Kept], images: ImageFolder | None = None) -> dict[str, list[Example]]:
    """Up to six landmarks of each label, in the order given, those with an image first.

    >>> from hiertree.pipelines.labels.cleaning import Kept
    >>> examples([Kept(7, "http://commons.wikimedia.org/wiki/Category:Mud_Lake", ("lake",))])["lake"][0].name
    'Mud Lake'
    """
    of_label: defaultdict[str, list[Kept]] = defaultdict(list)
    for landmark in kept:
        for label in landmark.labels:
            if len(of_label[label]) < LOOKED_AT:
                of_label[label].append(landmark)
    return {label: _shown(landmarks, images) for label, landmarks in of_label.items()}


def _shown(landmarks: list[Kept], images: ImageFolder | None) -> list[Example]:
    found = [
        Example(at.landmark_id, _name(at.category), bool(images and images.find(at.landmark_id))) for at in landmarks
    ]
    return sorted(found, key=lambda example: not example.image)[:SHOWN]


def _name(category: str) -> str:
    """What the Commons category is called; the text itself where it is no such URL."""
    try:
        return category_title(category).removeprefix(PREFIX)
    except CategoryError:
        return category.rpartition(PREFIX)[2].replace("_", " ")


def _image_ids(path: str | os.PathLike[str]) -> Mapping[int, list[str]]:
    table = read_table(path, required=["landmark_id"])
    column = next((name for name in ("image_id", "id") if name in table.columns), None)
    if column is None:
        raise TableError(f"{path}: no column of images", expected="image_id or id")
    landmarks = integer_column(table, "landmark_id", path=path).tolist()
    found: defaultdict[int, list[str]] = defaultdict(list)
    for line, landmark, image in zip(table.index, landmarks, table[column], strict=True):
        if not _SIMPLE.fullmatch(image) or ".." in image:
            raise TableError(f"{path}, line {line}: {column} {image!r}", expected="a plain file name without its end")
        if len(found[landmark]) < SHOWN:
            found[landmark].append(image)
    return found
