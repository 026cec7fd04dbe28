"""Images in a folder, a table, archives or a Hugging Face data set, with their labels if there are any."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import (
    ImageError,
    OptionError,
    TableError,
    UnevenDepthError,
    require_package,
    some_of,
)
from ..io.reading import reading_file
from ..io.tables import line_names, read_table, read_table_parts
from ..level_columns import ADDED
from ..tree.label_tree import LabelTree
from .huggingface import HUB, is_saved, open_huggingface, split_of
from .image_dataset import ImageDataset
from .labels_to_paths import label_paths
from .readers.images import IMAGE_SUFFIXES, FileImages, ImageSource, image_files, inside
from .readers.tar_images import TarImages, named_archives, tar_index
from .split_names import SPLIT_NAMES, split_to_measure
from .split_rows import rows_of_split
from .user_images import (
    HuggingFaceImages,
    folder_of_split,
    folders_in,
    from_huggingface,
    load_folder,
    load_table,
    require_files,
)

IMAGE, SPLIT = ADDED
CLASS = "cls"  # the member of a sample, in archives of WebDataset, that holds its class


class InputImages(NamedTuple):
    """Images with or without labels, and a line that describes what was read."""

    dataset: ImageDataset
    labeled: bool
    about: str


def load_input_images(
    source: str | os.PathLike[str],
    split: str | None = None,
    *,
    levels: Sequence[str] = (),
    image: str = IMAGE,
    labeled: bool = True,
) -> InputImages:
    """Read the images of a place, with their labels if there are any.

    ==================================  ==========================================================================
    a folder                            the folders on the way to each image, where all lie at one depth
    a CSV or Parquet table of files     all columns but ``image`` and ``split``
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
        image: the column of files or images.
        labeled: whether labels are looked for.

    Raises:
        ImageError: no image there, or a damaged archive.
        TableError: a table that cannot be read, or a sample without the labels that were asked for.
        HierarchyError: labels that do not form a tree.
        OptionError: no such split or column.
        MissingResourceError: a data set that is not there.
    """
    text, place = os.fspath(source), Path(source)
    request = _Request(split, tuple(levels), image, labeled)
    if text.startswith(HUB) or _holds_huggingface(place):
        return _read_huggingface(text, request)
    if place.is_dir() and any(path.suffix.lower() in IMAGE_SUFFIXES for path in place.iterdir()):
        return _read_folder(place, request)
    if archives := named_archives(text, split):
        return _read_archives(archives, request)
    return _read_table(place, request) if place.is_file() else _read_folder(place, request)


class _Request(NamedTuple):
    split: str | None
    levels: tuple[str, ...]
    image: str
    labeled: bool


def unlabeled(images: ImageSource, *, name: str, split: str | None) -> ImageDataset:
    """Unlabeled images: a single class that tables do not mention."""
    paths = np.zeros((len(images), 1), np.int32)
    tree = LabelTree.from_paths([("unlabeled",)])
    return ImageDataset(name=name, split=split or "all", tree=tree, paths=paths, images=images)


def _report_labeled(dataset: ImageDataset, place: str) -> InputImages:
    levels = ", ".join(dataset.tree.level_names)
    return InputImages(dataset, True, f"{len(dataset)} images with labels {levels} {place}")


def _report_unlabeled(images: ImageSource, name: str, request: _Request, reason: str = "") -> InputImages:
    description = f"{len(images)} images without labels{f' ({reason})' if reason and request.labeled else ''}"
    return InputImages(unlabeled(images, name=name, split=request.split), False, description)


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
    part = next(read_table_parts(file, required=[request.image, *request.levels]))
    levels = request.levels or tuple(name for name in part.columns if name not in (request.image, *ADDED))
    rows: Any = {"root": file.parent, "image": request.image, "split_column": request.split and SPLIT}
    if request.labeled and levels:
        images = load_table(file, request.split, levels=levels, leaf="path", **rows)
        repeats = images.tree.summary().query("homonyms > 0")["name"]
        note = f"; those of {', '.join(repeats)} repeat below different labels: name levels if that is none"
        return _report_labeled(images, f"from the table's columns{'' if request.levels or repeats.empty else note}")
    table = read_table(file, required=[request.image, *[SPLIT] * (request.split is not None)], needs_rows=True)
    table = table if request.split is None else table.iloc[rows_of_split(table, request.split, SPLIT, file)]
    names = list(inside(table[request.image].tolist(), line_names(table, file)))
    require_files(file.parent, names)
    return _report_unlabeled(FileImages(file.parent, names), file.stem, request, "no column of them")


def load_archives(
    root: str | os.PathLike[str], split: str | None = None, *, levels: Sequence[str] = (CLASS,)
) -> ImageDataset:
    """Read ``.tar`` files of WebDataset, image by image, without unpacking them.

    A sample is what shares a name up to the first dot of its last part: ``0001.jpg``, ``0001.json``, ``0001.cls``; or
    else up to the last dot, so that of ``track 2.0.png`` is ``track 2.0.cls``.

    Args:
        root: an archive, a folder of them, or a pattern such as ``images-{000..015}.tar``.
        split: the archives of a folder whose names begin with it, or those in its folder of that name.
        levels: fields of the samples' ``json`` members, coarse → fine; ``cls`` is what a member of that name holds.

    Raises:
        ImageError: no image, no archive, or one that is damaged.
        TableError: a sample without these labels; the message names it.
        HierarchyError: labels that do not form a tree.

    Example:
        ``load_archives("shards/train-{000..015}.tar", levels=["kind", "landmark"])``
    """
    archives = named_archives(os.fspath(root), split)
    if not archives:
        raise ImageError(f"{root} without archives{f' of {split}' if split else ''}", expected=".tar files")
    order = list(SPLIT_NAMES)
    place = next((place for place, name in enumerate(order) if split in SPLIT_NAMES[name]), 0)
    earlier_rows = [files for name in order[:place] if (files := named_archives(os.fspath(root), name))]
    return _read_archives(archives, _Request(split, tuple(levels), IMAGE, True), earlier_rows).dataset


def _read_archives(
    archives: Sequence[Path], request: _Request, earlier_rows: Sequence[Sequence[Path]] = ()
) -> InputImages:
    """The images of archives; ``earlier_rows`` are those of the splits whose classes are numbered before theirs."""
    folder = archives[0].parent
    images, samples, members = _open_archives(archives, with_labels=request.labeled)
    if not request.labeled:
        return _report_unlabeled(images, folder.name, request)
    levels = request.levels
    if not levels and set(samples) <= members[CLASS].keys():
        levels = (CLASS,)
    if not levels:
        reason = "name the fields of their json members by levels" if members["json"] else "no cls member for each"
        return _report_unlabeled(images, folder.name, request, reason)
    numbered: dict[tuple[str, ...], None] = {}
    for earlier_archives in earlier_rows:
        _, other_samples, other_members = _open_archives(earlier_archives, with_labels=True)
        for sample in other_samples:
            with suppress(TableError):  # one without labels, which reading that split reports
                numbered[_labels(sample, levels, other_members)] = None
    labels = [*numbered, *(_labels(sample, levels, members) for sample in samples)]
    columns = [list(column) for column in zip(*labels, strict=True)]
    places = [*map("/".join, numbered), *map(images.name, range(len(images)))]
    tree, paths = label_paths(
        columns, level_names=levels, leaf="path", where=places.__getitem__, earlier_rows=len(numbered)
    )
    split = request.split or "all"
    dataset = ImageDataset(name=folder.name, split=split, tree=tree, paths=paths, images=images)
    return _report_labeled(dataset, "from the members of the archives")


def _open_archives(
    archives: Sequence[Path], *, with_labels: bool
) -> tuple[TarImages, list[str], dict[str, dict[str, bytes]]]:
    """The images of archives, the sample of each, and the members with labels, by their kind and sample."""
    folder = archives[0].parent
    if {path.parent for path in archives} != {folder}:
        raise OptionError(f"archives in several folders, such as {folder}", expected="archives of one folder")
    index = tar_index(folder, archives)
    order = np.lexsort((index.offsets, index.archives))
    names = [index.names[row].decode("utf-8", "surrogateescape") for row in order]
    rows = [place for place, name in enumerate(names) if name.lower().endswith(IMAGE_SUFFIXES)]
    if not rows:
        raise ImageError(f"{some_of(archives, 2)} without images", expected=f"files in {', '.join(IMAGE_SUFFIXES)}")
    called = [f"{archives[index.archives[order[row]]].name}/{names[row]}" for row in rows]
    images = TarImages(folder, index, called, rows=order[rows])
    if not with_labels:
        return images, [], {}
    members = {suffix: _members(index, archives, order, names, suffix) for suffix in (CLASS, "json")}
    stems = {stem for contents in members.values() for stem in contents}
    return images, [_sample(name, stems) for name in called], members


def _sample(name: str, stems: Collection[str]) -> str:
    """The name of a member's sample: without its suffix where a member with labels is called so."""
    if (stem := name.rpartition(".")[0]) in stems:
        return stem
    folder, slash, file_name = name.rpartition("/")
    return f"{folder}{slash}{file_name.partition('.')[0]}"


