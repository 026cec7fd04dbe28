"""Graphs that are no plain tree: each defect names the policy that accepts it, and each policy does what it says."""

from __future__ import annotations

import csv
import json
import tracemalloc
from functools import partial

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import hiertree as ht
from hiertree.errors import (
    DuplicateLeafError,
    HierarchyError,
    InputError,
    NotATreeError,
    OptionError,
    UnevenDepthError,
    UnknownLeafError,
)

# "carnivore" is the first parent of "dog", "pet" the one nearest to the root
IS_A = [
    ("animal", "mammal"),
    ("mammal", "carnivore"),
    ("carnivore", "dog"),
    ("animal", "pet"),
    ("pet", "dog"),
    ("pet", "goldfish"),
    ("carnivore", "wolf"),
]
REVERSED = [(child, parent) for parent, child in IS_A]


def labels(tree, leaf):
    return tree.labels_of(tree.paths([leaf])[0])


def test_reversed_edges_are_recognized_and_read_when_the_direction_is_said():
    pairs = [("lake", "natural"), ("peak", "natural"), ("natural", "all")]
    with pytest.raises(NotATreeError, match=r"from child to parent\); pass direction='child-parent'"):
        ht.LabelTree.from_edges(pairs)
    tree = ht.LabelTree.from_edges(pairs, direction="child-parent")
    assert [labels(tree, leaf) for leaf in tree.leaves] == [("natural", "lake"), ("natural", "peak")]
    assert tree == ht.LabelTree.from_networkx(nx.DiGraph(pairs), direction="child-parent")
    with pytest.raises(NotATreeError, match="pass direction="):  # no policy makes a tree of one leaf of it
        ht.LabelTree.from_edges(pairs, multiple_parents="first", forest="join")


@pytest.mark.parametrize("roots", [[("cat", "pet")], [("cat", "pet"), ("dog", "pet"), ("dog", "mammal")]])
@pytest.mark.parametrize("policies", [{}, {"multiple_parents": "first", "forest": "join"}])
def test_reversed_edges_of_several_parents_are_recognized_under_every_policy(roots, policies):
    is_a = [*roots, ("cat", "feline"), ("pet", "animal"), ("feline", "mammal"), ("mammal", "animal")]
    reversal = r"leaves: 1: the edges seem to lead from child to parent\); pass direction="
    with pytest.raises(NotATreeError, match=reversal):
        ht.LabelTree.from_edges(is_a, **policies)
    tree = ht.LabelTree.from_edges(is_a, direction="child-parent", multiple_parents="shortest")
    assert labels(tree, "cat") == ("pet", "cat")


def test_more_roots_than_leaves_hint_at_reversed_edges_and_stay_possible():
    edges = [("red", "rose"), ("thorny", "rose"), ("red", "poppy"), ("garden", "rose"), ("wild", "poppy")]
    with pytest.raises(NotATreeError, match="roots: 4, leaves: 2: the edges seem"):
        ht.LabelTree.from_edges(edges)
    assert ht.LabelTree.from_edges(edges, multiple_parents="first", forest="join").leaves == ("rose", "poppy")


def test_children_of_one_label_are_two_nodes_or_an_error():
    """Merged, an image of one bank would be a positive of the other."""
    graph = nx.DiGraph([("r", "Q1"), ("r", "Q2"), ("Q1", "a"), ("Q2", "b")])
    nx.set_node_attributes(graph, {"Q1": "bank", "Q2": "bank"}, "label")
    names = {"Q1": "bank", "Q2": "bank"}
    for reader in (
        partial(ht.LabelTree.from_networkx, graph),
        partial(ht.LabelTree.from_edges, list(graph.edges), labels=names),
    ):
        with pytest.raises(NotATreeError, match=r"'Q1', 'Q2' below 'r' are called 'bank'.*homonyms='rename'"):
            reader()
        tree = reader(homonyms="rename")
        assert (tree.lca_level("a", "b"), labels(tree, "b")) == (0, ("bank (Q2)", "b"))
        assert labels(reader(homonyms="rename", labels=names | {"Q2": "shore"}), "a") == ("bank", "a")
    with pytest.raises(NotATreeError, match="1, 2 below 'r' are called 'lake'"):
        ht.LabelTree.from_edges([("r", 1), ("r", 2)], labels={1: "lake", 2: "lake"})


