"""LabelTree on a seven-node tree worked out by hand, and every way its input can be wrong."""

from __future__ import annotations

import os
import pickle

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hiertree as ht
from hiertree.errors import (
    DuplicateLeafError,
    EmptyLabelError,
    HierarchyError,
    NotATreeError,
    OptionError,
    ShapeError,
    TableError,
    UnevenDepthError,
    UnknownLeafError,
)

ROWS = [("natural", "lake", 17), ("natural", "peak", 5), ("human-made", "church", 4), ("natural", "lake", 9)]
NAMES = ["kind", "supercategory", "landmark_id"]
ISLANDS = [("natural", "island", 1), ("human-made", "island", 2)]


@pytest.fixture
def tree():
    return ht.LabelTree.from_paths(ROWS, level_names=NAMES)


def test_ids_number_the_nodes_of_a_level_in_order_of_first_appearance(tree):
    np.testing.assert_array_equal(tree.paths([17, 5, 4, 9]), [[0, 0, 0], [0, 1, 1], [1, 2, 2], [0, 0, 3]])
    assert tree.level_sizes == (2, 3, 4)
    assert tree.paths([4]).dtype == np.int32


def test_lca_level_is_the_number_of_shared_ancestors(tree):
    assert [tree.lca_level(17, leaf) for leaf in (17, 9, 5, 4)] == [3, 2, 1, 0]


def test_same_text_under_two_parents_is_two_nodes_and_is_reported():
    tree = ht.LabelTree.from_paths(ISLANDS, level_names=NAMES)
    assert tree.lca_level(1, 2) == 0
    assert tree.summary()["homonyms"].tolist() == [0, 1, 0]


REFUSED = [
    (ISLANDS, {"homonyms": "error"}, NotATreeError, r"'island' stands under \('natural',\) and \('human-made',\)"),
    ([("a", 1), ("b", 1)], {}, NotATreeError, r"row 1: 1 has the path .* but row 0 gave"),
    ([("a", 1), ("a", 2), ("a", 1)], {}, DuplicateLeafError, "row 2: 1 is already in row 0"),
    *(
        ([("a", 1), (empty, 2)], {}, EmptyLabelError, "row 1: the label of level 1")
        for empty in ("", "  ", None, np.nan)
    ),
    ([("a", "b", "x"), ("a", "y")], {}, UnevenDepthError, "has 2 levels"),
    ([(), ("bird",)], {"uneven": "unknown"}, EmptyLabelError, "no label"),
    ([], {}, HierarchyError, "no labels at all"),
    *((ROWS, {name: "x"}, OptionError, f"{name}='x'") for name in ("leaf", "uneven", "repeats", "homonyms")),
    (ROWS, {"level_names": ["only", "two"]}, ShapeError, "3 different names"),
    ([("a", "b"), ("a", "b\0c")], {}, HierarchyError, r"row 1: the label of level 2 is 'b\\x00c'.*NUL"),
    ([("a", os.fsdecode(b"caf\xe9"))], {}, HierarchyError, r"row 0: .*'caf\\udce9'.*text that UTF-8 holds"),
    ([("5", "a"), (5, "b")], {"level_names": ["kind", "id"]}, HierarchyError, "'kind' has the labels '5' and 5"),
    ([tuple(range(256))], {}, HierarchyError, "256 levels"),
]


@pytest.mark.parametrize(("rows", "options", "error", "message"), REFUSED)
def test_rows_that_make_no_tree_are_refused_by_what_is_wrong(rows, options, error, message):
    with pytest.raises(error, match=message):
        ht.LabelTree.from_paths(rows, **options)


def test_rows_given_twice_may_be_merged():
    assert len(ht.LabelTree.from_paths([("a", 1), ("a", 2), ("a", 1)], repeats="merge")) == 2


def test_uneven_depths_need_a_policy():
    rows = [("a", "b", "x"), ("a", "y")]
    padded = ht.LabelTree.from_paths(rows, uneven="pad")
    assert padded.labels_of(padded.paths(["y"])[0]) == ("a", "y", "y")
    cut = ht.LabelTree.from_paths([*rows, ("a", "b", "z")], uneven="truncate")
    assert cut.num_levels == 2
    assert cut.lca_level("x", "z") == 2
    assert cut.leaves == ("x", "y", "z")


def test_unknown_leaf_is_named(tree):
    with pytest.raises(UnknownLeafError, match="1 unknown leaf ids: 99") as caught:
        tree.paths([17, 99, 99])
    assert isinstance(caught.value, KeyError)


