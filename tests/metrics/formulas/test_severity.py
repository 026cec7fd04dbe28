"""How severe the errors are: H-AP by level, and the level of the first wrong item."""

from __future__ import annotations

import numpy as np
import pytest
import reference_metrics as reference
from hypothesis import given, settings
from metric_cases import score_matrices

import hiertree as ht
from hiertree.errors import OptionError
from hiertree.metrics import Rules, evaluate_ranking, evaluate_scores


def severity_names(num_levels):
    errors = [f"first-error[{level}]" for level in range(num_levels + 1)]
    return errors, [f"H-AP[{level}]" for level in range(1, num_levels + 1)]


@settings(max_examples=60)
@given(score_matrices())
def test_the_parts_of_every_level_add_up_to_hap(case):
    scores, levels, valid, num_levels = case
    errors, level_names = severity_names(num_levels)
    for ties in ("average", "worst", "best", "paper", "index"):
        names = ["H-AP", *level_names] if ties == "paper" else ["H-AP", *level_names, *errors]
        table = evaluate_scores(
            scores, levels, valid=valid, num_levels=num_levels, metrics=names, ties=ties
        ).per_query()
        np.testing.assert_allclose(table[level_names].sum(axis=1, skipna=False), table["H-AP"], atol=1e-12)
        if ties != "paper":
            sums = table[errors].sum(axis=1, skipna=False).dropna()
            np.testing.assert_allclose(sums, 1.0, atol=1e-12)


@settings(max_examples=60)
@given(score_matrices(max_items=6, distinct=1))
def test_severity_is_its_definition_averaged_over_tied_orders(case):
    scores, levels, valid, num_levels = case
    errors, level_names = severity_names(num_levels)
    result = evaluate_scores(
        scores, levels, valid=valid, num_levels=num_levels, metrics=[*errors, *level_names]
    ).per_query()
    for row in range(len(scores)):
        row_levels, row_scores = levels[row][valid[row]].tolist(), scores[row][valid[row]].tolist()
        table = reference.hap_relevance(row_levels, num_levels)
        for level, name in enumerate(errors):
            expected = reference.over_tied_orders(
                lambda strict, row_levels=row_levels, level=level: reference.first_error(
                    strict, row_levels, level, num_levels
                ),
                row_scores,
            )
            assert_mean(result[name].iloc[row], expected)
        for level, name in enumerate(level_names, start=1):
            expected = reference.over_tied_orders(
                lambda strict, row_levels=row_levels, level=level, table=table: reference.h_ap_part(
                    strict, row_levels, table, level, False
                ),
                row_scores,
            )
            assert_mean(result[name].iloc[row], expected)


def test_worst_and_best_order_tied_levels_as_they_bound_the_whole():
    names = ["H-AP[1]", "H-AP[2]", "first-error[1]", "first-error[2]"]
    for ties, order in (("best", [2, 1, 0]), ("worst", [0, 1, 2])):
        tied = evaluate_scores(np.zeros((1, 3)), [order[::-1]], metrics=names, ties=ties, num_levels=2).values
        np.testing.assert_array_equal(tied, evaluate_scores([[3, 2, 1]], [order], metrics=names, num_levels=2).values)


def assert_mean(value, expected):
    if expected is None:
        assert np.isnan(value)
    else:
        assert value == pytest.approx(np.mean(expected), abs=1e-12)


def test_a_milder_first_error_is_seen_by_its_level():
    errors, _ = severity_names(3)
    for ranked, level in (([2, 3, 1, 3], 2), ([1, 3, 2, 3], 1), ([3, 0, 3, 2], 0), ([3, 3, 0, 2], 3)):
        result = evaluate_scores([[4, 3, 2, 1]], [ranked], metrics=errors).summary()
        assert result.to_dict() == {f"first-error[{column}]": float(column == level) for column in range(4)}


def test_beyond_the_end_of_a_list_cut_short_every_item_is_wrong():
    qrels = {"q": {"a": 1, "b": 1, "c": 1}}
    for ranking, expected in ((["a", "b", "c"], 1), (["a", "b"], 0), (["a", "x", "b"], 0), ([], 0)):
        result = evaluate_ranking({"q": ranking}, qrels, metrics=["first-error[0]", "first-error[1]"]).summary()
        assert result.to_dict() == {"first-error[0]": float(expected == 0), "first-error[1]": float(expected == 1)}


def test_first_errors_need_an_order_and_a_level_that_exists():
    for name in ("first-error[0]", "mistake-severity", "HOPS@2"):
        with pytest.raises(OptionError, match="with ties='paper': expected one of average"):
            evaluate_scores([[1.0, 2.0]], [[1, 0]], metrics=[name], ties="paper")
    for ties in ("worst", "best"):  # which query may err depends on the order, so that there is no bound
        with pytest.raises(OptionError, match=r"mistake-severity with ties=.*expected one of average, index"):
            evaluate_scores([[1.0, 2.0]], [[1, 0]], metrics=["mistake-severity"], ties=ties)
    with pytest.raises(OptionError, match="between 0"):
        evaluate_scores([[1.0, 2.0]], [[1, 0]], metrics=["first-error[2]"])
    with pytest.raises(OptionError, match="between 1"):
        evaluate_scores([[1.0, 2.0]], [[1, 0]], metrics=["H-AP[0]"])