@pytest.mark.parametrize("parents", [["1", "2"], np.array(["1", "2"])])
def test_nodes_that_differ_in_type_alone_are_refused(parents):
    pairs = [("r", 1), ("r", 2), (parents[0], 10), (parents[1], 11)]
    for edges in (pairs, pd.DataFrame(pairs)):
        with pytest.raises(InputError, match=r"the nodes 1 and '1'.*make all of them text"):
            ht.LabelTree.from_edges(edges, forest="join")
    assert ht.LabelTree.from_edges([("lake", 17), ("lake", 5)]).leaves == (17, 5)


def test_labels_that_name_no_node_are_refused():
    edges = [("r", 1), ("r", 2)]
    with pytest.raises(InputError, match="the key '1', the graph the node 1"):
        ht.LabelTree.from_edges(edges, labels=json.loads('{"1": "lake", "2": "peak"}'))
    with pytest.raises(InputError, match="labels of 7: expected nodes as keys"):
        ht.LabelTree.from_edges(edges, labels={7: "lake"})
    assert labels(ht.LabelTree.from_edges(edges, labels={1: "lake", 7: "peak"}), 1) == ("lake",)


def test_a_root_that_is_its_own_parent_is_a_root_and_another_node_a_circle():
    ncbi = [(1, 1), (2, 1), (9, 2), (10, 2)]  # child and parent, as in nodes.dmp
    tree = ht.LabelTree.from_edges(ncbi, direction="child-parent")
    assert [labels(tree, leaf) for leaf in tree.leaves] == [(2, 9), (2, 10)]
    assert ht.LabelTree.from_networkx(nx.DiGraph(ncbi), direction="child-parent") == tree
    assert ht.LabelTree.from_edges(pd.DataFrame(ncbi), direction="child-parent") == tree
    with pytest.raises(NotATreeError, match="1 → 1"):
        ht.LabelTree.from_edges([(0, 1), (1, 1), (1, 2)])


@pytest.mark.parametrize("kind", [np.int64, np.float64, str])
def test_edges_are_an_array_or_its_rows(kind):
    array = np.array([[0, 1], [0, 2], [1, 7], [2, 8]]).astype(kind)
    tree = ht.LabelTree.from_edges(array)
    seven, eight = ("7", "8") if kind is str else (7, 8)
    assert (tree.leaves, tree.lca_level(seven, eight)) == ((seven, eight), 0)
    assert all(type(leaf) is (str if kind is str else int) for leaf in tree.leaves)
    if kind is not np.float64:
        assert ht.LabelTree.from_edges(list(array)) == tree
    with pytest.raises(InputError, match="a pair of nodes"):
        ht.LabelTree.from_edges(np.zeros((2, 3), int))


def test_a_chain_beyond_255_levels_is_refused_before_it_takes_memory():
    tracemalloc.start()
    with pytest.raises(HierarchyError, match="256 levels or more"):
        ht.LabelTree.from_edges([(node, node + 1) for node in range(20_000)])
    assert tracemalloc.get_traced_memory()[1] < 100e6  # 20,000² / 2 places would take 1.6 GB
    tracemalloc.stop()


def test_many_roots_in_a_frame_take_no_square_of_their_number():
    num_roots = 20_000
    frame = pd.DataFrame({"parent": [None] * num_roots + list(range(num_roots)), "child": list(range(2 * num_roots))})
    assert ht.LabelTree.from_edges(frame, forest="join").level_sizes == (num_roots, num_roots)


def test_of_several_parents_the_first_or_the_nearest_to_the_root_is_kept():
    with pytest.raises(NotATreeError, match=r"'dog' has the parents 'carnivore', 'pet'.*multiple_parents="):
        ht.LabelTree.from_edges(IS_A, uneven="pad")
    first = ht.LabelTree.from_edges(IS_A, uneven="pad", multiple_parents="first")
    nearest = ht.LabelTree.from_edges(REVERSED, uneven="pad", multiple_parents="shortest", direction="child-parent")
    assert labels(first, "dog") == ("mammal", "carnivore", "dog")
    assert labels(nearest, "dog") == ("pet", "dog", "dog")
    assert set(first.leaves) == set(nearest.leaves) == {"dog", "goldfish", "wolf"}


