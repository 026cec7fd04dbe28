"""A recipe as YAML, every setting with its source behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from .layers import Setting
from .schema import Recipe

_COLUMN = 40  # where sources stand
_END = "\n...\n"  # which PyYAML writes behind a single value


def recipe_yaml(recipe: Recipe, layer: Mapping[str, Any]) -> str:
    """Every setting of a recipe as YAML that can be saved and trained.

    Args:
        recipe: the recipe.
        layer: the settings it was made from, as :func:`.reading.read_layers` returns them. What is not among them is
            marked as a default.

    >>> from hiertree.pipelines.training.recipe.reading import load_recipe, read_layers
    >>> recipe_yaml(load_recipe("sop-happier"), read_layers("sop-happier")).splitlines()[0]
    'name: sop-happier'
    """
    lines: list[str] = []
    for key, value in recipe.as_dict().items():
        section = list(_lines(key, value, layer.get(key), depth=0))
        lines += ["", *section] if isinstance(value, dict) else section
    return "\n".join(lines) + "\n"


def _lines(key: str, value: Any, made: Any, *, depth: int) -> Iterator[str]:
    """One key and all below it; ``made`` is the setting or layer that it comes from, None for a default."""
    start = f"{'  ' * depth}{key}:"
    if isinstance(value, dict) and value:
        yield start
        below = made if isinstance(made, dict) else {}
        for inner, inner_value in value.items():
            yield from _lines(inner, inner_value, below.get(inner), depth=depth + 1)
        return
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10_000)
    line = f"{start} {text.removesuffix(_END).strip()}"
    source = made.source if isinstance(made, Setting) else "default"
    yield f"{line:<{_COLUMN}} # {source}" if source else line
