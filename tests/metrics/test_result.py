"""What an evaluation reports."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from hiertree.errors import OptionError
from hiertree.metrics import evaluate, evaluate_scores


@pytest.fixture
def result():
    random = np.random.default_rng(0)
    paths = np.stack([np.arange(40) // 20, np.arange(40) // 4], axis=1)
    paths[0] = [7, 70]  # alone in its kind
    return evaluate(random.standard_normal((40, 8)), paths)


def test_means_leave_out_the_queries_without_positives_and_count_them(result):
    table = result.per_query()
    assert table.shape == (40, len(result.names))
    assert table.loc[0].isna().all()
    assert set(result.skipped.values()) == {1}
    for name, mean in result.summary().items():
        assert mean == pytest.approx(table[name].iloc[1:].mean())


def test_a_metric_that_no_query_has_is_absent_from_the_summary():
    result_of_one = evaluate_scores([[1.0, 2.0]], [[1, 0]], num_levels=2, metrics=["AP[1]", "AP[2]"])
    assert list(result_of_one.summary().index) == ["AP[1]"]
    assert result_of_one.skipped == {"AP[1]": 0, "AP[2]": 1}
    assert "AP[2]" not in json.loads(result_of_one.to_json())["summary"]
    assert "—" in str(result_of_one)


def test_json_holds_means_counts_and_the_card_which_prints_with_the_result(result):
    record, text = json.loads(result.to_json()), str(result)
    assert record["summary"] == pytest.approx(result.summary().to_dict())
    assert record["num_queries"] == 40
    assert record["convention"]["ties"] == "average"
    assert record["convention"]["self_rule"] in text
    assert "1 of 40 queries without a value" in text


def test_confidence_intervals_hold_the_mean_and_repeat(result):
    bounds = result.confidence_interval(resamples=200)
    means = result.summary()
    assert ((bounds["low"] <= means) & (means <= bounds["high"])).all()
    assert bounds.equals(result.confidence_interval(resamples=200))
    wide_interval = result.confidence_interval(confidence=0.99, resamples=200)
    assert (wide_interval["high"] - wide_interval["low"] >= bounds["high"] - bounds["low"]).all()
    with pytest.raises(OptionError):
        result.confidence_interval(confidence=95)


def test_the_plot_has_a_bar_a_metric(result):
    axes = result.plot().axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == list(result.names)


def test_a_result_says_whether_it_holds_any_value():
    assert evaluate(np.eye(3), [0, 0, 1], metrics=["R@1"]).has_values
    assert not evaluate(np.eye(3), [0, 1, 2], metrics=["R@1"]).has_values
    assert not evaluate(np.zeros((0, 3)), np.zeros(0, int), np.eye(3), [0, 1, 2]).has_values


def test_queries_without_a_cluster_are_refused_and_one_cluster_has_no_interval():
    result = evaluate_scores([[3, 2, 1], [2, 3, 1]], [[1, 0, 0], [1, 0, 0]], metrics=["AP"])
    for clusters in (["a", None], [1.0, np.nan], pd.Series(["a", None])):
        with pytest.raises(OptionError, match="clusters without a label in row 1"):
            result.confidence_interval(clusters=clusters)
    frame = pd.DataFrame({"kind": ["natural", "natural"], "number": [1, 2]})
    assert result.confidence_interval(clusters=frame).loc["AP", "clusters"] == 2
    interval = result.confidence_interval(clusters=["a", "a"]).loc["AP"]
    assert np.isnan([interval["low"], interval["high"]]).all()
    assert interval["clusters"] == 1
