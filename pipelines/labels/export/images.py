"""``hiertree labels images``: photos of landmarks and the landmarks' tree → a table to train and measure on.

One row per image: its file, its label at every level, and its split. It is what ``data: {name: table}`` of a recipe
reads. Whole landmarks are held out, so that a model is asked for landmarks it has never seen, of supercategories it
has.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hiertree.errors import ImageError
from hiertree.io.files import AnyPath, write_text
from hiertree.io.tables import write_table
from hiertree.tree import H_GLDV2_LEVELS, LabelTree

from ..landmark_images import ImageFolder
from ..settings import ImagesSettings
from ..steps import LabelStep, StepRecord
from .step import CARD, TREE, export_folder, hierarchical_table

COMMAND = "hiertree labels images"
IMAGES = "images.csv"
_SPLITS = ("train", "test")
_CARD = f"""\
---
configs:
- config_name: images
  data_files: {IMAGES}
---

# Images of landmarks

`{IMAGES}` has a row for each image: its file, its label at every level and its split. `datasets.load_dataset` reads it
from this folder. To load the images too, copy it into their folder as `metadata.csv`, with the column `image` called
`file_name`.
"""


@dataclass(frozen=True)
class ImageList:
    """The list of images and its counts."""

    table: Path  # the file; its columns are ``image``, the tree's levels from coarse to fine, and ``split``
    root: Path  # the folder that the images' paths are relative to
    levels: tuple[str, ...]  # the names of these levels
    landmarks: dict[str, int]  # landmarks of each split
    images: dict[str, int]  # images of each split
    left_out: int  # landmarks of the tree with too few images
    rows: list[tuple[object, ...]] = field(repr=False)  # of the table


def images_step(export: AnyPath, *, out: AnyPath, settings: ImagesSettings) -> ImageList:
    """Write ``images.csv``, a card by which ``datasets`` reads it, and its manifest.

    Of every supercategory, a share of the landmarks, drawn by seed, is the test split; what rounding takes from one
    supercategory it gives to the next.

    Args:
        export: a folder made by ``labels export`` or ``labels build``, or a table in GLDv2's published columns.
        out: the folder to make.
        settings: where the images are, which landmarks are listed, and which of them are held out.
    """
    image_list = ImagesStep(export, settings).run(out)
    return replace(image_list, table=Path(out) / IMAGES)


@dataclass(frozen=True)
class ImagesStep(LabelStep[ImageList]):
    """The step for the runner."""

    export: AnyPath
    settings: ImagesSettings

    def record(self) -> StepRecord:
        """The tree, and the table of images."""
        parameters = self.settings.model_dump(include={"hold_out", "min_images"})
        tables = () if self.settings.image_table is None else (self.settings.image_table,)
        return StepRecord(COMMAND, parameters, (_tree_file(self.export), *tables), self.settings.seed)

    def _compute(self) -> ImageList:
        settings, source = self.settings, _tree_file(self.export)
        levels, root = H_GLDV2_LEVELS, settings.images
        tree = LabelTree.from_json(source) if source.suffix == ".json" else LabelTree.from_csv(source, levels=levels)
        folder = ImageFolder(root, settings.image_table, follow_links=True)
        files_of = {landmark: [*map(folder.name, folder.find_all(str(landmark)))] for landmark in tree.leaves}
        unmatched = folder.note_unmatched(map(str, tree.leaves))
        listed_landmarks = [landmark for landmark in tree.leaves if len(files_of[landmark]) >= settings.min_images]
        if not listed_landmarks:
            problem = (
                f"{root}: no landmark of {source} has {settings.min_images} images{unmatched and f' ({unmatched})'}"
            )
            expected = "<landmark id>/*.jpg, or <image id>.jpg and the table of image ids"
            remedy = "name the table of image ids, or pass a smaller minimum"
            raise ImageError(problem, expected=expected, remedy=remedy)
        paths = tree.paths(listed_landmarks)
        splits = [_SPLITS[held_out] for held_out in _held_out(paths, settings.hold_out, seed=settings.seed)]
        landmarks, images, rows = Counter(splits), Counter[str](), []
        for landmark, path, split in zip(listed_landmarks, paths.tolist(), splits, strict=True):
            rows += [(file, *tree.labels_of(path), split) for file in files_of[landmark]]
            images[split] += len(files_of[landmark])
        left_out = len(tree) - len(listed_landmarks)
        return ImageList(Path(IMAGES), root, tree.level_names, dict(landmarks), dict(images), left_out, rows)

    def _write(self, result: ImageList, folder: Path) -> None:
        write_table(folder / IMAGES, ("image", *result.levels, "split"), result.rows)
        write_text(folder / CARD, _CARD)


def describe_images(image_list: ImageList) -> str:
    """The counts, and the lines of a recipe that read the table."""
    images, landmarks = image_list.images, image_list.landmarks
    counts = [f"{images.get(split, 0):8d} images of {landmarks.get(split, 0)} landmarks: {split}" for split in _SPLITS]
    recipe = f"""\
in a recipe:
data:
  name: table
  path: {image_list.table}
  root: {image_list.root}
  image: image
  levels: [{", ".join(image_list.levels)}]
  split: split"""
    return "\n".join([*counts, f"{image_list.left_out:8d} landmarks left out: too few images", recipe])


def _tree_file(export: AnyPath) -> Path:
    """The tree of a folder, which has groups if there are any, or its table."""
    tree = export_folder(export) / TREE
    return tree if tree.is_file() else hierarchical_table(export)


def _held_out(paths: NDArray[np.int32], fraction: float, *, seed: int) -> list[bool]:
    """For each landmark, whether it is in the test split."""
    members: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for row, path in enumerate(paths.tolist()):
        members[tuple(path[:-1])].append(row)
    generator = np.random.default_rng(seed)
    is_test, num_drawn = np.zeros(len(paths), dtype=bool), 0
    for node in sorted(members):
        rows = generator.permutation(members[node])
        num_test, num_drawn = (
            int(fraction * num_drawn + 0.5),
            num_drawn + len(rows),
        )  # round() would leave pairs undivided
        is_test[rows[: int(fraction * num_drawn + 0.5) - num_test]] = True
    return list(map(bool, is_test))
