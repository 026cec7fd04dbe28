"""The images that a run learns from, and those that pick its best epoch: a split, or classes held out of training."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hiertree.datasets import ImageDataset
from hiertree.errors import RecipeError
from hiertree.metrics.conventions.protocols import protocol_of
from hiertree.tree import LabelTree

from ..recipe.schema import Recipe
from .splits import load_split

if TYPE_CHECKING:
    from numpy.typing import NDArray

SPLIT = "validation"  # what held-out classes are called


class LearningSplits(NamedTuple):
    """What a run may look at before it is finished.

    Attributes:
        train: the images to learn from.
        validation: those that pick the best epoch; None without a section ``validation``.
    """

    train: ImageDataset
    validation: ImageDataset | None


def load_learning_splits(recipe: Recipe) -> LearningSplits:
    """Load the training images of a recipe without those of its validation, and these.

    Raises:
        RecipeError: the share of classes leaves fewer than two on one side, or no class of the validation has two
            images.
        HiertreeError: the loader finds something wrong with the files.
    """
    train, settings = load_split(recipe, "train"), recipe.validation
    if settings is None:
        return LearningSplits(train, None)
    if settings.classes is not None:
        train, validation = hold_out_classes(train, share=settings.classes, seed=recipe.seed)
        return LearningSplits(train, _measurable(validation))
    validation = load_split(recipe, str(settings.split))
    return LearningSplits(train, _measurable(validation))


def hold_out_classes(dataset: ImageDataset, *, share: float, seed: int) -> tuple[ImageDataset, ImageDataset]:
    """Divide a data set by finest classes; each part has a tree of its own classes.

    Args:
        dataset: the training split.
        share: of the classes, to be held out.
        seed: of the draw.

    Returns:
        The classes to learn, and those held out.

    Raises:
        RecipeError: fewer than two classes on one side.

    >>> from hiertree.datasets import load_synthetic
    >>> train = load_synthetic("train", families=2, kinds=2, instances=5, images=4)
    >>> [part.tree.level_sizes for part in hold_out_classes(train, share=0.2, seed=0)]
    [(2, 2, 8), (1, 1, 2)]
    """
    classes, of_image = np.unique(dataset.paths[:, -1], return_inverse=True)
    held = round(share * len(classes))
    if not 2 <= held <= len(classes) - 2:
        raise RecipeError(
            f"validation.classes={share} of {len(classes)} training classes, which holds out {held}",
            expected="at least two classes held out, and two left to learn",
            remedy="change the share, or name a split of the data set by validation.split",
        )
    drawn = np.zeros(len(classes), dtype=bool)
    drawn[np.random.default_rng([seed, len(classes)]).permutation(len(classes))[:held]] = True
    is_held = drawn[of_image.reshape(-1)]
    kept = _part(dataset, np.flatnonzero(~is_held), split=dataset.split)
    return kept, replace(_part(dataset, np.flatnonzero(is_held), split=SPLIT), left_out=())


def describe_validation(train: ImageDataset, validation: ImageDataset, *, select: str) -> str:
    """One line on how many classes and images pick the best epoch.

    >>> from hiertree.datasets import load_synthetic
    >>> train = load_synthetic("train", families=2, kinds=2, instances=5, images=4)
    >>> describe_validation(*hold_out_classes(train, share=0.2, seed=0), select="H-AP")
    'validation: 2 of 10 training classes held out, 8 of 40 images; H-AP picks the best epoch'
    """
    classes, images = len(validation.tree), len(validation)
    if validation.split == SPLIT:
        counts = (
            f"{classes} of {classes + len(train.tree)} training classes held out, {images} of {images + len(train)}"
        )
    else:
        counts = f"split {validation.split}, {classes} classes, {images}"
    return f"validation: {counts} images; {select} picks the best epoch"


def _part(dataset: ImageDataset, rows: NDArray[np.int64], *, split: str) -> ImageDataset:
    """Some of the images, with a tree of their classes alone."""
    part = dataset.select(rows, split=split)
    nodes, of_image = np.unique(part.paths, axis=0, return_inverse=True)
    labels = [dataset.tree.labels_of(node) for node in nodes.tolist()]
    first = dataset.tree.leaves[0]
    by_path = first == dataset.tree.labels_of(dataset.tree.paths([first])[0])
    tree = LabelTree.from_paths(labels, level_names=dataset.tree.level_names, leaf="path" if by_path else "label")
    return replace(part, tree=tree, paths=tree.paths(tree.leaves)[of_image.reshape(-1)])


def _measurable(dataset: ImageDataset) -> ImageDataset:
    """The data set without a protocol that only its benchmark's queries and gallery can follow.

    Raises:
        RecipeError: no class has two images, so that no query would have a value.
    """
    if dataset.gallery is None and np.unique(dataset.paths[:, -1], return_counts=True)[1].max() < 2:
        raise RecipeError(
            f"validation: {len(dataset)} images of {len(dataset)} classes", expected="classes of two images or more"
        )
    if dataset.protocol is None or dataset.gallery is not None or protocol_of(dataset.protocol).gallery != "separate":
        return dataset
    return replace(dataset, protocol=None)