def test_edges_make_the_tree_that_the_rows_make(tree):
    edges = [("root", "natural"), ("root", "human-made"), ("natural", "lake"), ("natural", "peak")]
    edges += [("human-made", "church"), ("lake", 17), ("peak", 5), ("church", 4), ("lake", 9)]
    edge_tree = ht.LabelTree.from_edges(edges)
    assert sorted(map(str, edge_tree.leaves)) == sorted(map(str, tree.leaves))
    for a in tree.leaves:
        assert [edge_tree.lca_level(a, b) for b in tree.leaves] == [tree.lca_level(a, b) for b in tree.leaves]


@pytest.mark.parametrize(
    ("edges", "error", "message"),
    [
        ([("a", "b"), ("b", "c"), ("c", "b")], NotATreeError, "'b' → 'c' → 'b'"),
        ([("r", "a"), ("r", "b"), ("a", "x"), ("b", "x")], NotATreeError, "'x' has the parents 'a', 'b'"),
        ([("r", "a"), ("r", "b"), ("b", "x")], UnevenDepthError, "has 1 levels"),
        ([("r", "a"), ("r", "")], EmptyLabelError, "level 1"),
        ([], HierarchyError, "no edge"),
    ],
)
def test_graph_that_is_no_tree_is_refused(edges, error, message):
    with pytest.raises(error, match=message):
        ht.LabelTree.from_edges(edges)


def test_networkx_graph_is_an_arborescence_and_reads_back(tree):
    graph = tree.to_networkx()
    assert nx.is_arborescence(graph)
    assert graph.nodes[("natural", "lake")] == {"label": "lake", "level": 2, "id": 0}
    assert _same_tree(ht.LabelTree.from_networkx(graph), tree)


def test_networkx_labels_may_be_given_apart():
    tree = ht.LabelTree.from_edges([("r", "n1"), ("n1", "n2")], labels={"n1": "animal"})
    assert tree.labels_of([0, 0]) == ("animal", "n2")
    assert tree.leaves == ("n2",)


@pytest.mark.parametrize("path", [[0, 0, 0, 0], [0, 9], [-1]])
def test_a_path_that_the_tree_does_not_have_is_refused(tree, path):
    with pytest.raises(UnknownLeafError, match="level by level"):
        tree.labels_of(path)


def test_subtree_keeps_the_levels_below_the_node(tree):
    lakes = tree.subtree("natural", "lake")
    assert lakes.leaves == (17, 9)
    assert lakes.level_names == ("landmark_id",)
    with pytest.raises(UnknownLeafError):
        tree.subtree("natural", "dam")
    with pytest.raises(UnknownLeafError):
        tree.subtree("natural", "lake", 17)


def test_summary_counts_nodes_and_children(tree):
    summary = tree.summary()
    assert summary["nodes"].tolist() == [2, 3, 4]
    assert summary["most_children"].tolist() == [2, 2, 2]
    assert summary["least_children"].tolist() == [2, 1, 1]


def test_csv_and_json_read_back_as_the_same_tree(tree, tmp_path):
    tree.to_csv(tmp_path / "tree.csv")
    tree.to_json(tmp_path / "tree.json")
    assert ht.LabelTree.from_csv(tmp_path / "tree.csv", levels=NAMES) == tree
    assert ht.LabelTree.from_json(tmp_path / "tree.json") == tree


def test_json_keeps_the_numbers_of_nodes_whose_leaves_alternate(tmp_path):
    rows = [("b", 5), ("a", 6), ("b", 7), ("a", 8), ("c", 9), ("b", 3)]
    tree = ht.LabelTree.from_paths(rows)
    tree.to_json(tmp_path / "tree.json")
    read = ht.LabelTree.from_json(tmp_path / "tree.json")
    assert (read.leaves, read == tree) == (tree.leaves, True)
    assert [read.labels_of(path) for path in tree.paths(tree.leaves).tolist()] == rows


@pytest.mark.parametrize("make", [np.int64, np.float32, np.str_, lambda number: ("n", (number,))])
def test_json_holds_labels_of_every_type_that_graphs_and_rows_have(make, tmp_path):
    rows = [tuple(map(make, row)) for row in ((0, 1), (0, 2), (3, 4))]
    for tree in (
        ht.LabelTree.from_paths(rows),
        ht.LabelTree.from_edges([(make(9), make(0)), (make(9), make(3)), *rows]),
    ):
        tree.to_json(tmp_path / "tree.json")
        assert ht.LabelTree.from_json(tmp_path / "tree.json") == tree
        assert tree.leaves == tuple(row[-1] for row in rows)


