"""The tables of the papers, which the documentation's site shows, have every recipe and every published value."""

from __future__ import annotations

from papers_page import papers_page

from hiertree.pipelines.training.recipe.published import published_rows
from hiertree.pipelines.training.recipe.reading import built_in_recipes


def test_tables_name_every_recipe():
    text = papers_page()
    assert [name for name in built_in_recipes() if f"| `{name}` |" not in text] == []


def test_tables_have_every_published_value():
    lines = papers_page().splitlines()
    missing = [
        (name, metric)
        for name in built_in_recipes()
        for row in published_rows(name)
        for metric, percent in row.percent.items()
        if not any(f"| `{name}` |" in line and f" {percent:.2f}".removesuffix("0") + " |" in line for line in lines)
    ]
    assert missing == []
