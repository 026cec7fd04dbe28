"""Finished parts of long work, stored with a fingerprint of its inputs, so that an interrupted call can resume."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CheckpointError
from .files import AnyPath, replacing, write_json
from .reading import read_json_object, reading_file

_FINGERPRINT = "fingerprint.json"
_BYTES_AT_ONCE = 1 << 26
_CHECKSUM_BYTES = 16


class PartStore:
    """A folder of arrays, one for each range of rows; each file appears whole, its name beginning with ``rows``.

    The fingerprint, which is written first, says by name what the arrays are computed from; a CheckpointError names
    what differs from the folder's.
    """

    def __init__(self, folder: AnyPath, fingerprint: Mapping[str, str], *, rows: str = "rows") -> None:
        self.folder, self._rows = Path(folder), rows
        file = self.folder / _FINGERPRINT
        if not file.exists():
            if next(self.folder.glob(f"{rows}-*-*.npy"), None) is not None:
                message = f"{self.folder} holds parts without {_FINGERPRINT}"
                remedy = "name another folder, or remove this one"
                raise CheckpointError(message, expected="the file that says of what they are", remedy=remedy)
            write_json(file, dict(fingerprint))
            return
        remedy = "name another folder"
        stored_digests = read_json_object(
            file, expected="what the parts belong to", remedy=remedy, kind=CheckpointError
        )
        differences = [name for name, digest in fingerprint.items() if stored_digests.get(name) != digest]
        if differences:
            message = f"{self.folder} holds parts of work with other {', '.join(differences)}"
            raise CheckpointError(message, expected="the same inputs and options", remedy=remedy)

    def file(self, rows: slice | range) -> Path:
        """The file of a part."""
        return part_file(self.folder, rows, name=self._rows)

    def load(self, rows: slice | range) -> NDArray[Any] | None:
        """The array of a part, or None if it is not finished."""
        file = self.file(rows)
        if not file.exists():
            return None
        with reading_file(file, expected="a whole part", remedy="remove it to have it computed", kind=CheckpointError):
            content = file.read_bytes()
            if _checksum(content[:-_CHECKSUM_BYTES]) != content[-_CHECKSUM_BYTES:]:
                raise ValueError("a different checksum")
            array: NDArray[Any] = np.load(io.BytesIO(content), allow_pickle=False)
        return array

    def parts(self) -> Iterator[tuple[slice, NDArray[Any]]]:
        """The finished parts, whatever their sizes."""
        for file in sorted(self.folder.glob(f"{self._rows}-*-*.npy")):
            start, stop = map(int, file.stem.split("-")[-2:])
            part = self.load(slice(start, stop))
            if part is not None:
                yield slice(start, stop), part

    def save(self, rows: slice | range, values: NDArray[Any]) -> None:
        """Keep the array of a part, with its checksum at the end."""
        array = io.BytesIO()
        np.save(array, values)
        with replacing(self.file(rows)) as temporary:
            temporary.write_bytes(array.getvalue() + _checksum(array.getvalue()))


def _checksum(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_CHECKSUM_BYTES).digest()


def part_file(folder: Path, rows: slice | range, *, name: str = "rows") -> Path:
    """The file of some rows in a folder of parts."""
    return folder / f"{name}-{rows.start:09d}-{rows.stop:09d}.npy"


def digest(values: Iterable[str | NDArray[Any]]) -> str:
    """SHA-256 of texts and arrays, in hexadecimal."""
    hasher = hashlib.sha256()
    for value in values:
        if isinstance(value, str):
            hasher.update(value.encode("utf-8", "surrogateescape"))
            continue
        hasher.update(f"{value.dtype} {value.shape} ".encode())
        table = np.atleast_1d(value)
        rows = max(_BYTES_AT_ONCE // max(table[:1].nbytes, 1), 1)
        for start in range(0, len(table), rows):
            hasher.update(np.ascontiguousarray(table[start : start + rows]).data)
    return hasher.hexdigest()