def test_the_rest_of_a_path_may_be_unknown(tmp_path):
    rows = [
        ("bird",),
        ("bird", "wren", "w"),
        ("mammal", "cat"),
        ("bird", "owl", "o"),
        ("bird", "owl"),
        ("mammal", "bat", "b"),
    ]
    tree = ht.LabelTree.from_paths(rows, uneven="unknown", level_names=NAMES)
    paths = tree.paths(["bird", "w", "cat", "owl"]).tolist()
    assert paths == [[0, -1, -1], [0, 0, 0], [1, 1, -1], [0, 2, -1]]
    assert (tree.level_sizes, tree.summary()["nodes"].tolist()) == ((2, 4, 3), [2, 4, 3])
    assert [tree.labels_of(path) for path in paths] == [
        ("bird",),
        ("bird", "wren", "w"),
        ("mammal", "cat"),
        ("bird", "owl"),
    ]
    assert [tree.lca_level("bird", leaf) for leaf in ("bird", "w", "cat")] == [1, 1, 0]
    assert tree.lca_level("owl", "o") == 2
    assert tree.subtree("bird").leaves == ("w", "o", "owl")
    assert tree.restrict(["bird"]).summary()["nodes"].tolist() == [1, 0, 0]
    tree.to_json(tmp_path / "tree.json")
    assert ht.LabelTree.from_json(tmp_path / "tree.json") == tree
    tree.to_csv(tmp_path / "tree.csv")
    assert ht.LabelTree.from_csv(tmp_path / "tree.csv", levels=NAMES, uneven="unknown") == tree
    branches = ht.LabelTree.from_networkx(tree.to_networkx(), uneven="unknown")
    assert set(branches.leaves) == set(tree.leaves)
    assert [branches.labels_of(path) for path in branches.paths(["bird", "w", "cat", "owl"])] == [
        *map(tree.labels_of, paths)
    ]


def test_json_keeps_leaves_that_share_their_finest_node(tmp_path):
    tree = ht.LabelTree.from_paths([("a", "b", "x"), ("a", "b", "z"), ("a", "y")], uneven="truncate")
    tree.to_json(tmp_path / "tree.json")
    assert ht.LabelTree.from_json(tmp_path / "tree.json") == tree


def test_csv_errors_name_file_and_line(tmp_path):
    (tmp_path / "labels.csv").write_text("kind,leaf\nnatural,1\n,2\n")
    with pytest.raises(EmptyLabelError, match=r"labels\.csv, line 3: the label of level 1"):
        ht.LabelTree.from_csv(tmp_path / "labels.csv", levels=["kind", "leaf"])
    with pytest.raises(TableError, match="leef"):
        ht.LabelTree.from_csv(tmp_path / "labels.csv", levels=["kind", "leef"])


def test_csv_leaf_ids_with_leading_zeros_stay_text(tmp_path):
    (tmp_path / "labels.csv").write_text("a,b\nx,017\nx,18\n")
    assert ht.LabelTree.from_csv(tmp_path / "labels.csv", levels=["a", "b"]).leaves == ("017", "18")


def test_tree_survives_pickling_and_cannot_be_changed(tree):
    assert pickle.loads(pickle.dumps(tree)) == tree
    with pytest.raises(ValueError, match="read-only"):
        tree._paths[0, 0] = 7


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 40)), min_size=1, unique_by=lambda r: r[2])
)
def test_levels_of_paths_equal_shared_labels_of_rows(rows):
    tree = ht.LabelTree.from_paths(rows)
    paths = tree.paths([row[-1] for row in rows])
    levels = ht.levels(paths, paths)
    for i, a in enumerate(rows):
        for j, b in enumerate(rows):
            expected = next((level for level in range(3) if a[level] != b[level]), 3)
            assert levels[i, j] == expected


def _same_tree(a, b):
    """Equal but for the order of leaves."""
    rows = [{leaf: t.labels_of(t.paths([leaf])[0]) for leaf in t.leaves} for t in (a, b)]
    return a.level_names == b.level_names and rows[0] == rows[1]


def test_equal_numbers_of_an_array_or_tensor_are_one_label():
    torch, rows = pytest.importorskip("torch"), [[0, 1], [0, 2], [3, 1]]
    for arrays in (np.array(rows), torch.tensor(rows), list(map(torch.tensor, rows))):
        assert ht.LabelTree.from_paths(arrays, leaf="path") == ht.LabelTree.from_paths(rows, leaf="path")


def test_labels_are_those_of_a_path_that_exists():
    tree = ht.LabelTree.from_paths([("n", "lake", 1), ("n", "peak", 2), ("h", "dam", 3)])
    rows = [tree.labels_of(path) for path in tree.paths(tree.leaves)]
    assert rows == [("n", "lake", 1), ("n", "peak", 2), ("h", "dam", 3)]
    for path in ([0, 0, 2], [1, 0], [0, 2, 2]):
        with pytest.raises(UnknownLeafError, match=r"node \d of level \d above node"):
            tree.labels_of(path)


def test_drawing_cuts_long_families_and_says_so(tree):
    wide_tree = ht.LabelTree.from_paths([("a", i) for i in range(9)])
    assert wide_tree.to_text(most_children=3).splitlines() == ["└── a", "    ├── 0", "    ├── 1", "    └── … 7 more"]
    assert tree.to_text().splitlines()[0] == "├── natural"
