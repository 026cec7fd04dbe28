"""``omniglot``: 1,623 handwritten characters of 50 alphabets, each drawn by 20 people; alphabet → character.

Lake, Salakhutdinov and Tenenbaum, *Human-level concept learning through probabilistic program
induction* (Science 2015).
"""

from __future__ import annotations

import io
import math
import re
import zipfile
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from PIL import Image

from ...errors import ImageError, OptionError
from ...io.array_files import reading_arrays
from ...io.files import AnyPath
from ...io.reading import reading_file
from ...options import check_choice, require
from ..description import BENCHMARKS, Verify
from ..image_dataset import ImageDataset
from ..readers.images import ArrayImages, decode
from ..readers.text_lists import divide_rows

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

OMNIGLOT = BENCHMARKS["omniglot"]
Holdout = Literal["alphabets", "characters"]
FRACTION_OF_ALPHABETS = 0.4  # held out where there is no official split, which holds out 20 of 50
FRACTION_OF_CHARACTERS = 0.5
DRAWING_COLUMNS = ("alphabet", "character", "drawer")
PREFERENCE = (
    ("images_background.zip", "images_evaluation.zip"),
    ("omniglot_full.zip",),
    ("omniglot_28x28.npz",),
)
UNPACKED = (".", "omniglot-py", "Omniglot Dataset", "python")
LARGEST_DRAWING = 1 << 20  # bytes; the published ones take a few hundred
_DRAWING = re.compile(r"(?:^|/)images_(background|evaluation)[^/]*/([^/]+)/(character\d+)/\d+_(\d+)\.png$")


def load_omniglot(
    root: AnyPath,
    split: str = "train",
    *,
    holdout: Holdout = "alphabets",
    image_size: int = 28,
    seed: int = 0,
    verify: Verify = "published",
) -> ImageDataset:
    """Read one split of Omniglot: alphabet → character, gray images with bright ink on a dark ground.

    ``root`` is one of the published archives, or a folder: of ``images_background.zip`` and ``images_evaluation.zip``,
    torchvision's ``omniglot-py``, one archive of both parts (``omniglot_full.zip``), or ``omniglot_28x28.npz`` with the
    arrays images, split, alphabet, character and drawer. If a folder holds several, the first of these is read:
    unpacked folders, official archives, the archive of both parts, the npz.

    Args:
        root: file or folder.
        split: "train" or "test".
        holdout: what only the test split contains. ``"alphabets"``: the official background and
            evaluation alphabets where both are present, else 40 % of the alphabets. ``"characters"``: half of the
            characters of every alphabet, so that training sees the test alphabets but not the test characters.
        image_size: height and width in pixels; the published drawings of 105 pixels are averaged by area.
        seed: of the draw of what is held out. The draw in an alphabet does not depend on which others are present.
        verify: as in :func:`hiertree.datasets.load`; no sizes are published for all of these draws.
    """
    benchmark = OMNIGLOT.checked(split, verify)
    check_choice("holdout", holdout, Holdout)
    require(4 <= image_size <= 105, "image_size", image_size, "4 to 105, the size of the published drawings")
    table, images = read_drawings(Path(root), image_size=image_size)
    held_out = _alphabets_held_out(table, seed) if holdout == "alphabets" else _characters_held_out(table, seed)
    rows = divide_rows(table, str, held_out, split)
    names = [f"{leaf}/{drawer:02d}" for leaf, drawer in zip(rows.own["character"], rows.own["drawer"], strict=True)]
    labels = [rows.table[level].tolist() for level in OMNIGLOT.levels]
    source = ArrayImages(images[rows.own.index], names=names)
    return benchmark.dataset(split, labels, source, str, rows.earlier_rows)


def _alphabets_held_out(table: pd.DataFrame, seed: int) -> NDArray[np.bool_]:
    evaluation = (table["subset"] == "evaluation").to_numpy()
    if 0 < evaluation.sum() < len(evaluation):
        return evaluation
    alphabets = sorted(set(table["alphabet"]))
    if len(alphabets) < 2:
        problem = f"holdout='alphabets' with one alphabet, {alphabets[0]}"
        raise OptionError(problem, expected="at least two alphabets", choose={"holdout": ["characters"]})
    return table["alphabet"].isin(_chosen(alphabets, FRACTION_OF_ALPHABETS, seed)).to_numpy()


def _characters_held_out(table: pd.DataFrame, seed: int) -> NDArray[np.bool_]:
    held_out: list[str] = []
    for _, characters in table.groupby("alphabet")["character"]:
        held_out += _chosen(set(characters), FRACTION_OF_CHARACTERS, seed)
    return table["character"].isin(held_out).to_numpy()


