"""The published values beside ours are of built-in recipes, under the names of our metrics, and stand in the papers."""

from __future__ import annotations

import csv
from collections import defaultdict

import pytest
from papers_counts import PAGE, counts_table

from hiertree.metrics.conventions import PROTOCOLS
from hiertree.pipelines.training.recipe.published import PAPERS, published_rows
from hiertree.pipelines.training.recipe.reading import (
    all_built_in_recipes,
    built_in_recipe,
    built_in_recipes,
    load_recipe,
)

LEVELS = {"inat-full": 7, "h-gldv2": 3}
PROTOCOL_OF = {"inat-base": "inat", "inat-full": "inat", "h-gldv2": "gldv2"}
LETTERS = {"S": "R", "R": "O", "B": "S", "T": "T"}  # ours, and those of the shared folder's tables
LISTS = {"vehicleid": ("800", "1600", "2400"), "sfm120k": (), "nus-wide": ()}  # names of lists, behind a metric
NAMES = {"ΣwAP": "sum wAP"}  # of a metric that no run measures, for its weights are not stated
PRINTED_AS_MAP = ("sfm120k", "vggface2")  # AP
OWN_METRICS = ("cifar10", "imagenet100", "nus-wide", "sfm120k", "vggface2")  # of no protocol
DATA = {
    "sfm120k": {"roxford5k", "rparis6k"},
    "cub": {"cub"},
    "sop": {"sop"},
    "inat-base": {"inaturalist", "inat-base"},
    "inat-full": {"inat-full"},
}


@pytest.fixture(scope="module")
def tables(shared_data):
    """The rows of the papers' tables, by letter, table and metric."""
    path = shared_data.parent / "spec" / "papers" / "published_tables.csv"
    if not path.is_file():
        pytest.skip("the papers' tables are not beside this checkout")
    rows_of_table = defaultdict(list)
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            rows_of_table[row["paper"], row["table"], row["metric"]].append(row)
    return rows_of_table


def test_every_published_value_stands_in_the_table_it_names(tables):
    for recipe in all_built_in_recipes():
        for published_row in published_rows(recipe.name):
            letter, table, *list_name = published_row.source.split(", ")
            for name, value in published_row.percent.items():
                metric = name.partition("[")[0] if recipe.dataset in LISTS else name
                metric = metric.replace("AP", "mAP") if recipe.dataset in PRINTED_AS_MAP else metric
                names = DATA.get(recipe.dataset, {recipe.dataset, "-".join(recipe.name.split("-")[:2])})
                values = {
                    round(float(row["value"]) * (1 if row["unit"] == "percent" else 100), 2)
                    for row in tables[LETTERS[letter], table, NAMES.get(metric, metric)]
                    if row["dataset"].partition(" ")[0] in names
                    and row["split_or_level"].startswith(tuple(list_name) or "")
                }
                assert value in values, (recipe.name, metric, published_row.source)


def test_counts_in_the_docs_are_current(shared_data):
    tables = shared_data.parent / "spec" / "papers" / "published_tables.csv"
    if not tables.is_file():
        pytest.skip("the papers' tables are not beside this checkout")
    assert counts_table(tables) in PAGE.read_text(encoding="utf-8"), "renew them: python scripts/papers_counts.py"


def test_values_of_a_batch_size_are_of_that_batch_size(tables):
    for recipe in all_built_in_recipes():
        batch = load_recipe(recipe.name).sampler.options()["batch_size"]
        for published_row in published_rows(recipe.name):
            letter, table, *_ = published_row.source.split(", ")
            for metric, value in published_row.percent.items():
                rows = tables[LETTERS[letter], table, metric]
                sizes = {
                    row["batch_size"] for row in rows if row["batch_size"].isdigit() and float(row["value"]) == value
                }
                excused = any(
                    word in published_row.notes.get(metric, "") for word in ("batch", "incomplete", "same numbers")
                )
                assert excused or not sizes or str(batch) in sizes, (recipe.name, published_row.source, metric)


def test_published_metrics_are_those_that_a_run_measures():
    for recipe in all_built_in_recipes():
        if recipe.dataset not in OWN_METRICS:
            for row in published_rows(recipe.name):
                names = PROTOCOLS[PROTOCOL_OF.get(recipe.dataset, recipe.dataset)].names(LEVELS.get(recipe.dataset, 2))
                names += tuple(f"mean {metric.partition('[')[0]}" for metric in names if recipe.dataset == "dyml")
                names += tuple(
                    f"{metric}[{list_name}]" for metric in names for list_name in LISTS.get(recipe.dataset, ())
                )
                assert set(row.percent) <= {*names, *NAMES}, recipe.name


def test_every_row_is_of_a_recipe_and_of_a_paper():
    rows = [row for name in built_in_recipes() for row in published_rows(name)]
    assert len(rows) > 250
    assert {row.source[0] for row in rows} == set(PAPERS)
    assert all(row.paper.startswith(f"[{row.source[0]}] ") for row in rows)


def test_a_recipe_of_a_paper_without_a_row_says_so():
    for recipe in all_built_in_recipes():
        if recipe.dataset not in ("omniglot", "synthetic", "washington") and not published_rows(recipe.name):
            assert "No published row" in (recipe.note or ""), recipe.name


def test_contradictions_are_shown_with_both_values():
    row_of_source = {row.source: row for row in published_rows("inat-base-nca")}
    assert (row_of_source["S, Tab. V"].percent["AP[2]"], row_of_source["S, Tab. IX"].percent["AP[2]"]) == (35.2, 37.0)
    assert "37.0" in row_of_source["S, Tab. V"].notes["AP[2]"]
    assert row_of_source["S, Tab. V"].remarks == [
        "[S, Tab. V], AP[2]: Tab. VI and IX give 37.0; 35.2 looks copied from the Smooth-AP row."
    ]


def test_values_that_another_paper_quotes_otherwise_stand_beside_it():
    row_of_source = {row.source: row for row in published_rows("inat-base-blackbox-ap-b224")}
    assert [row.percent["R@4"] for row in row_of_source.values()] == [79.0, 79.4, 79.4]
    assert "79.4" in row_of_source["B, Tab. 3"].notes["R@4"]
    assert "VII-C says 2.6" in published_rows("sop-happier")[0].notes["NDCG"]


def test_other_recipes_have_no_published_row():
    assert published_rows("omniglot-happier") == published_rows("my-own") == []
    assert built_in_recipe("my-own") is None
