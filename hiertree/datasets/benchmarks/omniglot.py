"""``omniglot``: 1,623 handwritten characters of 50 alphabets, each drawn by 20 people; alphabet → character.

Lake, Salakhutdinov and Tenenbaum, *Human-level concept learning through probabilistic program
induction* (Science 2015).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from ...errors import OptionError
from ...options import check_choice
from ...tree.label_tree import LabelTree
from ..description import Benchmark, Counts, Download
from ..image_dataset import ImageDataset
from ..readers.images import ArrayImages
from ..readers.omniglot_files import REMEDY, Drawings, read_drawings

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FILES = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python"
OMNIGLOT = Benchmark(
    name="omniglot",
    title="Omniglot",
    levels=("alphabet", "character"),
    splits={"train": Counts(), "test": Counts()},  # their sizes depend on options and on the files at hand
    license="MIT",
    url="https://github.com/brendenlake/omniglot",
    steps=(REMEDY,),
    downloads=(
        Download(url=f"{_FILES}/images_background.zip", md5="68d2efa1b9178cc56df9314c21c6e718", unpack=False),
        Download(url=f"{_FILES}/images_evaluation.zip", md5="6b91aef0f799c5bb55b94e3f2daec811", unpack=False),
    ),
    verifiable=False,
)
Holdout = Literal["alphabets", "characters"]
SHARE_OF_ALPHABETS = 0.4  # held out where there is no official split, which holds out 20 of 50
SHARE_OF_CHARACTERS = 0.5


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

    Raises:
        MissingResourceError: no drawings at ``root``; the message says where to get it.
        ImageError: an archive or a drawing cannot be read; the message names it.
        OptionError: an unknown split or holdout, or a size the npz does not hold.

    Example:
        ``load_omniglot("data/omniglot", "test", holdout="characters")``
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
