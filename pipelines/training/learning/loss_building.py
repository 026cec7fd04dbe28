"""Build the loss that a recipe names, with the sizes that follow from the training split: classes, levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.errors import OptionError, RecipeError

from ..recipe.components import Component, makes, takes, target
from ..recipe.schema import Recipe

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.losses import Loss


def build_loss(recipe: Recipe, *, class_paths: NDArray[np.integer[Any]]) -> Loss:
    """Build the loss that a recipe asks for.

    Args:
        recipe: the experiment.
        class_paths: (C, L) the path of each class.

    Raises:
        RecipeError: an option out of range.
    """
    try:
        return _built(recipe.loss, class_paths, recipe.model.embedding_size)
    except OptionError as error:
        raise RecipeError(f"loss: {error.given}", expected=error.expected, remedy=error.remedy) from error


def _built(component: Component, class_paths: NDArray[np.integer[Any]], embedding_size: int) -> Loss:
    """Build a loss, and before it the losses that it wraps."""
    level_sizes = tuple((class_paths.max(axis=0) + 1).tolist())
    derived = {
        "num_classes": level_sizes[-1],
        "embedding_size": embedding_size,
        "level_sizes": level_sizes,
        "num_levels": class_paths.shape[1],
        "class_paths": class_paths,
    }
    options = component.options()
    for name, value in options.items():
        if isinstance(value, Component):
            options[name] = _nested(component, name, value, class_paths, embedding_size)
    known = {name: value for name, value in derived.items() if takes("loss", component.name, name)}
    loss: Loss = target("loss", component.name)(**known, **options)
    return loss


def _nested(
    outer: Component, name: str, inner: Component, class_paths: NDArray[np.integer[Any]], embedding_size: int
) -> Any:
    """Build a loss that another wraps, or a function that builds it for a number of flat classes."""
    if makes("loss", outer.name, name):
        return lambda num_classes: _built(inner, np.arange(num_classes)[:, None], embedding_size)
    return _built(inner, class_paths, embedding_size)
