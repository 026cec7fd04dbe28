"""Your own images, in folders named after their labels or listed in a table."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from ..errors import Choices, ImageError, OptionError, OtherLayoutError, TableError, UnevenDepthError, some_of
from ..io.files import IMAGE_SUFFIXES, AnyPath
from ..io.reading import naming_file
from ..io.tables import line_names, read_table
from ..level_columns import ADDED
from ..options import Uneven, check_choice, check_integer
from ..tree.formats import check_level_columns
from ..tree.label_rows import Gaps, LeafKey, Row, even_depths, plain_label, suggest_separator
from ..tree.label_tree import label_paths
from .image_dataset import ImageDataset
from .readers.images import FileImages, image_files, inside, missing_files
from .splits import HoldoutBy, held_out_rows, name_in, names_of_split, rows_of_split, split_to_measure, splits_before

if TYPE_CHECKING:
    import pandas as pd

IMAGE = ADDED[0]
OnBadImage = Literal["error", "skip"]
_log = logging.getLogger(__name__)


def load_folder(
    root: AnyPath,
    split: str | None = None,
    *,
    levels: Sequence[str] | None = None,
    holdout: float | None = None,
    holdout_by: HoldoutBy = "classes",
    seed: int = 0,
    uneven: Uneven = "error",
) -> ImageDataset:
    """Read the images below a folder; the folders on the way to each are its labels, coarse → fine.

    ``root/natural/lake/1.jpg`` has the labels natural and lake. A split is what lies below the folder of its name
    (``root/train/natural/lake/1.jpg``; ``valid`` and ``validation`` are ``val`` too), or with ``holdout`` a share of
    the classes, so that no class is in two splits. Hidden files and folders are left out.

    Args:
        root: the folder.
        split: the name of such a folder, or with ``holdout`` ``"train"`` or ``"test"``. None takes all images of a
            folder without splits.
        levels: names of the levels; ``level_1`` … unless given.
        holdout: the share of classes that ``"test"`` holds, drawn by ``seed``; ``"train"`` holds the others.
        holdout_by: ``"classes"``, or ``"images"``: that share of the images of each class, and never all of them.
        seed: of that draw.
        uneven: what to do with images at different depths, as in :meth:`hiertree.LabelTree.from_paths`.

    Raises:
        ImageError: no such folder, or no image in it.
        OptionError: no folder of the split, a share outside (0, 1), one that leaves a split without a class or an
            image, or an unknown policy.
        UnevenDepthError: images at different depths; the message names two.
        HierarchyError: an image in no folder below that of its split.

    Example:
        ``load_folder("photos", "train", levels=["kind", "landmark"])``
    """
    check_choice("uneven", uneven, Uneven)
    check_integer("seed", seed, least=0)
    reads_root = split is None or holdout is not None
    if reads_root and (test_split := split_to_measure(folders_in(Path(root)))):
        problem = f"split={split!r}{'' if holdout is None else f', holdout={holdout}'} of {root}, which holds splits"
        raise OptionError(problem, expected=f"one of them, such as 'train' or {test_split!r}, and no holdout")
    split_folder = Path(root) if reads_root else folder_of_split(Path(root), str(split))
    names = image_files(split_folder)
    earlier_folders = [] if reads_root else _folders_of_earlier_splits(Path(root), split_folder.name)
    label_rows, earlier_rows = _rows_of_folders(names, earlier_folders, split_folder, uneven)
    if holdout is not None:
        rows, train_rows = held_out_rows(label_rows, split, fraction=holdout, by=holdout_by, seed=seed)
        earlier_rows = [label_rows[row] for row in train_rows]
        names, label_rows = [names[row] for row in rows], [label_rows[row] for row in rows]
    if levels is not None and (isinstance(levels, str) or len(levels) != len(label_rows[0])):
        problem = f"levels={levels!r} for folders such as {'/'.join(map(str, label_rows[0]))}"
        raise OptionError(problem, expected=f"{len(label_rows[0])} names, one for each folder on the way to an image")
    row_names = [*map(str, earlier_rows), *(f"{split_folder / name}" for name in names)]
    columns = list(zip(*earlier_rows, *label_rows, strict=True))
    labeling = label_paths(columns, levels, row_names.__getitem__, len(earlier_rows), leaf="path", uneven=uneven)
    images, name = FileImages(split_folder, names), Path(root).resolve().name
    return ImageDataset(name=name, split=split or "all", images=images, **labeling._asdict())


def folder_of_split(root: Path, split: str) -> Path:
    """The folder of a split, by any of its names."""
    folders = folders_in(root)
    if (name := name_in(folders, split)) is not None:
        return root / name
    if not root.is_dir():
        raise ImageError(f"{root} is {'a file' if root.exists() else 'missing'}", expected="a folder of images")
    remedy, choose = "pass split=None in Python for all images", {"holdout": [0.5]}
    if split_to_measure(folders):
        remedy, choose = "name one of these, or rename it", {}
    problem = f"split={split!r} of {root}, which holds {', '.join(folders[:10]) or 'no folder'}"
    expected = f"a folder {' or '.join(names_of_split(split))}"
    raise OptionError(problem, expected=expected, remedy=remedy, choose=choose)


def folders_in(root: Path) -> list[str]:
    """The names of the folders in a folder that are not hidden, sorted; none if it is not there."""
    entries = root.iterdir() if root.is_dir() else ()
    return sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))


def _rows_of_folders(
    names: Sequence[str], earlier_folders: Sequence[str], folder: Path, uneven: Uneven
) -> tuple[list[Row], list[Row]]:
    """The folders on the path to each image, and those of earlier splits, all brought to one depth.

    Without a policy ``uneven``, images of several depths are refused, and earlier folders of another depth left out.
    """
    rows: list[Row] = [tuple(map(plain_label, name.split("/")[:-1])) for name in names]
    if () in rows:
        problem = f"{folder / names[rows.index(())]} lies in no folder of a label"
        raise UnevenDepthError(problem, expected="images in folders named after their labels")
    earlier_rows: list[Row] = [tuple(map(plain_label, path.split("/"))) for path in earlier_folders if path]
    if uneven == "error":
        depths = [len(row) for row in rows]
        shallow, deep = names[depths.index(min(depths))], names[depths.index(max(depths))]
        if min(depths) < max(depths):
            raise UnevenDepthError(
                f"{folder}: {shallow!r} is {min(depths)} folders deep, {deep!r} {max(depths)}",
                expected="images of one depth",
                choose={"uneven": get_args(Uneven)[1:]},
            )
        earlier_rows = [row for row in earlier_rows if len(row) == depths[0]]
    with naming_file(folder):
        distinct = list(dict.fromkeys([*earlier_rows, *rows]))
        even_rows = dict(zip(distinct, even_depths(distinct, uneven), strict=True))
    return [even_rows[row] for row in rows], [even_rows[row] for row in earlier_rows]


def _folders_of_earlier_splits(root: Path, folder: str) -> list[str]:
    """The folders of images, below those of the splits whose classes are numbered before this one's."""
    folders: dict[str, None] = {}
    for name in splits_before(folders_in(root), folder):
        with suppress(ImageError):  # one without images is no split
            folders |= dict.fromkeys(file.rpartition("/")[0] for file in image_files(root / name))
    return list(folders)


