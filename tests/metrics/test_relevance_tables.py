"""A relevance may be a table with one value per query and level."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from metric_cases import cosines

import hiertree as ht
from hiertree.errors import OptionError
from hiertree.metrics import (
    Rules,
    evaluate,
    evaluate_codes,
    evaluate_ranking,
    evaluate_scores,
    h_ap,
    hierarchical_precision_recall,
)


@pytest.fixture
def retrieval():
    random = np.random.default_rng(0)
    paths = np.stack([np.arange(60) // 20, np.arange(60) // 4], axis=1)
    return random.standard_normal((60, 8)), paths


def test_a_table_of_equal_rows_is_the_function_that_gives_them(retrieval):
    embeddings, paths = retrieval
    bits, run = embeddings > 0, np.argsort(-(embeddings @ embeddings.T), axis=1)
    scores, levels = embeddings @ embeddings.T, ht.levels(paths, paths)
    table = np.tile([0.0, 0.5, 1.0], (60, 1))
    for ties in ("average", "worst", "best", "index"):
        for entrance in (
            lambda **options: evaluate(embeddings, paths, **options),
            lambda **options: evaluate(embeddings, paths, block_size=8, **options),
            lambda **options: evaluate(embeddings[:, :2], paths, device="cpu", **options),
            lambda **options: evaluate_codes(bits, paths, **options),
            lambda **options: evaluate_ranking(run, query_paths=paths, **options),
            lambda **options: evaluate_scores(scores, levels, valid=~np.eye(60, dtype=bool), **options),
        ):
            expected = entrance(metrics=["H-AP", "H-AP[1]"], ties=ties, relevance=ht.relevance.linear).values
            for relevance_table in (table, torch.from_numpy(table), table.tolist()):
                result = entrance(metrics=["H-AP", "H-AP[1]"], ties=ties, relevance=relevance_table)
                np.testing.assert_array_equal(result.values, expected)
            assert "table" in result.convention.relevance


@pytest.mark.parametrize(("name", "table"), [("linear", [0, 1 / 2, 1]), ("gain", [0, 1, 3])])
def test_a_relevance_by_name_is_its_formula(retrieval, name, table):
    embeddings, paths = retrieval
    scores, levels = embeddings @ embeddings.T, ht.levels(paths, paths)
    for entrance in (
        lambda relevance: evaluate(embeddings, paths, metrics=["H-AP"], relevance=relevance).values[:, 0],
        lambda relevance: h_ap(scores, levels, valid=~np.eye(60, dtype=bool), relevance=relevance),
    ):
        np.testing.assert_array_equal(entrance(None), entrance("hap"))
        np.testing.assert_array_equal(entrance(name), entrance(np.tile(np.array(table, np.float64), (60, 1))))


@pytest.mark.parametrize("weights", [(0.25, 0.75), np.array([0.25, 0.75])])
def test_weights_of_levels_weigh_their_aps(retrieval, weights):
    embeddings, paths = retrieval
    result = evaluate(embeddings, paths, metrics=["H-AP", "AP[1]", "AP[2]"], relevance=weights)
    np.testing.assert_allclose(result.values[:, 0], result.values[:, 1:] @ [0.25, 0.75], rtol=1e-12)


def test_counts_include_the_query_in_codes_and_ranked_indices_as_in_embeddings(retrieval):
    embeddings, paths = retrieval
    run, signs = np.argsort(-cosines(embeddings, embeddings), axis=1), np.sign(embeddings)
    options = {"metrics": ["H-AP"], "compat": Rules(counts="official")}
    for result, vectors in (
        (evaluate_codes(embeddings > 0, paths, **options), signs),
        (evaluate_ranking(run, query_paths=paths, **options), embeddings),
    ):
        np.testing.assert_allclose(result.values, evaluate(vectors, paths, **options).values, atol=1e-12)
        assert "the query itself included" in str(result.convention)


def test_each_query_has_the_relevance_of_its_own_row(retrieval):
    embeddings, paths = retrieval
    table = np.sort(np.random.default_rng(1).random((60, 3)), axis=1)
    table[:, 0] = 0
    expected = evaluate(embeddings, paths, metrics=["H-AP"], relevance=table).values
    for query in range(0, 60, 13):
        query_table = np.tile(table[query], (60, 1))
        single = evaluate(embeddings, paths, metrics=["H-AP"], relevance=query_table).values
        assert expected[query] == single[query]
    scores, levels = np.random.default_rng(2).random((2, 9)), np.arange(18).reshape(2, 9) % 3
    pair = h_ap(scores, levels, relevance=table[:2])
    assert pair[1] == h_ap(scores[1:], levels[1:], relevance=table[1:2])[0]


def test_the_similarity_of_nodes_in_a_tree_is_a_relevance(retrieval):
    embeddings, _ = retrieval
    tree = ht.LabelTree.from_paths([("lake", "a", i) for i in range(3)] + [("church", "b", i) for i in range(3, 6)])
    leaves = np.arange(60) % 6
    table = ht.relevance.from_networkx(tree, leaves)
    result = evaluate(embeddings, tree.paths(leaves), metrics=["H-AP"], relevance=table)
    linear = evaluate(embeddings, tree.paths(leaves), metrics=["H-AP"], relevance=ht.relevance.linear)
    np.testing.assert_allclose(result.values, linear.values, atol=1e-12)


@pytest.mark.parametrize(
    "bad", ["foo", 3, [[0.0, 1.0, 2.0]], np.ones((60, 3)), -np.ones((60, 3)) * [0, 1, 1], np.zeros((60, 4)), [None]]
)
def test_what_is_no_relevance_is_refused(retrieval, bad):
    with pytest.raises(OptionError, match="relevance"):
        evaluate(*retrieval, relevance=bad)


@pytest.mark.parametrize("factor", [2.0**1020, 1e308, 2.0**-1060])
def test_a_factor_common_to_all_relevances_changes_no_hap(factor):
    random = np.random.default_rng(5)
    scores, levels = random.standard_normal((6, 40)), random.integers(0, 3, (6, 40))
    table = np.tile([0.0, 0.25, 1.0], (6, 1))
    for metrics in (["H-AP"], ["H-AP[1]", "H-AP[2]"]):
        expected = evaluate_scores(scores, levels, metrics=metrics, relevance=table)
        result = evaluate_scores(scores, levels, metrics=metrics, relevance=factor * table)
        np.testing.assert_allclose(result.values, expected.values, rtol=1e-14)
        assert set(result.skipped.values()) == {0}
    curves, references = (
        hierarchical_precision_recall(scores, levels, relevance=scale * table) for scale in (factor, 1.0)
    )
    for result, expected in zip(curves, references, strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-14)
