"""Every page that people meet, in a real headless Chromium: on a phone and at a desk, in the light and in the dark."""

from __future__ import annotations

import csv
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from review_server import running

from hiertree import LabelTree
from hiertree.pipelines.browse.embedded_images import read_embedded
from hiertree.pipelines.browse.server import served
from hiertree.pipelines.comparison.recipe_comparison import compare
from hiertree.pipelines.labels.export.step import HierarchicalRow
from hiertree.pipelines.labels.export.tree_page import show_tree, tree_of
from hiertree.pipelines.report import make_report
from hiertree.pipelines.stored_embeddings import embedded_files as stored

FAULTS = (Path(__file__).parent.parent / "support" / "page_faults.js").read_text(encoding="utf-8")
TWO = ("synthetic-happier", "synthetic-smooth-ap")
LONG = "natural region, plain, desert and other open land"
NAMES = (
    LONG,
    "自然景观与国家公园的山脉",
    "محمية طبيعية في الصحراء الكبرى",
    "x" * 75,
    "_Donaudampfschifffahrtsgesellschaftskapitän",
)


@pytest.fixture(scope="module")
def pages(tiny_recipe, tmp_path_factory):
    """The address of each page."""
    folder = tmp_path_factory.mktemp("pages")
    values = tiny_recipe().as_dict()
    sections = ("data", "images", "sampler", "model", "evaluation")
    overrides = [f"{name}={values[name]}".replace("None", "null") for name in sections]
    compare(TWO, seeds=[0], out=folder / "runs", overrides=[*overrides, "training={epochs: 2, device: cpu}"])
    make_report([folder / "runs"], folder / "report.html", queries=1)
    write_export(folder / "export")
    tree = tree_of(folder / "export")
    make_report(sorted((folder / "runs").glob("*/seed-0")), folder / "demo.html", tree=tree, queries=1)
    show_tree(folder / "export", out=folder / "tree.html")
    write_embeddings(folder / "embeddings", [f"{LONG}/{leaf}" for leaf in range(6)])
    write_embeddings(folder / "names", [f"{name} {letter}" for name in NAMES for letter in "ab"])
    make_report([folder / "names"], folder / "names.html")
    files = {"report": "report.html", "demo": "demo.html", "tree": "tree.html", "names": "names.html"}
    files["comparison"] = "runs/comparison.html"
    with ExitStack() as servers:
        review = servers.enter_context(running(folder / "log.jsonl"))
        browse = servers.enter_context(served(read_embedded([folder / "embeddings"])))
        search = {"browse": browse, "neighbors": f"{browse}#query=3&node=1"}
        yield {"review": review.url, **search} | {name: (folder / file).as_uri() for name, file in files.items()}


