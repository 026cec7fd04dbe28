"""Images read directly from tar archives, at the offsets that an index lists. Nothing is unpacked.

The index is stored beside the archives in ``.hiertree-index.npz``, and made again when one of them has changed.
"""

from __future__ import annotations

import io
import logging
import re
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from PIL import Image

from ...errors import HiertreeError, ImageError
from ...io.files import replacing
from ...io.progress import track
from ...io.reading import reading_arrays, reading_file
from .images import NamedImages, decode

if TYPE_CHECKING:
    from numpy.typing import NDArray

INDEX = ".hiertree-index.npz"
_HIDDEN = re.compile(r"(?:^|/)\.[^/]")  # macOS adds ._0001.jpg to an archive with 0001.jpg
_log = logging.getLogger(__name__)


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
        places = np.minimum(np.searchsorted(self.names, keys), len(self.names) - 1)
        return np.where(self.names[places] == keys, places, -1)[: len(names)]


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
            content = file.read(int(self._sizes[index]))
        return decode(io.BytesIO(content), name=self.name(index))

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
    parts: list[NDArray[np.int64]] = []
    for number, path in enumerate(track(archives, description="indexing archives")):
        members = _members(path)
        names += [name.encode("utf-8", "surrogateescape") for name, _, _ in members]
        parts.append(np.array([(number, offset, size) for _, offset, size in members], np.int64).reshape(-1, 3))
    places = np.concatenate(parts)
    packed: Any = np.array(names or [b""], dtype=np.bytes_)[: len(names)]
    order = np.argsort(packed, kind="stable")
    return TarIndex(stamps, packed[order], places[order, 0].astype(np.int32), places[order, 1], places[order, 2])


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
