"""The papers' worked examples, and other libraries where they are right."""

from __future__ import annotations

import numpy as np
import pytest
import reference_metrics as reference
from sklearn.metrics import average_precision_score, ndcg_score

import hiertree as ht
from hiertree.metrics import average_precision, evaluate_scores, h_ap, hierarchical_precision_recall, ndcg


def falling(levels):
    """Scores that rank the items as listed."""
    return [list(range(len(levels), 0, -1))]


@pytest.mark.parametrize(("first", "expected"), [(2, 5 / 3), (1, 4 / 3)])
def test_figure_4_a_milder_item_ahead_lends_more_to_the_hierarchical_rank(first, expected):
    levels = [first, 3]
    table = [0, 1 / 3, 2 / 3, 1]
    assert reference.hierarchical_rank(falling(levels)[0], levels, table, k=1) == pytest.approx(expected)
    curves = hierarchical_precision_recall(falling(levels), [levels], relevance=ht.relevance.linear)
    assert 2 * curves.precision[0, 1] == pytest.approx(expected)  # H-P@2 = H-rank⁺ / (2·rel), rel = 1


def test_figure_14_the_same_ap_a_milder_first_error_a_higher_hap():
    mild, grave = [[2, 3, 0, 1, 3]], [[1, 3, 0, 2, 3]]  # found by trying all rankings of five items
    for levels, hap in ((mild, 0.78), (grave, 0.67)):
        assert average_precision(falling(levels[0]), levels)[0] == pytest.approx(0.45)
        assert round(h_ap(falling(levels[0]), levels, relevance=ht.relevance.linear)[0], 2) == hap


@pytest.mark.parametrize("tied", [False, True])
def test_a_deep_tree_with_hundreds_of_positives_and_a_relevance_that_does_not_rise(tied):
    random, num_levels = np.random.default_rng(6), 11
    scores, levels = random.standard_normal(700), random.integers(0, num_levels + 1, 700)
    levels[levels == 5] = 4  # a level without items
    scores = np.round(scores, 1) if tied else scores
    table = np.append(0.0, random.random(num_levels))
    ties = "paper" if tied else "average"
    result = evaluate_scores(
        scores[None], levels[None], relevance=table[None], metrics=["H-AP", "AP[1]", "AP[10]"], ties=ties
    )
    row_scores, level = scores.tolist(), levels.tolist()
    expected = [reference.h_ap(row_scores, level, table.tolist(), tied)]
    expected += [reference.average_precision(row_scores, level, lowest, tied) for lowest in (1, 10)]
    np.testing.assert_allclose(result.values[0], expected, rtol=1e-12)


def test_scikit_learn_agrees_on_average_precision_without_ties():
    random = np.random.default_rng(1)
    scores, levels = random.standard_normal((10, 50)), random.integers(0, 4, (10, 50))
    for level in (1, 2, 3):
        expected = [
            average_precision_score(row_levels >= level, s) for row_levels, s in zip(levels, scores, strict=True)
        ]
        np.testing.assert_allclose(average_precision(scores, levels, level=level), expected, atol=1e-12)


def test_scikit_learn_agrees_on_tied_ndcg_with_exponential_gains():
    random = np.random.default_rng(2)
    scores, levels = random.integers(0, 6, (10, 50)).astype(float), random.integers(0, 4, (10, 50))
    for k in (None, 1, 7, 50):
        expected = [ndcg_score([2.0**row_levels - 1], [s], k=k) for row_levels, s in zip(levels, scores, strict=True)]
        np.testing.assert_allclose(ndcg(scores, levels, k=k), expected, atol=1e-12)


def test_hap_is_the_sum_of_precision_times_the_steps_of_recall():
    random = np.random.default_rng(3)
    scores, levels = random.standard_normal((6, 20)), random.integers(0, 4, (6, 20))
    curves = hierarchical_precision_recall(scores, levels)
    steps = np.diff(curves.recall, axis=1, prepend=0)
    np.testing.assert_allclose((steps * curves.precision).sum(axis=1), h_ap(scores, levels), atol=1e-12)
    table = reference.hap_relevance(levels[0].tolist(), 3)
    for k in range(1, 21):
        arguments = scores[0].tolist(), levels[0].tolist(), table, k
        assert curves.recall[0, k - 1] == pytest.approx(reference.hierarchical_recall(*arguments), abs=1e-12)
        assert curves.precision[0, k - 1] == pytest.approx(reference.hierarchical_precision(*arguments), abs=1e-12)


def test_tied_curves_are_means_over_all_orders():
    scores, levels = [2.0, 1.0, 1.0, 1.0, 0.0], [1, 2, 0, 1, 2]
    table = reference.hap_relevance(levels, 2)
    curves = hierarchical_precision_recall([scores], [levels])
    orders = list(reference.tied_orders(scores))
    for k in range(1, 6):
        precisions = [reference.hierarchical_precision(order, levels, table, k) for order in orders]
        recalls = [reference.hierarchical_recall(order, levels, table, k) for order in orders]
        assert curves.precision[0, k - 1] == pytest.approx(np.mean(precisions), abs=1e-12)
        assert curves.recall[0, k - 1] == pytest.approx(np.mean(recalls), abs=1e-12)
