"""What a recipe asks for that is allowed, but rarely meant: one line each, with what counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..recipe.schema import Recipe

if TYPE_CHECKING:
    from hiertree.datasets import ImageDataset


def doubtful_settings(recipe: Recipe, train_set: ImageDataset) -> Iterator[str]:
    """Describe what looks like a mistake.

    >>> from hiertree.datasets import load_synthetic
    >>> from hiertree.pipelines.training.recipe.reading import load_recipe
    >>> recipe = load_recipe("synthetic-happier", ["training.epochs=2", "schedule.warmup_epochs=8"])
    >>> list(doubtful_settings(recipe, load_synthetic("train", families=2, kinds=2, instances=2, images=4)))
    ['schedule.warmup_epochs=8 with training.epochs=2: the learning rate rises to 25% of optimizer.lr at most']
    """
    epochs, warmup = recipe.training.epochs, recipe.schedule.warmup_epochs
    if warmup > 0 and warmup >= epochs:
        reached = f"rises to {epochs / warmup:.0%} of optimizer.lr at most" if warmup > epochs else "only rises"
        yield f"schedule.warmup_epochs={warmup:g} with training.epochs={epochs}: the learning rate {reached}"
    if recipe.sampler.options().get("images_per_class") == 1:
        yield (
            "sampler.images_per_class=1: no batch holds two images of a class, so only coarser levels, a memory or "
            "proxies have positives"
        )
    tree = train_set.tree
    below = range(-min(2, tree.num_levels), 0)
    labels = [{tree.labels_of(path)[level] for path in tree.paths(tree.leaves).tolist()} for level in below]
    if tree.num_levels > 1 and tree.level_sizes[-2] == tree.level_sizes[-1] and len(labels[0]) > len(labels[1]):
        above, finest = tree.level_names[-2:]
        yield (
            f"level {above} ({len(labels[0])} labels) stands before {finest} ({len(labels[1])}) and determines it: "
            "levels are given coarse → fine, these look reversed"
        )
