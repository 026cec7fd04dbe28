"""The papers' tables, which the site shows, have every recipe and published value; their figures every measured one."""

from __future__ import annotations

import csv

import papers_figures
import pytest
import torch
from papers_page import papers_page

from hiertree.losses import SmoothAP
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


def test_every_measured_figure_is_drawn_and_orders_of_ties_bound_the_mean():
    with papers_figures.VALUES.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    panels = [title.partition(":")[0] for panels in papers_figures.PANELS.values() for title, *_ in panels]
    assert {row["figure"] for row in rows} <= set(panels)
    ties = {(*row["series"].split(), row["x"]): float(row["y"]) for row in rows if row["figure"] == "[T] 3"}
    bounds = [(name, "worst", bits) for name, kind, bits in ties if kind == "average"]
    assert len(bounds) == 4 * len(papers_figures.BITS)
    for name, _, bits in bounds:
        assert ties[name, "worst", bits] < ties[name, "average", bits] < ties[name, "best", bits]


def test_the_logged_loss_is_smooth_ap_and_counts_the_differences_with_a_slope():
    labels = torch.tensor([[0], [0], [1]])
    assert float(papers_figures.logged_smooth_ap(torch.eye(3), labels)) == pytest.approx(
        float(SmoothAP()(torch.eye(3), labels))
    )
    assert papers_figures.STEPS[-1][1] == pytest.approx(5 / 9)  # of a row 1, 0, 0: each with itself, and both zeros
