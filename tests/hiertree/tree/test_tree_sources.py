"""Trees of frames, rows with gaps, lists of edges and JSON."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

import hiertree as ht
from hiertree.errors import EmptyLabelError, OptionError, TableError
from hiertree.tree import read_edges

ROWS = [("natural", "lake", 17), ("natural", "peak", 5), ("human-made", "it's (a) church", 4), ("natural", "lake", 9)]
NAMES = ["kind", "supercategory", "landmark_id"]


@pytest.fixture
def tree() -> ht.LabelTree:
    return ht.LabelTree.from_paths(ROWS, level_names=NAMES)


def test_frames_of_every_library_make_the_same_tree(tree):
    columns = dict(zip(NAMES, map(list, zip(*ROWS, strict=True)), strict=True))
    for library in (pd.DataFrame, pa.table, pytest.importorskip("polars").DataFrame):
        assert ht.LabelTree.from_frame(library(columns), levels=NAMES) == tree
        assert ht.LabelTree.from_frame(library(columns)) == tree
    images = pd.DataFrame({**columns, "image": list("abcd")})
    doubled = pd.concat([images, images])
    assert ht.LabelTree.from_frame(doubled, levels=NAMES, repeats="merge") == tree


def test_defects_of_a_frame_name_the_row_or_the_column():
    frame = pd.DataFrame({"kind": ["natural", None], "id": [17, 4]})
    with pytest.raises(EmptyLabelError, match="the frame, row 1"):
        ht.LabelTree.from_frame(frame)
    with pytest.raises(TableError, match="did you mean 'kind'"):
        ht.LabelTree.from_frame(frame, levels=["kinds", "id"])
    with pytest.raises(OptionError, match="levels"):
        ht.LabelTree.from_frame(frame, levels="kind")


def test_missing_cells_at_the_end_of_a_row_are_padded():
    frame = pd.DataFrame({"kind": ["natural", "natural"], "type": ["lake", "cave"], "name": ["Erie", None]})
    tree = ht.LabelTree.from_frame(frame, uneven="pad")
    assert tree.labels_of(tree.paths(["cave"])[0]) == ("natural", "cave", "cave")


@pytest.mark.parametrize(
    ("gaps", "path", "common_level"),
    [("above", ("natural", "natural", 17), 2), ("below", ("natural", 17, 17), 1)],
)
def test_a_gap_in_the_middle_is_filled_as_asked(tmp_path, gaps, path, common_level):
    file = tmp_path / "labels.csv"
    file.write_text("kind,type,id\nnatural,,17\nnatural,,5\nnatural,lake,4\n")
    with pytest.raises(EmptyLabelError, match=r"labels\.csv, line 2.*gaps='above' or 'below'"):
        ht.LabelTree.from_csv(file, levels=["kind", "type", "id"])
    tree = ht.LabelTree.from_csv(file, levels=["kind", "type", "id"], gaps=gaps)
    assert tree.labels_of(tree.paths([17])[0]) == path
    assert [tree.lca_level(17, leaf) for leaf in (5, 4)] == [common_level, 1]
    rows = [("natural", None, 17), ("natural", None, 5), ("natural", "lake", 4)]
    assert ht.LabelTree.from_paths(rows, level_names=["kind", "type", "id"], gaps=gaps) == tree


def test_a_gap_without_a_label_on_that_side_is_still_refused():
    with pytest.raises(EmptyLabelError, match="level 1"):
        ht.LabelTree.from_paths([(None, "lake", 17)], gaps="above")
    with pytest.raises(EmptyLabelError, match="level 2"):
        ht.LabelTree.from_paths([("natural", None)], gaps="below")
    with pytest.raises(OptionError, match="gaps"):
        ht.LabelTree.from_paths(ROWS, gaps="repeat")


@pytest.mark.parametrize("header", ["parent child", "child parent", "Source Target", "parent_id taxon"])
def test_a_header_of_two_words_is_no_edge(header, tmp_path, caplog):
    file = tmp_path / "edges.txt"
    file.write_text(f"{header}\na b\na c\n")
    with pytest.raises(TableError, match=f"edges.txt, line 1: the header '{header}'.*remove that line"):
        read_edges(file)
    file.write_text("a b\na c\n")
    assert ht.LabelTree.from_edges(read_edges(file)).leaves == ("b", "c")
    assert not caplog.text
    file.write_text("genus species\na b\na c\n")
    assert len(read_edges(file)) == 3
    assert "line 1: no other line names genus or species" in caplog.text


NODES = {
    "null": '[{"label": null}]',
    "NaN": '[{"label": NaN}]',
    "blank": '[{"label": " "}]',
    "NUL": '[{"label": "a\\u0000"}]',
    "object": '[{"label": {"a": 1}}]',
    "equal": '[{"label": "a"}, {"label": "a", "leaf_ids": [1]}]',
    "empty": "[]",
    "text of leaves": '[{"label": "a", "leaf_ids": "bcd"}]',
    "null leaf": '[{"label": "a", "leaf_ids": [null]}]',
    "no leaves": '[{"label": "a", "leaf_ids": []}]',
    "children and leaves": '[{"label": "a", "children": [{"label": 1}], "leaf_ids": [2]}]',
    "a key twice": '[{"label": "a", "leaf_ids": [1], "leaf_ids": [2]}]',
    "no list": '{"label": "a"}',
}


@pytest.mark.parametrize("nodes", NODES.values(), ids=NODES)
def test_a_json_tree_with_a_defect_is_refused_by_name(nodes, tmp_path):
    file = tmp_path / "tree.json"
    for level_names, inner in (('["x"]', nodes), ('["x", "y"]', f'[{{"label": "above", "children": {nodes}}}]')):
        file.write_text(f'{{"format": "hiertree-label-tree-1", "level_names": {level_names}, "children": {inner}}}')
        with pytest.raises(TableError, match=r"tree\.json"):
            ht.LabelTree.from_json(file)


@pytest.mark.parametrize("order", ["[0, 0]", "[0]", "[1, 2]", '["a", 0]', "[]", "3"])
def test_a_json_tree_with_another_order_than_that_of_its_leaves_is_refused(order: str, tmp_path: Path) -> None:
    file, nodes = tmp_path / "tree.json", '[{"label": "a"}, {"label": "b"}]'
    head = '"format": "hiertree-label-tree-1", "level_names": ["x"]'
    file.write_text(f'{{{head}, "children": {nodes}, "leaf_order": {order}}}')
    with pytest.raises(TableError, match=r"tree\.json"):
        ht.LabelTree.from_json(file)


def test_leaves_are_made_once(tree):
    assert tree.leaves is tree.leaves


@pytest.mark.parametrize(
    "reader",
    [
        lambda file: ht.LabelTree.from_edges(read_edges(file)),
        ht.LabelTree.from_json,
    ],
    ids=["edges", "json"],
)
def test_bytes_that_are_not_utf8_are_named_with_their_line(tmp_path, reader):
    file = tmp_path / "tree.txt"
    file.write_bytes("natural lake\nnatural p\xe9ak\n".encode("latin-1"))
    with pytest.raises(TableError, match=r"tree\.txt, line 2: bytes that are not UTF-8; save the file as UTF-8"):
        reader(file)
