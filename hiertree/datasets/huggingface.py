"""Hugging Face data sets: in memory, or by name, folder or file."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ImageError, InputError, MissingResourceError, OptionError, raised_as, require_package, some_of
from ..io.files import AnyPath
from ..options import Uneven
from ..tree.formats import check_level_columns
from ..tree.label_rows import Gaps, LeafKey, Row
from ..tree.label_tree import label_paths
from .image_dataset import ImageDataset
from .readers.images import decode, file_stamp
from .splits import name_in, split_to_measure, splits_before

if TYPE_CHECKING:
    from PIL import Image

HUB = "hf-hub:"
_SAVED = ("state.json", "dataset_dict.json")  # of which ``datasets`` writes one


def load_huggingface(
    path: AnyPath,
    split: str,
    *,
    levels: Sequence[str],
    image: str = "image",
    leaf: LeafKey = "label",
    config: str | None = None,
    revision: str | None = None,
) -> ImageDataset:
    """Read a split of a data set of the Hugging Face hub, or of a folder that ``datasets.load_dataset`` reads.

    Args:
        path: its name on the hub, or a folder.
        split: one of its splits; parts of one are for :func:`hiertree.datasets.from_huggingface`.
        levels: columns of labels, coarse → fine, as for :func:`hiertree.datasets.from_huggingface`.
        image: the column of images.
        leaf: what identifies a class, as there.
        config: the configuration, where the data set has several.
        revision: a branch, tag or commit of the hub.

    Raises:
        MissingPackageError: ``datasets`` is not installed.
        MissingResourceError: no such data set or split, or no connection.
        OptionError: a column that is not there, or one without images.
        HierarchyError: the labels do not form a tree; the message names the row.

    Example:
        ``load_huggingface("cifar100", "train", levels=["coarse_label", "fine_label"], image="img")``
    """
    splits = open_huggingface(path, config=config, revision=revision)
    return from_huggingface(splits, levels=levels, image=image, leaf=leaf, split=split)


def is_saved(folder: Path) -> bool:
    """Whether a folder was written by ``datasets``."""
    return any((folder / name).is_file() for name in _SAVED)


def open_huggingface(
    source: AnyPath, split: str | None = None, *, config: str | None = None, revision: str | None = None
) -> Any:
    """Open a data set of the hub, or a folder or file of ``datasets``: one data set, or several by split name."""
    require_package("datasets", extra="interop")
    import datasets as huggingface

    name = os.fspath(source).removeprefix(HUB)
    with raised_as(
        MissingResourceError,
        f"{os.fspath(source)}{f', split {split!r}' if split else ''}",
        expected="a data set of the Hugging Face hub or in its cache, or one that datasets saved, with that split",
        remedy=f"on a connected machine, `hf download --repo-type dataset {name}` brings it",
        on=Exception,
    ):
        if Path(source).is_file():
            return huggingface.Dataset.from_parquet(os.fspath(source))
        if is_saved(Path(source)):
            return huggingface.load_from_disk(os.fspath(source))
        return huggingface.load_dataset(name, config, split=split, revision=revision)


def split_of(source: AnyPath, data: Any, split: str | None) -> Any:
    """One split of an opened data set: the named one, the only one, or ``test``."""
    if not isinstance(data, dict):
        return data
    split_name = split or (split_to_measure(data) or "test" if len(data) > 1 else next(iter(data)))
    key = name_in(data, split_name)
    if key is None:
        raise OptionError(f"split={split_name!r} of {os.fspath(source)}", expected=f"one of {', '.join(data)}")
    return data[key]


class HuggingFaceImages:
    """The images of one column of a Hugging Face data set, decoded here on request, not by ``datasets``."""

    def __init__(self, rows: Any, column: str) -> None:
        import datasets as huggingface

        encoded_images = rows.select_columns([column]).cast_column(column, huggingface.Image(decode=False))
        self._rows, self._column = encoded_images.with_format(None), column

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Image.Image:
        cell = self._rows[int(index)][self._column]
        if cell is None:
            raise ImageError(f"image {index} of column {self._column!r} is missing", expected="an image in every row")
        file = cell["path"] if cell["bytes"] is None else io.BytesIO(cell["bytes"])
        return decode(file, name=self.name(index), upright=True)  # as ``datasets`` decodes it

    def stamp(self, index: int) -> str:
        """See :func:`hiertree.datasets.readers.images.stamp_of`."""
        cell = self._rows[int(index)][self._column] or {}
        encoded = cell.get("bytes")
        return file_stamp(Path(cell.get("path") or "")) if encoded is None else hashlib.sha256(encoded).hexdigest()

    def name(self, index: int) -> str:
        """The image's file where the data set names it, with its row, which keeps names apart."""
        cell = self._rows[int(index)][self._column]
        file = (cell or {}).get("path")
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
    Images stay where they are, and are decoded when asked for. Classes are numbered in the order of the class labels or
    of their texts; give all splits where they differ in their classes, so that an id means the same in each.

    Args:
        rows: one split, a ``datasets.Dataset``; or all of them, a ``datasets.DatasetDict``, and the name of one.
        levels: its columns of labels, coarse → fine.
        image: its column of images.
        leaf: what identifies a class, as in :func:`hiertree.datasets.load_table`, and so the next two.
        uneven: see there.
        gaps: see there.
        split: a name for it, its own unless given; of several splits, the one that is read.

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
    check_level_columns(levels)
    earlier_splits, rows = _split_and_earlier_ones(rows, split)
    _check_rows(rows, image, levels)
    class_rows: list[Row] = []  # the classes in the order of their ids, and in which row each stands first
    row_names: list[str] = []
    for split_rows in (*earlier_splits, rows):
        if set(levels) <= set(split_rows.features):
            classes = _classes(split_rows, levels)
            of_split = "" if split_rows is rows else f" of {split_rows.split or 'the data set'}"
            class_rows += classes
            row_names += [f"row {row}{of_split}" for row in classes.values()]
    columns = [
        np.array([*(row[level] for row in class_rows), *_labels(rows, name)], dtype=object)
        for level, name in enumerate(levels)
    ]

    def row_name(row: int) -> str:
        return row_names[row] if row < len(row_names) else f"row {row - len(row_names)}"

    labeling = label_paths(columns, list(levels), row_name, len(class_rows), leaf=leaf, uneven=uneven, gaps=gaps)
    name, split = str(rows.info.dataset_name or "huggingface"), split or str(rows.split or "all")
    return ImageDataset(name=name, split=split, images=HuggingFaceImages(rows, image), **labeling._asdict())


