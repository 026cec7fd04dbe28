"""Gallery items that are nodes of the tree, hierarchical scores of a classification, and global average precision."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from hiertree.errors import OptionError, ShapeError
from hiertree.metrics import (
    Rules,
    evaluate,
    evaluate_codes,
    evaluate_ranking,
    evaluate_scores,
    hierarchical_scores,
    micro_average_precision,
)

NODES = Rules(gallery="nodes")
NAMES = ["H-AP", "NDCG", "ASI", "AP[1]", "AP", "R@1", "mAP@R[2]", "HD@3"]


def level_of(query, node):
    """The depth of a node that is the query's class or an ancestor of it, else 0."""
    path = [label for label in node if label >= 0]
    return len(path) if list(query[: len(path)]) == path else 0


@pytest.fixture
def retrieval():
    """Images with paths of three levels, some known in part, and texts of nodes at every depth."""
    random = np.random.default_rng(0)
    leaves = np.array([[a, 2 * a + b, 4 * a + 2 * b + c] for a in (0, 1) for b in (0, 1) for c in (0, 1)])
    images = leaves[random.integers(0, 8, 30)]
    images[::7, 2] = -1
    depth = random.integers(1, 4, (45, 1))
    nodes = np.where(np.arange(3) < depth, leaves[random.integers(0, 8, 45)], -1)
    return random.choice([-1.0, 1.0], (30, 8)), images, random.choice([-1.0, 1.0], (45, 8)), nodes


@pytest.mark.parametrize("ties", ["average", "worst", "best", "paper", "index"])
@pytest.mark.parametrize("device", [None, "cpu"])
def test_nodes_are_relevant_to_what_is_at_or_below_them(ties, device, retrieval):
    queries, images, texts, nodes = retrieval
    levels = np.array([[level_of(query, node) for node in nodes.tolist()] for query in images.tolist()])
    junk = [[query, (query + 9) % 45] for query in range(30)]
    valid = np.ones(levels.shape, bool)
    for query, items in enumerate(junk):
        valid[query, items] = False
    options = {"metrics": NAMES, "ties": ties}
    expected = evaluate_scores(queries @ texts.T, levels, valid=valid, num_levels=3, **options).values
    options |= {"compat": NODES, "junk": junk}
    results = [
        evaluate(queries, images, texts, nodes, device=device, **options),
        evaluate_codes(queries > 0, images, texts > 0, nodes, **options),
    ]
    if ties == "index":
        order = np.argsort(-(queries @ texts.T), axis=1, kind="stable")
        results.append(evaluate_ranking(order, query_paths=images, gallery_paths=nodes, **options))
    for result in results:
        np.testing.assert_allclose(result.values, expected, atol=1e-12)
        assert "nodes, relevant to what is at or below them" in str(result)


def test_a_sparrow_is_no_robin():
    robin, nodes = [[0, 0]], [[0, -1], [0, 0], [0, 1], [1, 2]]  # the texts bird, robin, sparrow, dog
    for ranking, as_items, as_nodes in (([[1, 0, 2]], 1.0, 1.0), ([[1, 2, 0]], 1.0, 0.8889)):
        options = {"query_paths": robin, "gallery_paths": nodes, "metrics": ["H-AP"]}
        assert evaluate_ranking(ranking, **options)["H-AP"] == pytest.approx(as_items)
        assert round(evaluate_ranking(ranking, **options, compat=NODES)["H-AP"], 4) == as_nodes


def test_hierarchical_scores_are_those_of_sets_of_ancestors():
    random = np.random.default_rng(1)
    for _ in range(20):
        paths = []
        for _ in range(2):
            depths, labels = random.integers(1, 5, 12), random.integers(0, 3, (12, 4))
            paths.append([tuple(row[:depth].tolist()) for row, depth in zip(labels, depths, strict=True)])
        sets = [[{path[: end + 1] for end in range(len(path))} for path in classes] for classes in paths]
        common = sum(len(p & t) for p, t in zip(*sets, strict=True))
        precision, recall = (common / sum(map(len, classes)) for classes in sets)
        padded = [np.array([[*path, *[-1] * (4 - len(path))] for path in classes]) for classes in paths]
        frames = [pd.DataFrame(array).astype(object).where(array >= 0, None) for array in padded]
        for given in (paths, padded, frames):
            scores = hierarchical_scores(*given, beta=2.0)
            assert scores[:2] == pytest.approx((precision, recall))
            f_score = 5 * precision * recall / (4 * precision + recall) if common else 0.0
            assert scores.f_score == pytest.approx(f_score)
    assert hierarchical_scores(["a", "b"], ["a", "c"]) == (0.5, 0.5, 0.5)


def test_predictions_of_another_number_and_bad_weights_are_refused():
    with pytest.raises(ShapeError, match="1 predicted paths: expected 2"):
        hierarchical_scores([("a",)], [("a",), ("b",)])
    with pytest.raises(OptionError, match="beta"):
        hierarchical_scores([("a",)], [("a",)], beta=0.0)


def global_ap(scores, positives, k):
    """GAP by its definition, in a loop over all predictions."""
    predictions = []
    for row, relevant in zip(scores, positives, strict=True):
        order = sorted(range(len(row)), key=lambda item, row=row: -row[item])[:k]
        predictions += [(row[item], relevant[item]) for item in order]
    hits, total = 0, 0.0
    for rank, (_, relevant) in enumerate(sorted(predictions, reverse=True), start=1):
        hits += relevant
        total += relevant * hits / rank
    return total / sum(min(k, sum(relevant)) for relevant in positives)


@pytest.mark.parametrize("k", [1, 3, 20])
def test_global_ap_counts_the_predictions_of_queries_of_no_class(k):
    random = np.random.default_rng(k)
    scores, levels = random.random((15, 20)), (random.random((15, 20)) < 0.2).astype(int)
    levels[::4] = 0  # queries of no class
    expected = global_ap(scores.tolist(), levels.tolist(), k)
    assert micro_average_precision(scores, levels, k=None if k == 20 else k) == pytest.approx(expected)
    assert micro_average_precision(scores, 2 * levels, k=k, level=2) == pytest.approx(expected)
    without = [row for row, relevant in enumerate(levels) if relevant.any()]
    assert micro_average_precision(scores[without], levels[without], k=k) > expected
    assert math.isnan(micro_average_precision(scores, np.zeros_like(levels), k=k))
    assert micro_average_precision([[2, 1]], [[0, 1]], k=1) == 0.0
