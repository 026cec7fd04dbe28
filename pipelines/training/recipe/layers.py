"""Recipes in layers: settings with their sources, and the merging of layers.

A layer is a mapping of sections. What a later layer says replaces what an earlier one said, key by key, at any depth;
but where it gives a section another ``name`` (another loss, another optimizer), the section is replaced whole, since
the keys of one component mean nothing to another.

>>> base = parse_layer("optimizer: {name: adam, lr: 1e-5, head_lr: 2e-5}  # [S]", source="base")
>>> plain(merge(base, parse_layer("optimizer: {lr: 1e-3}", source="changes")))
{'optimizer': {'name': 'adam', 'lr': 0.001, 'head_lr': 2e-05}}
>>> plain(merge(base, parse_layer("optimizer: {name: sgd, lr: 0.1}", source="changes")))
{'optimizer': {'name': 'sgd', 'lr': 0.1}}
>>> base["optimizer"]["lr"].source
'[S]'
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import yaml

from hiertree.errors import RecipeError

from ...yaml_files import StrictLoader, require_unique_keys, yaml_error


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