def load_table(
    path: AnyPath,
    split: str | None = None,
    *,
    root: AnyPath,
    image: str | None = None,
    levels: Sequence[str],
    split_column: str | None = None,
    holdout: float | None = None,
    holdout_by: HoldoutBy = "classes",
    seed: int = 0,
    leaf: LeafKey = "label",
    uneven: Uneven = "error",
    gaps: Gaps = "error",
    separator: str | None = None,
    on_bad_image: OnBadImage = "error",
) -> ImageDataset:
    """Read the images that a table lists, with their labels. A file that is listed more than once is logged.

    Args:
        path: a CSV or Parquet file with one row per image.
        split: takes the rows with this text in ``split_column``. None takes all rows.
        root: the folder of the images. Their files are relative to it and cannot lie outside.
        image: the column of files; unless given ``image``, or the first whose values are all different and look like
            files or ids.
        levels: the columns of labels, coarse → fine.
        split_column: the column of splits; ``split`` needs it, or ``holdout``.
        holdout: without such a column, the share of classes that ``"test"`` holds, as in :func:`load_folder`.
        holdout_by: ``"classes"`` or ``"images"``, as there.
        seed: of that draw.
        leaf: what identifies a class: its finest ``"label"``, or its whole ``"path"`` if the same label stands under
            several parents (like character01 of every alphabet).
        uneven: what to do with rows whose last cells are empty, as in :meth:`hiertree.LabelTree.from_paths`.
        gaps: what to do with an empty cell above another, as there.
        separator: what divides the last column of labels into levels, as there.
        on_bad_image: with ``"error"`` a missing file is an error now, and a damaged one when it is decoded. With
            ``"skip"`` every image is decoded once now; bad ones are left out, counted in a log line, and named in
            ``left_out``.

    Raises:
        TableError: the table cannot be read, lacks a column, has no row of the split, or names an image outside
            ``root``; the message names the line.
        ImageError: images are missing, or none decodes; the message names them.
        HierarchyError: the labels do not form a tree; the message names the line.
        OptionError: an unknown policy, no levels, a split with neither ``split_column`` nor ``holdout``, or with both.

    Example:
        ``load_table("images.csv", "test", root="photos", image="file", levels=["kind", "landmark"],
        split_column="split")``
    """
    check_choice("on_bad_image", on_bad_image, OnBadImage)
    check_level_columns(levels)
    file, folder = Path(path), Path(root)
    required = [*([] if image is None else [image]), *levels, *([] if split_column is None else [split_column])]
    table = read_table(file, required=required, needs_rows=True)
    image = image or image_column(table, file)
    table = table[list(dict.fromkeys([image, *required]))]
    if separator is None:
        suggest_separator([table[level].unique() for level in levels], f"{file.name}, {levels[-1]}")
    if holdout is None:
        rows, earlier_rows = rows_of_split(table, split, split_column, file)
    elif split_column is None:
        classes: list[Row] = [
            tuple(map(plain_label, row)) for row in zip(*(table[level] for level in levels), strict=True)
        ]
        drawn_rows = held_out_rows(classes, split, fraction=holdout, by=holdout_by, seed=seed)
        rows, earlier_rows = (np.array(indices, dtype=np.int64) for indices in drawn_rows)
    else:
        raise OptionError(f"holdout={holdout} with the split column {split_column!r}", expected="one of them")
    joint_table, table = table.iloc[[*earlier_rows, *rows]], table.iloc[rows]
    names = list(inside(table[image].tolist(), folder, line_names(table, file)))
    if on_bad_image == "error":
        require_files(folder, list(dict.fromkeys(names)), choose={"on_bad_image": ["skip"]})
    if count := len(names) - len(set(names)):
        _log.warning("%s: %d of %d rows repeat a file; metrics on such a split are too high", file, count, len(names))
    labels, where = [joint_table[level].to_numpy(dtype=object) for level in levels], line_names(joint_table, file)
    policies: Any = {"leaf": leaf, "uneven": uneven, "gaps": gaps, "separator": separator}
    labeling = label_paths(labels, levels, where, len(earlier_rows), **policies)
    images = FileImages(folder, names)
    dataset = ImageDataset(name=file.stem, split=split or "all", images=images, **labeling._asdict())
    return dataset.drop_unreadable_images() if on_bad_image == "skip" else dataset


