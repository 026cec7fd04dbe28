"""Sources of images: an array in memory, files in a folder, or a part or the union of other sources.

A source is sent to every worker process, so it holds no Python object per image: all names are one byte string.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

import numpy as np
from PIL import Image

from ...errors import ImageError, ShapeError

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ImageSource(Protocol):
    """Images by index. A source is picklable and cheap to send to the worker processes of a data loader."""

    def __len__(self) -> int:
        """Number of images."""
        ...

    def __getitem__(self, index: int) -> Image.Image:
        """Decode one image.

        Raises:
            ImageError: it does not decode; the message names it.
        """
        ...

    def name(self, index: int) -> str:
        """The name of an image in error messages and retrieval grids, for instance its file name."""
        ...


class PackedNames:
    """A read-only list of strings, stored as one byte string and the offsets at which they end.

    >>> names = PackedNames(["a.png", "été.png"])
    >>> len(names), names[1]
    (2, 'été.png')
    """

    def __init__(self, names: Iterable[str]) -> None:
        encoded = [name.encode("utf-8", "surrogateescape") for name in names]
        self._text = b"".join(encoded)
        self._ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, index: int) -> str:
        if not -len(self) <= index < len(self):
            raise IndexError(f"name {index} of {len(self)}")
        index %= len(self)
        return self._text[self._ends[index] : self._ends[index + 1]].decode("utf-8", "surrogateescape")


class ArrayImages:
    """Images held in memory as one uint8 array, (n, height, width) for gray or (n, height, width, 3) for RGB.

    >>> source = ArrayImages(np.zeros((1, 4, 6, 3), np.uint8), names=["black"])
    >>> source[0].size, source.name(0)
    ((6, 4), 'black')
    """

    def __init__(self, pixels: NDArray[np.uint8], *, names: Iterable[str]) -> None:
        self.pixels = pixels
        self._names = PackedNames(names)
        if len(self._names) != len(pixels):
            raise ShapeError(f"{len(self._names)} names", expected=f"{len(pixels)}, one an image")

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> Image.Image:
        return Image.fromarray(self.pixels[index])

    def name(self, index: int) -> str:
        """The name of one image."""
        return self._names[index]


class FileImages:
    """Images in files below a folder, decoded when asked for.

    Args:
        root: the folder.
        names: of the files, relative to it; the caller has checked that they lie inside.
    """

    def __init__(self, root: Path, names: Iterable[str]) -> None:
        self.root = root
        self._names = PackedNames(names)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, index: int) -> Image.Image:
        name = self._names[index]
        return decode(self.root / name, name=name)

    def name(self, index: int) -> str:
        """The file of one image, relative to the folder."""
        return self._names[index]


class SelectedImages:
    """Some images of another source."""

    def __init__(self, source: ImageSource, rows: NDArray[np.int64]) -> None:
        self.source, self.rows = source, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Image.Image:
        return self.source[int(self.rows[index])]

    def name(self, index: int) -> str:
        """The image's name in the other source."""
        return self.source.name(int(self.rows[index]))


class JoinedImages:
    """The images of one source, followed by those of another."""

    def __init__(self, first: ImageSource, second: ImageSource) -> None:
        self.first, self.second = first, second

    def __len__(self) -> int:
        return len(self.first) + len(self.second)

    def __getitem__(self, index: int) -> Image.Image:
        source, place = self._place(index)
        return source[place]

    def name(self, index: int) -> str:
        """The image's name in its own source."""
        source, place = self._place(index)
        return source.name(place)

    def _place(self, index: int) -> tuple[ImageSource, int]:
        return (self.first, index) if index < len(self.first) else (self.second, index - len(self.first))


def decode(file: Path | IO[bytes], *, name: str) -> Image.Image:
    """Decode one image completely.

    Raises:
        ImageError: it is missing, truncated or not an image; the message names it.
    """
    try:
        image = Image.open(file)
        with image:
            return image.copy()
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise ImageError(f"image {name!r} does not decode ({error})", expected="a complete image file") from error
