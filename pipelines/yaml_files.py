"""YAML files of settings: numbers as YAML 1.2 reads them, no key twice, one typed error for whatever is wrong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from typing_extensions import override

from hiertree.errors import RecipeError
from hiertree.io.reading import read_text

_MOST_ALIASES = 20  # each may double what a file holds


class StrictLoader(yaml.SafeLoader):
    """The safe loader with YAML 1.2's numbers, unique keys and few aliases."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._aliases = 0

    @override
    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            self._aliases += 1
            if self._aliases > _MOST_ALIASES:
                raise yaml.composer.ComposerError(problem=f"more than {_MOST_ALIASES} aliases")
        return super().compose_node(parent, index)

    @override
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        require_unique_keys(node)
        return super().construct_mapping(node, deep)


StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def read_yaml(path: Path) -> Any:
    """The content of a YAML file; a :class:`hiertree.errors.RecipeError` names the place of an error."""
    return parse_yaml(read_text(path, kind=RecipeError), source=str(path))


def parse_yaml(text: str, *, source: str) -> Any:
    """Parse YAML that errors call ``source``, refusing duplicate keys and reading 1e-4 as a number.

    >>> parse_yaml("lr: 1e-4", source="example")
    {'lr': 0.0001}
    """
    try:
        return yaml.load(text, Loader=StrictLoader)  # noqa: S506  (a SafeLoader)
    except Exception as error:  # also OverflowError, of dates
        raise yaml_error(error, source) from error


def require_unique_keys(node: yaml.MappingNode) -> None:
    """Refuse a mapping that has a key twice."""
    keys: list[Any] = []
    for key, _ in node.value:
        if key.value in keys:
            problem = f"key {key.value!r} is given twice"
            raise yaml.constructor.ConstructorError(problem=problem, problem_mark=key.start_mark)
        keys.append(key.value)


def yaml_error(error: Exception, source: str) -> RecipeError:
    """Our error for one of PyYAML's, in one line."""
    if isinstance(error, RecursionError):
        return RecipeError(f"{source}: nested too deeply", expected="sections of keys and values")
    mark = getattr(error, "problem_mark", None)
    position = f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    problem = getattr(error, "problem", None) or str(error)
    return RecipeError(f"{source}: {problem}{position}", expected="valid YAML")
