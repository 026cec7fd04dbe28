"""Score matrices: every metric and policy against its definition in plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from reference import metrics as reference
from reference.metric_cases import names_for, reference_metric, score_matrices

from hiertree.metrics import evaluate_scores


def value(result, name, row):
    found = result.per_query()[name].iloc[row]
    return None if np.isnan(found) else found


@settings(deadline=None, max_examples=60)
@given(score_matrices())
def test_index_and_paper_ties_follow_the_definitions(case):
    scores, levels, valid, num_levels = case
    names = names_for(num_levels)
    for ties in ("index", "paper"):
        result = evaluate_scores(scores, levels, valid=valid, num_levels=num_levels, metrics=names, ties=ties)
        for row in range(len(scores)):
            kept = valid[row]
            for name in names:
                expected = reference_metric(name, num_levels)(
                    scores[row][kept].tolist(), levels[row][kept].tolist(), ties == "paper"
                )
                assert value(result, name, row) == pytest.approx(expected, abs=1e-12), (ties, name)


@settings(deadline=None, max_examples=40)
@given(score_matrices(max_items=6, distinct=1))
def test_average_worst_and_best_are_mean_minimum_and_maximum_over_all_orders(case):
    scores, levels, valid, num_levels = case
    names = names_for(num_levels)
    results = {
        ties: evaluate_scores(scores, levels, valid=valid, num_levels=num_levels, metrics=names, ties=ties)
        for ties in ("average", "worst", "best")
    }
    for row in range(len(scores)):
        own = levels[row][valid[row]].tolist()
        for name in names:
            metric = reference_metric(name, num_levels)
            values = reference.over_tied_orders(
                lambda strict, own=own, metric=metric: metric(strict, own, False), scores[row][valid[row]].tolist()
            )
            expected = (None,) * 3 if values is None else (np.mean(values), min(values), max(values))
            for ties, wanted in zip(("average", "worst", "best"), expected, strict=True):
                assert value(results[ties], name, row) == pytest.approx(wanted, abs=1e-12), (ties, name)
