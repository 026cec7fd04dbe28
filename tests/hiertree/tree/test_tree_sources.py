"""Trees of frames, rows with gaps, lists of edges and JSON."""

from __future__ import annotations

import networkx as nx
import pandas as pd
import pyarrow as pa
import pytest

import hiertree as ht
from hiertree.errors import EmptyLabelError, OptionError, TableError
from hiertree.tree import read_edges, read_taxonomy
from hiertree.tree.formats import is_taxonomy

ROWS = [("natural", "lake", 17), ("natural", "peak", 5), ("human-made", "it's (a) church", 4), ("natural", "lake", 9)]
NAMES = ["kind", "supercategory", "landmark_id"]


@pytest.fixture
def tree():
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
    ("gaps", "path", "common_level"), [("above", ("natural", "natural", 17), 2), ("below", ("natural", 17, 17), 1)]
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


NODES = [
    '[{"label": null}]',
    '[{"label": NaN}]',
    '[{"label": " "}]',
    '[{"label": "a\\u0000"}]',
    '[{"label": {"a": 1}}]',
    '[{"label": "a"}, {"label": "a", "leaf_ids": [1]}]',
    "[]",
    '[{"label": "a", "leaf_ids": "bcd"}]',
    '[{"label": "a", "leaf_ids": [null]}]',
    '[{"label": "a", "leaf_ids": []}]',
    '[{"label": "a", "children": [{"label": 1}], "leaf_ids": [2]}]',
    '[{"label": "a", "leaf_ids": [1], "leaf_ids": [2]}]',
    '{"label": "a"}',
]
TREE = '{{"format": "hiertree-label-tree-1", "level_names": {}, "children": {}}}'
ORDERED = TREE.format('["x"]', '[{"label": "a"}, {"label": "b"}], "leaf_order": ORDER')
DOCUMENTS = [
    *(TREE.format('["x"]', nodes) for nodes in NODES),
    *(TREE.format('["x", "y"]', f'[{{"label": "above", "children": {nodes}}}]') for nodes in NODES),
    *(ORDERED.replace("ORDER", order) for order in ("[0, 0]", "[0]", "[1, 2]", '["a", 0]', "[]", "3")),
    *("", "[]", "{}", '{"format": "other"}', '{"format": "hiertree-label-tree-1"}'),
    '{"format": "hiertree-label-tree-1", "children": ' + "[" * 100_000,
]


def test_json_that_holds_no_tree_is_refused_by_name(tmp_path):
    for document in DOCUMENTS:
        (tmp_path / "tree.json").write_text(document)
        with pytest.raises(TableError, match=r"tree\.json"):
            ht.LabelTree.from_json(tmp_path / "tree.json")


def test_leaves_are_made_once(tree):
    assert tree.leaves is tree.leaves


@pytest.mark.parametrize(
    "reader", [lambda file: ht.LabelTree.from_edges(read_edges(file)), ht.LabelTree.from_json], ids=["edges", "json"]
)
def test_bytes_that_are_not_utf8_are_named_with_their_line(tmp_path, reader):
    file = tmp_path / "tree.txt"
    file.write_bytes("natural lake\nnatural p\xe9ak\n".encode("latin-1"))
    with pytest.raises(TableError, match=r"tree\.txt, line 2: bytes that are not UTF-8; save the file as UTF-8"):
        reader(file)


CATEGORIES = {
    "Animals & Pet Supplies": "1",
    "Animals & Pet Supplies > Live Animals": "3237",
    "Animals & Pet Supplies > Pet Supplies": "2",
    "Animals & Pet Supplies > Pet Supplies > Bird Supplies": "3",
    "Apparel - Old": "166",
    "Apparel - Old > Clothing": "1604",
}
TAXONOMIES = {
    "Google": ("# Google_Product_Taxonomy_Version: 2021-09-21", "{0}", None),
    "Google with ids": ("# Google_Product_Taxonomy_Version: 2021-09-21", "{1} - {0}", ""),
    "Shopify": (
        "# Shopify Product Taxonomy - Categories: 2025\n# Format: {GID} : {names}\n",
        "gid://x/{1}   : {0}",
        "gid://x/",
    ),
}


