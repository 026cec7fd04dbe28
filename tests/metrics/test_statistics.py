"""Intervals and tests: against scipy, by brute force, and where the answer is known."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from hiertree.errors import OptionError, ShapeError
from hiertree.metrics import evaluate, evaluate_scores
from hiertree.metrics.result import bootstrap_means
from hiertree.metrics.statistics import compare_systems, holm, paired_randomization_test


def brute_force(first, second, alternative="two-sided"):
    differences = [a - b for a, b in zip(first, second, strict=True)]
    observed, extreme, patterns = sum(differences), 0, 0
    for signs in product([1, -1], repeat=len(differences)):
        value = sum(sign * difference for sign, difference in zip(signs, differences, strict=True))
        patterns += 1
        if alternative == "two-sided":
            extreme += abs(value) >= abs(observed) - 1e-12
        else:
            extreme += value >= observed - 1e-12 if alternative == "greater" else value <= observed + 1e-12
    return extreme / patterns


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_few_differences_are_counted_exactly_as_by_brute_force_and_scipy(alternative):
    random = np.random.default_rng(0)
    for _ in range(5):
        first, second = random.integers(0, 6, 9) / 5, random.integers(0, 6, 9) / 5
        test = paired_randomization_test(first, second, alternative=alternative)
        assert test == pytest.approx(brute_force(first, second, alternative), abs=1e-15)
        reference = stats.permutation_test(
            (first, second),
            lambda x, y, axis: np.mean(x - y, axis=axis),
            permutation_type="samples",
            vectorized=True,
            alternative=alternative,
            n_resamples=np.inf,
        )
        assert test == pytest.approx(reference.pvalue, abs=1e-12)


def test_many_differences_agree_with_the_normal_limit_and_never_give_0():
    random = np.random.default_rng(1)
    first = random.random(400)
    second = first + random.normal(0.01, 0.1, 400)
    test = paired_randomization_test(first, second, resamples=20_000)
    assert test == pytest.approx(stats.ttest_rel(first, second).pvalue, abs=0.02)
    assert test == paired_randomization_test(first, second, resamples=20_000)
    assert paired_randomization_test(first, first + 1, resamples=99) == pytest.approx(1 / 100)
    assert paired_randomization_test(first, first) == 1.0


def test_the_false_alarm_rate_is_the_level_of_the_test():
    random = np.random.default_rng(2)
    p_values = [paired_randomization_test(*random.random((2, 12))) for _ in range(400)]
    assert np.mean(np.array(p_values) <= 0.05) == pytest.approx(0.05, abs=0.03)


def test_clusters_change_their_signs_together():
    first, second = [0.9, 0.8, 0.7, 0.4, 0.6], [0.5, 0.6, 0.6, 0.4, 0.3]
    assert paired_randomization_test(first, second, clusters=["a", "a", "b", "b", "b"]) == 0.5  # 2 of 4 patterns
    assert paired_randomization_test([*first, np.nan], [*second, 0.1], clusters=range(6)) == 2 / 16  # one is equal


def test_holm_by_hand():
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(holm([0.5, 0.9, 0.6]), [1, 1, 1])
    assert holm([]).shape == (0,)


@pytest.fixture
def systems():
    random = np.random.default_rng(3)
    paths = np.stack([np.arange(60) // 20, np.arange(60) // 5], axis=1)
    centers = random.standard_normal((12, 6))[paths[:, 1]]
    noise = random.standard_normal((60, 6))
    return {name: evaluate(centers + scale * noise, paths) for name, scale in (("a", 0.2), ("b", 0.2), ("c", 2.0))}


def test_a_worse_system_is_told_from_two_equal_ones(systems):
    table = compare_systems(systems, metrics=["H-AP", "R@1"]).tests
    assert len(table) == 6
    row = table.set_index(["metric", "first", "second"]).loc[("H-AP", "a", "c")]
    gap = (systems["a"].per_query()["H-AP"] - systems["c"].per_query()["H-AP"]).mean()
    assert row["difference"] == pytest.approx(gap)
    assert row["p_holm"] < 0.01
    equal = table[(table["first"] == "a") & (table["second"] == "b")]
    assert (equal["p"] == 1).all()
    for metric, rows in table.groupby("metric"):
        np.testing.assert_allclose(rows["p_holm"], holm(rows["p"].to_numpy()), err_msg=metric)


def test_only_queries_with_two_values_are_compared():
    first = evaluate_scores([[2, 1], [1, 2], [2, 1]], [[1, 0], [1, 0], [0, 0]], metrics=["AP"])
    second = evaluate_scores([[1, 2], [1, 2], [1, 2]], [[1, 0], [0, 0], [1, 0]], metrics=["AP", "R@1"])
    table = compare_systems({"first": first, "second": second}).tests
    assert table.iloc[0].to_dict() == {
        "metric": "AP",
        "first": "first",
        "second": "second",
        "queries": 1,
        "difference": 0.5,
        "p": 1.0,
        "p_holm": 1.0,
    }


def test_intervals_of_classes_are_wider_where_classes_differ():
    random = np.random.default_rng(4)
    classes = np.repeat(np.arange(20), 25)
    levels = (random.random((500, 10)) < random.random(20)[classes][:, None]).astype(np.uint8)
    levels[:, 0] = 1
    result = evaluate_scores(np.arange(10.0) * np.ones((500, 1)), levels, metrics=["AP", "R@1"])
    by_query, by_cluster = result.confidence_interval(), result.confidence_interval(clusters=classes)
    assert by_query["clusters"].tolist() == [500, 500]
    assert by_cluster["clusters"].tolist() == [20, 20]
    assert (by_cluster["high"] - by_cluster["low"] > 1.5 * (by_query["high"] - by_query["low"])).all()
    column = result.per_query()["AP"].to_numpy()
    reference = stats.bootstrap((column,), np.mean, n_resamples=2000, method="percentile", rng=0).confidence_interval
    assert by_query.loc["AP", ["low", "high"]].tolist() == pytest.approx([reference.low, reference.high], abs=5e-3)


def test_an_evaluation_that_knows_its_classes_draws_them(systems):
    result = systems["c"]
    interval = result.confidence_interval()
    assert interval.equals(result.confidence_interval(clusters=result.query_paths))
    assert set(interval["clusters"]) == {12}
    assert set(result.confidence_interval(clusters=range(60))["clusters"]) == {60}


def test_means_of_clusters_are_those_of_their_queries():
    random = np.random.default_rng(5)
    values, clusters = random.random((7, 2)), np.array([0, 0, 0, 1, 2, 2, 2])
    means = bootstrap_means(values, clusters, resamples=50, seed=0)
    random_clusters = np.random.default_rng(0).integers(0, 3, (50, 3))
    for row, picked in zip(means, random_clusters, strict=True):
        members = np.concatenate([np.flatnonzero(clusters == cluster) for cluster in picked])
        np.testing.assert_allclose(row, values[members].mean(axis=0), atol=1e-12)


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (ShapeError, lambda: paired_randomization_test([1.0], [1.0, 2.0])),
        (ShapeError, lambda: paired_randomization_test([1.0, 2.0], [1.0, 1.0], clusters=[0])),
        (OptionError, lambda: paired_randomization_test([np.nan], [1.0])),
        (OptionError, lambda: paired_randomization_test([1.0], [1.0], alternative="both")),
        (OptionError, lambda: paired_randomization_test([1.0], [1.0], resamples=0)),
        (OptionError, lambda: holm([0.1, 1.2])),
        (OptionError, lambda: holm([[0.1]])),
        (OptionError, lambda: compare_systems({})),
    ],
)
def test_what_cannot_be_tested_is_refused(error, call):
    with pytest.raises(error):
        call()


def test_systems_must_share_queries_and_metrics(systems):
    second = evaluate_scores([[1.0, 2.0]], [[1, 0]], metrics=["AP"])
    with pytest.raises(OptionError, match="other queries"):
        compare_systems({"a": systems["a"], "other": second})
    with pytest.raises(OptionError, match=r"NDCG@7"):
        compare_systems(systems, metrics=["NDCG@7"])
    with pytest.raises(ShapeError, match="60 queries"):
        systems["a"].confidence_interval(clusters=[0, 1])


def test_series_in_another_order_are_refused_instead_of_paired_by_place():
    first = pd.Series([0.1, 0.5, 0.9], index=["a", "b", "c"])
    second = pd.Series([0.2, 0.4, 0.8], index=["a", "b", "c"])
    with pytest.raises(OptionError, match=r"row 0 is 'a' of first, 'c' of second.*reindex"):
        paired_randomization_test(first, second[::-1])
    with pytest.raises(OptionError, match="same order"):  # each without another query
        paired_randomization_test(first.drop("a"), second.drop("c"))
    with pytest.raises(OptionError, match="same order"):
        paired_randomization_test(first.reset_index(drop=True), second.reset_index(drop=True)[::-1])
    unnamed = second.reset_index(drop=True)  # as a file of values has them
    assert paired_randomization_test(first, unnamed) == paired_randomization_test(first, second)


def test_values_whose_sums_overflow_have_the_p_value_of_smaller_ones():
    random = np.random.default_rng(6)
    for size in (2, 9, 60):
        first, second = random.normal(0.1, 1, size), random.normal(0, 1, size)
        large = [np.ldexp(values, 1021) for values in (first, second)]
        for options in ({}, {"clusters": np.arange(size) // 2}, {"alternative": "less"}):
            expected = paired_randomization_test(first, second, resamples=200, **options)
            assert paired_randomization_test(*large, resamples=200, **options) == expected
    assert paired_randomization_test([1e308] * 2, [-1e308] * 2) == 0.5


def test_clusters_without_a_label_are_refused_in_lists_of_text(systems):
    for missing in (None, np.nan):
        with pytest.raises(OptionError, match="row 1"):
            systems["a"].confidence_interval(clusters=["a", missing] + ["b"] * 58)
    with pytest.raises(OptionError, match="one type"):
        systems["a"].confidence_interval(clusters=[{}] * 60)


def test_an_infinite_value_has_no_p_value():
    with pytest.raises(OptionError, match="second is infinite at query 1"):
        paired_randomization_test([1.0, 2.0], [1.0, -np.inf])


def test_systems_measured_by_different_conventions_are_not_compared():
    scores, levels = [[3.0, 3.0, 1.0]] * 4, [[2, 0, 1]] * 4
    result = evaluate_scores(scores, levels, metrics=["AP", "H-AP"])
    for options, field in (
        ({"ties": "worst"}, "ties"),
        ({"compat": "delf"}, "rules"),
        ({"num_levels": 3}, "num_levels"),
    ):
        second_result = evaluate_scores(scores, levels, metrics=["AP"], **options)
        with pytest.raises(OptionError, match=f"different {field}: 'a' has"):
            compare_systems({"a": result, "b": second_result})
    steeper = evaluate_scores(scores, levels, metrics=["AP", "H-AP"], alpha=3.0)
    with pytest.raises(OptionError, match="different relevance"):
        compare_systems({"a": result, "b": steeper}, metrics="H-AP")
    assert compare_systems({"a": result, "b": steeper}, metrics="AP").tests["p"].tolist() == [1.0]
    single_metric = evaluate_scores(
        scores, levels, metrics=["H-AP"], alpha=1
    )  # the number, not its type, is the convention
    assert compare_systems({"a": result, "b": single_metric}).tests["p"].tolist() == [1.0]
    with pytest.raises(OptionError, match="system 'a' is a list"):
        compare_systems({"a": [0.5], "b": [0.4]})
    with pytest.raises(OptionError, match="systems as a list"):
        compare_systems([result, steeper])
    with pytest.raises(OptionError, match="first is an Evaluation"):
        paired_randomization_test(result, steeper)


def test_tables_of_systems_mark_what_is_best_and_what_differs_from_the_first():
    levels = np.tile([1, 0, 0], (12, 1))
    scores = {"a & b": [2, 3, 1], "good_one": [3, 2, 1], "same": [2, 3, 1]}
    systems = {name: evaluate_scores([row] * 12, levels, metrics=["AP", "HD@1"]) for name, row in scores.items()}
    comparison = compare_systems(systems)
    assert comparison.to_markdown().splitlines()[2:] == [
        "| a & b | 0.5000 | 1.0000 |",
        "| good_one | **1.0000†** | **0.0000†** |",
        "| same | 0.5000 | 1.0000 |",
    ]
    assert r"good\_one & \textbf{1.0000$^\dagger$} & \textbf{0.0000$^\dagger$} \\" in comparison.to_latex()
    assert r"a \& b & 0.5000 & 1.0000 \\" in comparison.to_latex()
    assert "<td>a &amp; b</td><td>0.5000</td>" in comparison._repr_html_()
    table = systems["good_one"].to_latex()
    assert table.startswith("\\begin{tabular}{lrrr}\n\\toprule\nmetric & mean & 95 \\% interval & skipped")
    assert r"AP & 1.0000 & 1.0000 -- 1.0000 &  \\" in table
    assert "R@1" not in table