def write_export(folder):
    """A hierarchical table with forty supercategories, and its tree."""
    names = [LONG, *(f"supercategory {index}" for index in range(39))]
    kinds = ["natural", "human-made"]
    rows = [
        HierarchicalRow(41 * index + n, f"C{n}", f"label {index}-{n % 3}", name, kinds[index % 2])
        for index, name in enumerate(names)
        for n in range(1 + 40 // (1 + index))
    ]
    folder.mkdir()
    with (folder / "hierarchical.csv").open("w", newline="") as file:
        csv.writer(file).writerows([HierarchicalRow._fields, *rows])
    levels = ["natural_or_human_made", "hierarchical_label", "landmark_id"]
    LabelTree.from_paths([(row[4], row[3], row[0]) for row in rows], level_names=levels).to_json(folder / "tree.json")


def write_embeddings(folder, species):
    """A folder as ``hiertree embed`` writes it, five images of each species; the images are missing."""
    folder.mkdir()
    rows = range(5 * len(species))
    vectors = np.random.default_rng(0).normal(size=(len(rows), 8)).astype(np.float32)
    labels = {
        "supercategory": [species[row // 10 * 2].rpartition(" ")[0] for row in rows],
        "species": [species[row // 5] for row in rows],
    }
    names = [f"a_rather_long_folder/photograph_{row}.jpg" for row in rows]
    stored.write_embeddings(folder / "part.parquet", vectors, {"image": names, **labels}, {})


def show(browser, url, *, width, dark):
    """Open a page in a window of that width and wait until it is drawn."""
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    view = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", view)
    browser.get("about:blank")
    browser.get(url)
    ready = "return !document.querySelector('script') || !!document.documentElement.dataset.ready"
    for _ in range(400):
        if browser.execute_script(ready):
            break
        time.sleep(0.02)
    browser.execute_script("document.querySelectorAll('details').forEach((d) => { d.open = true; })")


@pytest.mark.parametrize(("width", "dark"), [(360, False), (360, True), (1280, False), (1280, True)])
def test_pages_fit_their_window_name_their_controls_and_are_legible(browser, pages, width, dark):
    faults = {}
    for name, url in pages.items():
        show(browser, url, width=width, dark=dark)
        faults[name] = browser.execute_script(FAULTS)
    assert {name: faults_of_page for name, faults_of_page in faults.items() if faults_of_page} == {}


def test_bars_of_different_models_have_tracks_of_one_length(browser, pages):
    for width in (360, 1280):
        show(browser, pages["report"], width=width, dark=False)
        lengths = browser.execute_script("return [...document.querySelectorAll('.bar')].map(b => b.clientWidth)")
        assert len(set(lengths)) == 1


@pytest.mark.parametrize("width", [360, 1280])
def test_readers_sort_and_filter_the_nodes_of_a_report(browser, pages, width):
    browser.get_log("browser")  # of other pages
    show(browser, pages["report"], width=width, dark=False)
    table = """
        const rows = [...document.querySelectorAll("#nodes tbody tr")].filter((row) => row.checkVisibility());
        return rows.map((row) => [...row.cells].map((cell) => cell.textContent));
    """
    every = browser.execute_script(table)
    head = browser.find_elements("css selector", "#nodes thead th")[3]
    assert head.get_attribute("aria-sort") is None
    for order, falls in (("ascending", False), ("descending", True)):
        head.find_element("tag name", "button").send_keys("\n")
        assert head.get_attribute("aria-sort") == order
        values = [float(row[3]) for row in browser.execute_script(table)]
        assert values == sorted((float(row[3]) for row in every), reverse=falls)
    level = every[-1][1]
    browser.find_element("css selector", "#nodes select").send_keys(level)
    rows = browser.execute_script(table)
    assert sorted(rows) == sorted(row for row in every if row[1] == level)
    browser.find_element("css selector", "#nodes input").send_keys(rows[0][0])
    assert browser.execute_script(table) == rows[:1]
    counter = browser.find_element("css selector", "#nodes output")
    assert counter.text == f"1 of {len(every)} nodes"
    assert (counter.aria_role, browser.get_log("browser")) == ("status", [])


def test_points_of_a_map_show_their_pictures_inside_the_window(browser, pages):
    show(browser, pages["report"], width=360, dark=False)
    pictures = browser.execute_script("""
        return [...document.querySelectorAll("#map .point")].map((point) => {
            const before = point.firstChild.checkVisibility();
            point.focus();
            const box = point.firstChild.getBoundingClientRect();
            return [before, point.firstChild.checkVisibility(), box.left >= 0 && box.right <= innerWidth];
        });
    """)
    assert pictures
    assert all(picture == [False, True, True] for picture in pictures)
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")


def test_every_metric_of_both_models_stands_on_a_phone(browser, pages):
    show(browser, pages["comparison"], width=360, dark=True)
    cells = browser.execute_script("""
        return [...document.querySelectorAll("tbody tr")].map((row) => [...row.querySelectorAll("td")]
            .filter((cell) => cell.getBoundingClientRect().right <= innerWidth).map((cell) => cell.dataset.by))
    """)
    assert len(cells) == 2
    assert {"R@1", "H-AP", "NDCG", "ASI"} <= set(cells[0]) == set(cells[1])
    show(browser, pages["demo"], width=360, dark=False)
    differences = browser.find_elements("css selector", "td.difference")
    assert differences
    assert all(cell.is_displayed() for cell in differences)
