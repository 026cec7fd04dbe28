"""The built-in recipes: a file for each data set, with a base and named variants that say only what differs.

``sop-happier`` is the base of ``recipes/sop.yaml``, then what its variant ``happier`` extends, then what the variant
says itself.

>>> recipe = built_in_recipe("sop-happier")
>>> recipe.dataset, recipe.about
('sop', 'HAPPIER')
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ...yaml_files import read_text
from .layers import Layer, merge, parse_layer, plain

_FOLDER = Path(__file__).parents[1] / "recipes"
_DESCRIBING = ("about", "note", "extends")  # keys of a variant that are not settings


@dataclass(frozen=True)
class BuiltInRecipe:
    """A recipe that comes with the package.

    Attributes:
        name: as commands take it.
        dataset: the file it is from.
        about: what it trains.
        note: what its reader should know; None if there is nothing.
        layer: every setting that the file makes, with its source.
    """

    name: str
    dataset: str
    about: str
    note: str | None
    layer: Layer


def recipe_datasets() -> dict[str, str]:
    """The data sets that have built-in recipes, and what each is."""
    return {path.stem: plain(_content(path.stem)["about"]) for path in sorted(_FOLDER.glob("*.yaml"))}


def built_in_recipes() -> list[str]:
    """Names of the recipes that come with the package, data set by data set.

    >>> "omniglot-happier" in built_in_recipes()
    True
    """
    return [f"{dataset}-{variant}" for dataset in recipe_datasets() for variant in _content(dataset)["variants"]]


def all_built_in_recipes() -> Iterator[BuiltInRecipe]:
    """Every built-in recipe, data set by data set."""
    for dataset in recipe_datasets():
        for variant in _content(dataset)["variants"]:
            yield _expanded(dataset, variant)


def built_in_recipe(name: str) -> BuiltInRecipe | None:
    """The built-in recipe of that name, or None if there is none."""
    for path in _FOLDER.glob("*.yaml"):
        variant = name.removeprefix(f"{path.stem}-")
        if variant != name and variant in _content(path.stem)["variants"]:
            return _expanded(path.stem, variant)
    return None


@cache
def _content(dataset: str) -> dict[str, Any]:
    return parse_layer(read_text(_FOLDER / f"{dataset}.yaml"), source=f"{dataset}.yaml")


def _expanded(dataset: str, variant: str) -> BuiltInRecipe:
    content = _content(dataset)
    layer = merge(content["base"], {})
    for part in _line_of(dataset, variant):
        layer = merge(layer, {key: value for key, value in _part(dataset, part).items() if key not in _DESCRIBING})
    note = _part(dataset, variant).get("note")
    return BuiltInRecipe(
        f"{dataset}-{variant}", dataset, _about(dataset, variant), plain(note) if note else None, layer
    )


def _line_of(dataset: str, part: str) -> list[str]:
    """The parts that make a variant, in the order in which they apply: what it extends, then itself."""
    return [inner for parent in _parents(dataset, part) for inner in _line_of(dataset, parent)] + [part]


def _about(dataset: str, part: str) -> str:
    """What a part says it is; if it says nothing, what the parts that it extends say."""
    own = _part(dataset, part).get("about")
    return plain(own) if own else ", ".join(_about(dataset, parent) for parent in _parents(dataset, part))


def _parents(dataset: str, part: str) -> list[str]:
    extends = _part(dataset, part).get("extends")
    named = plain(extends) if extends else []
    return [named] if isinstance(named, str) else named


def _part(dataset: str, name: str) -> Layer:
    content = _content(dataset)
    found: Layer = content["variants"].get(name) or content["shared"][name]
    return found
