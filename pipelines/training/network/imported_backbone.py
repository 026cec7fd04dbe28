"""A backbone of one's own, named by ``module:attribute``, and from where it may be imported."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torch import nn

from hiertree.errors import MissingResourceError, RecipeError


def import_backbone(name: str, *, outside: Path | None = None) -> Callable[..., nn.Module]:
    """Import the callable that builds a network.

    Args:
        name: ``module:attribute`` of a module on the Python path.
        outside: a folder of a model; nothing in it is imported, because it may be someone else's. What is imported for
            it from elsewhere is named on standard error first.

    Raises:
        MissingResourceError: there is no such module, or it does not import.
        RecipeError: the module has no such callable, is Python's own, or lies in that folder.

    >>> import_backbone("torchvision.models:alexnet")(num_classes=3).classifier[-1].out_features
    3
    """
    module, _, attribute = name.partition(":")
    top = module.partition(".")[0]
    if not (all(part.isidentifier() for part in module.split(".")) and attribute.isidentifier()):
        raise RecipeError(f"model.backbone={name!r}", expected="module:attribute, my_networks:tower for instance")
    if top in sys.stdlib_module_names:
        raise RecipeError(f"model.backbone={name!r}", expected="a module of your own, not one of Python's")
    places = _places(top)
    if outside is not None:
        _refuse_inside(outside, places, name)
        if places:
            print(f"importing {name} ({', '.join(map(str, places))}) for the model in {outside}", file=sys.stderr)
    try:
        found = getattr(import_module(module), attribute, None)
    except (ImportError, SyntaxError) as error:
        raise MissingResourceError(
            f"model.backbone={name} ({error})",
            expected=f"a module {module} that Python can import",
            remedy="install it, or put its folder on the path: PYTHONPATH=FOLDER hiertree …",
        ) from error
    if not callable(found):
        given = f"model.backbone={name}, where {module} ({', '.join(map(str, places))}) has no callable {attribute}"
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


def _places(top: str) -> list[Path]:
    """Where a top-level module lies; finding it imports nothing."""
    loaded = sys.modules.get(top)
    spec = getattr(loaded, "__spec__", None) if loaded is not None else find_spec(top)
    found = [getattr(loaded, "__file__", None), getattr(spec, "origin", None)]
    found += list(getattr(spec, "submodule_search_locations", None) or ())
    return list(dict.fromkeys(Path(place).resolve() for place in found if place and Path(place).exists()))


def _refuse_inside(folder: Path, places: list[Path], name: str) -> None:
    for place in places:
        if place.is_relative_to(folder.resolve()):
            raise RecipeError(
                f"the network {name} of the model in {folder} would be imported from {place}, in that folder",
                expected="a module on your own Python path: no code is ever taken from a model's folder",
                remedy="read that file, and if you trust it, copy it elsewhere and put it on the path",
            )
