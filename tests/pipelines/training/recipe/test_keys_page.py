"""docs/recipe_keys.csv has every key of a recipe as it is declared."""

from __future__ import annotations

from recipe_keys import TABLE, keys_table


def test_table_is_current() -> None:
    assert TABLE.read_text(encoding="utf-8") == keys_table(), "renew it: python scripts/recipe_keys.py"
