"""Your own images: ``folder`` and ``table`` of :func:`hiertree.datasets.load`, and Hugging Face data sets."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..errors import ImageError, InputError, OptionError, OtherLayoutError, UnevenDepthError, require_package, some_of
from ..io.tables import line_names, read_table
from ..options import check_choice, check_integer
from ..tree.formats import check_level_columns
from ..tree.label_rows import Gaps, LeafKey, Row, Uneven, even_depths, is_empty
from .duplicate_images import check_duplicates
from .image_dataset import ImageDataset
from .labels_to_paths import Labeled, label_paths
from .readers.images import FileImages, decode, file_stamp, image_files, inside, missing_files
from .split_names import name_in, names_of_split, split_order, split_to_measure
from .split_rows import HoldoutBy, held_out_rows, rows_of_earlier_splits, rows_of_split

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL import Image

OnBadImage = Literal["error", "skip"]


def load_folder(
    root: str | os.PathLike[str],
    split: str | None = None,
    *,
    levels: Sequence[str] | None = None,
    holdout: float | None = None,
    holdout_by: HoldoutBy = "classes",
    seed: int = 0,
    uneven: Uneven = "error",
    on_bad_image: OnBadImage = "error",
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
        on_bad_image: with ``"error"`` a damaged image is an error when it is decoded. With ``"skip"`` every image is
            decoded once now, and bad ones are left out, logged, and named in ``left_out``.

    Raises:
        ImageError: no such folder, no image in it, or none that decodes.
        OptionError: no folder of the split, a share outside (0, 1), one that leaves a split without a class or an
            image, or an unknown policy.
        UnevenDepthError: images at different depths; the message names two.
        HierarchyError: an image in no folder below that of its split.

    Example:
        ``load_folder("photos", "train", levels=["kind", "landmark"])``
    """
    check_choice("on_bad_image", on_bad_image, OnBadImage)
    check_choice("uneven", uneven, Uneven)
    check_integer("seed", seed, least=0)
    reads_root = split is None or holdout is not None
    if reads_root and (test_split := split_to_measure(folders_in(Path(root)))):
        problem = f"split={split!r}{'' if holdout is None else f', holdout={holdout}'} of {root}, which holds splits"
        raise OptionError(problem, expected=f"one of them, such as 'train' or {test_split!r}, and no holdout")
    split_folder = Path(root) if reads_root else folder_of_split(Path(root), str(split))
    names = image_files(split_folder)
    earlier_folders = [] if reads_root else _folders_of_earlier_splits(Path(root), split_folder.name)
    rows = _rows_of_folders(names, earlier_folders, split_folder, uneven)
    earlier_rows, label_rows = rows[: len(earlier_folders)], rows[len(earlier_folders) :]
    if holdout is not None:
        part = held_out_rows(label_rows, split, share=holdout, by=holdout_by, seed=seed)
        earlier_rows = (
            [] if split == "train" else [label_rows[place] for place in sorted(set(range(len(label_rows))) - set(part))]
        )
        names, label_rows = [names[place] for place in part], [label_rows[place] for place in part]
    if levels is not None and (isinstance(levels, str) or len(levels) != len(label_rows[0])):
        problem = f"levels={levels!r} for folders such as {'/'.join(map(str, label_rows[0]))}"
        raise OptionError(problem, expected=f"{len(label_rows[0])} names, one for each folder on the way to an image")
    columns = list(zip(*earlier_rows, *label_rows, strict=True))
    places = [*map(str, earlier_rows), *(f"{split_folder / name}" for name in names)]
    labeling = label_paths(
        columns,
        level_names=levels,
        leaf="path",
        uneven=uneven,
        where=places.__getitem__,
        earlier_rows=len(earlier_rows),
    )
    return _dataset(Path(root).resolve().name, split, labeling, FileImages(split_folder, names), on_bad_image)


