"""Input that makes no tree ends in an error of hiertree that names it, never in another library's."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch

import hiertree as ht
from hiertree.errors import HierarchyError, HiertreeError, InputError, TableError


@pytest.mark.parametrize("edges", [None, 3, [("a", "b", "c")], [("a",)], ["ab"], [3], [(["a"], "b")], [(None, "b")]])
def test_edges_are_pairs_of_nodes(edges):
    with pytest.raises(HiertreeError, match="pair"):
        ht.LabelTree.from_edges(edges)


@pytest.mark.parametrize("graph", [None, [("a", "b")], "tree.graphml"])
def test_a_graph_is_one_of_networkx(graph):
    with pytest.raises(InputError, match=r"networkx\.DiGraph"):
        ht.LabelTree.from_networkx(graph)
    with pytest.raises(InputError, match=r"networkx\.DiGraph"):
        ht.relevance.from_networkx(graph, ["b"])


@pytest.mark.parametrize("rows", [None, 3, [3], [("a", ["b"])], [({"a": 1}, "b")], [(np.arange(2), "b")], "ab"])
def test_rows_are_sequences_of_hashable_labels(rows):
    with pytest.raises(HiertreeError, match="row"):
        ht.LabelTree.from_paths(rows)


def test_files_without_rows_and_labels_with_a_nul_character_are_refused(tmp_path):
    with pytest.raises(HierarchyError, match="NUL"):
        ht.LabelTree.from_edges([("r", "a\0")])
    (tmp_path / "t.csv").write_bytes(b"a,b\nx,y\0z\n")
    with pytest.raises(HiertreeError, match=r"t\.csv, line 2"):
        ht.LabelTree.from_csv(tmp_path / "t.csv", levels=["a", "b"])
    (tmp_path / "t.csv").write_text("a,b\n")
    with pytest.raises(TableError, match=r"t\.csv has no rows"):
        ht.LabelTree.from_csv(tmp_path / "t.csv", levels=["a", "b"])


@pytest.mark.parametrize("ids", [None, 3, [["a"]], [{}]])
def test_leaf_ids_are_a_sequence_of_hashable_ids(ids):
    with pytest.raises(HiertreeError, match="leaf ids"):
        ht.LabelTree.from_paths([("a", "b")]).paths(ids)


@pytest.mark.parametrize("levels", ["kind", [""], ["a", ""], ["a", "a"], []])
def test_levels_are_different_names_of_columns(tmp_path, levels):
    (tmp_path / "t.csv").write_text("a,b\nx,y\n")
    with pytest.raises(HiertreeError, match="levels"):
        ht.LabelTree.from_csv(tmp_path / "t.csv", levels=levels)


@pytest.mark.parametrize(
    ("query", "gallery"),
    [
        ([[0, 1], [0]], [[0, 1]]),
        (np.zeros((1, 2), int), torch.zeros((1, 2), dtype=torch.int64)),
        (np.zeros((1, 2)), np.zeros((1, 2))),
        (None, np.zeros((1, 2), int)),
        (np.array([["a"]]), np.array([[0]])),
    ],
)
def test_levels_are_those_of_integer_paths_of_one_library(query, gallery):
    with pytest.raises(InputError):
        ht.levels(query, gallery)


def test_levels_of_lists_are_those_of_arrays():
    assert ht.levels([[0, 1], [0, 2]], [[0, 1]]).tolist() == [[2], [1]]


@pytest.mark.parametrize("counts", [-np.ones((2, 3)), -torch.ones(2, 3), np.full((2, 3), np.nan), [[1], []], "counts"])
@pytest.mark.parametrize("function", [ht.relevance.hap, ht.relevance.linear, ht.relevance.gain])
def test_counts_are_numbers_that_are_not_negative(function, counts):
    with pytest.raises(InputError, match="counts"):
        function(counts)
    with pytest.raises(InputError, match="counts"):
        ht.relevance.weighted_ap(counts, weights=[0.5, 0.5])


def test_rows_without_an_order_are_refused():
    """The order of a set of texts depends on the hash seed of the process, and so would the tree."""
    for rows in ({("a", "x"), ("b", "y")}, [{"a", "x"}], [frozenset("ax")], [{"kind": "a", "type": "x"}]):
        with pytest.raises(InputError, match=r"row"):
            ht.LabelTree.from_paths(rows)
    tree = ht.LabelTree.from_paths([("a", "x"), ("b", "y")])
    with pytest.raises(InputError, match="edges"):
        ht.LabelTree.from_edges({("r", "a"), ("r", "b")})
    with pytest.raises(InputError, match="leaf ids"):
        tree.paths({"x", "y"})
    assert tree.restrict({"y", "x"}) == tree
    assert ht.LabelTree.from_paths(dict.fromkeys([("a", "x"), ("b", "y")])) == tree


def test_a_frame_of_rows_is_sent_to_from_frame():
    import polars as pl

    with pytest.raises(InputError, match="from_frame"):
        ht.LabelTree.from_paths(pl.DataFrame({"kind": ["a", "b"], "type": ["x", "y"]}))


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_nothing_and_nan_are_neither_labels_nor_items(missing):
    tree = ht.LabelTree.from_paths([("a", "x"), ("b", "y")])
    for refused in (
        lambda: ht.LabelTree.from_paths([("a", missing)]),
        lambda: ht.LabelTree.from_edges([("r", missing)]),
        lambda: ht.LabelTree.from_edges([(missing, "a")]),
        lambda: ht.LabelTree.from_networkx(nx.DiGraph([("r", float("nan"))])),
        lambda: tree.paths(["x", missing]),
        lambda: tree.lca_level("x", missing),
        lambda: tree.restrict([missing]),
        lambda: tree.subtree(missing),
        lambda: tree.labels_of([0, missing]),
        lambda: ht.samplers.ClassBalancedSampler([0, missing], batch_size=2, images_per_class=1),
        lambda: ht.samplers.TreeSampler([[0, 1], [missing, 2]], batch_size=2, images_per_class=2),
        lambda: ht.levels([[0, 1]], [[missing, 1]]),
    ):
        with pytest.raises(HiertreeError):
            refused()
