"""Arrays in numpy's files, none of which is read before its header says what it is."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Unpack

from .files import AnyPath
from .reading import Complaint, reading_file

_VERSIONS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


class ArrayHeader(NamedTuple):
    """What an array in numpy's format says of itself."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def empty(self) -> NDArray[Any]:
        """An array of this shape and type that takes no memory, for checks before the content is read."""
        return np.broadcast_to(np.empty((), self.dtype), self.shape)


def _array_header(file: IO[bytes], size: int) -> ArrayHeader:
    """The header at the beginning of ``size`` bytes, which are exactly those of its array."""
    version = np.lib.format.read_magic(file)
    if version not in _VERSIONS:
        raise ValueError(f"numpy's format {version}")
    shape, _, dtype = _VERSIONS[version](file)
    if dtype.hasobject:
        raise ValueError("an array of objects")
    end = file.tell() + dtype.itemsize * int(np.prod(shape, dtype=object))
    if min(shape, default=0) < 0 or end != size:
        raise ValueError(f"{size} bytes for an array of shape {shape} and type {dtype}")
    return ArrayHeader(shape, dtype)


def read_array(path: AnyPath, *, mapped: bool = False, **complaint: Unpack[Complaint]) -> NDArray[Any]:
    """The array of an ``.npy`` file whose size is the array's; ``mapped`` leaves it on disk."""
    with reading_file(path, **complaint), Path(path).open("rb") as file:
        header = _array_header(file, os.fstat(file.fileno()).st_size)
        if mapped and header.empty().size:
            return np.lib.format.open_memmap(path, mode="r")
        file.seek(0)
        return np.lib.format.read_array(file, allow_pickle=False)


class StoredArrays(Mapping[str, NDArray[Any]]):
    """The arrays of an open ``.npz`` file by name; each is read when it is asked for, its header before."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._members: dict[str, zipfile.ZipInfo] = {}
        self.headers: dict[str, ArrayHeader] = {}
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if name in self._members:
                raise ValueError(f"two arrays named {name!r}")
            self._members[name] = member
            with archive.open(member) as file:
                self.headers[name] = _array_header(file, member.file_size)

    def __getitem__(self, name: str) -> NDArray[Any]:
        with self._archive.open(self._members[name]) as file:
            return np.lib.format.read_array(file, allow_pickle=False)

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)


@contextmanager
def reading_arrays(path: AnyPath, **complaint: Unpack[Complaint]) -> Iterator[StoredArrays]:
    """The arrays of an ``.npz`` file, within a block of :func:`reading_file`."""
    with reading_file(path, **complaint), zipfile.ZipFile(path) as archive:
        yield StoredArrays(archive)