def _dataset(
    name: str, split: str | None, labeling: Labeled, images: FileImages, on_bad_image: OnBadImage
) -> ImageDataset:
    """The data set of these images, or of those that decode; classes are numbered whether theirs do or not."""
    tree, paths = labeling
    dataset = ImageDataset(name=name, split=split or "all", tree=tree, paths=paths, images=images)
    if on_bad_image == "skip":
        dataset = dataset.drop_unreadable_images()
    check_duplicates(dataset, on_duplicates="warn")
    return dataset


def _folders_of_earlier_splits(root: Path, folder: str) -> list[str]:
    """The folders of images, below those of the splits whose classes are numbered before this one's."""
    order = sorted(folders_in(root), key=lambda name: (split_order(name), name))
    folders: dict[str, None] = {}
    for name in takewhile(lambda name: name != folder, order):
        with suppress(ImageError):  # one without images is no split
            folders |= dict.fromkeys(file.rpartition("/")[0] for file in image_files(root / name))
    return list(folders)


def folder_of_split(root: Path, split: str) -> Path:
    """The folder of a split, by any of its names."""
    names = names_of_split(split)
    for name in names:
        if name != ".." and Path(name).name == name and (root / name).is_dir():
            return root / name
    if not root.is_dir():
        raise ImageError(f"{root} is {'a file' if root.exists() else 'missing'}", expected="a folder of images")
    folders = folders_in(root)
    remedy = "give holdout=0.5 to hold out half of the classes as 'test', or split=None in Python for all images"
    if split_to_measure(folders):
        remedy = "name one of these, or rename it"
    problem = f"split={split!r} of {root}, which holds {', '.join(folders[:10]) or 'no folder'}"
    raise OptionError(problem, expected=f"a folder {' or '.join(names)}", remedy=remedy)


def folders_in(root: Path) -> list[str]:
    """The names of the folders in a folder that are not hidden, sorted; none if it is not there."""
    entries = root.iterdir() if root.is_dir() else ()
    return sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))


def _rows_of_folders(names: Sequence[str], earlier_folders: list[str], folder: Path, uneven: Uneven) -> list[Row]:
    """The folders on the path to each image, after the ``earlier_folders``; all must have the same number.

    Those of earlier splits that have not are taken out of the list.
    """
    rows: list[Row] = [tuple(name.split("/")[:-1]) for name in names]
    if () in rows:
        problem = f"{folder / names[rows.index(())]} lies in no folder of a label"
        raise UnevenDepthError(problem, expected="images in folders named after their labels")
    depths = [len(row) for row in rows]
    if uneven == "error" and min(depths) < max(depths):
        shallow, deep = names[depths.index(min(depths))], names[depths.index(max(depths))]
        raise UnevenDepthError(
            f"{folder}: {shallow!r} is {min(depths)} folders deep, {deep!r} {max(depths)}",
            expected="images of one depth",
            remedy="pass uneven='pad' (repeat the deepest label), 'truncate' (cut at the shallowest) or 'unknown'",
        )
    earlier_folders[:] = [
        path for path in earlier_folders if path and (uneven != "error" or path.count("/") + 1 == depths[0])
    ]
    rows = [*(tuple(path.split("/")) for path in earlier_folders), *rows]
    distinct = list(dict.fromkeys(rows))
    even_rows = dict(zip(distinct, even_depths(distinct, uneven), strict=True))
    return [even_rows[row] for row in rows]


