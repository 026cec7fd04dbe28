"""Hugging Face data sets, by name, folder or file."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import MissingResourceError, OptionError, raised_as, require_package
from ..tree.label_rows import LeafKey
from .image_dataset import ImageDataset
from .split_names import name_in, split_to_measure
from .user_images import from_huggingface

HUB = "hf-hub:"
_SAVED = ("state.json", "dataset_dict.json")  # of which ``datasets`` writes one


def load_huggingface(
    path: str | os.PathLike[str],
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
        split: one of its splits, or a part of one in the notation of ``datasets``: ``"train[:80%]"``.
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
    options: dict[str, Any] = {"levels": levels, "image": image, "leaf": leaf, "split": split}
    if isinstance(splits, dict) and name_in(splits, split) is None:  # a part of one, or none of them
        rows = split_of(path, open_huggingface(path, split, config=config, revision=revision), split)
        splits = type(splits)(
            {**{name: part for name, part in splits.items() if name in re.findall(r"\w+", split)}, split: rows}
        )
    return from_huggingface(splits, **options)


def is_saved(folder: Path) -> bool:
    """Whether a folder was written by ``datasets``."""
    return any((folder / name).is_file() for name in _SAVED)


def open_huggingface(
    source: str | os.PathLike[str], split: str | None = None, *, config: str | None = None, revision: str | None = None
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


def split_of(source: str | os.PathLike[str], data: Any, split: str | None) -> Any:
    """One split of an opened data set: the named one, the only one, or ``test``."""
    if not isinstance(data, dict):
        return data
    split_name = split or (split_to_measure(data) or "test" if len(data) > 1 else next(iter(data)))
    key = name_in(data, split_name)
    if key is None:
        raise OptionError(f"split={split_name!r} of {os.fspath(source)}", expected=f"one of {', '.join(data)}")
    return data[key]
