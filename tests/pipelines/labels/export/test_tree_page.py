"""The tree as a page: what it holds, that nothing in a name is taken for markup, and how it is walked by keyboard."""

import csv
import json
import re
from html import unescape

import pytest
from PIL import Image

from hiertree.errors import ImageError, TableError
from hiertree.pipelines.labels.export.tables import HierarchicalRow
from hiertree.pipelines.labels.export.tree_page.content import tree_of
from hiertree.pipelines.labels.export.tree_page.drawing import draw_tree
from hiertree.pipelines.labels.export.tree_page.page import write_tree_page
from hiertree.pipelines.labels.fill.image_folder import ImageFolder
from hiertree.tree import LabelTree

CATEGORY = "http://commons.wikimedia.org/wiki/Category:"
HOSTILE = "</script><script>document.title='taken'</script><b>&amp;"
ROWS = [
    *(
        HierarchicalRow(n, f"http://commons.wikimedia.org/wiki/Category:Lake_{n}", "lake", "water", "natural")
        for n in range(8)
    ),
    HierarchicalRow(8, "C8", "pond|lake", "water", "natural"),
    HierarchicalRow(9, "C9", HOSTILE, "bridge", "human-made"),
    *(HierarchicalRow(n, f"C{n}", "road bridge", "bridge", "human-made") for n in range(10, 13)),
]


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    """A hierarchical table and its tree with a level of groups, as an export holds them."""
    folder = tmp_path_factory.mktemp("export")
    with (folder / "hierarchical.csv").open("w", newline="") as file:
        csv.writer(file).writerows([HierarchicalRow._fields, *ROWS])
    group = {"water": "wet", "bridge": "built"}
    tree = LabelTree.from_paths(
        [(row[4], group[row[3]], row[3], row[0]) for row in ROWS],
        level_names=["natural_or_human_made", "group_1", "hierarchical_label", "landmark_id"],
    )
    tree.to_json(folder / "tree.json")
    return folder


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    for landmark in (0, 9):
        Image.new("RGB", (40, 30), (landmark * 20, 90, 60)).save(folder / f"{landmark}.jpg")
    return folder


def test_counts_and_examples_are_those_of_the_table(export):
    root = tree_of(export)
    assert (root.count, root.depth) == (13, 4)
    natural = root.children["natural"]
    assert natural.level == "kind"
    water = natural.children["wet"].children["water"]
    assert (water.level, water.count) == ("supercategory", 9)
    assert [(child.name, child.count) for child in water.ordered()] == [("lake", 8), ("pond", 1)]
    assert water.examples[0] == (0, "Lake 0")
    assert len(water.examples) == 6


def test_the_page_is_one_file_and_the_same_every_time(export, images, tmp_path):
    for name in ("a.html", "b.html"):
        write_tree_page(tmp_path / name, tree_of(export), title="Trees & <lakes>", images=ImageFolder(images))
        draw_tree((tmp_path / name).with_suffix(""), tree_of(export), levels=3)
    text = (tmp_path / "a.html").read_text()
    for end in ("html", "svg", "png"):
        assert (tmp_path / f"a.{end}").read_bytes() == (tmp_path / f"b.{end}").read_bytes()
    assert not re.search(r"(src|href)=\"(?!data:)", text)
    assert "<title>Trees &amp; &lt;lakes&gt;</title>" in text
    assert text.count("<script") == 2
    content = json.loads(unescape(re.search(r'id="tree">(.*?)</script>', text, re.DOTALL)[1]))
    assert set(content["pictures"]) == {"0", "9"}
    assert content["tree"]["c"] == 13


def test_broken_images_and_foreign_folders_are_named(export, tmp_path):
    (tmp_path / "0.jpg").write_bytes(b"no image")
    with pytest.raises(ImageError, match=r"0\.jpg"):
        write_tree_page(tmp_path / "page.html", tree_of(export), images=ImageFolder(tmp_path))
    assert not (tmp_path / "page.html").exists()
    with pytest.raises(TableError, match=r"tree\.json"):
        tree_of(tmp_path)


def test_the_page_is_searched_and_walked_by_keyboard(export, images, tmp_path):
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
    from local_server import chromium

    write_tree_page(tmp_path / "page.html", tree_of(export), images=ImageFolder(images))
    browser = chromium()
    try:
        browser.get((tmp_path / "page.html").as_uri())

        def press(*pressed):
            webdriver.ActionChains(browser).send_keys(*pressed).perform()

        def text(selector):
            return browser.find_element("css selector", selector).text

        def focused():
            return browser.execute_script("return document.activeElement.getAttribute('aria-label')")

        assert text("#about h2") == "all landmarks"
        assert browser.title == "Landmark labels"
        browser.execute_script("document.querySelector('[tabindex=\"0\"]').focus()")
        press(keys.ARROW_RIGHT, keys.ARROW_DOWN)
        assert focused() == "human-made, kind, 4 landmarks"
        press(keys.ARROW_RIGHT, keys.ARROW_RIGHT, keys.ARROW_RIGHT, keys.ARROW_DOWN)
        assert text("#about h2") == HOSTILE
        assert browser.title == "Landmark labels"
        press(keys.ARROW_LEFT, keys.ENTER)
        assert text("#path") == "all landmarks\nhuman-made\nbuilt\nbridge"
        assert len(browser.find_elements("css selector", "#about img")) == 1
        press(keys.ESCAPE)
        assert focused() == "built, group 1, 4 landmarks"
        press("/", "POND", keys.ENTER)
        assert text("#found") == "1 found"
        assert focused() == "pond, label, 1 landmarks"
        assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    finally:
        browser.quit()
