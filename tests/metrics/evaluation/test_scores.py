"""Score matrices: every metric and policy against its definition in plain loops."""

from __future__ import annotations

import json
import warnings
from fractions import Fraction

import numpy as np
import pytest
import reference_metrics as reference
import torch
from hypothesis import given, settings
from metric_cases import names_for, reference_metric, score_matrices

from hiertree.errors import InputError, PathError
from hiertree.metrics import evaluate_scores, revisitop_levels
from hiertree.metrics.conventions import improves_downward


def value(result, name, row):
    mean = result.per_query()[name].iloc[row]
    return None if np.isnan(mean) else mean


@settings(max_examples=60)
@given(score_matrices())
def test_index_and_paper_ties_follow_the_definitions(case):
    scores, levels, valid, num_levels = case
    names = names_for(num_levels)
    for ties in ("index", "paper"):
        result = evaluate_scores(scores, levels, valid=valid, num_levels=num_levels, metrics=names, ties=ties)
        for row in range(len(scores)):
            mask = valid[row]
            for name in names:
                expected = reference_metric(name, num_levels)(
                    scores[row][mask].tolist(), levels[row][mask].tolist(), ties == "paper"
                )
                assert value(result, name, row) == pytest.approx(expected, abs=1e-12), (ties, name)


@settings(max_examples=40)
@given(score_matrices(max_items=6, distinct=1))
def test_average_worst_and_best_are_the_mean_and_the_bounds_over_all_orders(case):
    scores, levels, valid, num_levels = case
    names = names_for(num_levels)
    results = {
        ties: evaluate_scores(scores, levels, valid=valid, num_levels=num_levels, metrics=names, ties=ties)
        for ties in ("average", "worst", "best")
    }
    for row in range(len(scores)):
        row_levels = levels[row][valid[row]].tolist()
        for name in names:
            metric = reference_metric(name, num_levels)
            values = reference.over_tied_orders(
                lambda strict, row_levels=row_levels, metric=metric: metric(strict, row_levels, False),
                scores[row][valid[row]].tolist(),
            )
            bounds = (max, min) if improves_downward(name, num_levels=num_levels) else (min, max)
            expected = (None,) * 3 if values is None else (np.mean(values), *(bound(values) for bound in bounds))
            for ties, expected_value in zip(("average", "worst", "best"), expected, strict=True):
                assert value(results[ties], name, row) == pytest.approx(expected_value, abs=1e-12), (ties, name)


def test_a_million_items_have_their_exact_ranks():
    random = np.random.default_rng(0)
    scores = random.permutation(1_000_000).astype(np.float32)[None] - 5e5  # every integer below 2^24 is a float32
    levels = random.choice(4, p=[0.9, 0.07, 0.02, 0.01], size=scores.shape).astype(np.uint8)
    names = ["H-AP", "NDCG", "AP[1]", "AP[3]", "mAP@R", "TR@1000", "ASI"]
    result = evaluate_scores(scores, levels, metrics=names).summary()
    ranked, rank = levels[0][np.argsort(-scores[0])], np.arange(1, 1_000_001)
    counts = np.bincount(ranked, minlength=4)
    table = np.array([0.0, *(np.arange(1, 4) / 3 / counts[1:])])
    lent = sum(np.cumsum(ranked == level) * np.minimum(table[ranked], table[level]) for level in range(1, 4))
    precision = {level: np.cumsum(ranked >= level) / rank for level in (1, 3)}
    best = np.sort(ranked)[::-1]
    gains, discount = 2.0 ** np.array([ranked, best]) - 1, 1 / np.log2(1 + rank)
    relevant = counts[1:].sum()
    overlap = sum(np.minimum(*np.cumsum(np.array([ranked, best]) == level, axis=1)) for level in range(4))
    expected = {
        "H-AP": (lent / rank).sum() / table[ranked].sum(),
        "NDCG": (gains[0] * discount).sum() / (gains[1] * discount).sum(),
        "AP[1]": precision[1][ranked >= 1].mean(),
        "AP[3]": precision[3][ranked >= 3].mean(),
        "mAP@R": precision[3][: counts[3]][ranked[: counts[3]] >= 3].sum() / counts[3],
        "TR@1000": (ranked[:1000] >= 3).sum() / 1000,
        "ASI": (overlap / rank)[:relevant].mean(),
    }
    assert result.to_dict() == pytest.approx(expected, abs=1e-9)


