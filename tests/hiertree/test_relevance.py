"""Relevance tables against definitions worked out by hand, in numpy and in torch."""

from __future__ import annotations

import math
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import hiertree as ht
from hiertree import LabelTree, relevance
from hiertree.errors import HierarchyError, OptionError, ShapeError

COUNTS = np.array([[5, 2, 4, 1], [5, 2, 0, 1]])


def test_hap_divides_by_the_items_of_the_level_and_skips_empty_levels():
    table = ht.relevance.hap(COUNTS, alpha=2)
    np.testing.assert_allclose(table, [[0, (1 / 3) ** 2 / 2, (2 / 3) ** 2 / 4, 1], [0, (1 / 3) ** 2 / 2, 0, 1]])


def test_hap_of_alpha_zero_still_gives_nothing_to_irrelevant_items():
    np.testing.assert_allclose(ht.relevance.hap(COUNTS, alpha=0)[0], [0, 1 / 2, 1 / 4, 1])


def test_linear_and_gain_depend_on_the_level_alone():
    np.testing.assert_allclose(ht.relevance.linear(COUNTS)[0], [0, 1 / 3, 2 / 3, 1])
    np.testing.assert_allclose(ht.relevance.gain(COUNTS)[0], [0, 1, 3, 7])


def test_weighted_ap_sums_weights_over_items_at_least_that_near():
    table = ht.relevance.weighted_ap(COUNTS, weights=[0.5, 0.3, 0.2])
    np.testing.assert_allclose(table[0], [0, 0.5 / 7, 0.5 / 7 + 0.3 / 5, 0.5 / 7 + 0.3 / 5 + 0.2])


@pytest.mark.parametrize("function", [ht.relevance.hap, ht.relevance.linear, ht.relevance.gain])
def test_tables_are_the_same_in_torch(function):
    table = function(torch.from_numpy(COUNTS))
    assert isinstance(table, torch.Tensor)
    np.testing.assert_array_equal(table.numpy(), function(COUNTS))


@given(st.lists(st.integers(0, 50), min_size=2, max_size=8), st.floats(0, 10))
def test_tables_are_finite_and_start_at_zero(counts, alpha):
    row = np.array([counts])
    weights = [1 / (len(counts) - 1)] * (len(counts) - 1)
    for table in (ht.relevance.hap(row, alpha=alpha), ht.relevance.weighted_ap(row, weights=weights)):
        assert table[0, 0] == 0
        assert np.isfinite(table).all()
        assert (table >= 0).all()


@pytest.mark.parametrize("alpha", [-1, float("nan"), float("inf"), None, "1", np.array([1, 2]), 1j])
def test_hap_refuses_impossible_alpha(alpha):
    with pytest.raises(OptionError, match="alpha"):
        ht.relevance.hap(COUNTS, alpha=alpha)


IMPOSSIBLE = [
    [1.0],
    [0.5, 0.5, 0.5],
    [2.0, -0.5, -0.5],
    [],
    [float("nan"), 0.5, 0.5],
    None,
    1.0,
    ["a", "b"],
    [0.5, None],
]


@pytest.mark.parametrize("weights", IMPOSSIBLE)
def test_weighted_ap_refuses_impossible_weights(weights):
    with pytest.raises(OptionError, match="weights"):
        ht.relevance.weighted_ap(COUNTS, weights=weights)


def test_alpha_and_weights_may_be_any_real_numbers():
    table, weighted = ht.relevance.hap(COUNTS, alpha=0.5), ht.relevance.weighted_ap(COUNTS, weights=[0.25, 0.25, 0.5])
    np.testing.assert_array_equal(ht.relevance.hap(COUNTS, alpha=Fraction(1, 2)), table, strict=True)
    for weights in (torch.tensor([0.25, 0.25, 0.5]), [Fraction(1, 4), Fraction(1, 4), Fraction(1, 2)]):
        np.testing.assert_array_equal(ht.relevance.weighted_ap(COUNTS, weights=weights), weighted, strict=True)


def test_counts_need_a_row_per_query():
    with pytest.raises(ShapeError):
        ht.relevance.linear(np.array([1, 2]))


GRAPH = nx.DiGraph([("r", "a"), ("r", "b"), ("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1")])


@pytest.mark.parametrize(
    ("measure", "expected"), [("lca_height", [0, 1 / 2, 1]), ("resnik", [0, math.log(4 / 3) / math.log(4), 1])]
)
def test_relevance_from_networkx_by_hand(measure, expected):
    table = ht.relevance.from_networkx(GRAPH, ["a1", "b1"], measure=measure)
    np.testing.assert_allclose(table[0], expected)
    assert table.shape == (2, 3)
    assert (np.diff(table, axis=1) >= 0).all()


def test_rare_branches_are_more_informative():
    table = ht.relevance.from_networkx(GRAPH, ["a1", "b1"], measure="resnik")
    assert table[1, 1] == pytest.approx(1.0)
    assert table[0, 1] < 0.3


def test_relevance_from_networkx_refuses_what_it_cannot_use():
    with pytest.raises(OptionError, match="measure='cosine'"):
        ht.relevance.from_networkx(GRAPH, ["a1"], measure="cosine")
    with pytest.raises(HierarchyError):
        ht.relevance.from_networkx(nx.DiGraph([("a", "b"), ("c", "b")]), ["b"])


def test_heights_without_padding_are_those_of_barz_and_denzler():
    graph = nx.DiGraph([("r", "a"), ("a", "y"), ("a", "w"), ("r", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("b", "f")])
    tree = LabelTree.from_networkx(graph, uneven="pad")
    height = {
        node: max(len(path) for path in nx.single_source_shortest_path(graph, node).values()) - 1 for node in graph
    }
    table = relevance.from_networkx(graph, list(tree.leaves), measure="unpadded_lca_height")
    for query, row in zip(tree.leaves, table, strict=True):
        for item in tree.leaves:
            ancestor = nx.lowest_common_ancestor(graph, query, item)
            level = tree.lca_level(query, item)
            assert row[level] == pytest.approx(1 - height[ancestor] / height["r"])
    with pytest.raises(OptionError, match="the networkx graph"):
        relevance.from_networkx(tree, list(tree.leaves), measure="unpadded_lca_height")


def test_a_label_of_its_parents_text_is_a_level_where_it_is_no_padding():
    graph = nx.DiGraph([("r", 0), (0, 1), (1, 2), ("r", 3), (3, 4), (4, 5), ("r", 6)])
    texts = {0: "bridge", 1: "bridge", 2: "bridge", 3: "lake", 4: "bay", 5: "Rhine", 6: "rock"}
    nx.set_node_attributes(graph, texts, "label")
    table = relevance.from_networkx(graph, [2, 6], measure="unpadded_lca_height")
    np.testing.assert_allclose(table, [[0, 1 / 3, 2 / 3, 1], [0, 1, 1, 1]])
