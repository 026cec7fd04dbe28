"""Where the images of landmarks are."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field

from hiertree.errors import OptionError, TableError
from hiertree.io.tables import integer_column, read_table

from ..settings import Settings

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
_SIMPLE = re.compile(r"[\w.-]+")


class ImageFolderSettings(Settings):
    """Where images of landmarks are, if there are any."""

    images: Annotated[
        Path | None, Field(description="Images of landmarks: <landmark id>.jpg, or a folder for each landmark.")
    ] = None
    image_table: Annotated[
        Path | None, Field(description="Table of image ids and landmark_id, where files bear the images' ids.")
    ] = None

    def folder(self) -> ImageFolder | None:
        """The folder, if one is named.

        Raises:
            OptionError: no such folder, or a table alone.
            TableError: the table cannot be read.
        """
        if self.images is not None:
            return ImageFolder(self.images, self.image_table)
        if self.image_table is not None:
            raise OptionError("a table of images", expected="their folder as well", remedy="name it as images")
        return None


class ImageFolder:
    """Images of landmarks.

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
        """The first image of a landmark, or None."""
        return next(self.all_of(landmark), None)

    def all_of(self, landmark: int) -> Iterator[Path]:
        """The images of a landmark, as far as they are there; never one outside the folder."""
        for path in self._candidates(landmark):
            resolved = path.resolve()
            if resolved.is_file() and resolved.is_relative_to(self._root):
                yield resolved

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
        found[landmark].append(image)
    return found
