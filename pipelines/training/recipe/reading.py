"""Reading a recipe: a file or a built-in one, what it extends, overrides, and every check; and printing it."""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import yaml
from pydantic import ValidationError

from hiertree.errors import RecipeError
from hiertree.io.reading import read_text

from ...settings import complaint
from ...yaml_files import parse_yaml
from .built_in import built_in_recipe, built_in_recipes
from .layers import Layer, Setting, annotated, merge, parse_layer, plain
from .schema import Recipe

_COLUMN = 40  # where sources stand
_END = "\n...\n"  # which PyYAML writes behind a single value


AnyRecipe: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any]"


def load_recipe(recipe: AnyRecipe, overrides: Sequence[str] = (), *, trusted: bool = True) -> Recipe:
    """Read a recipe file or a built-in recipe, apply overrides, and check everything.

    Args:
        recipe: path of a YAML file, the name of a built-in recipe, or all sections and a name. A file may say
            ``extends:``, the name of a built-in recipe or the path of another file, relative to its own folder; it then
            says only what differs.
        overrides: ``"section.key=value"``, the value in YAML; later ones win.
        trusted: whether the file is the user's, so that code may be imported which it names as ``module:attribute``;
            else what the overrides name is imported alone. A folder of a run may be anyone's.

    Raises:
        RecipeError: no such file or name, files that extend each other in a circle, invalid YAML, a key given twice,
            an unknown key, a value out of range; the message names the file and the place in it.
    """
    name = recipe["name"] if isinstance(recipe, Mapping) else Path(recipe).name
    source = " ".join([name, *(f"--set {override}" for override in overrides)])
    imports = None if trusted else list(_texts(plain(_overridden({}, overrides))))
    return check_recipe(plain(read_layers(recipe, overrides)), source=source, imports=imports)


def read_layers(recipe: AnyRecipe, overrides: Sequence[str] = ()) -> Layer:
    """The settings of a recipe and of all that it extends, each with its source; unchecked, without defaults."""
    if isinstance(recipe, Mapping):
        layer: Layer = annotated(dict(recipe), recipe["name"])
    else:
        layer = _read(recipe, ())
        layer.setdefault("name", Setting(Path(recipe).stem))
    return _overridden(layer, overrides)


def _overridden(layer: Layer, overrides: Sequence[str]) -> Layer:
    for override in overrides:
        _apply(layer, override)
    return layer


def _texts(value: Any) -> Iterator[str]:
    """Every text in lists and mappings."""
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(inner)


def check_recipe(values: Any, *, source: str = "recipe", imports: Collection[str] | None = ()) -> Recipe:
    """The recipe that a mapping of sections describes.

    ``imports`` are the names ``module:attribute`` that the user has given, whose code is imported; None allows any.
    """
    try:
        return Recipe.model_validate(values, context={"imports": imports})
    except ValidationError as error:
        raise RecipeError(f"{source}: {'; '.join(map(complaint, error.errors()))}") from error


def _read(recipe: str | os.PathLike[str], extending: tuple[Path, ...]) -> Layer:
    path = Path(recipe)
    if not path.is_file():
        base_recipe = built_in_recipe(path.name)
        if base_recipe is None:
            raise _unknown(path, extending)
        return merge(base_recipe.layer, {"name": Setting(base_recipe.name)})
    if path.resolve() in extending:
        circle = " extends ".join(file.name for file in (*extending, path))
        raise RecipeError(circle, expected="recipes that do not extend each other in a circle")
    layer = parse_layer(read_text(path, kind=RecipeError), source=path.name)
    extends = layer.pop("extends", None)
    if extends is None:
        return layer
    if not isinstance(extends, Setting) or not isinstance(extends.value, str):
        raise RecipeError(f"{path.name}: extends", expected="the name of a recipe or the path of a file")
    inherited = _read(path.parent / extends.value, (*extending, path.resolve()))
    inherited.pop("name", None)
    return merge(inherited, layer)


def _unknown(path: Path, extending: tuple[Path, ...]) -> RecipeError:
    close = difflib.get_close_matches(path.name, built_in_recipes(), n=3)
    return RecipeError(
        f"{extending[-1].name}: extends {path}" if extending else f"recipe {str(path)!r}",
        expected="a YAML file or the name of a built-in recipe",
        remedy=f"did you mean {' or '.join(map(repr, close))}?" if close else "`hiertree recipes` lists them",
    )


def _apply(layer: Layer, override: str) -> None:
    """Set one value in place; the check that follows refuses keys that do not exist."""
    place, equals, text = override.partition("=")
    *sections, key = place.strip().split(".")
    if not equals or not all([*sections, key]):
        raise RecipeError(f"--set {override}", expected="section.key=value, such as optimizer.lr=1e-4")
    for depth, section in enumerate(sections, start=1):
        if isinstance(layer.get(section), Setting) and layer[section].value is None:
            del layer[section]  # a section that is left out, by null
        subsection = layer.setdefault(section, {})
        if not isinstance(subsection, dict):
            expected = f"{'.'.join(sections[:depth])} to be a section, not a value"
            raise RecipeError(f"--set {override}", expected=expected)
        layer = subsection
    layer[key] = annotated(parse_yaml(text, source=f"--set {override}"), "--set")


def recipe_yaml(recipe: Recipe, layer: Mapping[str, Any]) -> str:
    """Every setting of a recipe as YAML that can be saved and trained, with its source from ``layer`` behind it."""
    return "\n".join(_lines(recipe.as_dict(), layer)) + "\n"


def _lines(values: Mapping[str, Any], layer: Mapping[str, Any], *, depth: int = 0) -> Iterator[str]:
    """The lines of a section; a setting that its layer lacks has the default."""
    for key, value in values.items():
        start, entry = f"{'  ' * depth}{key}:", layer.get(key)
        if isinstance(value, dict) and value:
            yield from ([start] if depth else ["", start])
            yield from _lines(value, entry if isinstance(entry, dict) else {}, depth=depth + 1)
        else:
            text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10_000)
            line = f"{start} {text.removesuffix(_END).strip()}"
            source = entry.source if isinstance(entry, Setting) else "default"
            yield f"{line:<{_COLUMN}} # {source}" if source else line
