"""Sources of images: an array in memory, files in a folder, or a selection or the union of other sources.

A source is sent to every worker process, so it holds no Python object per image: all names are one byte string.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

import numpy as np
from PIL import Image, ImageOps

from ...arrays import to_numpy
from ...errors import ImageError, InputError, ShapeError, TableError
from ...io.files import IMAGE_FORMATS, IMAGE_SUFFIXES, NOT_UTF8, AnyPath
from ...io.progress import track

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGE = 1 << 24  # pixels; smaller images are never reduced during decoding
REDUCED = 4  # a reduced image has at least four times the side of the view made of it
_BITS, _PHOTOMETRIC, _FORMAT = 258, 262, 339  # tags of TIFF
_ORIENTATION = 274  # of EXIF
_LEADS_OUT = re.compile(r"^\s*$|^[/\\]|^[A-Za-z]:|\0|(?:^|[/\\])\.\.(?:[/\\]|$)")


class ImageSource(Protocol):
    """Images by index. A source is picklable and cheap to send to the worker processes of a data loader."""

    def __len__(self) -> int:
        """Number of images."""

    def __getitem__(self, index: int) -> Image.Image:
        """Decode one image; an ImageError names it."""

    def name(self, index: int) -> str:
        """The name of an image in error messages and retrieval grids, for instance its file name."""


class NamedImages:
    """The base of the sources that hold the names of their images: one byte string, and the offsets of their ends."""

    def __init__(self, names: Iterable[str]) -> None:
        encoded = [name.encode("utf-8", "surrogateescape") for name in names]
        self._text = b"".join(encoded)
        self._ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def name(self, index: int) -> str:
        """The name of one image; for a file its path below the folder, or in its archive."""
        row = range(len(self))[index]
        return self._text[self._ends[row] : self._ends[row + 1]].decode("utf-8", "surrogateescape")


class ArrayImages(NamedImages):
    """Images held in memory as one uint8 array, (n, height, width) for gray or (n, height, width, 3) for RGB."""

    def __init__(self, pixels: NDArray[np.uint8], *, names: Iterable[str]) -> None:
        super().__init__(names)
        self.pixels = pixels
        if len(self) != len(pixels):
            raise ShapeError(f"{len(self)} names", expected=f"{len(pixels)}, one per image")

    def __getitem__(self, index: int) -> Image.Image:
        return Image.fromarray(self.pixels[index])


class FileImages(NamedImages):
    """Images in files below a folder, decoded on request; the caller has checked that the names stay inside.

    With ``boxes`` (left, upper, right, lower) they are cropped, as far as the boxes lie inside.
    """

    def __init__(self, root: Path, names: Iterable[str], boxes: NDArray[np.float64] | None = None) -> None:
        super().__init__(names)
        self.root, self.boxes = root, boxes

    def __getitem__(self, index: int) -> Image.Image:
        name = self.name(index)
        if self.boxes is None:
            return decode(self.root / name, name=name)
        with reading():  # not reduced, as boxes count pixels of the whole image
            image = decode(self.root / name, name=name)
        box = np.clip(self.boxes[index], 0, [*image.size, *image.size]).round().astype(int).tolist()
        if box[0] >= box[2] or box[1] >= box[3]:
            problem = f"image {name!r} of {image.width} × {image.height} pixels, box {self.boxes[index].tolist()}"
            raise ImageError(problem, expected="a box inside the image")
        return image.crop(tuple(box))

    def stamp(self, index: int) -> str:
        """See :func:`stamp_of`."""
        return file_stamp(self.root / self.name(index))


def channels_last(image: Any) -> Any:
    """A tensor, (channels, height, width) or a batch of them, as an array whose last axis are the channels."""
    if not hasattr(image, "detach"):
        return image
    array = to_numpy(image)
    return np.moveaxis(array, -3, -1) if array.ndim >= 3 else array


def check_pixels(image: Any, name: str) -> None:
    """Refuse an array that is no image (height, width[, channels]) of uint8, or floating in [0, 1].

    Raises:
        ShapeError: an array of another shape.
        InputError: another type or range.
    """
    if not isinstance(image, np.ndarray):
        raise InputError(f"{name}: a {type(image).__name__}", expected="an image of Pillow, an array or a tensor")
    if image.ndim not in (2, 3) or not image.size or image.shape[2:] not in ((), (1,), (3,), (4,)):
        problem = f"{name} of shape (height, width, channels) = {image.shape}"
        raise ShapeError(problem, expected="1, 3 or 4 channels, last in an array and first in a tensor")
    if image.dtype == np.uint8:
        return
    if image.dtype.kind != "f":
        raise InputError(f"{name} of type {image.dtype}", expected="uint8, or floating in [0, 1]")
    low, high = image.min(), image.max()
    if not (low >= 0 and high <= 1):
        problem, expected = (
            f"{name} with values from {low:.3g} to {high:.3g}",
            "uint8 pixels, or floating ones in [0, 1]",
        )
        remedy = "the model normalizes images itself; convert pixels from 0 to 255 to uint8"
        raise InputError(problem, expected=f"{expected} without normalization", remedy=remedy)


def image_of_pixels(image: NDArray[Any]) -> Image.Image:
    """The image of checked pixels."""
    pixels = image if image.dtype == np.uint8 else np.rint(255 * image.astype(np.float32)).astype(np.uint8)
    return Image.fromarray(pixels[..., 0] if pixels.shape[2:] == (1,) else pixels)


class DerivedImages(ABC):
    """The base of the sources whose images are those of others."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _origin(self, index: int) -> tuple[ImageSource, int]:
        """The source of an image, and its index there."""

    def __getitem__(self, index: int) -> Image.Image:
        source, row = self._origin(index)
        return source[row]

    def name(self, index: int) -> str:
        """The image's name in its own source."""
        source, row = self._origin(index)
        return source.name(row)

    def stamp(self, index: int) -> str:
        """See :func:`stamp_of`."""
        return stamp_of(*self._origin(index))


