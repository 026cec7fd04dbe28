"""Trees of frames, rows with gaps, GraphML and Newick, and back again."""

from __future__ import annotations

import json

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
    ("gaps", "path", "together"),
    [("above", ("natural", "natural", 17), 2), ("below", ("natural", 17, 17), 1)],
)
def test_a_gap_in_the_middle_is_filled_as_asked(tmp_path, gaps, path, together):
    file = tmp_path / "labels.csv"
    file.write_text("kind,type,id\nnatural,,17\nnatural,,5\nnatural,lake,4\n")
    with pytest.raises(EmptyLabelError, match=r"labels\.csv, line 2.*gaps='above' or 'below'"):
        ht.LabelTree.from_csv(file, levels=["kind", "type", "id"])
    tree = ht.LabelTree.from_csv(file, levels=["kind", "type", "id"], gaps=gaps)
    assert tree.labels_of(tree.paths([17])[0]) == path
    assert [tree.lca_level(17, other) for other in (5, 4)] == [together, 1]
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
    shared = ht.LabelTree.from_paths([("Greek", "character01"), ("Latin", "character01")], leaf="path")
    cut = ht.LabelTree.from_paths([("a", "b", 1), ("a", "c")], uneven="truncate")
    for number, made in enumerate((tree, shared, cut)):
        made.to_graphml(tmp_path / f"{number}.graphml")
        assert ht.LabelTree.from_graphml(tmp_path / f"{number}.graphml") == made


def test_graphml_keeps_carriage_returns_and_refuses_what_xml_cannot_hold(tmp_path):
    for label in ("b\rc", "b\r\nc", "\x85"):
        made = ht.LabelTree.from_paths([("a", f"{label}."), ("a", "b\nc.")])
        made.to_graphml(tmp_path / "tree.graphml")
        assert ht.LabelTree.from_graphml(tmp_path / "tree.graphml") == made
    with pytest.raises(OptionError, match=r"GraphML cannot hold \('b\\x01c'\)"):
        ht.LabelTree.from_paths([("a", "b\x01c")]).to_graphml(tmp_path / "tree.graphml")
    assert ht.LabelTree.from_graphml(tmp_path / "tree.graphml") == made


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
    before = file.read_text()
    with pytest.raises(OptionError, match="GraphML"):
        ht.LabelTree.from_paths([("a", ("b",)), ("a", frozenset())]).to_graphml(file)
    assert file.read_text() == before


def test_newick_keeps_labels_with_quotes_brackets_and_spaces(tree, tmp_path):
    file = tmp_path / "tree.nwk"
    tree.to_newick(file)
    assert "'it''s (a) church'" in file.read_text()
    assert set(ht.LabelTree.from_newick(file, level_names=NAMES).leaves) == {17, 5, 4, 9}
    ordered = ht.LabelTree.from_paths([ROWS[0], ROWS[3], ROWS[1], ROWS[2]], level_names=NAMES)
    assert ht.LabelTree.from_newick(file, level_names=NAMES) == ordered
    odd = ht.LabelTree.from_paths([("[x]", "a:b;c"), ("[x]", "ü_1"), ("''", "new\nline")])
    odd.to_newick(file)
    assert ht.LabelTree.from_newick(file) == odd
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
    joined = ht.LabelTree.from_newick(file, forest="join")
    assert joined.labels_of(joined.paths(["c"])[0]) == ("second", "c")


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
    "read",
    [
        lambda file: ht.LabelTree.from_edges(read_edges(file)),
        ht.LabelTree.from_newick,
        ht.LabelTree.from_json,
    ],
    ids=["edges", "newick", "json"],
)
def test_bytes_that_are_not_utf8_are_named_with_their_line(tmp_path, read):
    file = tmp_path / "tree.txt"
    file.write_bytes("natural lake\nnatural p\xe9ak\n".encode("latin-1"))
    with pytest.raises(TableError, match=r"tree\.txt, line 2: bytes that are not UTF-8; save the file as UTF-8"):
        read(file)
