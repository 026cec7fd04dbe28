"""The data card of an export: what is in it, how it was made, under which licenses. Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

CARD = "README.md"


def fill_card(facts: Mapping[str, Any]) -> str:
    """Fill ``card.md``.

    Args:
        facts: what the template names; a name it misses is an error.
    """
    from jinja2 import Environment, StrictUndefined

    source = files("hiertree.pipelines.labels.export").joinpath("card.md").read_text(encoding="utf-8")
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)  # noqa: S701  (Markdown)
    text: str = environment.from_string(source).render(facts)
    return text.rstrip() + "\n"
