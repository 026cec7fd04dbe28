"""All benchmarks by name, their loaders, and a check that one is complete: lists, labels, sizes, every image."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import Choices, HiertreeError, OptionError, nearest_name, some_of
from ..io.files import AnyPath
from ..io.progress import track
from ..io.tables import read_table
from ..level_columns import UNKNOWN
from ..tree.label_rows import plain_label
from ..tree.label_tree import LabelTree
from . import benchmarks
from .archives import load_archives
from .description import BENCHMARKS, Benchmark, Verify
from .huggingface import load_huggingface
from .image_dataset import ImageDataset
from .readers.images import FileImages, damaged, map_sources, missing_files
from .synthetic import load_synthetic
from .user_images import load_folder, load_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .readers.images import ImageSource

Loader = Callable[..., ImageDataset]


def _function_of(card: Benchmark) -> Loader:
    function: Loader = getattr(benchmarks, f"load_{card.loader}")
    return function


# What a recipe's data.name may be: a benchmark, a loader with all of its options, or one's own images.
CARDS: Mapping[str, Benchmark] = MappingProxyType({name: card for name, card in BENCHMARKS.items() if card.loader})
LOADERS: Mapping[str, Loader] = MappingProxyType(
    {
        **{name: partial(_function_of(card), **card.options) for name, card in CARDS.items()},
        **{str(card.loader): _function_of(card) for card in CARDS.values()},
        "archives": load_archives,
        "folder": load_folder,
        "huggingface": load_huggingface,
        "synthetic": load_synthetic,
        "table": load_table,
    }
)


def card_of(name: str) -> Benchmark:
    """The benchmark of that name; an OptionError names a similar one."""
    if not any(name == card_name for card_name in CARDS):
        suggestion = nearest_name(name, CARDS)
        expected = f"one of {', '.join(map(repr, CARDS))}, 'synthetic', 'folder', or load_table for your own table"
        remedy = f"did you mean {suggestion!r}?" if suggestion else None
        raise OptionError(f"name={name!r}", expected=expected, remedy=remedy)
    return CARDS[name]


def load_benchmark(card: Benchmark, root: Any, split: str, *, verify: Verify) -> ImageDataset:
    """Read one split of a benchmark."""
    return _function_of(card)(root, split, verify=verify, **card.options)


def place_above(dataset: ImageDataset, above: Any) -> ImageDataset:
    """The data set with other levels above its finest classes, whose ids stay; without the protocol of its benchmark.

    Args:
        dataset: a split.
        above: the name of a ready tree (``trees`` of its :class:`Benchmark`); a table, or a frame, whose last column is
            the class and whose others, coarse → fine, are what is above it; a networkx graph, parent → child, whose
            leaves are the classes; or a :class:`hiertree.LabelTree`. Classes are known by their text.

    Raises:
        OptionError: a class of the data set that has no row or leaf there, or two of one text.
        HiertreeError: as :class:`hiertree.LabelTree` and :func:`hiertree.io.tables.read_table`.
    """
    tree = _tree_above(dataset.name, above)
    rows = [tree.labels_of(path) for path in tree.paths(tree.leaves).tolist()]
    labels_above = {str(row[-1]): row[:-1] for row in rows}
    labels_above |= {str(leaf): row[:-1] for leaf, row in zip(tree.leaves, rows, strict=True)}
    classes = [leaf[-1] if isinstance(leaf, tuple) else leaf for leaf in dataset.tree.leaves]
    keys = [str(plain_label(label)) for label in classes]
    missing = [label for label, key in zip(classes, keys, strict=True) if key not in labels_above]
    if missing or len(set(keys)) < len(keys):
        problem = f"{len(missing)} of {len(keys)} classes of {dataset.name} are not in it, {some_of(missing, 3)}"
        problem = problem if missing else f"a label of {dataset.name} names several classes"
        expected = f"the classes, each once, as {some_of(keys, 3)}; there are {some_of(labels_above, 3)}"
        raise OptionError(f"above={str(above)!r:.80}: {problem}", expected=expected)
    level_names = (*tree.level_names[:-1], dataset.tree.level_names[-1])
    class_rows = [(*labels_above[key], label) for key, label in zip(keys, classes, strict=True)]
    new_tree = LabelTree.from_paths(class_rows, level_names=level_names)
    paths = np.full((dataset.tree.level_sizes[-1] + 1, len(level_names)), UNKNOWN, np.int32)  # the last: unknown
    paths[dataset.tree.paths(dataset.tree.leaves)[:, -1]] = new_tree.paths(classes)
    return replace(dataset, tree=new_tree, paths=paths[dataset.paths[:, -1]], protocol=None)


def _tree_above(name: str, above: Any) -> LabelTree:
    """The tree that ``above`` names, lists or is."""
    if isinstance(above, LabelTree):
        return above
    if hasattr(above, "successors"):
        return LabelTree.from_networkx(above)
    if not isinstance(above, str | os.PathLike):
        return LabelTree.from_frame(above, repeats="merge")
    trees = BENCHMARKS[name].trees if name in BENCHMARKS else {}
    if str(above) in trees:
        with resources.as_file(resources.files(__package__) / "benchmarks" / "trees" / trees[str(above)]) as file:
            return _tree_above(name, file)
    if not Path(above).is_file():
        expected = " or ".join(["an existing table", *map(repr, trees)])
        raise OptionError(f"above={str(above)!r} for {name}", expected=expected)
    return LabelTree.from_csv(above, levels=list(read_table(above).columns), repeats="merge")


@dataclass(frozen=True)
class SplitReport:
    """What :func:`check` found in one split.

    Attributes:
        split: its name.
        images: number of images that it lists.
        level_sizes: nodes at each level, coarse → fine.
        problem: why it cannot be loaded, or None.
        remedy: how to fix that, or None.
        choose: options that fix it, too, each with its values.
        bad_images: names of images that are missing, or damaged if all were decoded.
    """

    split: str
    images: int = 0
    level_sizes: tuple[int, ...] = ()
    problem: str | None = None
    remedy: str | None = None
    bad_images: tuple[str, ...] = ()
    choose: Choices = field(default_factory=dict)

    @property
    def sound(self) -> bool:
        """Whether the split loads and no image is bad."""
        return self.problem is None and not self.bad_images


def check(
    name: str,
    root: AnyPath,
    *,
    splits: Iterable[str] = (),
    verify: Verify = "published",
    decode: bool = False,
) -> list[SplitReport]:
    """Load splits of a benchmark, and look for every image.

    Args:
        name: one of :func:`hiertree.datasets.available`.
        root: the folder of its files.
        splits: those to check; default: all.
        verify: as in :func:`hiertree.datasets.load`.
        decode: also decode every image.

    Raises:
        OptionError: an unknown name or split.
    """
    card = card_of(name)
    splits_to_check = tuple(splits) or tuple(card.splits)
    for split in splits_to_check:
        card.checked(split, verify)
    reports = []
    for split in splits_to_check:
        try:
            dataset = load_benchmark(card, root, split, verify=verify)
        except OptionError:
            raise
        except HiertreeError as error:
            reports.append(SplitReport(split, problem=error.given, remedy=error.remedy, choose=error.choose))
            continue
        images = dataset.images
        missing = np.flatnonzero(map_sources(images, _absent)).tolist() if not decode else ()
        rows = damaged(images, description="decoding images") if decode else missing
        bad = tuple(dict.fromkeys(map(images.name, rows)))
        sizes = tuple(len(np.unique(column)) for column in dataset.paths.T)
        reports.append(SplitReport(split, len(dataset), sizes, bad_images=bad))
    return reports


def _absent(images: ImageSource) -> NDArray[np.bool_]:
    """The missing image files of a source; loading has already found images in archives and in memory."""
    if not isinstance(images, FileImages):
        return np.zeros(len(images), dtype=np.bool_)
    names = list(map(images.name, range(len(images))))
    missing = set(missing_files(images.root, track(names, description="looking for images")))
    return np.array([name in missing for name in names], dtype=np.bool_)
