"""A backbone of one's own, by the name that its user gives: ``module:attribute``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from torch import nn

from hiertree.errors import MissingResourceError, RecipeError


def import_backbone(name: str) -> Callable[..., nn.Module]:
    """Import the callable that builds a network.

    Importing runs code, so the name must come from the user: from their recipe, or as an argument. Names in the folder
    of a model or a run are never passed here.

    Args:
        name: ``module:attribute`` of a module on the Python path.

    Raises:
        MissingResourceError: there is no such module, or it does not import.
        RecipeError: the module has no such callable.

    >>> import_backbone("torchvision.models:alexnet")(num_classes=3).classifier[-1].out_features
    3
    """
    module, _, attribute = name.partition(":")
    if not (all(part.isidentifier() for part in module.split(".")) and attribute.isidentifier()):
        raise RecipeError(f"model.backbone={name!r}", expected="module:attribute, my_networks:tower for instance")
    try:
        imported = import_module(module)
    except (ImportError, SyntaxError) as error:
        raise MissingResourceError(
            f"model.backbone={name} ({error})",
            expected=f"a module {module} that Python can import",
            remedy="install it, or put its folder on the path: PYTHONPATH=FOLDER hiertree …",
        ) from error
    found = getattr(imported, attribute, None)
    if not callable(found):
        place = getattr(imported, "__file__", None) or "built into Python"
        given = f"model.backbone={name}, where {module} ({place}) has no callable {attribute}"
        raise RecipeError(given, expected="a class or a function that returns a torch.nn.Module")
    factory: Callable[..., nn.Module] = found
    return factory


def call_backbone(factory: Callable[..., nn.Module], options: Mapping[str, Any], *, name: str) -> nn.Module:
    """Build the network.

    Raises:
        RecipeError: the callable takes other options, or returns something else.
    """
    try:
        network = factory(**options)
    except TypeError as error:
        raise RecipeError(
            f"model.backbone={name} ({error})",
            expected="a callable of the options in model.backbone_options",
        ) from error
    if not isinstance(network, nn.Module):
        raise RecipeError(f"model.backbone={name} returns {type(network).__name__}", expected="a torch.nn.Module")
    return network
