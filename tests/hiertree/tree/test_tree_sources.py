"""Trees of frames, rows with gaps, GraphML and Newick, and back again."""

from __future__ import annotations

import json
from pathlib import Path

import networkx as nx
import pandas as pd
import pyarrow as pa
import pytest

import hiertree as ht
from hiertree.errors import DuplicateLeafError, EmptyLabelError, HierarchyError, NotATreeError, OptionError, TableError
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


def test_graphml_keeps_everything(tree, tmp_path):
    tree = tree.restrict([17, 5, 4])
    dag = ht.LabelTree.from_paths([("Greek", "character01"), ("Latin", "character01")], leaf="path")
    cut = ht.LabelTree.from_paths([("a", "b", 1), ("a", "c")], uneven="truncate")
    for number, source in enumerate((tree, dag, cut)):
        source.to_graphml(tmp_path / f"{number}.graphml")
        assert ht.LabelTree.from_graphml(tmp_path / f"{number}.graphml") == source


def test_graphml_keeps_line_breaks_and_refuses_what_xml_cannot_hold(tmp_path):
    for label in ("b\rc", "b\r\nc", "\x85"):
        label_tree = ht.LabelTree.from_paths([("a", f"{label}."), ("a", "b\nc."), ("<&>", "\"'")])
        label_tree.to_graphml(tmp_path / "tree.graphml")
        assert ht.LabelTree.from_graphml(tmp_path / "tree.graphml") == label_tree
    with pytest.raises(OptionError, match=r"GraphML cannot hold \('b\\x01c'\)"):
        ht.LabelTree.from_paths([("a", "b\x01c")]).to_graphml(tmp_path / "tree.graphml")
    assert ht.LabelTree.from_graphml(tmp_path / "tree.graphml") == label_tree


def test_graphml_of_others_is_read_with_the_same_policies(tmp_path):
    file = tmp_path / "pets.graphml"
    nx.write_graphml(nx.DiGraph([("dog", "pet"), ("cat", "pet"), ("dog", "mammal"), ("cat", "mammal")]), file)
    tree = ht.LabelTree.from_graphml(file, direction="child-parent", multiple_parents="first", forest="join")
    assert tree.leaves == ("dog", "cat")
    nx.write_graphml(nx.Graph([("pet", "dog")]), file)
    with pytest.raises(HierarchyError, match="undirected"):
        ht.LabelTree.from_graphml(file)


def test_what_is_no_graphml_is_refused(tree, tmp_path):
    file = tmp_path / "bad.graphml"
    for content in ("", "<graphml>", "<html></html>", json.dumps({"children": []})):
        file.write_text(content)
        with pytest.raises(TableError, match=r"bad\.graphml"):
            ht.LabelTree.from_graphml(file)
    with pytest.raises(TableError, match="absent"):
        ht.LabelTree.from_graphml(tmp_path / "absent.graphml")
    text_before = file.read_text()
    with pytest.raises(OptionError, match="GraphML"):
        ht.LabelTree.from_paths([("a", ("b",)), ("a", frozenset())]).to_graphml(file)
    assert file.read_text() == text_before


def test_newick_keeps_labels_with_quotes_brackets_and_spaces(tree, tmp_path):
    file = tmp_path / "tree.nwk"
    tree.to_newick(file)
    assert "'it''s (a) church'" in file.read_text()
    assert set(ht.LabelTree.from_newick(file, level_names=NAMES).leaves) == {17, 5, 4, 9}
    reordered = ht.LabelTree.from_paths([ROWS[0], ROWS[3], ROWS[1], ROWS[2]], level_names=NAMES)
    assert ht.LabelTree.from_newick(file, level_names=NAMES) == reordered
    label_tree = ht.LabelTree.from_paths([("[x]", "a:b;c"), ("[x]", "ü_1"), ("''", "new\nline")])
    label_tree.to_newick(file)
    assert ht.LabelTree.from_newick(file) == label_tree
    alphabets = ht.LabelTree.from_paths([("Greek", "character01"), ("Latin", "character01")], leaf="path")
    alphabets.to_newick(file)
    assert ht.LabelTree.from_newick(file, leaf="path") == alphabets


def test_newick_of_phylogenetics_is_read(tmp_path):
    file = tmp_path / "cats.nwk"
    file.write_text(
        "(('Felis catus':0.1,Felis_lybica:0.2)[&rate=1]:0.3,(Panthera_leo,Panthera_tigris)Panthera:1e-3);\n"
    )
    tree = ht.LabelTree.from_newick(file)
    assert [tree.labels_of(path) for path in tree.paths(["Felis catus", "Panthera_leo"])] == [
        ("node 1", "Felis catus"),
        ("Panthera", "Panthera_leo"),
    ]
    file.write_text("((a,b)100,(c,d)100)root;")  # the support of branches
    with pytest.raises(TableError, match="inner_names=False"):
        ht.LabelTree.from_newick(file)
    assert ht.LabelTree.from_newick(file, inner_names=False).level_sizes == (2, 4)
    file.write_text("(a,b)first;(c,d)second;")
    with pytest.raises(TableError, match=r"2 trees.*forest='join'"):
        ht.LabelTree.from_newick(file)
    forest = ht.LabelTree.from_newick(file, forest="join")
    assert forest.labels_of(forest.paths(["c"])[0]) == ("second", "c")