@pytest.mark.parametrize("name", TAXONOMIES)
def test_published_taxonomies_of_products_are_read_as_they_come(tmp_path, name):
    head, line, prefix = TAXONOMIES[name]
    file = tmp_path / "taxonomy.txt"
    file.write_text("\n".join([head, *(line.format(*pair) for pair in CATEGORIES.items()), ""]))
    assert is_taxonomy(file)
    edges, labels = read_taxonomy(file)
    ids = {path: path if prefix is None else prefix + number for path, number in CATEGORIES.items()}
    tree = ht.LabelTree.from_edges(edges, labels=labels, uneven="unknown", inner_leaves="all")
    assert set(tree.leaves) == set(ids.values())
    for path, node in ids.items():
        assert tree.labels_of(tree.paths([node])[0]) == tuple(path.split(" > "))
    graph = nx.DiGraph(edges)
    assert nx.is_arborescence(graph)
    assert {labels[node] for node in graph if not graph.out_degree(node)} == {
        "Live Animals",
        "Bird Supplies",
        "Clothing",
    }


def test_paths_in_one_text_are_the_rows_that_they_stand_for(tmp_path, caplog):
    rows = [("animals", "birds", "wren"), ("animals", "birds", "owl"), ("plants", "trees", "oak")]
    for separator in (" > ", ";", "|", "/"):
        texts = [separator.join(row) for row in rows]
        tree = ht.LabelTree.from_paths(rows)
        assert ht.LabelTree.from_paths(texts, separator=separator) == tree
        frame = pd.DataFrame({"shop": ["a", "a", "a"], "path": texts})
        names = ("shop", "path_1", "path_2", "path_3")
        with_shop = ht.LabelTree.from_paths([("a", *row) for row in rows], level_names=names)
        assert ht.LabelTree.from_frame(frame, separator=separator) == with_shop
        frame.to_csv(tmp_path / "t.csv", index=False)
        assert ht.LabelTree.from_csv(tmp_path / "t.csv", levels=["shop", "path"], separator=separator) == with_shop
        assert not caplog.records
        ht.LabelTree.from_csv(tmp_path / "t.csv", levels=["shop", "path"])
        assert f"path: each label holds {separator!r}; pass separator=" in caplog.text
        caplog.clear()


def test_ranks_that_are_not_known_end_a_path():
    texts = [
        "k__Bacteria; p__Firmicutes; c__",
        "k__Bacteria; p__Firmicutes; c__Bacilli",
        "k__Bacteria; p__; c__Bacilli",
    ]
    tree = ht.LabelTree.from_paths(texts[:2], separator=";", uneven="unknown")
    assert tree.paths(["p__Firmicutes", "c__Bacilli"]).tolist() == [[0, 0, -1], [0, 0, 0]]
    with pytest.raises(EmptyLabelError, match="gaps='above' or 'below'"):
        ht.LabelTree.from_paths(texts[2:], separator=";", uneven="unknown")
    with pytest.raises(OptionError, match="separator=''"):
        ht.LabelTree.from_paths(texts, separator="")


def test_edges_as_networkx_writes_them_are_read(tmp_path):
    graph, file = nx.DiGraph([("a", "b c"), ("a", "d")]), tmp_path / "edges.txt"
    nx.write_edgelist(graph, file, delimiter="\t")
    assert read_edges(file) == list(graph.edges)
    plain = nx.DiGraph([("a", "b"), ("a", "d")])
    nx.set_edge_attributes(plain, 0.5, "weight")
    nx.write_edgelist(plain, file)
    assert read_edges(file) == list(plain.edges)
    file.write_text("# of somebody\na b\n")
    assert read_edges(file) == [("a", "b")]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("format-version: 1.2\n[Term]\n", r"OBO format.*obonet\.read_obo"),
        ('<?xml version="1.0"?>\n<rdf:RDF>', r"OWL format.*obonet\.read_obo"),
        ("#NEXUS\nbegin trees;", r"NEXUS format.*Bio\.Phylo\.read\(path, 'nexus'\)"),
        ("((a,b)x,c)root;\n", r"Newick format.*Bio\.Phylo\.read\(path, 'newick'\)"),
        ("Animals\nAnimals > Birds\nAnimals > Cats\n", r"line 1: 'Animals'.*two words.*separator=' > '"),
    ],
)
def test_other_formats_are_named_with_the_line_that_reads_them(tmp_path, content, line):
    (tmp_path / "tree.txt").write_text(content)
    with pytest.raises(TableError, match=rf"tree\.txt.*{line}"):
        read_edges(tmp_path / "tree.txt")


@pytest.mark.parametrize(
    "spellings", [("cafe\u0301", "caf\u00e9"), ("lake\u200d", "lake"), ("\u200bthe lake\u200c", "the lake")]
)
def test_spellings_of_one_text_are_one_label(spellings):
    rows = [("water", spellings[0], 1), ("water", spellings[1], 2)]
    tree = ht.LabelTree.from_paths(rows)
    assert tree.level_sizes == (1, 1, 2)
    leaves = ht.LabelTree.from_paths([("water", spellings[0])])
    assert leaves.paths([spellings[0], spellings[1]]).tolist() == [[0, 0], [0, 0]]
