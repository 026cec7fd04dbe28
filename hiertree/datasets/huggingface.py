"""A data set of Hugging Face by its name or folder, for recipes."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..errors import MissingResourceError, require_package
from ..tree.label_rows import LeafKey
from .image_dataset import ImageDataset
from .own_images import from_huggingface


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
    require_package("datasets", extra="interop")
    from datasets import load_dataset

    try:
        rows = load_dataset(os.fspath(path), config, split=split, revision=revision)
    except (OSError, ValueError) as error:
        problem = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise MissingResourceError(
            f"{os.fspath(path)}, split {split!r} ({problem})",
            expected="a data set of the hub, or a folder that datasets.load_dataset reads, with this split",
        ) from error
    return from_huggingface(rows, levels=levels, image=image, leaf=leaf, split=split)
