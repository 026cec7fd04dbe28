"""Write every key of a recipe, from its declaration, into docs/training.md: python scripts/recipe_keys.py."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from hiertree.pipelines.training.recipe.components import component_model, names
from hiertree.pipelines.training.recipe.schema import Recipe
from hiertree.pipelines.training.recipe.settings import GlyphAugmentation, PhotoAugmentation

PAGE = Path(__file__).parents[1] / "docs" / "training.md"
BEGIN, END = "<!-- keys: written by scripts/recipe_keys.py -->\n", "<!-- keys: end -->\n"
COMPONENTS = {"data": "data set", "sampler": "sampler", "loss": "loss"}


def page_with_keys() -> str:
    """The page with the keys as they are declared now."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return before + BEGIN + "\n" + "\n".join(_keys()) + "\n" + END + rest.partition(END)[2]


def _keys() -> Iterator[str]:
    yield from ("| key | meaning |", "|---|---|")
    for key, field in Recipe.model_fields.items():
        yield f"| `{key}` | {field.description} |"
    for key, field in Recipe.model_fields.items():
        section = next((kind for kind in (field.annotation, *get_args(field.annotation)) if _is_section(kind)), None)
        if section is not None and key not in COMPONENTS:
            yield from _section(key, section)
        if key == "images":
            yield from _section("images.augmentation: {name: glyph}", GlyphAugmentation)
            yield from _section("images.augmentation: {name: photo}", PhotoAugmentation)
    for kind, title in COMPONENTS.items():
        yield from ("", f"#### `{kind}`", "", f"| {title} | keys, with their defaults |", "|---|---|")
        yield from (f"| `{name}` | {_options(kind, name)} |" for name in names(kind))


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _section(title: str, model: type[BaseModel]) -> Iterator[str]:
    yield from ("", f"#### `{title}`", "", f"{model.__doc__}", "", "| key | default | meaning |", "|---|---|---|")
    for key, field in model.model_fields.items():
        if field.description:
            yield f"| `{key}` | {_default(field)} | {field.description} |"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.default.name if isinstance(field.default, BaseModel) else field.default
    return f"`{_yaml(default)}`"


def _options(kind: str, name: str) -> str:
    fields = {field.alias or key: field for key, field in component_model(kind, name).model_fields.items()}
    shown = [
        f"`{key}`" if field.is_required() else f"`{key}: {_yaml(field.default)}`"
        for key, field in fields.items()
        if key != "name"
    ]
    return ", ".join(shown) or "none"


def _yaml(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value == 4 / 3:
        return "4/3"
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    PAGE.write_text(page_with_keys(), encoding="utf-8")