def test_an_inner_node_that_loses_its_children_is_a_leaf_if_items_carry_it_and_else_named(caplog):
    edges = [("all", "a"), ("a", "b"), ("b", "x"), ("all", "x"), ("all", "y"), ("other", "y")]
    assert ht.LabelTree.from_edges(edges, multiple_parents="shortest").leaves == ("x", "y")
    assert "inner nodes left without children: 3 dropped ('other', 'a', 'b')" in caplog.text
    caplog.clear()
    read = partial(ht.LabelTree.from_edges, edges, multiple_parents="shortest", uneven="pad")
    assert set(read(inner_leaves="all").leaves) == {"a", "b", "x", "y"}  # "all" is the root
    assert "1 dropped ('other')" in caplog.text
    caplog.clear()
    assert set(read(inner_leaves="all", forest="join").leaves) == {node for edge in edges for node in edge}
    graph = nx.DiGraph(edges[:-1])
    graph.nodes["b"]["leaf_ids"] = ("b1", "b2")
    tree = ht.LabelTree.from_networkx(graph, multiple_parents="shortest", uneven="pad")
    assert (set(tree.leaves), labels(tree, "b2")) == ({"b1", "b2", "x", "y"}, ("a", "b"))
    assert "dropped" not in caplog.text


def test_wikidata_types_have_the_length_of_the_shortest_path(shared_data):
    with (shared_data / "wikidata_p279" / "edges.csv").open(encoding="utf-8") as file:
        graph = nx.DiGraph((row["parent_qid"], row["child_qid"]) for row in csv.DictReader(file))
    circles = {node: number for number, group in enumerate(nx.strongly_connected_components(graph)) for node in group}
    graph.remove_edges_from([edge for edge in graph.edges if circles[edge[0]] == circles[edge[1]]])  # Wikidata has some
    tree = ht.LabelTree.from_networkx(graph, uneven="pad", multiple_parents="shortest", forest="join")
    roots = [node for node, degree in graph.in_degree() if degree == 0]
    nearest = nx.multi_source_dijkstra_path_length(graph, roots)
    for leaf in np.random.default_rng(0).choice(np.array(tree.leaves), 200, replace=False):
        path = labels(tree, leaf)
        assert path.index(leaf) == nearest[leaf]


def test_several_roots_are_refused_or_become_the_labels_of_level_1():
    edges = [("natural", "lake"), ("human-made", "church"), ("natural", "peak")]
    with pytest.raises(NotATreeError, match=r"2 roots: 'natural', 'human-made'.*forest='join'"):
        ht.LabelTree.from_edges(edges)
    tree = ht.LabelTree.from_edges(edges, forest="join")
    assert tree.level_sizes == (2, 3)
    assert labels(tree, "peak") == ("natural", "peak")


def test_a_circle_is_an_error_under_every_policy():
    with pytest.raises(NotATreeError, match="above itself"):
        ht.LabelTree.from_edges(
            [("r", "a"), ("a", "b"), ("b", "a")], multiple_parents="first", forest="join", uneven="pad"
        )


def test_inner_nodes_that_items_carry_become_leaves_of_their_own():
    edges = [("all", "dog"), ("dog", "poodle"), ("dog", "beagle"), ("all", "cat"), ("cat", "manx")]
    with pytest.raises(UnknownLeafError, match="'dog' is an inner node"):
        ht.LabelTree.from_edges(edges).paths(["poodle", "dog"])
    with pytest.raises(UnevenDepthError):
        ht.LabelTree.from_edges(edges, inner_leaves=["dog"])
    tree = ht.LabelTree.from_edges(edges, inner_leaves=["dog"], uneven="pad")
    assert tree.leaves == ("dog", "poodle", "beagle", "manx")
    assert [tree.lca_level("dog", leaf) for leaf in tree.leaves] == [2, 1, 1, 0]
    assert set(ht.LabelTree.from_edges(edges, inner_leaves="all", uneven="pad").leaves) > {"dog", "cat"}
    for label in ("bird", "all"):
        with pytest.raises(UnknownLeafError, match=label):
            ht.LabelTree.from_edges(edges, inner_leaves=[label], uneven="pad")


