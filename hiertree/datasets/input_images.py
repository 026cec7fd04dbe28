"""Images in a folder, a table, archives or a Hugging Face data set, with their labels if there are any."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..errors import OptionError, UnevenDepthError, require_package
from ..io.files import IMAGE_SUFFIXES, AnyPath
from ..io.reading import reading_file
from ..io.tables import are_names, line_names, read_table, read_table_parts
from ..level_columns import ADDED
from ..tree.label_tree import LabelTree
from .archives import CLASS, LabeledArchives, named_archives
from .huggingface import HUB, HuggingFaceImages, from_huggingface, is_saved, open_huggingface, split_of
from .image_dataset import ImageDataset
from .readers.images import FileImages, ImageSource, image_files, inside
from .splits import rows_of_split, split_to_measure
from .user_images import folder_of_split, folders_in, image_column, load_folder, load_table, require_files

IMAGE, SPLIT = ADDED


class InputImages(NamedTuple):
    """Images with or without labels, and a line that describes what was read."""

    dataset: ImageDataset
    labeled: bool
    about: str


def load_input_images(
    source: AnyPath,
    split: str | None = None,
    *,
    levels: Sequence[str] = (),
    image: str | None = None,
    labeled: bool = True,
    root: AnyPath | None = None,
) -> InputImages:
    """Read the images of a place, with their labels if there are any.

    ==================================  ==========================================================================
    a folder                            the folders on the way to each image, where all lie at one depth
    a table of files                    all columns but that of files, others that name rows, and ``split``
    ``.tar`` files of WebDataset        the ``cls`` members, or the fields of ``json`` members that ``levels`` name
    ``hf-hub:OWNER/NAME``, or a folder  its one column of class labels, or those that ``levels`` name
    or file with images of ``datasets``
    ==================================  ==========================================================================

    Archives are one file, a folder of them, or a pattern such as ``images-{000..015}.tar``.

    Args:
        source: the place.
        split: a folder, the rows of a table whose column ``split`` says so, archives whose names begin with it, or a
            split of a data set. None takes all images; those of ``test``, or else ``val``, where there are also some of
            ``train``.
        levels: names of the labels, coarse → fine, that must be there.
        image: the column of files or images; unless given, as for :func:`load_table`.
        labeled: whether labels are looked for.
        root: the folder that a table's files are relative to; the table's own unless given.

    Raises:
        ImageError: no image there, or a damaged archive.
        TableError: a table that cannot be read, or a sample without the labels that were asked for.
        HierarchyError: labels that do not form a tree.
        OptionError: no such split or column, or a root of what is no table.
        MissingResourceError: a data set that is not there.
    """
    text, path = os.fspath(source), Path(source)
    if root is not None and (not path.is_file() or path.suffix.lower() == ".tar"):
        raise OptionError(f"root={root} of {source}", expected="a table of files that lie below that folder")
    request = _Request(split, tuple(levels), image, labeled, path.parent if root is None else Path(root))
    if text.startswith(HUB) or _holds_huggingface(path):
        return _read_huggingface(text, request)
    if path.is_dir() and any(entry.suffix.lower() in IMAGE_SUFFIXES for entry in path.glob("[!.]*")):
        return _read_folder(path, request)
    if archives := named_archives(source, split):
        return _read_archives(archives, request)
    return _read_table(path, request) if path.is_file() else _read_folder(path, request)


class _Request(NamedTuple):
    split: str | None
    levels: tuple[str, ...]
    image: str | None
    labeled: bool
    root: Path


def _report_labeled(dataset: ImageDataset, origin: str) -> InputImages:
    levels = ", ".join(dataset.tree.level_names)
    return InputImages(dataset, True, f"{len(dataset)} images with labels {levels} {origin}")


def _report_unlabeled(images: ImageSource, name: str, request: _Request, reason: str = "") -> InputImages:
    """Unlabeled images: a single class that tables do not mention."""
    tree, paths = LabelTree.from_paths([("unlabeled",)]), np.zeros((len(images), 1), np.int32)
    dataset = ImageDataset(name=name, split=request.split or "all", tree=tree, paths=paths, images=images)
    return InputImages(dataset, False, f"{len(images)} images without labels{f' ({reason})' if reason else ''}")


def _read_folder(root: Path, request: _Request) -> InputImages:
    split = request.split or split_to_measure(folders_in(root))
    folder, reason = root if split is None else folder_of_split(root, split), ""
    if request.labeled:
        try:
            dataset = load_folder(root, split, levels=request.levels or None)
            return _report_labeled(dataset, "from the names of their folders")
        except UnevenDepthError as error:
            if request.levels:
                raise
            reason = error.given
    return _report_unlabeled(FileImages(folder, image_files(folder)), root.name, request._replace(split=split), reason)


def _read_table(file: Path, request: _Request) -> InputImages:
    rows = next(read_table_parts(file, required=[*filter(None, [request.image]), *request.levels]))
    image = request.image or image_column(rows, file)
    labels = [name for name in rows.columns if name not in (image, *ADDED)]
    levels = request.levels or tuple(
        name for name in labels if name == labels[-1] or not are_names(rows[name].tolist())
    )
    split_column = None if request.split is None else SPLIT
    if request.labeled and levels:
        images = load_table(
            file, request.split, root=request.root, image=image, levels=levels, split_column=split_column, leaf="path"
        )
        repeats = images.tree.summary().query("homonyms > 0")["name"]
        note = f"; those of {', '.join(repeats)} repeat below different labels: name levels if that is none"
        origin = f"from the table's columns, files from {image}{'' if request.levels or repeats.empty else note}"
        return _report_labeled(images, origin)
    required = [image] if split_column is None else [image, split_column]
    table = read_table(file, required=required, needs_rows=True)
    table = table.iloc[rows_of_split(table, request.split, split_column, file)[0]]
    names = list(inside(table[image].tolist(), request.root, line_names(table, file)))
    require_files(request.root, names)
    reason = "no column of them" if request.labeled else ""
    return _report_unlabeled(FileImages(request.root, names), file.stem, request, reason)


def _read_archives(archives: Sequence[Path], request: _Request) -> InputImages:
    labeled_archives = LabeledArchives(archives, with_labels=request.labeled)
    levels, reason = request.levels, ""
    if request.labeled and not levels:
        levels = (CLASS,) if set(labeled_archives.samples) <= labeled_archives.members[CLASS].keys() else ()
        has_fields = labeled_archives.members["json"]
        reason = "name the fields of their json members by levels" if has_fields else "no cls member for each"
    if request.labeled and levels:
        return _report_labeled(labeled_archives.dataset(levels, request.split), "from the members of the archives")
    return _report_unlabeled(labeled_archives.images, labeled_archives.images.root.name, request, reason)


def _holds_huggingface(path: Path) -> bool:
    """Whether a path is what ``datasets`` saved, or Parquet with images inside."""
    if path.is_file():
        return path.suffix.lower() in (".parquet", ".pq") and _has_pictures(path)
    if is_saved(path):
        return True
    first = next(path.glob("[!.]*.parquet"), None) or next(path.glob("data/[!.]*.parquet"), None)
    return first is not None and _has_pictures(first)


def _has_pictures(file: Path) -> bool:
    """Whether a column of a Parquet file holds images, as ``datasets`` stores them."""
    require_package("pyarrow", extra="arrow")
    import pyarrow as pa
    import pyarrow.parquet as pq

    with reading_file(file, expected="a Parquet file"), file.open("rb") as stream:  # pyarrow takes UTF-8 names only
        kinds = pq.read_schema(stream).types
    return any(pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0 for kind in kinds)


def _read_huggingface(source: str, request: _Request) -> InputImages:
    require_package("datasets", extra="interop")
    import datasets as huggingface

    data = open_huggingface(source, request.split if source.startswith(HUB) else None)
    rows = split_of(source, data, request.split)
    features = rows.features.items()
    pictures = [name for name, kind in features if isinstance(kind, huggingface.Image)]
    image = pictures[0] if len(pictures) == 1 else request.image or IMAGE
    classes = tuple(name for name, kind in features if isinstance(kind, huggingface.ClassLabel))
    if request.labeled and (request.levels or classes):
        if not request.levels and len(classes) > 1:
            remedy = "name some, coarse → fine, by levels (--levels), or pass --no-labels"
            raise OptionError(f"{source} with labels {', '.join(classes)}", expected="one column", remedy=remedy)
        dataset = from_huggingface(
            rows, levels=request.levels or classes, image=image, leaf="path", split=request.split
        )
        return _report_labeled(dataset, "from its columns")
    if not pictures:
        raise OptionError(f"{source} with columns {', '.join(rows.column_names)}", expected="a column of images")
    reason = "no column of class labels; name others by levels" if request.labeled else ""
    return _report_unlabeled(HuggingFaceImages(rows, image), Path(source).name, request, reason)
