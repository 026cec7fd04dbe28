"""docs/recipe_keys.csv says every key of a recipe, as it is declared."""

from __future__ import annotations

from recipe_keys import TABLE, keys_table

from hiertree.pipelines.training.recipe.settings import Recipe


def test_table_is_current():
    assert TABLE.read_text(encoding="utf-8") == keys_table(), "renew it: python scripts/recipe_keys.py"


def test_every_key_is_explained():
    for name, section in Recipe.model_fields.items():
        assert section.description, name
        for key, field in getattr(section.annotation, "model_fields", {}).items():
            assert field.description or name in ("data", "sampler", "loss"), f"{name}.{key}"