def test_newick_reads_the_names_after_the_support_of_branches(tmp_path):
    file = tmp_path / "bacteria.nwk"
    file.write_text("((a:1,b)'100.0:g__X':0.2,(c,d)'99:g__Y',('5:e',f)'7:')root;")
    tree = ht.LabelTree.from_newick(file)
    assert [tree.labels_of(path) for path in tree.paths(["a", "c", "5:e"])] == [
        ("g__X", "a"),
        ("g__Y", "c"),
        ("7:", "5:e"),
    ]
    for content in ("((a,b)95:Homo,c);", "((a,b)0.9:g__X:0.2,c);", "(a:x,b);"):
        file.write_text(content)
        for inner_names in (True, False):
            with pytest.raises(TableError, match=r"no number after the colon.*quotes"):
                ht.LabelTree.from_newick(file, inner_names=inner_names, uneven="pad")


def test_newick_holds_backslashes_or_refuses_them(tmp_path):
    tree = ht.LabelTree.from_paths([("a\\b", "x"), ("c", "y\\")])
    tree.to_newick(tmp_path / "tree.nwk")
    assert ht.LabelTree.from_newick(tmp_path / "tree.nwk") == tree
    with pytest.raises(OptionError, match=r"backslash.*to_json"):
        ht.LabelTree.from_paths([("a\\b c", "x")]).to_newick(tmp_path / "tree.nwk")


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


def test_graphml_of_yed_and_of_other_types_is_read_as_networkx_reads_it(tmp_path):
    file, yed = tmp_path / "yed.graphml", "http://www.yworks.com/xml/graphml"
    node = '<node id="{0}"><data key="d6"><y:ShapeNode><y:NodeLabel>{1}</y:NodeLabel></y:ShapeNode></data></node>'
    nodes = "".join(node.format(*pair) for pair in [("n0", "all"), ("n1", "lake"), ("n2", "peak"), ("n3", "dam")])
    edges = "".join(f'<edge source="n0" target="n{number}"/>' for number in (1, 2, 3))
    graph = f'<key for="node" id="d6" yfiles.type="nodegraphics"/><graph edgedefault="directed">{nodes}{edges}</graph>'
    file.write_text(f'<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:y="{yed}">{graph}</graphml>')
    tree = ht.LabelTree.from_graphml(file)
    assert [tree.labels_of(path) for path in tree.paths(["n1", "n2", "n3"])] == [("lake",), ("peak",), ("dam",)]
    assert tree == ht.LabelTree.from_networkx(nx.read_graphml(file))
    typed = nx.DiGraph([("r", "a"), ("r", "b"), ("r", "c")])
    nx.set_node_attributes(typed, {"a": 17, "b": 5, "c": 2}, "label")
    nx.write_graphml(typed, file)
    assert ht.LabelTree.from_graphml(file) == ht.LabelTree.from_networkx(typed)
    nx.write_graphml(nx.MultiDiGraph([("r", "a"), ("r", "a")]), file)
    assert ht.LabelTree.from_graphml(file).leaves == ("a",)
    for damage in (('directed"', 'directed"><hyperedge/'), ("d0", "d9"), ('source="n0"', "")):
        file.write_text(file.read_text().replace(*damage))
    with pytest.raises(TableError, match=r"yed\.graphml"):
        ht.LabelTree.from_graphml(file)


def test_leaves_are_made_once(tree):
    assert tree.leaves is tree.leaves


@pytest.mark.parametrize(
    "content", ["", "a;", "(a,b", "(a,b));", "(a b,c);", "('a,b);", "(" * 1500 + "a" + ")" * 1500 + ";"]
)
def test_what_is_no_newick_is_refused(content, tmp_path):
    file = tmp_path / "bad.nwk"
    file.write_text(content)
    with pytest.raises(TableError, match=r"bad\.nwk"):
        ht.LabelTree.from_newick(file)


def test_newick_refuses_what_it_cannot_say(tmp_path):
    file = tmp_path / "bad.nwk"
    for content, error in [
        ("(a,b,);", EmptyLabelError),
        ("(a,a);", DuplicateLeafError),
        ("((a)x,(a)y);", NotATreeError),
    ]:
        file.write_text(content)
        with pytest.raises(error):
            ht.LabelTree.from_newick(file)
    with pytest.raises(OptionError, match="to_json"):
        ht.LabelTree.from_paths([("a", "b", 1), ("a", "c")], uneven="truncate").to_newick(tmp_path / "cut.nwk")
    assert not (tmp_path / "cut.nwk").exists()


def test_inaturalist_goes_through_both_formats(shared_data, tmp_path):
    file = shared_data / "taxonomies" / "semantic_embeddings" / "iNaturalist-Hierarchy__hierarchy_inat2019.txt"
    tree = ht.LabelTree.from_edges(ht.tree.read_edges(file), uneven="pad")
    tree.to_newick(tmp_path / "inat.nwk")
    tree.to_graphml(tmp_path / "inat.graphml")
    newick = ht.LabelTree.from_newick(tmp_path / "inat.nwk")
    assert (sorted(newick.leaves), newick.level_sizes) == (sorted(map(int, tree.leaves)), tree.level_sizes)
    assert ht.LabelTree.from_graphml(tmp_path / "inat.graphml") == tree


@pytest.mark.parametrize(
    "reader",
    [
        lambda file: ht.LabelTree.from_edges(read_edges(file)),
        ht.LabelTree.from_newick,
        ht.LabelTree.from_json,
    ],
    ids=["edges", "newick", "json"],
)
def test_bytes_that_are_not_utf8_are_named_with_their_line(tmp_path, reader):
    file = tmp_path / "tree.txt"
    file.write_bytes("natural lake\nnatural p\xe9ak\n".encode("latin-1"))
    with pytest.raises(TableError, match=r"tree\.txt, line 2: bytes that are not UTF-8; save the file as UTF-8"):
        reader(file)