class SelectedImages(DerivedImages):
    """Some images of another source."""

    def __init__(self, source: ImageSource, rows: NDArray[np.int64]) -> None:
        self.source, self.rows = source, rows

    def __len__(self) -> int:
        return len(self.rows)

    def _origin(self, index: int) -> tuple[ImageSource, int]:
        return self.source, int(self.rows[index])


class JoinedImages(DerivedImages):
    """The images of one source, followed by those of another."""

    def __init__(self, first: ImageSource, second: ImageSource) -> None:
        self.first, self.second = first, second

    def __len__(self) -> int:
        return len(self.first) + len(self.second)

    def _origin(self, index: int) -> tuple[ImageSource, int]:
        return (self.first, index) if index < len(self.first) else (self.second, index - len(self.first))


def map_sources(images: ImageSource, values: Callable[[ImageSource], NDArray[Any]]) -> NDArray[Any]:
    """A value for each image, computed by the underlying sources of selections and unions."""
    if isinstance(images, SelectedImages):
        return np.asarray(map_sources(images.source, values)[images.rows])
    if isinstance(images, JoinedImages):
        return np.concatenate([map_sources(images.first, values), map_sources(images.second, values)])
    return values(images)


def stamp_of(source: ImageSource, index: int) -> str:
    """A stamp that changes when the image is replaced: its file, size and time, or else its pixels."""
    stamp = getattr(source, "stamp", None)
    if stamp is not None:
        return str(stamp(index))
    pixels = np.asarray(source[index])
    return f"{pixels.shape} {pixels.dtype} {hashlib.sha256(np.ascontiguousarray(pixels).tobytes()).hexdigest()}"


def file_stamp(file: Path) -> str:
    """The whole path of a file, its size and its time."""
    try:
        status = file.stat()
    except OSError:  # the decoder reports it
        return f"{file.absolute()} missing"
    return f"{file.absolute()} {status.st_size} {status.st_mtime_ns}"