def load_table(
    path: str | os.PathLike[str],
    split: str | None = None,
    *,
    root: str | os.PathLike[str],
    image: str,
    levels: Sequence[str],
    split_column: str | None = None,
    holdout: float | None = None,
    holdout_by: HoldoutBy = "classes",
    seed: int = 0,
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
        split_column: the column of splits; ``split`` needs it, or ``holdout``.
        holdout: without such a column, the share of classes that ``"test"`` holds, as in :func:`load_folder`.
        holdout_by: ``"classes"`` or ``"images"``, as there.
        seed: of that draw.
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
        OptionError: an unknown policy, no levels, a split with neither ``split_column`` nor ``holdout``, or with both.

    Example:
        ``load_table("images.csv", "test", root="photos", image="file", levels=["kind", "landmark"],
        split_column="split")``
    """
    check_choice("on_bad_image", on_bad_image, OnBadImage)
    check_level_columns(levels)
    file, folder = Path(path), Path(root)
    columns = [image, *levels, *([] if split_column is None else [split_column])]
    table = read_table(file, required=columns, needs_rows=True)[list(dict.fromkeys(columns))]
    classes: list[Row] = list(zip(*(table[level] for level in levels), strict=True))
    every = np.arange(len(table))
    order, rows = every[:0], every
    if holdout is not None:
        if split_column is not None:
            raise OptionError(f"holdout={holdout} with the split column {split_column!r}", expected="one of them")
        rows = np.array(held_out_rows(classes, split, share=holdout, by=holdout_by, seed=seed))
        order = np.setdiff1d(every, rows)[: 0 if split == "train" else None]
    elif split is not None:
        rows = rows_of_split(table, split, split_column, file)
    if split_column is not None:
        order = rows_of_earlier_splits(table[split_column].tolist(), rows)
    fills = uneven != "error" or gaps != "error"
    numbered = [row for row in order if (any if fills else all)(not is_empty(label) for label in classes[row])]
    joint_table, table = table.iloc[[*numbered, *rows]], table.iloc[rows]
    list(inside(table[image].tolist(), line_names(table, file)))
    image_names = table[image].unique().tolist()
    if on_bad_image == "error":
        require_files(folder, image_names, "correct root or the table, or pass on_bad_image='skip'")
    labeling = label_paths(
        [joint_table[level].to_numpy(dtype=object) for level in levels],
        level_names=levels,
        leaf=leaf,
        uneven=uneven,
        gaps=gaps,
        where=line_names(joint_table, file),
        earlier_rows=len(numbered),
    )
    return _dataset(file.stem, split, labeling, FileImages(folder, table[image].tolist()), on_bad_image)


def require_files(folder: Path, names: Sequence[str], remedy: str | None = None) -> None:
    """Refuse a table whose files are not all there; an OtherLayoutError where none is."""
    missing = missing_files(folder, names)
    if missing and len(missing) == len(names):
        problem = f"none of {len(names)} images are in {folder}"
        raise OtherLayoutError(problem, expected="a file for every row", remedy="correct root or the table")
    if missing:
        problem = f"{len(missing)} of {len(names)} images are not in {folder}: {some_of(missing)}"
        raise ImageError(problem, expected="a file for every row", remedy=remedy)


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
        content = cell["bytes"]
        file = io.BytesIO(content) if content is not None else cell["path"]
        return decode(file, name=self.name(index), upright=True)  # as ``datasets`` decodes it

    def stamp(self, index: int) -> str:
        """See :func:`hiertree.datasets.readers.images.stamp_of`."""
        cell = self._rows[int(index)][self._column] or {}
        content = cell.get("bytes")
        return file_stamp(Path(cell.get("path") or "")) if content is None else hashlib.sha256(content).hexdigest()

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
    import datasets as huggingface

    check_level_columns(levels)
    earlier_rows: list[Any] = []
    if isinstance(rows, huggingface.DatasetDict):
        split_name = name_in(rows, split or "")
        if split_name is None:
            problem, remedy = f"a DatasetDict, split={split!r}", f"pass split=, one of {', '.join(rows)}"
            raise InputError(problem, expected="the name of a split", remedy=remedy)
        order = sorted(rows, key=lambda name: (split_order(name), name))
        earlier_rows, rows = [rows[name] for name in order[: order.index(split_name)]], rows[split_name]
    return _build_dataset(
        rows, earlier_rows, levels=levels, image=image, split=split, leaf=leaf, uneven=uneven, gaps=gaps
    )


def _build_dataset(
    rows: Any, earlier_rows: Collection[Any], *, levels: Sequence[str], image: str, split: str | None, **policies: Any
) -> ImageDataset:
    """A data set of some rows; ``earlier_rows`` are those of the splits whose classes are numbered before theirs."""
    import datasets as huggingface

    if not isinstance(rows, huggingface.Dataset):
        remedy = "load it without streaming=True"
        raise InputError(f"a {type(rows).__name__}", expected="a datasets.Dataset or DatasetDict", remedy=remedy)
    missing = [name for name in (image, *levels) if name not in rows.column_names]
    if missing:
        problem = f"no column {some_of(missing)}"
        raise OptionError(problem, expected=f"columns among {', '.join(rows.column_names)}")
    if not isinstance(rows.features[image], huggingface.Image):
        image_columns = [name for name, kind in rows.features.items() if isinstance(kind, huggingface.Image)]
        remedy = (
            f"pass image={image_columns[0]!r}"
            if image_columns
            else f"cast it: rows.cast_column({image!r}, datasets.Image())"
        )
        raise OptionError(f"image={image!r} holds {rows.features[image]}", expected="images", remedy=remedy)
    if not len(rows):
        raise InputError("a data set without rows", expected="an image and its labels in every row")
    fills = any(policies[name] != "error" for name in ("uneven", "gaps"))
    parts = [
        (part, _classes(part, levels, fills=fills))
        for part in (*earlier_rows, rows)
        if set(levels) <= set(part.features)
    ]
    places = [f"row {row} of {part.split or 'the data set'}" for part, classes in parts for row in classes.values()]
    labels = [_huggingface_labels(rows, name) for name in levels]
    numbered = [row for _, classes in parts for row in classes]
    columns = [
        np.array([*(row[level] for row in numbered), *column], dtype=object) for level, column in enumerate(labels)
    ]
    places += [f"row {row}" for row in range(len(rows))]
    labeling = label_paths(
        columns, level_names=list(levels), where=places.__getitem__, earlier_rows=len(numbered), **policies
    )
    name, split = str(rows.info.dataset_name or "huggingface"), split or str(rows.split or "all")
    images = HuggingFaceImages(rows, image)
    return ImageDataset(name=name, split=split, tree=labeling.tree, paths=labeling.paths, images=images)


def _classes(rows: Any, levels: Sequence[str], *, fills: bool) -> dict[Row, int]:
    """The different rows of labels, and where they stand first, in an order that depends on the labels alone.

    Rows without a label are left out, and unless a policy ``fills`` them, incomplete ones. Of one column of class
    labels, all classes are taken.
    """
    names = {level: getattr(rows.features[level], "names", None) for level in levels}
    places = {level: {name: place for place, name in enumerate(values)} for level, values in names.items() if values}

    def key(row: Row) -> list[tuple[str, Any]]:
        labels = [places.get(level, {}).get(label, label) for level, label in zip(levels, row, strict=True)]
        return [("", label) if isinstance(label, int | float) else ("text", str(label)) for label in labels]

    first: dict[Row, int] = {}
    for place, row in enumerate(zip(*(_huggingface_labels(rows, level) for level in levels), strict=True)):
        if (any if fills else all)(not is_empty(label) for label in row):
            first.setdefault(row, place)
    if len(levels) == 1:
        first = {**{(name,): 0 for name in names[levels[0]] or ()}, **first}
    return {row: first[row] for row in sorted(first, key=key)}


def _huggingface_labels(rows: Any, column: str) -> NDArray[Any]:
    """Read a column of labels: class labels by name, −1 and None as no label."""
    values = rows.with_format(None)[column]
    names = getattr(rows.features[column], "names", None)
    if names is not None:
        values = [names[value] if value is not None and value >= 0 else None for value in values]
    return np.array(list(values), dtype=object)
