"""Images in ``.tar`` archives, read at the offsets that an index lists: nothing is unpacked.

The index is stored beside the archives in ``.hiertree-index.npz``, and made again when one of them has changed. Of
archives of WebDataset, the members beside each image hold its labels.
"""

from __future__ import annotations

import io
import json
import logging
import math
import os
import re
import tarfile
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import HiertreeError, ImageError, OptionError, TableError, some_of
from ..io.array_files import reading_arrays
from ..io.files import IMAGE_SUFFIXES, AnyPath, replacing
from ..io.progress import track
from ..io.reading import reading_file
from ..tree.label_tree import label_paths
from .image_dataset import ImageDataset
from .readers.images import NamedImages, decode
from .splits import SPLIT_NAMES, name_in, names_of_split, split_to_measure

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL import Image

CLASS = "cls"  # the member of a sample that holds its class
MOST_ARCHIVES = 100_000
_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
_log = logging.getLogger(__name__)
INDEX = ".hiertree-index.npz"
_HIDDEN = re.compile(r"(?:^|/)\.[^/]")  # macOS adds ._0001.jpg to an archive with 0001.jpg


class TarIndex(NamedTuple):
    """Where all files of a folder of archives are, sorted by name; stamps hold name, size and time of every archive."""

    stamps: NDArray[np.str_]
    names: NDArray[np.bytes_]
    archives: NDArray[np.int32]
    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]

    def rows(self, names: Sequence[str]) -> NDArray[np.int64]:
        """The row of each name; −1 if it is not in the index."""
        keys = np.array([name.encode("utf-8", "surrogateescape") for name in names] or [b""], dtype=np.bytes_)
        if not len(self.names):
            return np.full(len(names), -1)
        rows = np.minimum(np.searchsorted(self.names, keys), len(self.names) - 1)
        return np.where(self.names[rows] == keys, rows, -1)[: len(names)]


class TarImages(NamedImages):
    """Images inside the archives of a folder; an ImageError names one that is in none of them."""

    def __init__(
        self, folder: Path, index: TarIndex, names: Sequence[str], *, rows: NDArray[np.int64] | None = None
    ) -> None:
        """``rows`` of the index hold the images; ``names`` override their names in the archives."""
        rows = index.rows(names) if rows is None else rows
        missing_rows = np.flatnonzero(rows < 0)
        if len(missing_rows):
            examples = ", ".join(names[row] for row in missing_rows[:3].tolist())
            raise ImageError(
                f"{len(missing_rows)} of {len(names)} images are in no archive of {folder} ({examples})",
                expected="all archives of this part",
                remedy="download the missing ones; they are numbered without gaps",
            )
        super().__init__(names)
        self.root = folder
        self._stamps: list[str] = index.stamps.tolist()
        self._archives = [stamp.split("/")[0] for stamp in self._stamps]
        self._archive_of, self._offsets, self._sizes = index.archives[rows], index.offsets[rows], index.sizes[rows]

    def __getitem__(self, index: int) -> Image.Image:
        archive = self.root / self._archives[self._archive_of[index]]
        with reading_file(archive, expected="the archive", kind=ImageError), archive.open("rb") as file:
            file.seek(int(self._offsets[index]))
            encoded = file.read(int(self._sizes[index]))
        return decode(io.BytesIO(encoded), name=self.name(index))

    def stamp(self, index: int) -> str:
        """See :func:`hiertree.datasets.readers.images.stamp_of`."""
        archive = self._stamps[self._archive_of[index]]
        return f"{self.root.absolute()} {archive} {self._offsets[index]} {self._sizes[index]}"


def tar_index(folder: Path, archives: Sequence[Path]) -> TarIndex:
    """The index of archives in a folder, read if it is up to date, else made now."""
    stamps = np.array([f"{path.name}/{path.stat().st_size}/{path.stat().st_mtime_ns}" for path in archives])
    cached_index = _read_index(folder / INDEX)
    if cached_index is not None and np.array_equal(cached_index.stamps, stamps):
        return cached_index
    new_index = _build_index(archives, stamps)
    try:
        with replacing(folder / INDEX) as temporary:
            np.savez(temporary, **new_index._asdict())
    except OSError as error:
        _log.warning("the index of %s cannot be stored (%s)", folder, error)
    return new_index


