"""The table and its figures as one HTML page that needs nothing else, in the look of the report."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

from ..pages import fill_page
from .result_table import ResultTable


def html(table: ResultTable, *, title: str, lead: str, figures: Mapping[Path, str]) -> str:
    """The page.

    Args:
        table: what it shows.
        title: its heading.
        lead: a paragraph below that.
        figures: PNG files, and what each shows, as their text.
    """
    pictures = [(base64.b64encode(path.read_bytes()).decode("ascii"), text) for path, text in figures.items()]
    page = {"table": table, "title": title, "lead": lead, "pictures": pictures}
    return fill_page("hiertree.pipelines.comparison", page, style_of="hiertree.pipelines.report")