def test_the_layout_and_the_type_of_scores_and_levels_change_no_number():
    random = np.random.default_rng(1)
    scores, levels = random.integers(-8, 9, (6, 40)) / 8, random.integers(0, 4, (6, 40))
    valid = random.random((6, 40)) < 0.8
    expected = evaluate_scores(scores, levels, valid=valid, num_levels=3).values
    for own_scores, own_levels, own_valid in (
        (np.asfortranarray(scores), levels.T.copy().T, valid),
        (np.repeat(scores, 2, axis=1)[:, ::2], np.repeat(levels, 3, axis=0)[::3], np.asfortranarray(valid)),
        (scores[:, ::-1].copy()[:, ::-1], levels.astype(np.int8), valid.tolist()),
        (scores.astype(np.float16), levels.astype(np.uint16), valid),
        (torch.from_numpy(scores).bfloat16(), torch.from_numpy(levels), torch.from_numpy(valid)),
    ):
        result = evaluate_scores(own_scores, own_levels, valid=own_valid, num_levels=3).values
        np.testing.assert_array_equal(result, expected)


def test_options_may_be_numbers_of_numpy_or_fractions():
    scores, levels = [[3.0, 2.0, 1.0], [1.0, 2.0, 3.0]], [[0, 1, 2], [0, 1, 2]]
    result = evaluate_scores(scores, levels, num_levels=np.int64(2), alpha=Fraction(1, 2))
    expected = evaluate_scores(scores, levels, num_levels=2, alpha=0.5)
    np.testing.assert_array_equal(result.values, expected.values)
    assert json.loads(result.to_json())["summary"] == json.loads(expected.to_json())["summary"]
    bounds = result.confidence_interval(confidence=Fraction(1, 2))
    assert bounds.equals(expected.confidence_interval(confidence=0.5))


@pytest.mark.parametrize(
    ("levels", "message"), [([[0, -1]], "levels from -1 to 0"), ([[300, 0]], "levels from 0 to 300")]
)
def test_levels_outside_their_range_are_named(levels, message):
    with pytest.raises(PathError, match=message):
        evaluate_scores([[2.0, 1.0]], levels)


@pytest.mark.parametrize("large", [2**53, 2**62, 2**64 - 2])
def test_integer_scores_that_float64_makes_equal_are_refused(large):
    rows = [[large, large + 1]]
    forms = [np.array(rows), rows, [[large, large + 1]]] + ([torch.tensor(rows)] if large < 2**63 else [])
    for scores in (*forms, [[large, large + 1, 0.5]]):
        with pytest.raises(InputError, match=f"float64 rounds {large}|float64 rounds {large + 1}"):
            evaluate_scores(scores, np.eye(3, dtype=int)[:1, : np.shape(scores)[1]], metrics=["AP"])
    exact = np.array([[-(2**63), 2**62, 5]])
    assert evaluate_scores(exact, [[0, 1, 0]], metrics=["AP"])["AP"] == 1.0


def test_scores_of_long_double_are_compared_as_float64():
    scores = np.array([[1, 1 + 1e-10]], dtype=np.longdouble)
    assert evaluate_scores(scores, [[0, 1]], metrics=["AP"])["AP"] == 1.0


@pytest.mark.parametrize("indices", [None, 0.9, [0.9], [True], "a", [None], [3], [-1]])
def test_a_ground_truth_that_is_no_list_of_indices_is_refused(indices):
    with pytest.raises(PathError, match="ground truth of query 0"):
        revisitop_levels([{"easy": indices, "hard": [], "junk": []}], 3)
    levels = revisitop_levels(iter([{"easy": np.array([1], np.uint8), "hard": [2], "junk": []}]), 3).levels
    assert levels.tolist() == [[0, 1, 1]]


def test_a_matrix_of_a_set_with_itself_is_warned_of_once():
    random = np.random.default_rng(0)
    unit = random.standard_normal((40, 6))
    labels = random.integers(0, 6, 40)
    relevance_levels, diagonal = (labels[:, None] == labels).astype(int), np.eye(40, dtype=bool)
    cosines = unit @ unit.T / np.outer(*[np.linalg.norm(unit, axis=1)] * 2)
    uneven = cosines - np.triu(np.ones((40, 40)), 1)
    for scores in (unit @ unit.T, cosines, np.where(diagonal, -np.inf, cosines), uneven):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            for _ in range(3):
                evaluate_scores(scores, relevance_levels, metrics=["R@1"])
        assert ["valid=~np.eye" in str(warning.message) for warning in caught] == [True]
    captions = unit @ (unit + random.standard_normal((40, 6))).T
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert evaluate_scores(cosines, relevance_levels, valid=~diagonal, metrics=["R@1"])["R@1"] < 0.5
        evaluate_scores(captions, diagonal.astype(int), metrics=["R@1"])
        evaluate_scores(cosines[:, :30], relevance_levels[:, :30], metrics=["R@1"])
