"""Omniglot's published files, read into one array: zip archives, the folders they unpack to, or one npz."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from ...errors import ImageError, MissingResourceError, OptionError
from .images import decode

if TYPE_CHECKING:
    from numpy.typing import NDArray

OFFICIAL = ("images_background.zip", "images_evaluation.zip")
WHOLE = ("omniglot_full.zip",)
ARRAY = ("omniglot_28x28.npz",)
SMALL = ("images_background_small1.zip", "images_background_small2.zip")
PREFERENCE = (OFFICIAL, WHOLE, ARRAY, SMALL)
UNPACKED = (".", "omniglot-py", "Omniglot Dataset", "python")
REMEDY = (
    "download images_background.zip and images_evaluation.zip from https://github.com/brendenlake/omniglot "
    "(folder python/) and pass the folder that holds them"
)
LARGEST_DRAWING = 1 << 20  # bytes; the published ones take a few hundred
_DRAWING = re.compile(
    r"(?:^|/)images_(?P<part>background|evaluation)[^/]*"
    r"/(?P<alphabet>[^/]+)/(?P<character>character\d+)/\d+_(?P<drawer>\d+)\.png$"
)


@dataclass(frozen=True, kw_only=True)
class Drawings:
    """All drawings, ordered by part, alphabet, character and drawer."""

    images: NDArray[np.uint8]  # (n, size, size), ink 255 on 0
    part: NDArray[np.str_]  # (n,) "background" or "evaluation"
    alphabet: NDArray[np.str_]  # (n,)
    character: NDArray[np.str_]  # (n,) "Greek/character01"
    drawer: NDArray[np.int64]  # (n,) 1 … 20


def read_drawings(root: Path, *, image_size: int) -> Drawings:
    """Read the drawings of the file ``root`` or of the files in the folder ``root``.

    Raises:
        MissingResourceError: no drawings are there.
        ImageError: an archive or a drawing cannot be read; the message names it.
        OptionError: the npz holds another size than the one asked for.
    """
    sources = _find(root)
    if sources[0].suffix == ".npz":
        return _read_npz(sources[0], image_size)
    found: dict[tuple[str, str, str, int], NDArray[np.uint8]] = {}
    for name, content in chain.from_iterable(map(_files, sources)):
        match = _DRAWING.search(name)
        key = match and (match["part"], match["alphabet"], match["character"], int(match["drawer"]))
        if key and key not in found:  # the two small archives share two alphabets
            found[key] = _ink(decode(io.BytesIO(content), name=name), image_size)
    if not found:
        listed = ", ".join(map(str, sources))
        raise MissingResourceError(
            f"no drawing in {listed}", expected="images_background/<alphabet>/<character>/*.png", remedy=REMEDY
        )
    keys = sorted(found)
    part, alphabet, character, drawer = map(np.array, zip(*keys, strict=True))
    return Drawings(
        images=np.stack([found[key] for key in keys]),
        part=part,
        alphabet=alphabet,
        character=np.char.add(np.char.add(alphabet, "/"), character),
        drawer=drawer,
    )


def _find(root: Path) -> list[Path]:
    """The archives, folders of images, or npz to read."""
    if root.is_file():
        return [root]
    if root.is_dir():
        if root.name.startswith("images_"):
            return [root]
        for folder in UNPACKED:
            if unpacked := sorted(path for path in (root / folder).glob("images_*") if path.is_dir()):
                return unpacked
        for names in PREFERENCE:
            if present := [root / name for name in names if (root / name).is_file()]:
                return present
    looked_for = ", ".join([*(name for names in PREFERENCE for name in names), "omniglot-py/images_background"])
    raise MissingResourceError(f"no Omniglot at {root}", expected=f"one of {looked_for}", remedy=REMEDY)


def _files(source: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of every PNG of a folder or an archive."""
    return _folder_files(source) if source.is_dir() else _archive_files(source)


def _folder_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in folder.glob("*/character*/*.png"):
        yield path.relative_to(folder.parent).as_posix(), path.read_bytes()


def _archive_files(path: Path) -> Iterator[tuple[str, bytes]]:
    """Members are read into memory, never unpacked, so their names cannot lead out of a folder."""
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if member.filename.endswith(".png"):
                    yield member.filename, _content(archive, member)
    except (OSError, zipfile.BadZipFile, zlib.error) as error:
        raise ImageError(
            f"{path} cannot be read ({error})", expected="a complete zip archive", remedy=REMEDY
        ) from error


def _content(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    if member.file_size > LARGEST_DRAWING:
        raise ImageError(
            f"{archive.filename}: {member.filename} of {member.file_size} bytes",
            expected=f"a drawing of at most {LARGEST_DRAWING}",
        )
    return archive.read(member)


def _ink(drawing: Image.Image, size: int) -> NDArray[np.uint8]:
    """Bright ink on a dark ground; each pixel is the mean of the area it covers."""
    gray = drawing.convert("L")
    return 255 - np.asarray(gray if gray.size == (size, size) else gray.resize((size, size), Image.Resampling.BOX))


def _read_npz(path: Path, image_size: int) -> Drawings:
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in ("images", "split", "alphabet", "character", "drawer")}
    except (OSError, ValueError, KeyError, EOFError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise ImageError(
            f"{path} cannot be read ({error})", expected="an npz of images, split, alphabet, character and drawer"
        ) from error
    images = arrays["images"]
    if images.shape[1:] != (image_size, image_size):
        raise OptionError(
            f"image_size={image_size} from {path.name}",
            expected=f"{images.shape[1]}",
            remedy="pass that size, or the zip archives as root",
        )
    order = np.lexsort([arrays[name] for name in ("drawer", "character", "alphabet", "split")])
    return Drawings(
        images=images[order],
        part=arrays["split"][order],
        alphabet=arrays["alphabet"][order],
        character=arrays["character"][order],
        drawer=arrays["drawer"][order].astype(np.int64),
    )