def _read_index(path: Path) -> TarIndex | None:
    try:
        with reading_arrays(path, expected="an index") as file:
            return TarIndex(*(file[name] for name in TarIndex._fields))
    except HiertreeError:
        return None  # it is made again


def _build_index(archives: Sequence[Path], stamps: NDArray[np.str_]) -> TarIndex:
    names: list[bytes] = []
    extents: list[tuple[int, int, int]] = []  # archive, offset and size of each member
    for archive, path in enumerate(track(archives, description="indexing archives")):
        for name, offset, size in _members(path):
            names.append(name.encode("utf-8", "surrogateescape"))
            extents.append((archive, offset, size))
    packed: Any = np.array(names or [b""], dtype=np.bytes_)[: len(names)]
    order = np.argsort(packed, kind="stable")
    archive_of, offsets, sizes = np.array(extents, np.int64).reshape(-1, 3)[order].T
    return TarIndex(stamps, packed[order], archive_of.astype(np.int32), offsets, sizes)


def _members(path: Path) -> list[tuple[str, int, int]]:
    """Name, offset and size of every regular file that is not hidden."""
    with (
        reading_file(path, expected="a complete tar archive", remedy="get it again", kind=ImageError),
        tarfile.open(path, "r:") as archive,
        path.open("rb") as file,
    ):
        names = ((member, member.name.removeprefix("./")) for member in archive if member.isreg())
        members = [(name, member.offset_data, member.size) for member, name in names if not _HIDDEN.search(name)]
        file.seek(archive.offset)  # tarfile stopped here: at the end, or at an invalid header
        if file.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
            raise tarfile.ReadError(f"neither a header nor the end mark at byte {archive.offset}")
        return members


def load_archives(root: AnyPath, split: str | None = None, *, levels: Sequence[str] = (CLASS,)) -> ImageDataset:
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
    archives = named_archives(root, split)
    if not archives:
        raise ImageError(f"{root} without archives{f' of {split}' if split else ''}", expected=".tar files")
    order = list(SPLIT_NAMES)
    rank = next((rank for rank, name in enumerate(order) if split in SPLIT_NAMES[name]), 0)
    earlier_archives = filter(None, (named_archives(root, name) for name in order[:rank]))
    return LabeledArchives(archives).dataset(levels, split, map(LabeledArchives, earlier_archives))


class LabeledArchives:
    """The images of archives in one folder; with labels, the sample of each, and the members by kind and sample."""

    def __init__(self, archives: Sequence[Path], *, with_labels: bool = True) -> None:
        folder = archives[0].parent
        if {path.parent for path in archives} != {folder}:
            raise OptionError(f"archives in several folders, such as {folder}", expected="archives of one folder")
        self._archives, self._index = archives, tar_index(folder, archives)
        self._order = np.lexsort((self._index.offsets, self._index.archives))
        names = [self._index.names[row].decode("utf-8", "surrogateescape") for row in self._order]
        is_image = [name.lower().endswith(IMAGE_SUFFIXES) for name in names]
        rows = self._order[is_image]
        if not len(rows):
            expected = f"files in {', '.join(IMAGE_SUFFIXES)}"
            raise ImageError(f"{some_of(archives, 2)} without images", expected=expected)
        files = [archives[archive].name for archive in self._index.archives[rows].tolist()]
        image_names = [f"{file}/{name}" for file, name in zip(files, compress(names, is_image), strict=True)]
        self.images = TarImages(folder, self._index, image_names, rows=rows)
        self.members = {suffix: self._label_members(names, suffix) for suffix in (CLASS, "json") if with_labels}
        stems = {stem for members in self.members.values() for stem in members}
        self.samples = [_sample(name, stems) for name in image_names] if with_labels else []

    def _label_members(self, names: Sequence[str], suffix: str) -> dict[str, bytes]:
        """The bytes of all members of one kind, by their names without its suffix."""
        members, index = {}, self._index
        of_kind = [pair for pair in zip(self._order, names, strict=True) if pair[1].endswith(f".{suffix}")]
        for archive, path in enumerate(self._archives):
            with reading_file(path, expected="the archive", kind=ImageError), path.open("rb") as file:
                for row, name in of_kind:
                    if index.archives[row] == archive:
                        file.seek(int(index.offsets[row]))
                        members[f"{path.name}/{name.removesuffix(f'.{suffix}')}"] = file.read(int(index.sizes[row]))
        return members

    def labels(self, sample: str, levels: Sequence[str]) -> tuple[str, ...]:
        """The labels of a sample, coarse → fine."""
        try:
            fields = json.loads(self.members["json"].get(sample, b"{}"))
            if sample in self.members[CLASS]:
                fields = {CLASS: self.members[CLASS][sample].decode().strip(), **fields}
            if empty := [level for level in levels if fields[level] is None]:
                raise KeyError(*empty)
            if any(isinstance(fields[level], list | dict) for level in levels):
                raise ValueError("several labels of one level")
            return tuple(str(fields[level]) for level in levels)
        except (KeyError, TypeError, ValueError) as error:
            problem = f"{sample}: {error!r}" if isinstance(error, ValueError) else f"{sample} without {error}"
            expected = f"{', '.join(levels)} in its json or cls member"
            raise TableError(problem, expected=expected) from error

    def dataset(
        self, levels: Sequence[str], split: str | None, earlier_archives: Iterable[LabeledArchives] = ()
    ) -> ImageDataset:
        """The images with the labels of their samples; classes of ``earlier_archives`` are numbered before theirs."""
        numbered: dict[tuple[str, ...], None] = {}
        for archives in earlier_archives:
            for sample in archives.samples:
                with suppress(TableError):  # one without labels, which reading that split reports
                    numbered[archives.labels(sample, levels)] = None
        rows = [*numbered, *(self.labels(sample, levels) for sample in self.samples)]
        row_names = [*map("/".join, numbered), *map(self.images.name, range(len(self.images)))]
        columns = [list(column) for column in zip(*rows, strict=True)]
        labeling = label_paths(columns, levels, row_names.__getitem__, len(numbered), leaf="path")
        name = self.images.root.name
        return ImageDataset(name=name, split=split or "all", images=self.images, **labeling._asdict())