def _split_and_earlier_ones(rows: Any, split: str | None) -> tuple[list[Any], Any]:
    """The splits whose classes are numbered before those of the named one, and that one; a split alone as it is."""
    import datasets as huggingface

    if not isinstance(rows, huggingface.DatasetDict):
        return [], rows
    split_name = name_in(rows, split or "")
    if split_name is None:
        problem, remedy = f"a DatasetDict, split={split!r}", f"pass split=, one of {', '.join(rows)}"
        raise InputError(problem, expected="the name of a split", remedy=remedy)
    return [rows[name] for name in splits_before(sorted(rows), split_name)], rows[split_name]


def _check_rows(rows: Any, image: str, levels: Sequence[str]) -> None:
    """Refuse what is no data set with rows, images and these labels."""
    import datasets as huggingface

    if not isinstance(rows, huggingface.Dataset):
        remedy = "load it without streaming=True"
        raise InputError(f"a {type(rows).__name__}", expected="a datasets.Dataset or DatasetDict", remedy=remedy)
    missing = [name for name in (image, *levels) if name not in rows.column_names]
    if missing:
        problem = f"no column {some_of(missing)}"
        raise OptionError(problem, expected=f"columns among {', '.join(rows.column_names)}")
    for name in levels:
        if not isinstance(rows.features[name], huggingface.ClassLabel | huggingface.Value):
            problem, remedy = (
                f"levels: column {name!r} holds {rows.features[name]}",
                "make a column of each of its labels",
            )
            raise OptionError(problem, expected="one label in every row", remedy=f"{remedy}, as by rows.map")
    if not isinstance(rows.features[image], huggingface.Image):
        names = [repr(name) for name, kind in rows.features.items() if isinstance(kind, huggingface.Image)]
        remedy = f"pass image={names[0]}" if names else f"cast it: rows.cast_column({image!r}, datasets.Image())"
        raise OptionError(f"image={image!r} holds {rows.features[image]}", expected="images", remedy=remedy)
    if not len(rows):
        raise InputError("a data set without rows", expected="an image and its labels in every row")


def _classes(rows: Any, levels: Sequence[str]) -> dict[Row, int]:
    """The different rows of labels, and where they stand first, in an order that depends on the labels alone.

    Of one column of class labels, all classes are taken.
    """
    names = {level: getattr(rows.features[level], "names", None) or () for level in levels}
    ranks = {level: {name: rank for rank, name in enumerate(values)} for level, values in names.items()}

    def key(row: Row) -> list[tuple[str, Any]]:
        labels = [ranks[level].get(label, label) for level, label in zip(levels, row, strict=True)]
        return [("", label) if isinstance(label, int | float) else ("text", str(label)) for label in labels]

    first: dict[Row, int] = {}
    for index, row in enumerate(zip(*(_labels(rows, level) for level in levels), strict=True)):
        first.setdefault(row, index)
    for name in names[levels[0]] if len(levels) == 1 else ():
        first.setdefault((name,), 0)
    return {row: first[row] for row in sorted(first, key=key)}


def _labels(rows: Any, column: str) -> list[Any]:
    """Read a column of labels: class labels by name, −1 and None as no label."""
    values = rows.with_format(None)[column]
    names = getattr(rows.features[column], "names", None)
    if names is not None:
        values = [names[value] if value is not None and value >= 0 else None for value in values]
    return list(values)