def _members(index: Any, archives: Sequence[Path], order: Any, names: Sequence[str], suffix: str) -> dict[str, bytes]:
    """The contents of all members of one kind, by their names without its suffix."""
    contents = {}
    has_suffix = np.array([name.endswith(f".{suffix}") for name in names])
    for number, path in enumerate(archives):
        rows = np.flatnonzero(has_suffix & (index.archives[order] == number)).tolist()
        with reading_file(path, expected="the archive", kind=ImageError), path.open("rb") as file:
            for place in rows:
                file.seek(int(index.offsets[order[place]]))
                content = file.read(int(index.sizes[order[place]]))
                contents[f"{path.name}/{names[place].removesuffix(f'.{suffix}')}"] = content
    return contents


def _labels(sample: str, levels: Sequence[str], members: dict[str, dict[str, bytes]]) -> tuple[str, ...]:
    """The labels of a sample, coarse → fine."""
    try:
        fields = json.loads(members["json"].get(sample, b"{}"))
        if sample in members[CLASS]:
            fields = {CLASS: members[CLASS][sample].decode().strip(), **fields}
        if empty := [level for level in levels if fields[level] is None]:
            raise KeyError(*empty)
        return tuple(str(fields[level]) for level in levels)
    except (KeyError, TypeError, ValueError) as error:
        problem = f"{sample}: {error!r}" if isinstance(error, ValueError) else f"{sample} without {error}"
        expected = f"{', '.join(levels)} in its json or cls member"
        raise TableError(problem, expected=expected) from error


def _holds_huggingface(place: Path) -> bool:
    """Whether a path is what ``datasets`` saved, or Parquet with images inside."""
    if place.is_file():
        return place.suffix == ".parquet" and _has_pictures(place)
    if is_saved(place):
        return True
    first = next(place.glob("[!.]*.parquet"), None) or next(place.glob("data/*.parquet"), None)
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
    image = pictures[0] if len(pictures) == 1 else request.image
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
    reason = "no column of class labels; name others by levels"
    return _report_unlabeled(HuggingFaceImages(rows, image), Path(source).name, request, reason)
