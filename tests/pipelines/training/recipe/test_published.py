"""The published values beside ours are of built-in recipes, under the names of our metrics."""

from __future__ import annotations

from hiertree.metrics.conventions.protocols import protocol_of
from hiertree.pipelines.comparison.published import published_rows
from hiertree.pipelines.training.recipe.built_in import all_built_in_recipes

LEVELS = {"inat-full": 7, "h-gldv2": 3}
PROTOCOLS = {"inat-base": "inat", "inat-full": "inat", "h-gldv2": "gldv2"}


def test_published_metrics_are_those_that_a_run_measures() -> None:
    for recipe in all_built_in_recipes():
        for row in published_rows(recipe.name):
            known = protocol_of(PROTOCOLS.get(recipe.dataset, recipe.dataset)).names(LEVELS.get(recipe.dataset, 2))
            known += tuple(f"mean {metric.partition('[')[0]}" for metric in known if recipe.dataset == "dyml")
            assert set(row.percent) <= set(known), recipe.name
            assert row.paper.startswith(f"[{row.source[0]}] ")


def test_other_recipes_have_no_published_row() -> None:
    assert published_rows("omniglot-happier") == published_rows("my-own") == []
