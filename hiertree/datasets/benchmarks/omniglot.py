"""``omniglot``: 1,623 handwritten characters of 50 alphabets, each drawn by 20 people; alphabet → character.

Lake, Salakhutdinov and Tenenbaum, *Human-level concept learning through probabilistic program
induction* (Science 2015).
"""

from __future__ import annotations

import io
import math
import os
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from PIL import Image

from ...errors import ImageError, MissingResourceError, OptionError
from ...options import check_choice
from ...tree.label_tree import LabelTree
from ..description import BENCHMARKS
from ..image_dataset import ImageDataset
from ..readers.images import ArrayImages, decode

if TYPE_CHECKING:
    from numpy.typing import NDArray

OMNIGLOT = BENCHMARKS["omniglot"]
Holdout = Literal["alphabets", "characters"]
SHARE_OF_ALPHABETS = 0.4  # held out where there is no official split, which holds out 20 of 50
SHARE_OF_CHARACTERS = 0.5
OFFICIAL = ("images_background.zip", "images_evaluation.zip")
WHOLE = ("omniglot_full.zip",)
ARRAY = ("omniglot_28x28.npz",)
SMALL = ("images_background_small1.zip", "images_background_small2.zip")
PREFERENCE = (OFFICIAL, WHOLE, ARRAY, SMALL)
UNPACKED = (".", "omniglot-py", "Omniglot Dataset", "python")
LARGEST_DRAWING = 1 << 20  # bytes; the published ones take a few hundred
_DRAWING = re.compile(
    r"(?:^|/)images_(?P<part>background|evaluation)[^/]*"
    r"/(?P<alphabet>[^/]+)/(?P<character>character\d+)/\d+_(?P<drawer>\d+)\.png$"
)


def load_omniglot(
    root: str | os.PathLike[str],
    split: str = "train",
    *,
    holdout: Holdout = "alphabets",
    image_size: int = 28,
    seed: int = 0,
) -> ImageDataset:
    """Read one split of Omniglot: alphabet → character, gray images with bright ink on a dark ground.

    ``root`` is one of the published files, or a folder of them: ``images_background.zip`` and
    ``images_evaluation.zip``, the ``small1``/``small2`` archives, torchvision's ``omniglot-py`` folder, one archive of
    both parts (``omniglot_full.zip``), or ``omniglot_28x28.npz`` with the arrays images, split, alphabet, character and
    drawer. If a folder holds several, the first of these is read: unpacked folders, official archives, the archive of
    both parts, the npz, the small archives.

    Args:
        root: file or folder.
        split: "train" or "test".
        holdout: what only the test split contains. ``"alphabets"``: the official background and
            evaluation alphabets where both are present, else 40 % of the alphabets. ``"characters"``: half of the
            characters of every alphabet, so that training sees the test alphabets but not the test characters.
        image_size: height and width in pixels; the published drawings of 105 pixels are averaged by area.
        seed: of the draw of what is held out. The draw in an alphabet does not depend on which others are present.
    """
    OMNIGLOT.check_options(split, "structure")
    check_choice("holdout", holdout, Holdout)
    if not 4 <= image_size <= 105:
        raise OptionError(f"image_size={image_size}", expected="4 to 105, the size of the published drawings")
    drawings = read_drawings(Path(root), image_size=image_size)
    held_out = _alphabets_held_out(drawings, seed) if holdout == "alphabets" else _characters_held_out(drawings, seed)
    rows = np.flatnonzero(held_out == (split == "test"))
    alphabet, character = drawings.alphabet[rows].tolist(), drawings.character[rows].tolist()
    tree = LabelTree.from_paths(
        dict.fromkeys(zip(alphabet, character, strict=True)), level_names=("alphabet", "character")
    )
    names = (f"{leaf}/{drawer:02d}" for leaf, drawer in zip(character, drawings.drawer[rows], strict=True))
    return ImageDataset(
        name="omniglot",
        split=split,
        tree=tree,
        paths=tree.paths(character),
        images=ArrayImages(drawings.images[rows], names=names),
    )


def _alphabets_held_out(drawings: Drawings, seed: int) -> NDArray[np.bool_]:
    evaluation: NDArray[np.bool_] = drawings.part == "evaluation"
    if 0 < evaluation.sum() < len(evaluation):
        return evaluation
    alphabets = np.unique(drawings.alphabet)
    if len(alphabets) < 2:
        raise OptionError(
            f"holdout='alphabets' with the alphabet {alphabets[0]} alone",
            expected="two alphabets or more",
            remedy="pass holdout='characters'",
        )
    return np.isin(drawings.alphabet, _chosen(alphabets.tolist(), SHARE_OF_ALPHABETS, seed))


def _characters_held_out(drawings: Drawings, seed: int) -> NDArray[np.bool_]:
    held_out: list[str] = []
    for alphabet in np.unique(drawings.alphabet):
        characters = np.unique(drawings.character[drawings.alphabet == alphabet])
        held_out += _chosen(characters.tolist(), SHARE_OF_CHARACTERS, seed)
    return np.isin(drawings.character, held_out)


def _chosen(names: Iterable[str], share: float, seed: int) -> list[str]:
    """A random share of the names, rounded down but at least one. A name's draw depends on seed and name alone."""
    lots = sorted((np.random.default_rng([seed, *name.encode()]).random(), name) for name in names)
    return [name for _, name in lots[: max(1, math.floor(share * len(lots)))]]


@dataclass(frozen=True, kw_only=True)
class Drawings:
    """All drawings, ordered by part, alphabet, character and drawer."""

    images: NDArray[np.uint8]  # (n, size, size), ink 255 on 0
    part: NDArray[np.str_]  # (n,) "background" or "evaluation"
    alphabet: NDArray[np.str_]  # (n,)
    character: NDArray[np.str_]  # (n,) "Greek/character01"
    drawer: NDArray[np.int64]  # (n,) 1 … 20


def read_drawings(root: Path, *, image_size: int) -> Drawings:
    """The drawings of the file ``root`` or of the files in the folder ``root``; their size is the one asked for."""
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
            f"no drawing in {listed}",
            expected="images_background/<alphabet>/<character>/*.png",
            remedy=OMNIGLOT.steps[0],
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
    raise MissingResourceError(f"no Omniglot at {root}", expected=f"one of {looked_for}", remedy=OMNIGLOT.steps[0])


def _files(source: Path) -> Iterator[tuple[str, bytes]]:
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
            f"{path} cannot be read ({error})", expected="a complete zip archive", remedy=OMNIGLOT.steps[0]
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
