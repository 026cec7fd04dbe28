"""docs/papers.md has every published value that the recipes have."""

from __future__ import annotations

from papers_page import PAGE, papers_page

from hiertree.pipelines.training.recipe.built_in import built_in_recipes


def test_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == papers_page(), "renew it: python scripts/papers_page.py"


def test_page_names_every_recipe() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in built_in_recipes() if f"| `{name}` |" not in text] == []