def _chosen(names: Iterable[str], fraction: float, seed: int) -> list[str]:
    """A random fraction of the names, rounded down but at least one. A name's draw depends on seed and name alone."""
    lots = sorted((np.random.default_rng([seed, *name.encode()]).random(), name) for name in names)
    return [name for _, name in lots[: max(1, math.floor(fraction * len(lots)))]]


def read_drawings(root: Path, *, image_size: int) -> tuple[pd.DataFrame, NDArray[np.uint8]]:
    """The drawings of the file ``root`` or of the files in the folder ``root``; their size is the one asked for.

    Columns are the subset ("background" or "evaluation"), the alphabet, the character ("Greek/character01") and the
    drawer (1 … 20), by which rows are ordered; images are (n, size, size) with ink 255 on 0.
    """
    import pandas as pd

    sources = _find(root)
    if sources[0].suffix == ".npz":
        return _read_npz(sources[0], image_size)
    drawings: dict[tuple[str, str, str, int], NDArray[np.uint8]] = {}
    for name, encoded in chain.from_iterable(map(_files, sources)):
        match = _DRAWING.search(name)
        if match is None:
            continue
        subset, alphabet, character, drawer = match.groups()
        key = (subset, alphabet, f"{alphabet}/{character}", int(drawer))
        drawings[key] = _ink(decode(io.BytesIO(encoded), name=name), image_size)
    if not drawings:
        problem = f"no drawing in {', '.join(map(str, sources))}"
        raise OMNIGLOT.missing(problem, expected="images_background/<alphabet>/<character>/*.png")
    keys = sorted(drawings)
    return pd.DataFrame(keys, columns=["subset", *DRAWING_COLUMNS]), np.stack([drawings[key] for key in keys])


def _find(root: Path) -> list[Path]:
    if root.is_file() or (root.is_dir() and root.name.startswith("images_")):
        return [root]
    unpacked = [sorted(path for path in (root / folder).glob("images_*") if path.is_dir()) for folder in UNPACKED]
    archives = [[root / name for name in names if (root / name).is_file()] for names in PREFERENCE]
    for sources in (*unpacked, *archives):
        if sources:
            return sources
    looked_for = ", ".join([*chain.from_iterable(PREFERENCE), "omniglot-py/images_background"])
    raise OMNIGLOT.missing(f"nothing of it at {root}", expected=f"one of {looked_for}")


def _files(source: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of every drawing. Members of archives are never unpacked, so none can lead out of a folder."""
    if source.is_dir():
        for path in source.glob("*/character*/*.png"):
            with reading_file(path, expected="a drawing", kind=ImageError):
                yield path.relative_to(source.parent).as_posix(), path.read_bytes()
        return
    expected, remedy = "a complete zip archive", OMNIGLOT.steps[0]
    with reading_file(source, expected=expected, remedy=remedy, kind=ImageError), zipfile.ZipFile(source) as archive:
        for member in archive.infolist():
            if not member.filename.endswith(".png"):
                continue
            if member.file_size > LARGEST_DRAWING:
                problem = f"{source}: {member.filename} of {member.file_size} bytes"
                raise ImageError(problem, expected=f"a drawing of at most {LARGEST_DRAWING}")
            yield member.filename, archive.read(member)


def _ink(drawing: Image.Image, size: int) -> NDArray[np.uint8]:
    """Bright ink on a dark ground; each pixel is the mean of the area it covers."""
    gray = drawing.convert("L")
    return 255 - np.asarray(gray if gray.size == (size, size) else gray.resize((size, size), Image.Resampling.BOX))


def _read_npz(path: Path, image_size: int) -> tuple[pd.DataFrame, NDArray[np.uint8]]:
    import pandas as pd

    expected = f"an npz of images, split, {', '.join(DRAWING_COLUMNS[:-1])} and {DRAWING_COLUMNS[-1]}"
    with reading_arrays(path, expected=expected, kind=ImageError) as file:
        count, *size = file.headers["images"].shape
        if size != [image_size] * 2:
            remedy = "pass that size, or the zip archives as root"
            raise OptionError(f"image_size={image_size} from {path.name}", expected=f"{size[0]}", remedy=remedy)
        if any(file.headers[name].shape != (count,) for name in ("split", *DRAWING_COLUMNS)):
            raise ValueError(f"{count} images but different numbers of labels")
        images = file["images"]
        table = pd.DataFrame({"subset": file["split"], **{name: file[name] for name in DRAWING_COLUMNS}})
    table = table.sort_values(["subset", *DRAWING_COLUMNS], kind="stable")
    return table.reset_index(drop=True), images[table.index]