_limits: ContextVar[tuple[int | None, int | None]] = ContextVar("limits", default=(None, None))


@contextmanager
def reading(*, max_pixels: int | None = None, view_size: int | None = None) -> Iterator[None]:
    """A context in which sources of every kind decode images for views.

    An image of more than ``max_pixels`` is refused; None takes Pillow's ``Image.MAX_IMAGE_PIXELS``, 89 million. Where
    the views have a ``view_size``, an image above 16 megapixels is reduced while it is decoded, to no less than four
    times that.
    """
    token = _limits.set((max_pixels, view_size))
    try:
        yield
    finally:
        _limits.reset(token)


def decode(file: AnyPath | IO[bytes], *, name: str, upright: bool = False) -> Image.Image:
    """Decode one image completely, to 8 bits a channel and as :func:`reading` says; an ImageError names it.

    ``upright`` turns it as its EXIF data say.
    """
    try:
        with _opened(file, name) as original:
            image = ImageOps.exif_transpose(original) if upright and _ORIENTATION in original.getexif() else original
            _, view_size = _limits.get()
            if view_size is not None and image.width * image.height > LARGE:
                return _reduced(image, REDUCED * view_size, name)
            return eight_bit(image.copy() if image.mode[0] not in "IF" else image, name=name)
    except ImageError:
        raise
    except FileNotFoundError as error:
        raise ImageError(f"no image {name!r}", expected="a file") from error
    except Exception as error:  # each format's decoder has its own
        raise ImageError(f"image {name!r} does not decode ({error})", expected="a complete image file") from error


def damaged(images: ImageSource, *, description: str) -> list[int]:
    """The images that fail to decode as :func:`reading` says; all are tried, several at a time."""

    def fails(index: int, context: Context) -> bool:
        try:
            context.run(images.__getitem__, index)
        except ImageError:
            return True
        return False

    with ThreadPoolExecutor() as pool:
        outcomes = pool.map(fails, range(len(images)), iter(copy_context, None))
        tracked = track(outcomes, description=description, total=len(images))
        return [index for index, failed in enumerate(tracked) if failed]


@cache
def readable_formats() -> tuple[str, ...]:
    """Those of ``IMAGE_FORMATS`` that this Pillow reads."""
    Image.init()
    return tuple(name for name in IMAGE_FORMATS if name in Image.OPEN)


def _opened(file: AnyPath | IO[bytes], name: str) -> Image.Image:
    max_pixels, _ = _limits.get()
    if max_pixels is not None and Image.MAX_IMAGE_PIXELS is not None and max_pixels > Image.MAX_IMAGE_PIXELS:
        Image.MAX_IMAGE_PIXELS = max_pixels  # else Pillow would refuse what the caller allows
    if isinstance(file, str | os.PathLike) and not stat.S_ISREG(os.stat(file).st_mode):  # noqa: PTH116 - of both types
        raise OSError("a folder, pipe or device")
    image = Image.open(file, formats=readable_formats())
    max_pixels = Image.MAX_IMAGE_PIXELS if max_pixels is None else max_pixels
    if max_pixels is not None and image.width * image.height > max_pixels:
        image.close()
        problem = f"image {name!r} of {image.width} × {image.height} pixels"
        expected = f"at most {max_pixels:,} pixels, since a small file can fill the memory"
        remedy = "reduce it, or raise images.max_pixels (--set images.max_pixels=N)"
        raise ImageError(problem, expected=expected, remedy=remedy)
    return image


