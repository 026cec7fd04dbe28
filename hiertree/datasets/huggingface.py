"""Data sets of Hugging Face's ``datasets`` library, with columns of labels, coarse → fine."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ImageError, InputError, OptionError, require_package
from ..options import check_choice
from ..tree.formats import check_level_columns
from ..tree.label_rows import Gaps, LeafKey, Uneven
from .image_dataset import ImageDataset
from .labels_to_paths import label_paths
from .readers.images import decode

if TYPE_CHECKING:
    from PIL import Image


class HuggingFaceImages:
    """The images of one column, decoded when asked for.

    Args:
        rows: a data set of Hugging Face with that column alone, whose images are not decoded by it.
        column: its name.
    """

    def __init__(self, rows: Any, column: str) -> None:
        self._rows, self._column = rows, column

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Image.Image:
        stored = self._rows[int(index)][self._column]
        if stored is None:
            raise ImageError(f"image {index} of column {self._column!r} is missing", expected="an image in every row")
        content = stored["bytes"]
        return decode(io.BytesIO(content) if content is not None else stored["path"], name=self.name(index))

    def name(self, index: int) -> str:
        """The image's file where the data set names it, with its row, which keeps names apart."""
        stored = self._rows[int(index)][self._column]
        file = (stored or {}).get("path")
        return f"{index}" if not file else f"{index}: {file}"


def from_huggingface(
    rows: Any,
    *,
    levels: Sequence[str],
    image: str = "image",
    leaf: LeafKey = "label",
    uneven: Uneven = "error",
    gaps: Gaps = "error",
    split: str | None = None,
) -> ImageDataset:
    """A data set of Hugging Face's ``datasets``, which is optional, with columns of labels, coarse → fine.

    A column of class labels (``ClassLabel``) is read by the names of its classes; other labels are taken as they are.
    Images stay where they are, and are decoded when asked for.

    Args:
        rows: one split, a ``datasets.Dataset``.
        levels: its columns of labels, coarse → fine.
        image: its column of images.
        leaf: what identifies a class, as in :func:`hiertree.datasets.load_table`, and so the next two.
        uneven: see there.
        gaps: see there.
        split: a name for it; its own unless given.

    Raises:
        MissingPackageError: ``datasets`` is not installed.
        InputError: all splits at once, a stream, or something else.
        OptionError: a column that is not there, or one without images.
        HierarchyError: the labels do not form a tree; the message names the row.

    Example:
        ``from_huggingface(datasets.load_dataset("cifar100", split="train"), levels=["coarse_label", "fine_label"],
        image="img")``
    """
    require_package("datasets", extra="interop")
    import datasets as huggingface

    check_level_columns(levels)
    check_choice("uneven", uneven, Uneven)
    check_choice("gaps", gaps, Gaps)
    if not isinstance(rows, huggingface.Dataset):
        several = isinstance(rows, huggingface.DatasetDict)
        remedy = f"choose one of its splits, {', '.join(rows)}" if several else "load it without streaming=True"
        raise InputError(f"a {type(rows).__name__}", expected="one split, a datasets.Dataset", remedy=remedy)
    missing = [name for name in (image, *levels) if name not in rows.column_names]
    if missing:
        given = f"no column {', '.join(map(repr, missing))}"
        raise OptionError(given, expected=f"columns among {', '.join(rows.column_names)}")
    if not isinstance(rows.features[image], huggingface.Image):
        known = [name for name, kind in rows.features.items() if isinstance(kind, huggingface.Image)]
        remedy = f"pass image={known[0]!r}" if known else f"cast it: rows.cast_column({image!r}, datasets.Image())"
        raise OptionError(f"image={image!r} holds {rows.features[image]}", expected="images", remedy=remedy)
    if not len(rows):
        raise InputError("a data set without rows", expected="an image and its labels in every row")
    labeled = label_paths(
        [_labels(rows, name, huggingface.ClassLabel) for name in levels],
        level_names=list(levels),
        leaf=leaf,
        uneven=uneven,
        gaps=gaps,
        where=lambda row: f"row {row}",
    )
    stored = rows.select_columns([image]).cast_column(image, huggingface.Image(decode=False)).with_format(None)
    return ImageDataset(
        name=str(rows.info.dataset_name or "huggingface"),
        split=split or str(rows.split or "all"),
        tree=labeled.tree,
        paths=labeled.paths,
        images=HuggingFaceImages(stored, image),
    )


def _labels(rows: Any, column: str, class_label: Any) -> Any:
    """A column of labels; class labels by name, −1 and None as no label."""
    values = rows.with_format(None)[column]
    kind = rows.features[column]
    if isinstance(kind, class_label):
        names = kind.names
        return np.array([names[value] if value is not None and value >= 0 else None for value in values], dtype=object)
    return np.array(list(values), dtype=object)