def _sample(name: str, stems: Collection[str]) -> str:
    """The name of a member's sample: without its suffix where a member with labels is called so."""
    if (stem := name.rpartition(".")[0]) in stems:
        return stem
    folder, slash, file_name = name.rpartition("/")
    return f"{folder}{slash}{file_name.partition('.')[0]}"


def named_archives(source: AnyPath, split: str | None = None) -> list[Path]:
    """The ``.tar`` files that a text stands for: a file, a range ``images-{000..015}.tar``, a pattern, or a folder.

    Of a folder, a split has those in its folder of that name, or those whose names begin with it; unless one is named,
    a folder with archives of ``train`` and ``test`` stands for those of ``test``. Nothing of the kind gives none.
    """
    source, path = os.fspath(source), Path(source)
    if path.is_dir():
        folder = name_in([entry.name for entry in path.iterdir() if entry.is_dir()], split or "")
        if folder is not None:
            return named_archives(path / folder)
        archives = sorted(path.glob("[!.]*.tar"))

        def of_split(split: str) -> list[Path]:
            prefixed = ([file for file in archives if file.name.startswith(name)] for name in names_of_split(split))
            return next(filter(None, prefixed), [])

        split_name = split or split_to_measure(list(filter(of_split, SPLIT_NAMES)))
        return archives if split_name is None else of_split(split_name)
    if not source.endswith(".tar"):
        return []
    if not path.exists() and any(sign in source for sign in "*?["):
        return sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor))))
    count = math.prod(max(int(last) - int(first) + 1, 0) for first, last in _RANGE.findall(source))
    if count > MOST_ARCHIVES:
        raise ImageError(f"{source} stands for {count} archives", expected=f"at most {MOST_ARCHIVES}")
    archives = [Path(name) for name in _expanded(source)]
    missing = [archive for archive in archives if not archive.is_file()]
    if missing:
        problem = f"{len(missing)} of {len(archives)} archives are missing ({some_of(map(str, missing), 3)})"
        raise ImageError(problem, expected="every archive of the range")
    return archives


def _expanded(text: str) -> list[str]:
    """The names in a range, ``{000..015}`` with zeros in front.

    >>> _expanded("a-{08..10}.tar")
    ['a-08.tar', 'a-09.tar', 'a-10.tar']
    """
    match = _RANGE.search(text)
    if match is None:
        return [text]
    first, last = match.groups()
    digits = [f"{index:0{len(first)}d}" for index in range(int(first), int(last) + 1)]
    return [name for index in digits for name in _expanded(text[: match.start()] + index + text[match.end() :])]
