"""``folder``: a folder of folders of images, whose names are the labels, coarse → fine."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..errors import ImageError, OptionError, UnevenDepthError
from ..options import check_choice, check_integer, check_number
from ..tree.label_rows import Row, Uneven, even_depths
from .duplicate_images import check_duplicates
from .image_dataset import ImageDataset
from .image_tables import OnBadImage, undecodable_files
from .labels_to_paths import label_paths
from .readers.image_names import image_files
from .readers.images import FileImages

SPLIT_FOLDERS = {"train": ("train", "training"), "val": ("val", "valid", "validation"), "test": ("test", "testing")}
_log = logging.getLogger(__name__)


def load_folder(
    root: str | os.PathLike[str],
    split: str | None = None,
    *,
    levels: Sequence[str] | None = None,
    holdout: float | None = None,
    seed: int = 0,
    uneven: Uneven = "error",
    on_bad_image: OnBadImage = "error",
) -> ImageDataset:
    """Read the images below a folder; the folders on the way to each are its labels, coarse → fine.

    ``root/natural/lake/1.jpg`` has the labels natural and lake. A split is what lies below the folder of its name
    (``root/train/natural/lake/1.jpg``; ``valid`` and ``validation`` are ``val`` too), or with ``holdout`` a share of
    the classes, so that no class is in two splits. Hidden files and folders are left out.

    Args:
        root: the folder.
        split: the name of such a folder, or with ``holdout`` ``"train"`` or ``"test"``. None takes all images.
        levels: names of the levels; ``level_1`` … unless given.
        holdout: the share of classes that ``"test"`` holds, drawn by ``seed``; ``"train"`` holds the others.
        seed: of that draw.
        uneven: what to do with images at different depths, as in :meth:`hiertree.LabelTree.from_paths`.
        on_bad_image: with ``"error"`` a damaged image is an error when it is decoded. With ``"skip"`` every image is
            decoded once now, and bad ones are left out, logged, and named in ``left_out``.

    Raises:
        ImageError: no such folder, no image in it, or none that decodes.
        OptionError: no folder of the split, a share outside (0, 1), one that leaves a split without a class, or an
            unknown policy.
        UnevenDepthError: images at different depths; the message names two.
        HierarchyError: an image in no folder below that of its split.

    Example:
        ``load_folder("photos", "train", levels=["kind", "landmark"])``
    """
    check_choice("on_bad_image", on_bad_image, OnBadImage)
    check_choice("uneven", uneven, Uneven)
    check_integer("seed", seed, least=0)
    home = Path(root) if split is None or holdout is not None else _folder_of(Path(root), split)
    names = image_files(home)
    bad = undecodable_files(names, home) if on_bad_image == "skip" else []
    if bad:
        shown = ", ".join(map(repr, bad[:5])) + (", …" if len(bad) > 5 else "")
        if len(bad) == len(names):
            raise ImageError(f"none of {len(bad)} images in {home} decodes: {shown}", expected="image files")
        _log.warning("%d of %d images do not decode and are left out: %s", len(bad), len(names), shown)
        skipped = set(bad)
        names = [name for name in names if name not in skipped]
    rows = _rows(names, home, uneven)
    if holdout is not None:
        check_number("holdout", holdout, above=0, most=1)
        kept = _held_out(rows, holdout, seed, split)
        names, rows = [names[place] for place in kept], [rows[place] for place in kept]
    level_names = levels if levels is not None else [f"level_{level}" for level in range(1, len(rows[0]) + 1)]
    if isinstance(level_names, str) or len(level_names) != len(rows[0]):
        given = f"levels={levels!r} for folders such as {'/'.join(map(str, rows[0]))}"
        raise OptionError(given, expected=f"{len(rows[0])} names, one for each folder on the way to an image")
    columns = [[str(label) for label in column] for column in zip(*rows, strict=True)]
    labeled = label_paths(columns, level_names=level_names, leaf="path", where=lambda row: f"{home / names[row]}")
    images = FileImages(home, names)
    dataset = ImageDataset(
        name=Path(root).resolve().name,
        split=split or "all",
        tree=labeled.tree,
        paths=labeled.paths,
        images=images,
        left_out=tuple(bad),
    )
    check_duplicates(dataset, on_duplicates="warn")
    return dataset


def _folder_of(root: Path, split: str) -> Path:
    """The folder of a split, under its own name or a usual one."""
    known = next((names for names in SPLIT_FOLDERS.values() if split in names), (split,))
    for name in dict.fromkeys((split, *known)):
        if name != ".." and Path(name).name == name and (root / name).is_dir():
            return root / name
    if not root.is_dir():
        raise ImageError(f"{root} is {'a file' if root.exists() else 'not there'}", expected="a folder of images")
    present = sorted(entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    raise OptionError(
        f"split={split!r} of {root}, which holds {', '.join(present[:10]) or 'no folder'}",
        expected=f"a folder {' or '.join(known)}",
        remedy="give holdout=0.5 to hold out half of the classes as 'test', or split=None in Python for all images",
    )


def _rows(names: Sequence[str], home: Path, uneven: Uneven) -> list[Row]:
    """The folders on the way to each image, as many for each."""
    rows: list[Row] = [tuple(name.split("/")[:-1]) for name in names]
    if () in rows:
        given = f"{home / names[rows.index(())]} lies in no folder of a label"
        raise UnevenDepthError(given, expected="images below folders that name them")
    depths = [len(row) for row in rows]
    if uneven == "error" and min(depths) < max(depths):
        shallow, deep = names[depths.index(min(depths))], names[depths.index(max(depths))]
        raise UnevenDepthError(
            f"{home}: {shallow!r} is {min(depths)} folders deep, {deep!r} {max(depths)}",
            expected="images of one depth",
            remedy="pass uneven='pad' (repeat the deepest label) or uneven='truncate' (cut at the shallowest)",
        )
    distinct = list(dict.fromkeys(rows))
    even = dict(zip(distinct, even_depths(distinct, uneven), strict=True))
    return [even[row] for row in rows]


def _held_out(rows: Sequence[Row], share: float, seed: int, split: str | None) -> list[int]:
    """The images of the classes that a split holds."""
    if split not in ("train", "test"):
        raise OptionError(f"split={split!r} with holdout", expected="'train' or 'test'")
    classes = sorted(set(rows), key=str)
    number = round(share * len(classes))
    if not 0 < number < len(classes):
        raise OptionError(f"holdout={share} of {len(classes)} classes", expected="at least one class in either split")
    chosen = np.random.default_rng(seed).permutation(len(classes))[:number]
    held_out = {classes[place] for place in chosen.tolist()}
    return [place for place, row in enumerate(rows) if (row in held_out) == (split == "test")]
