"""Recipes from YAML files: nothing is read twice, nothing is ignored, every complaint names its place.

>>> load_recipe("synthetic-happier", ["optimizer.lr=1e-4"]).optimizer.lr
0.0001
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from hiertree.errors import RecipeError

from .schema import Recipe

_BUILT_IN = Path(__file__).parents[1] / "recipes"


def built_in_recipes() -> list[str]:
    """Names of the recipes that come with the package.

    >>> "omniglot-happier" in built_in_recipes()
    True
    """
    return sorted(path.stem for path in _BUILT_IN.glob("*.yaml"))


def load_recipe(recipe: str | os.PathLike[str], overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe file or a built-in recipe, apply overrides, and check everything.

    Args:
        recipe: path of a YAML file, or the name of a built-in recipe.
        overrides: ``"section.key=value"``, the value in YAML; later ones win.

    Raises:
        RecipeError: no such file or name, no valid YAML, a key given twice, an unknown key, a value out of range; the
            message names the file and the place in it.
    """
    path = _locate(recipe)
    values = parse_yaml(path.read_text(encoding="utf-8-sig"), source=path.name)
    if not isinstance(values, dict):
        raise RecipeError(path.name, expected="a mapping of sections")
    values.setdefault("name", path.stem)
    for override in overrides:
        _apply(values, override)
    return check_recipe(values, source=" ".join([path.name, *(f"--set {override}" for override in overrides)]))


def check_recipe(values: Mapping[str, Any], *, source: str = "recipe") -> Recipe:
    """The recipe that a mapping of sections describes.

    Args:
        values: the sections, as a YAML file holds them.
        source: what error messages call it.

    Raises:
        RecipeError: an unknown key or a value out of range.
    """
    try:
        return Recipe.model_validate(dict(values))
    except ValidationError as error:
        raise RecipeError(f"{source}: {'; '.join(map(complaint, error.errors()))}") from error


def parse_yaml(text: str, *, source: str) -> Any:
    """Parse YAML, refusing duplicate keys and reading 1e-4 as the number it is.

    >>> parse_yaml("lr: 1e-4", source="example")
    {'lr': 0.0001}
    """
    try:
        return yaml.load(text, Loader=_RecipeLoader)  # noqa: S506  (a SafeLoader)
    except yaml.YAMLError as error:
        raise RecipeError(f"{source}: {error}", expected="valid YAML") from error


class _RecipeLoader(yaml.SafeLoader):
    """The safe loader with YAML 1.2's numbers and unique keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: list[Any] = []
        for key, _ in node.value:
            if key.value in seen:
                problem = f"key {key.value!r} is given twice"
                raise yaml.constructor.ConstructorError(problem=problem, problem_mark=key.start_mark)
            seen.append(key.value)
        return super().construct_mapping(node, deep)


_RecipeLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def _locate(recipe: str | os.PathLike[str]) -> Path:
    path = Path(recipe)
    if path.is_file():
        return path
    known = built_in_recipes()
    if str(recipe) in known:
        return _BUILT_IN / f"{recipe}.yaml"
    close = difflib.get_close_matches(str(recipe), known, n=1)
    raise RecipeError(
        f"recipe {str(recipe)!r}",
        expected=f"a YAML file or one of {', '.join(known)}",
        remedy=f"did you mean {close[0]!r}?" if close else None,
    )


def _apply(values: dict[str, Any], override: str) -> None:
    """Set one value in place; the check that follows refuses keys that do not exist."""
    place, equals, text = override.partition("=")
    *sections, key = place.strip().split(".")
    if not equals or not all([*sections, key]):
        raise RecipeError(f"--set {override}", expected="section.key=value, optimizer.lr=1e-4 for instance")
    for depth, section in enumerate(sections, start=1):
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            raise RecipeError(
                f"--set {override}", expected=f"{'.'.join(sections[:depth])} to be a section, not a value"
            )
    values[key] = parse_yaml(text, source=f"--set {override}")


def complaint(error: Any) -> str:
    """One of pydantic's errors in words: the place, what is wrong, what was given."""
    place = ".".join(map(str, error["loc"]))
    given = "" if isinstance(error["input"], dict) else f" (given {error['input']!r})"
    return f"{place}: {error['msg']}{given}" if place else f"{error['msg']}{given}"
