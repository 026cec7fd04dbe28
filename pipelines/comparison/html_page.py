"""The table and its figures as one HTML page that needs nothing else, in the look of the report."""

from __future__ import annotations

from collections.abc import Iterable

from ..pages import fill_page
from .result_table import ResultTable


def html(table: ResultTable, *, title: str, lead: str, figures: Iterable[tuple[str, str]]) -> str:
    """The page.

    Args:
        table: what it shows.
        title: its heading.
        lead: a paragraph below that.
        figures: SVG elements, and what each shows, as its text.
    """
    page = {"table": table, "title": title, "lead": lead, "pictures": list(figures)}
    return fill_page("hiertree.pipelines.comparison", page)
