"""Reading a recipe: a file or a built-in one, what it extends, overrides, and every check; and printing it.

A recipe is made of layers, mappings of sections whose settings have sources. What a later layer says replaces what an
earlier one said, key by key, at any depth; but where it gives a section another ``name`` (another loss, another
optimizer), the section is replaced whole, since the keys of one component mean nothing to another.

>>> base = parse_layer("optimizer: {name: adam, lr: 1e-5, head_lr: 2e-5}  # [S]", source="base")
>>> plain(merge(base, parse_layer("optimizer: {lr: 1e-3}", source="changes")))
{'optimizer': {'name': 'adam', 'lr': 0.001, 'head_lr': 2e-05}}
>>> plain(merge(base, parse_layer("optimizer: {name: sgd, lr: 0.1}", source="changes")))
{'optimizer': {'name': 'sgd', 'lr': 0.1}}
>>> base["optimizer"]["lr"].source
'[S]'

``sop-happier`` is the base of ``recipes/sop.yaml``, then what its variant ``happier`` extends, then that variant.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import yaml
from pydantic import ValidationError

from hiertree.errors import RecipeError
from hiertree.io.reading import read_text

from ...settings import complaint
from ...yaml_files import StrictLoader, parse_yaml, require_unique_keys, yaml_error
from .settings import Recipe

_FOLDER = files("hiertree.pipelines.training").joinpath("recipes")
_DESCRIBING = ("about", "note", "extends")  # keys of a variant that are not settings
_COLUMN = 40  # where sources stand
_END = "\n...\n"  # which PyYAML writes behind a single value

AnyRecipe: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any]"


class Setting(NamedTuple):
    """One value of a recipe."""

    value: Any  # the value itself
    source: str | None = None  # where it comes from: the comment behind it; None if there is none


Layer = dict[str, Any]  # keys to settings or to layers


def parse_layer(text: str, *, source: str) -> Layer:
    """Parse a mapping in YAML; the comment at the end of a line is the source of every value in that line."""
    try:
        loader = StrictLoader(text)  # refuses characters that YAML does not allow
        root = loader.get_single_node()
        if isinstance(root, yaml.MappingNode):
            return _layer(root, loader, _comments(text, root))
    except Exception as error:
        raise yaml_error(error, source) from error
    raise RecipeError(source, expected="a mapping of sections")


def merge(inherited: Mapping[str, Any], changes: Mapping[str, Any]) -> Layer:
    """The inherited sections with the changes made; a new value throughout, so that changing it changes neither."""
    merged = {key: _copied(value) for key, value in inherited.items()}
    for key, value in changes.items():
        inherited_value = merged.get(key)
        if isinstance(inherited_value, dict) and isinstance(value, dict) and not _names_another(inherited_value, value):
            merged[key] = merge(inherited_value, value)
        else:
            merged[key] = _copied(value)
    return merged


def _copied(value: Any) -> Any:
    return merge(value, {}) if isinstance(value, dict) else value


def plain(layer: Any) -> Any:
    """The values of a layer without their sources."""
    if isinstance(layer, Setting):
        return layer.value
    return {key: plain(value) for key, value in layer.items()}


def annotated(value: Any, source: str) -> Any:
    """A parsed value as a layer, every setting with the same source."""
    if isinstance(value, dict):
        return {key: annotated(inner, source) for key, inner in value.items()}
    return Setting(value, source)


def _names_another(inherited: Mapping[str, Any], changes: Mapping[str, Any]) -> bool:
    name = changes.get("name")
    return isinstance(name, Setting) and name.value != getattr(inherited.get("name"), "value", name.value)


def _layer(node: yaml.MappingNode, loader: StrictLoader, comments: Mapping[int, str]) -> Layer:
    require_unique_keys(node)
    loader.flatten_mapping(node)
    layer: Layer = {}
    for key_node, value_node in node.value:
        key = str(loader.construct_object(key_node, deep=True))
        if isinstance(value_node, yaml.MappingNode):
            layer[key] = _layer(value_node, loader, comments)
        else:
            value = loader.construct_object(value_node, deep=True)
            layer[key] = Setting(value, comments.get(key_node.start_mark.line))
    return layer


def _comments(text: str, root: yaml.Node) -> dict[int, str]:
    """The comment behind the last value of each line, by line number."""
    ends: dict[int, int] = {}
    for node in _nodes(root):
        if not isinstance(node, yaml.CollectionNode) or node.flow_style:  # others end where the next one begins
            line = node.end_mark.line
            ends[line] = max(ends.get(line, 0), node.end_mark.column)
    lines = text.split("\n")
    matches = {line: re.match(r"\s*:?\s*#\s*(.*?)\s*$", lines[line][end:]) for line, end in ends.items()}
    return {line: match[1] for line, match in matches.items() if match}


def _nodes(node: yaml.Node) -> Iterator[yaml.Node]:
    yield node
    for child in node.value if isinstance(node, yaml.CollectionNode) else ():
        for inner in child if isinstance(child, tuple) else (child,):
            yield from _nodes(inner)


@dataclass(frozen=True)
class BuiltInRecipe:
    """A recipe that comes with the package."""

    name: str  # as commands take it
    dataset: str  # the file it is from
    about: str  # what it trains
    note: str | None  # what its reader should know; None if there is nothing
    layer: Layer  # every setting that the file makes, with its source


def recipe_datasets() -> dict[str, str]:
    """The data sets with built-in recipes, and their descriptions."""
    return {dataset: plain(_content(dataset)["about"]) for dataset in _datasets()}


def built_in_recipes() -> list[str]:
    """Names of the recipes that come with the package, data set by data set."""
    return [f"{dataset}-{variant}" for dataset in recipe_datasets() for variant in _content(dataset)["variants"]]


def all_built_in_recipes() -> Iterator[BuiltInRecipe]:
    """Every built-in recipe, data set by data set."""
    for dataset in recipe_datasets():
        for variant in _content(dataset)["variants"]:
            yield _expanded(dataset, variant)


def built_in_recipe(name: str) -> BuiltInRecipe | None:
    """The built-in recipe of that name, or None if there is none."""
    for dataset in _datasets():
        variant = name.removeprefix(f"{dataset}-")
        if variant != name and variant in _content(dataset)["variants"]:
            return _expanded(dataset, variant)
    return None


@cache
def _datasets() -> list[str]:
    return sorted(file.name.removesuffix(".yaml") for file in _FOLDER.iterdir() if file.name.endswith(".yaml"))


@cache
def _content(dataset: str) -> dict[str, Any]:
    return parse_layer(_FOLDER.joinpath(f"{dataset}.yaml").read_text(encoding="utf-8"), source=f"{dataset}.yaml")


def _expanded(dataset: str, variant: str) -> BuiltInRecipe:
    sections = _content(dataset)
    layers: dict[str, Layer] = {**sections.get("shared", {}), **sections["variants"]}

    def parents(layer_name: str) -> list[str]:
        names = plain(layers[layer_name]["extends"]) if "extends" in layers[layer_name] else []
        return [names] if isinstance(names, str) else names

    def line_of(layer_name: str) -> list[str]:
        """The parts that this one extends, then itself, in the order of application."""
        return [inner for parent in parents(layer_name) for inner in line_of(parent)] + [layer_name]

    def about(layer_name: str) -> str:
        """The description of the part, or else of those that it extends."""
        description = layers[layer_name].get("about")
        return plain(description) if description else ", ".join(map(about, parents(layer_name)))

    layer = sections["base"]
    for layer_name in line_of(variant):
        layer = merge(layer, {key: value for key, value in layers[layer_name].items() if key not in _DESCRIBING})
    note = layers[variant].get("note")
    return BuiltInRecipe(f"{dataset}-{variant}", dataset, about(variant), plain(note) if note else None, layer)


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
    files = {file.name: file for file in path.parent.glob("*.y*ml")}
    close = [str(files.get(name, name)) for name in difflib.get_close_matches(path.name, [*files, *built_in_recipes()])]
    return RecipeError(
        f"{extending[-1].name}: extends {path}" if extending else f"recipe {str(path)!r}",
        expected="a YAML file or the name of a built-in recipe",
        remedy=f"did you mean {' or '.join(map(repr, close))}?" if close else "`hiertree recipes` lists them",
    )


def _apply(layer: Layer, override: str) -> None:
    """Set one value in place; the check that follows refuses keys that do not exist."""
    path_of_key, equals, text = override.partition("=")
    *sections, key = path_of_key.strip().split(".")
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