def image_column(table: pd.DataFrame, file: Path) -> str:
    """The column ``image``, or else the first whose cells are all different and end as image files do."""
    for name in [IMAGE] if IMAGE in table else table.columns:
        cells = table[name].tolist()
        if name == IMAGE or (len(set(cells)) == len(cells) and all(map(_is_image_file, cells))):
            return str(name)
    problem = f"{file}: no column of image files among {', '.join(table.columns)}"
    raise TableError(problem, expected=f"a column {IMAGE}, or one of different files that end in {IMAGE_SUFFIXES[0]} …")


def _is_image_file(cell: str) -> bool:
    return cell.lower().endswith(IMAGE_SUFFIXES)


def require_files(folder: Path, names: Sequence[str], choose: Choices | None = None) -> None:
    """Refuse a table whose files are not all there; an OtherLayoutError where none is."""
    missing = missing_files(folder, names)
    expected, remedy = "a file for every row", "correct root or the table"
    if missing and len(missing) == len(names):
        raise OtherLayoutError(f"none of {len(names)} images are in {folder}", expected=expected, remedy=remedy)
    if missing:
        problem = f"{len(missing)} of {len(names)} images are not in {folder}: {some_of(missing)}"
        raise ImageError(problem, expected=expected, remedy=remedy, choose=choose)
