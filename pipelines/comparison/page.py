"""The table and its figures as one HTML page that needs nothing else, in the look of the report."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from importlib.resources import files as resources
from pathlib import Path

from hiertree.pipelines.comparison.table import Table


def html(table: Table, *, title: str, lead: str, figures: Mapping[Path, str]) -> str:
    """The page.

    Args:
        table: what it shows.
        title: its heading.
        lead: a paragraph below that.
        figures: PNG files, and what each shows, for those who do not see it.
    """
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    template = resources("hiertree.pipelines.comparison").joinpath("page.html").read_text(encoding="utf-8")
    css = resources("hiertree.pipelines.report").joinpath("page.css").read_text(encoding="utf-8").rstrip()
    pictures = [(base64.b64encode(path.read_bytes()).decode("ascii"), text) for path, text in figures.items()]
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    page = {"table": table, "title": title, "lead": lead, "pictures": pictures, "css": Markup(css)}  # noqa: S704
    return environment.from_string(template).render(page) + "\n"
