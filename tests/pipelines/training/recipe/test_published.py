"""The published values beside ours are those that the recipes quote, under the names of our metrics."""

from __future__ import annotations

import re
from pathlib import Path

from hiertree.metrics.conventions.protocols import protocol_of
from hiertree.pipelines.comparison.published import published_rows
from hiertree.pipelines.training.recipe import reading
from hiertree.pipelines.training.recipe.reading import built_in_recipes

QUOTED = re.compile(r"^# (?:Published, percent|With mAP@R)(.*): (.*) \[(.*)\]\.$", flags=re.MULTILINE)
LEVELS = {"inat-full": 7, "h-gldv2": 3}
PROTOCOLS = {"inat": "inat", "h": "gldv2"}


def quoted_by(name: str) -> dict[str, dict[str, float]]:
    """Source → metric → value, as the comments at the head of a recipe have them."""
    head = (
        (Path(reading.__file__).parents[1] / "recipes" / f"{name}.yaml").read_text(encoding="utf-8").split("\nname:")[0]
    )
    found: dict[str, dict[str, float]] = {}
    for metrics, values, source in QUOTED.findall(head):
        if metrics:  # "R@1 and R@5: small 94.9 97.6, medium …"
            for size, first, second in re.findall(r"(\w+) ([\d.]+) ([\d.]+)", values):
                found[f"{source}, {size}"] = {"R@1": float(first), "R@5": float(second)}
        else:
            pairs = [part.rsplit(" ", 1) for part in values.removesuffix(", means over three levels").split(", ")]
            overall = values.endswith("levels")
            found[source] = {our_name(metric, name, overall): float(value) for metric, value in pairs}
    return found


def our_name(metric: str, recipe: str, overall: bool) -> str:
    if overall:
        return f"mean {metric.replace('mAP', 'AP')}"
    return metric.replace("(fine)", f"[{levels_of(recipe)}]")


def levels_of(recipe: str) -> int:
    return LEVELS.get("-".join(recipe.split("-")[:2]), 2)


def test_published_rows_are_what_the_recipes_quote() -> None:
    quoted = {name: quoted_by(name) for name in built_in_recipes()}
    assert sum(map(bool, quoted.values())) > 30
    for name, rows in quoted.items():
        assert {row.source: dict(row.percent) for row in published_rows(name)} == rows, name


def test_published_metrics_are_those_that_a_run_measures() -> None:
    for name in built_in_recipes():
        for row in published_rows(name):
            family = name.partition("-")[0]
            known = protocol_of(PROTOCOLS.get(family, family)).names(levels_of(name))
            known += tuple(f"mean {metric.partition('[')[0]}" for metric in known if family == "dyml")
            assert set(row.percent) <= set(known), name
            assert row.paper.startswith(f"[{row.source[0]}] ")


def test_other_recipes_have_no_published_row() -> None:
    assert published_rows("omniglot-happier") == published_rows("my-own") == []