@settings(max_examples=60)
@given(score_matrices(max_items=6, distinct=1))
def test_mistakes_and_the_order_of_levels_are_averaged_over_tied_orders(case):
    scores, levels, valid, num_levels = case
    names = ["mistake-severity", "HOPS", "HOPS@2", "HOPS@4"]
    result = evaluate_scores(scores, levels, valid=valid, num_levels=num_levels, metrics=names).per_query()
    for row in range(len(scores)):
        row_levels, row_scores = levels[row][valid[row]].tolist(), scores[row][valid[row]].tolist()
        orders = list(reference.tied_orders(row_scores))
        severities = [reference.mistake_severity(strict, row_levels, num_levels) for strict in orders]
        mistakes = [height for height in severities if height is not None]
        has_value = num_levels in row_levels and mistakes
        assert_mean(result["mistake-severity"].iloc[row], mistakes if has_value else None)
        for name, k in (("HOPS", None), ("HOPS@2", 2), ("HOPS@4", 4)):
            values = [reference.preference_order(strict, row_levels, k) for strict in orders]
            assert_mean(result[name].iloc[row], None if values[0] is None else [max(np.mean(values), 0.0)])


@pytest.mark.parametrize("name", ["mistake-severity", "HOPS", "HOPS@5", "HD@5", "AHP"])
def test_the_order_of_tied_items_in_the_gallery_changes_no_bit(name):
    random = np.random.default_rng(0)
    scores, levels = random.integers(0, 4, (20, 40)), random.integers(0, 4, (20, 40))
    expected = evaluate_scores(scores, levels, metrics=[name]).values
    order = random.permutation(40)
    np.testing.assert_array_equal(evaluate_scores(scores[:, order], levels[:, order], metrics=[name]).values, expected)


def test_distances_of_queries_without_positives_are_never_the_best_value():
    for rules in (None, Rules(empty_queries="zero")):
        result = evaluate_scores([[2, 1], [2, 1]], [[0, 0], [1, 0]], metrics=["HD@1", "mistake-severity"], compat=rules)
        assert result.summary().to_dict() == {"HD@1": 0.0}
        assert result.skipped == {"HD@1": 1, "mistake-severity": 2}


def test_distances_severity_and_hops_are_those_of_their_authors_code():
    """Bertinetto et al.'s evaluation and Sani & Anand's notebook: ``benchmarks/authors_code.py mistakes``, ``hops``."""
    classes, targets = np.arange(120), 3 * np.arange(40)
    paths = np.stack([classes // 40, classes // 8, classes], axis=1)
    levels = ht.levels(paths[targets], paths)
    expected = {"HD@1": 0.55, "HD@5": 1.26, "HD@20": 1.845, "mistake-severity": 1.15789473684}
    expected |= {"HOPS": 0.524289714903, "HOPS@20": 0.477515149, "HOPS@5": 0.244871794872}
    scores = np.random.default_rng(0).random((40, 120)) + 0.3 * levels
    assert evaluate_scores(scores, levels, metrics=list(expected)).summary().to_dict() == pytest.approx(expected)


def test_hierarchical_precision_is_that_of_barz_and_denzler_also_of_a_search_cut_short():
    paths = np.array([[0, 0], [0, 0], [0, 1], [1, 2], [1, 3]])
    cut_result = evaluate_ranking(
        [[3, 2, 1]], query_paths=paths[:1], gallery_paths=paths[1:], metrics=["HP@1", "HP@2", "HP@9"]
    )
    # levels of 4, 3, 2 are 0, 0, 1, and the best three have 2, 1, 0 of 2
    assert cut_result.per_query().iloc[0].tolist() == pytest.approx([0.0, 0.0, (1 / 2) / (2 / 2 + 1 / 2)], abs=1e-12)
    result = evaluate_ranking({"q": ["x", "a"]}, {"q": {"a": 1}}, metrics=["MRR", "MRR@1", "P@R"])
    assert result.per_query().iloc[0].tolist() == [0.5, 0.0, 0.0]


def test_ahp_beyond_the_list_keeps_its_last_value():
    scores, levels = [[3, 2, 1]], [[0, 1, 1]]  # HP@1 … HP@3: 0, 1/2, 1
    for k, expected in ((2, 0.25), (3, 0.5), (4, 0.625), (9, (0.5 + 7) / 9)):
        values = evaluate_scores(scores, levels, metrics=[f"AHP@{k}"]).values
        assert values[0, 0] == pytest.approx(expected, abs=1e-15)
