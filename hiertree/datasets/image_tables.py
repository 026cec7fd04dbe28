"""``table``: any CSV or Parquet file with one row per image: its file and its labels, coarse → fine."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..errors import ImageError, OptionError, TableError
from ..io.progress import track
from ..io.tables import read_table
from ..options import check_choice
from ..tree.formats import check_level_columns
from ..tree.label_rows import Gaps, LeafKey, Uneven
from .duplicate_images import check_duplicates
from .image_dataset import ImageDataset
from .labels_to_paths import label_paths
from .readers.image_names import inside, missing_files
from .readers.images import FileImages, decode

if TYPE_CHECKING:
    import pandas as pd

OnBadImage = Literal["error", "skip"]
_log = logging.getLogger(__name__)


def load_table(
    path: str | os.PathLike[str],
    split: str | None = None,
    *,
    root: str | os.PathLike[str],
    image: str,
    levels: Sequence[str],
    split_column: str | None = None,
    leaf: LeafKey = "label",
    uneven: Uneven = "error",
    gaps: Gaps = "error",
    on_bad_image: OnBadImage = "error",
) -> ImageDataset:
    """Read the images that a table lists, with their labels. A file that is listed more than once is logged.

    Args:
        path: a CSV or Parquet file with one row per image.
        split: takes the rows with this text in ``split_column``. None takes all rows.
        root: the folder of the images. Their files are relative to it and cannot lie outside.
        image: the column of files.
        levels: the columns of labels, coarse → fine.
        split_column: the column of splits; needed with ``split``.
        leaf: what identifies a class: its finest ``"label"``, or its whole ``"path"`` if the same label stands under
            several parents (like character01 of every alphabet).
        uneven: what to do with rows whose last cells are empty, as in :meth:`hiertree.LabelTree.from_paths`.
        gaps: what to do with an empty cell above another, as there.
        on_bad_image: with ``"error"`` a missing file is an error now, and a damaged one when it is decoded. With
            ``"skip"`` every image is decoded once now; bad ones are left out, counted in a log line, and named in
            ``left_out``.

    Raises:
        TableError: the table cannot be read, lacks a column, has no row of the split, or names an image outside
            ``root``; the message names the line.
        ImageError: images are missing, or none decodes; the message names them.
        HierarchyError: the labels do not form a tree; the message names the line.
        OptionError: an unknown policy, no levels, or a split without ``split_column``.

    Example:
        ``load_table("images.csv", "test", root="photos", image="file", levels=["kind", "landmark"],
        split_column="split")``
    """
    _check(split, split_column, levels, on_bad_image)
    check_choice("uneven", uneven, Uneven)
    check_choice("gaps", gaps, Gaps)
    file, folder = Path(path), Path(root)
    columns = [image, *levels, *([] if split_column is None else [split_column])]
    table = read_table(file, required=columns, needs_rows=True)[list(dict.fromkeys(columns))]
    if split is not None and split_column is not None:
        table = _rows_of(table, split, split_column, file)
    lines = table.index.to_numpy()
    list(inside(table[image].tolist(), lambda row: f"{file}, line {lines[row]}"))
    listed = table[image].unique().tolist()
    bad = missing_files(folder, listed) if on_bad_image == "error" else undecodable_files(listed, folder)
    table = _without(table, image, bad, folder, on_bad_image)
    kept = table.index.to_numpy()
    labeled = label_paths(
        [table[level].to_numpy(dtype=object) for level in levels],
        level_names=levels,
        leaf=leaf,
        uneven=uneven,
        gaps=gaps,
        where=lambda row: f"{file.name}, line {kept[row]}",
    )
    dataset = ImageDataset(
        name=file.stem,
        split="all" if split is None else split,
        tree=labeled.tree,
        paths=labeled.paths,
        images=FileImages(folder, table[image].tolist()),
        left_out=tuple(bad),
    )
    check_duplicates(dataset, on_duplicates="warn")
    return dataset


def _check(split: str | None, split_column: str | None, levels: Sequence[str], on_bad_image: str) -> None:
    check_choice("on_bad_image", on_bad_image, OnBadImage)
    check_level_columns(levels)
    if split == "":
        raise OptionError("split=''", expected="the name of a split, or None for all rows")
    if split is not None and split_column is None:
        raise OptionError(
            f"split={split!r} without split_column",
            expected="the column of splits",
            remedy="name it (split_column=… in Python, split in a recipe), or pass split=None for all rows",
        )


def _rows_of(table: pd.DataFrame, split: str, column: str, file: Path) -> pd.DataFrame:
    chosen: pd.DataFrame = table[table[column] == split]
    if chosen.empty:
        present = table[column].value_counts()
        shown = ", ".join(f"{name!r} ({count} rows)" for name, count in present.head(10).items())
        raise TableError(f"{file}: no row has {split!r} in column {column!r}", expected=f"one of {shown or 'no rows'}")
    for name, count in table[column].value_counts().items():
        if _misspells(str(name), split):
            _log.warning(
                "%s: left out: %d rows with %r in column %r, which is not %r", file, count, name, column, split
            )
    return chosen


def _misspells(name: str, split: str) -> bool:
    """Whether a name is another split's only by case, spaces or a few letters; ``train2`` is a name of its own."""
    bare = name.strip().casefold()
    if name == split or bare == split.casefold():
        return name != split
    return not bare.startswith(split) and bool(get_close_matches(bare, [split], cutoff=0.75))


def undecodable_files(names: Sequence[str], folder: Path) -> list[str]:
    """The files that do not decode; every one is tried, several at a time."""
    with ThreadPoolExecutor() as pool:
        fails = pool.map(lambda name, limits: limits.run(_fails, folder, name), names, iter(copy_context, None))
        shown = track(fails, description="checking images", total=len(names))
        return [name for name, failed in zip(names, shown, strict=True) if failed]


def _fails(folder: Path, name: str) -> bool:
    try:
        decode(folder / name, name=name)
    except ImageError:
        return True
    return False


def _without(table: pd.DataFrame, image: str, bad: list[str], folder: Path, on_bad_image: OnBadImage) -> pd.DataFrame:
    if not bad:
        return table
    kept: pd.DataFrame = table[~table[image].isin(bad)]
    named = ", ".join(map(repr, bad[:5])) + (", …" if len(bad) > 5 else "")
    if on_bad_image == "error":
        raise ImageError(
            f"{len(bad)} of {table[image].nunique()} images are not in {folder}: {named}",
            expected="a file for every row",
            remedy="correct root or the table, or pass on_bad_image='skip'",
        )
    if kept.empty:
        raise ImageError(f"none of {len(bad)} images in {folder} decodes: {named}", expected="image files")
    _log.warning("%d of %d images do not decode and are left out: %s", len(bad), table[image].nunique(), named)
    return kept
