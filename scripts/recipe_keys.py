"""Write every key of a recipe, from its declaration, into docs/recipe_keys.csv: python scripts/recipe_keys.py."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from hiertree.pipelines.training.recipe.settings import (
    DATA,
    LOSS,
    SAMPLER,
    AnySchedule,
    GlyphAugmentation,
    PhotoAugmentation,
    Recipe,
    ScheduleSettings,
    TorchSchedule,
)

TABLE = Path(__file__).parents[1] / "docs" / "recipe_keys.csv"
COMPONENTS = {"data": DATA, "sampler": SAMPLER, "loss": LOSS}


def keys_table() -> str:
    """The table as it stands in docs: section, key, default, meaning."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([("section", "key", "default", "meaning"), *_rows()])
    return text.getvalue()


def keys_page() -> str:
    """The same as headings and tables."""
    lines = []
    for section, rows in groupby(_rows(), key=lambda row: row[0]):
        lines += [
            "",
            f"### `{section}`" if section else "### Sections",
            "",
            "| key | default | meaning |",
            "|---|---|---|",
        ]
        for _, key, default, meaning in rows:
            lines.append(f"| `{key}` | {default and f'`{default}`'} | {meaning} |")
    return "\n".join(lines)


def _rows() -> Iterator[tuple[str, str, str, str]]:
    for key, field in Recipe.model_fields.items():
        yield "", key, "", _meaning(field)
    for key, field in Recipe.model_fields.items():
        section = next((kind for kind in (field.annotation, *get_args(field.annotation)) if _is_section(kind)), None)
        if section is not None and key not in COMPONENTS:
            yield from _section(key, section)
        if key == "images":
            yield from _section("images.augmentation: {name: glyph}", GlyphAugmentation)
            yield from _section("images.augmentation: {name: photo}", PhotoAugmentation)
        if key == "schedule":
            yield from _section("schedule: {name: cosine, step or constant}", ScheduleSettings, beside=AnySchedule)
            yield from _section("schedule: {name: of torch or your own}", TorchSchedule, beside=AnySchedule)
    for section, kind in COMPONENTS.items():
        for name in kind.names():
            yield from _section(f"{section}: {{name: {name}}}", kind.model(name))


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _section(
    title: str, model: type[BaseModel], *, beside: type[BaseModel] = BaseModel
) -> Iterator[tuple[str, str, str, str]]:
    """The keys of a section but those of ``beside``; a name is no key unless it is described."""
    for key, field in model.model_fields.items():
        if (key != "name" or field.description) and key not in beside.model_fields:
            yield title, field.alias or key, _default(field), _meaning(field)


def _meaning(field: FieldInfo) -> str:
    return " ".join((field.description or "").split())


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    return _yaml(field.default.name if isinstance(field.default, BaseModel) else field.default)


def _yaml(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value == 4 / 3:
        return "4/3"
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    TABLE.write_text(keys_table(), encoding="utf-8")