def _reduced(image: Image.Image, min_side: int, name: str) -> Image.Image:
    """The image, its shorter side reduced by a whole number to ``min_side`` pixels or more."""
    factor = min(image.size) // min_side
    image.draft(None, (image.width // max(factor, 1), image.height // max(factor, 1)))  # JPEG alone decodes so
    factor = min(image.size) // min_side
    deep = eight_bit(image, name=name)
    gray_or_rgb = deep.convert("L" if deep.mode in ("1", "L", "LA") else "RGB")
    return gray_or_rgb.reduce(factor) if factor > 1 else gray_or_rgb


def eight_bit(image: Image.Image, *, name: str) -> Image.Image:
    """An image with 8 bits a channel; gray ones of 16 keep their 8 highest, as Pillow keeps those of 16-bit RGB.

    Floats, signed and longer integers, and values so small that the image would be black, are an ImageError.
    """
    if image.mode[0] not in "IF":
        return image
    values, tags = np.asarray(image), getattr(image, "tag_v2", {})
    is_short = image.mode != "F" and (tags.get(_BITS, (16,))[0], tags.get(_FORMAT, (1,))[0]) == (16, 1)
    scaled = (values // 256).astype(np.uint8)
    if not is_short or not 0 <= values.min() <= values.max() < 1 << 16 or (values.any() and not scaled.any()):
        problem = f"image {name!r} with values from {values.min()} to {values.max()}"
        expected = "gray of 16 bits, over the range from 0 to 65535"
        raise ImageError(problem, expected=expected, remedy="scale its values, or save it with 8 bits")
    return Image.fromarray(255 - scaled if tags.get(_PHOTOMETRIC) == 0 else scaled)


def inside(names: Iterable[str], folder: Path, row_name: Callable[[int], str]) -> Iterator[str]:
    r"""Yield the names unless one leads out of the folder, by Posix or Windows rules; links in it are allowed.

    A name as Windows writes it, ``lake\1.jpg``, becomes ``lake/1.jpg`` unless a file is called so.
    """
    for row, name in enumerate(names):
        suspicious = ".." in name or "\0" in name or ":" in name[:2] or not name[:1].strip().strip("/\\")
        if suspicious and _LEADS_OUT.search(name):  # the expression alone takes ten times as long
            raise TableError(f"{row_name(row)}: image {name!r}", expected="a file below root, relative to it")
        yield name.replace("\\", "/") if "\\" in name and not (folder / name).is_file() else name


def image_files(folder: AnyPath) -> list[str]:
    """List the image files below a folder and the folders that links in it lead to, relative to it, sorted.

    Hidden ones are left out.
    """
    root = Path(folder)
    if not root.is_dir():
        raise ImageError(f"{folder} is {'a file' if root.exists() else 'missing'}", expected="a folder of images")
    real = os.path.realpath(root)
    names = sorted(_image_files(f"{root}/", "", real, frozenset({real})))
    if not names:
        raise ImageError(f"{folder} without images", expected=f"files that end in {', '.join(IMAGE_SUFFIXES)}")
    if bad_name := next(filter(NOT_UTF8.search, names), None):  # no table could name it
        raise ImageError(f"{folder} holds {bad_name!r}", expected="names in UTF-8", remedy="rename it with convmv")
    return names


def _image_files(root: str, folder: str, real: str, ancestors: frozenset[str]) -> Iterator[str]:
    """The image files of ``folder`` below ``root``; ``ancestors`` are the real paths of it and of the folders above."""
    with os.scandir(root + folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                inner = os.path.realpath(entry.path) if entry.is_symlink() else f"{real}/{entry.name}"
                if inner not in ancestors:  # a link to a folder above it would lead on for ever
                    yield from _image_files(root, f"{folder}{entry.name}/", inner, ancestors | {inner})
            elif entry.name.lower().endswith(IMAGE_SUFFIXES):
                yield folder + entry.name


def missing_files(folder: Path, names: Iterable[str]) -> list[str]:
    """The names that are not files below a folder; each subfolder is listed once."""
    files = cache(_files_of)
    split_names = ((name, *name.rpartition("/")[::2]) for name in names)
    return [name for name, parent, file_name in split_names if file_name not in files(f"{folder}/{parent}")]


def _files_of(folder: str) -> set[str]:
    try:
        with os.scandir(folder) as entries:
            return {entry.name for entry in entries if entry.is_file()}
    except (FileNotFoundError, NotADirectoryError):
        return set()