def test_rows_that_end_at_an_inner_node_are_leaves_of_their_own():
    tree = ht.LabelTree.from_paths([("animal", "dog"), ("animal", "dog", "poodle")], uneven="pad")
    assert tree.lca_level("dog", "poodle") == 2
    with pytest.raises(DuplicateLeafError, match="last labels are repeated"):
        ht.LabelTree.from_edges([("r", "a"), ("a", ("a",))], labels={("a",): "a"}, inner_leaves=["a"], uneven="pad")


def test_edges_come_from_frames_whose_rows_without_a_parent_are_roots():
    columns = {"child": ["natural", "lake", "peak"], "parent": [None, "natural", "natural"]}
    for frame in (pd.DataFrame(columns), pytest.importorskip("polars").DataFrame(columns)):
        assert ht.LabelTree.from_edges(frame, direction="child-parent").leaves == ("lake", "peak")
        assert ht.LabelTree.from_edges(frame[["parent", "child"]]).leaves == ("lake", "peak")
    with pytest.raises(InputError, match="two columns"):
        ht.LabelTree.from_edges(pd.DataFrame({**columns, "note": ["", "", ""]}))
    with pytest.raises(InputError, match="the edge"):
        ht.LabelTree.from_edges(pd.DataFrame({"parent": ["a", "a"], "child": ["b", None]}))


@pytest.mark.parametrize(
    "policy", [{"direction": "up"}, {"multiple_parents": "last"}, {"forest": True}, {"inner_leaves": "some"}]
)
def test_unknown_policies_are_refused(policy):
    with pytest.raises(OptionError, match=next(iter(policy))):
        ht.LabelTree.from_edges(IS_A, **policy)


def test_misspelt_policies_are_refused():
    with pytest.raises(OptionError, match="did you mean 'multiple_parents'"):
        ht.LabelTree.from_edges(IS_A, multiple_parent="first")


def test_wordnet_graphs_of_tiny_imagenet_become_trees(shared_data):
    name = "nbdt__hierarchies__TinyImagenet200__graph-wordnet.json"
    content = json.loads((shared_data / "taxonomies" / "nbdt" / name).read_text())
    graph = nx.node_link_graph(content, edges="links")
    policies = {"uneven": "pad", "multiple_parents": "shortest", "forest": "join"}
    with pytest.raises(NotATreeError, match="'n00021265', 'n07555863' below 'n00020827' are called 'food'"):
        ht.LabelTree.from_networkx(graph, **policies)
    tree = ht.LabelTree.from_networkx(graph, **policies, homonyms="rename")
    assert len(tree) == 200
    texts = {label for leaf in tree.leaves for label in labels(tree, leaf)}
    assert {"food (n00021265)", "food (n07555863)"} <= texts


def test_a_tree_of_some_leaves_keeps_its_levels_and_order():
    tree = ht.LabelTree.from_paths(
        [("natural", "lake", 17), ("human-made", "church", 4), ("natural", "peak", 5)], level_names=["k", "s", "id"]
    )
    part = tree.restrict(np.array([5, 17, 5]))
    assert (part.leaves, part.level_sizes, part.level_names) == ((17, 5), (1, 2, 2), ("k", "s", "id"))
    assert part.paths([5]).tolist() == [[0, 1, 1]]
    for bad, error in [([3], UnknownLeafError), ([], HierarchyError), (5, InputError), ("17", InputError)]:
        with pytest.raises(error):
            tree.restrict(bad)


def test_every_cycle_is_named():
    pairs = [(f"{name}{number}", f"{successor}{number}") for number in range(6) for name, successor in ("ab", "ba")]
    with pytest.raises(NotATreeError) as raised:
        ht.LabelTree.from_edges([("root", "leaf"), *pairs])
    assert all(f"'a{number}' → 'b{number}' → 'a{number}'" in str(raised.value) for number in range(6))


def test_the_log_counts_the_nodes_that_lose_parents(caplog):
    edges = [("r", "p"), ("r", "q"), ("p", "x"), ("p", "y"), ("q", "x"), ("q", "y"), ("q", "z"), ("p", "w"), ("r", "w")]
    ht.LabelTree.from_edges(edges, multiple_parents="first")
    assert "nodes of several parents: 3; each keeps one" in caplog.text
