"""HTML pages that are one file: a package's ``page.html`` filled, its style inside, everything else escaped."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files as resources
from typing import Any


def fill_page(package: str, values: Mapping[str, Any], *, style_of: str | None = None) -> str:
    """The template of a package, filled; only what is Markup among the values is not escaped.

    Args:
        package: its full name; it holds ``page.html``.
        values: what the template names, but for ``css``.
        style_of: the package whose ``page.css`` it wears; None: its own.
    """
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    template = resources(package).joinpath("page.html").read_text(encoding="utf-8")
    css = resources(style_of or package).joinpath("page.css").read_text(encoding="utf-8").rstrip()
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(values, css=Markup(css)) + "\n"  # noqa: S704  (our own file)
