"""The tree as a page: what it holds, that nothing in a name is taken for markup, and how it is unfolded by keyboard."""

import csv
import re
from xml.etree import ElementTree as ET

import pytest
from PIL import Image

from hiertree.errors import ImageError, TableError
from hiertree.pipelines.labels.export.step import HierarchicalRow
from hiertree.pipelines.labels.export.tree_page import (
    TreeNode,
    TreeSettings,
    draw_tree,
    level_sizes,
    show_tree,
    tree_of,
)
from hiertree.tree import LabelTree

SVG = "{http://www.w3.org/2000/svg}"
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
    assert (root.count, level_sizes(root)) == (13, {"kind": 2, "group 1": 2, "supercategory": 2, "label": 4})
    natural = root.children[0]
    assert (natural.name, natural.level) == ("natural", "kind")
    water = natural.children[0].children[0]
    assert (water.name, water.level, water.count) == ("water", "supercategory", 9)
    assert [(child.name, child.count) for child in water.children] == [("lake", 8), ("pond", 1)]
    assert water.examples[0] == ("0", "Lake 0")
    assert len(water.examples) == 6


def test_the_page_is_one_file_and_the_same_every_time(export, images, tmp_path):
    for name in ("a.html", "b.html"):
        show_tree(export, out=tmp_path / name, settings=TreeSettings(title="Trees & <lakes>", images=images))
    text = (tmp_path / "a.html").read_text()
    for end in ("html", "svg"):
        assert (tmp_path / f"a.{end}").read_bytes() == (tmp_path / f"b.{end}").read_bytes()
    assert not re.search(r"(src|href)=\"(?!data:)", text)
    assert "<title>Trees &amp; &lt;lakes&gt;</title>" in text
    assert text.count("<script") == 1
    assert text.count("<img") == 2


def test_broken_images_and_foreign_folders_are_named(export, tmp_path):
    (tmp_path / "0.jpg").write_bytes(b"no image")
    with pytest.raises(ImageError, match=r"0\.jpg"):
        show_tree(export, out=tmp_path / "page.html", settings=TreeSettings(images=tmp_path))
    assert not (tmp_path / "page.html").exists()
    with pytest.raises(TableError, match=r"hierarchical\.csv.*labels export"):
        tree_of(tmp_path)


def test_the_page_is_searched_and_unfolded_by_keyboard(export, images, tmp_path):
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
    from local_server import chromium

    show_tree(export, out=tmp_path / "page.html", settings=TreeSettings(images=images))
    browser = chromium()
    try:
        browser.get((tmp_path / "page.html").as_uri())

        def press(*pressed):
            webdriver.ActionChains(browser).send_keys(*pressed).perform()

        def names():
            """Those that are shown."""
            return browser.execute_script("""
                const shown = [...document.querySelectorAll('.outline b')].filter((name) => name.checkVisibility());
                return shown.map((name) => name.textContent);
            """)

        folded = ["natural", "wet", "human-made", "built"]
        assert names() == folded
        press(keys.TAB, keys.TAB, keys.TAB, keys.ENTER)
        assert names() == ["natural", "wet", "water", "human-made", "built"]
        press(keys.TAB, keys.ENTER)
        assert names() == ["natural", "wet", "water", "lake", "pond", "human-made", "built"]
        assert "Lake 0 · Lake 1" in browser.find_element("css selector", ".outline").text
        pictures = browser.find_elements("css selector", ".outline img")
        assert [picture.is_displayed() for picture in pictures] == [True, False]
        assert browser.execute_script("return arguments[0].naturalWidth", pictures[0]) == 40
        press("/", "ROAD")
        assert names() == ["human-made", "built", "bridge", "road bridge"]
        assert browser.find_element("css selector", "output").text == "1 found"
        press(*[keys.BACKSPACE] * 4, "script>")
        assert names() == ["human-made", "built", "bridge", HOSTILE]
        press(*[keys.BACKSPACE] * 7)
        assert names() == folded
        assert browser.title == "Landmark labels"
        assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    finally:
        browser.quit()


def test_blocks_of_the_drawing_are_as_high_as_their_landmarks_are_many(export):
    root = ET.fromstring(draw_tree(tree_of(export)))
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    blocks = [(float(block.attrib["x"]), float(block.attrib["height"])) for block in root.iter(f"{SVG}rect")]
    texts = [text.text.rsplit("  ", 1) for text in root.iter(f"{SVG}text")]
    assert texts == [[name, count] for count, *names in (("9", "natural", "wet", "water"),
                     ("4", "human-made", "built", "bridge")) for name in names]  # fmt: skip
    assert [value for _, value in blocks] == pytest.approx([height * int(count) / 13 for _, count in texts], abs=0.01)
    assert [left for left, _ in blocks] == [0, width / 3, 2 * width / 3] * 2


def test_the_drawing_holds_names_of_any_script_and_no_markup():
    nodes = [
        TreeNode(f"城湖 <b>&{n}", "supercategory", 1, (TreeNode("9", "label", 1, (), ()),), ()) for n in range(200)
    ]
    tree = TreeNode("all", "all", 200, (TreeNode("natural", "kind", 200, tuple(nodes), ()),), ())
    texts = [text.text for text in ET.fromstring(draw_tree(tree)).iter(f"{SVG}text")]
    assert texts == ["natural  200"]  # the others are too low for a name
    tall = TreeNode("all", "all", 1, (TreeNode("natural", "kind", 1, (nodes[0],), ()),), ())
    assert [text.text for text in ET.fromstring(draw_tree(tall)).iter(f"{SVG}text")][1] == "城湖 <b>&0  1"
