"""Each metric name has its function, with the same arguments and the same values."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from hiertree import metrics
from hiertree.errors import OptionError
from hiertree.metrics import evaluate_scores
from hiertree.metrics.conventions import FAMILIES, split_name

FUNCTIONS = {
    "H-AP": (metrics.h_ap, {}),
    "H-AP(alpha=3)": (metrics.h_ap, {"alpha": 3.0}),
    "H-AP[2]": (metrics.h_ap, {"level": 2}),
    "first-error[0]": (metrics.first_error, {"level": 0}),
    "mistake-severity": (metrics.mistake_severity, {}),
    "HOPS": (metrics.hops, {}),
    "HOPS@4": (metrics.hops, {"k": 4}),
    "HD@3": (metrics.hierarchical_distance_at_k, {"k": 3}),
    "NDCG": (metrics.ndcg, {}),
    "NDCG@3": (metrics.ndcg, {"k": 3}),
    "ASI": (metrics.asi, {}),
    "ASI[1]": (metrics.asi, {"level": 1}),
    "AP": (metrics.average_precision, {}),
    "AP[1]": (metrics.average_precision, {"level": 1}),
    "AP#1": (metrics.average_precision_of_level, {"level": 1}),
    "AP@3[1]": (metrics.average_precision_at_k, {"k": 3, "level": 1}),
    "R@2[1]": (metrics.recall_at_k, {"k": 2, "level": 1}),
    "TR@4": (metrics.true_recall_at_k, {"k": 4}),
    "P@3": (metrics.precision_at_k, {"k": 3}),
    "P@R[1]": (metrics.r_precision, {"level": 1}),
    "MRR": (metrics.reciprocal_rank, {}),
    "MRR@2[1]": (metrics.reciprocal_rank, {"k": 2, "level": 1}),
    "HP@3": (metrics.hierarchical_precision_at_k, {"k": 3}),
    "AHP": (metrics.average_hierarchical_precision, {}),
    "AHP@20": (metrics.average_hierarchical_precision, {"k": 20}),
    "mAP@R[2]": (metrics.map_at_r, {"level": 2}),
    "mAP@3": (metrics.map_at_k, {"k": 3}),
}


@pytest.mark.parametrize("ties", ["average", "worst", "best", "paper", "index"])
def test_functions_give_the_values_of_the_names(ties):
    random = np.random.default_rng(0)
    scores, levels = random.integers(0, 6, (30, 14)), random.integers(0, 4, (30, 14))
    valid = random.random(scores.shape) < 0.8
    for name, (function, options) in FUNCTIONS.items():
        family = split_name(name).family
        if ties in family.refused_ties:
            with pytest.raises(OptionError, match=f"{family.kind} with ties="):
                function(scores, levels, ties=ties, **options)
            continue
        expected = evaluate_scores(scores, levels, valid=valid, metrics=[name], ties=ties).values[:, 0]
        np.testing.assert_array_equal(function(scores, levels, valid=valid, ties=ties, **options), expected)


def test_every_family_has_a_function_of_the_same_arguments():
    assert {split_name(name).family.kind for name in FUNCTIONS} == set(FAMILIES)
    for function, _ in FUNCTIONS.values():
        names = list(inspect.signature(function).parameters)
        assert names[:2] == ["scores", "levels"]
        assert {"valid", "ties"} <= set(names[2:]) <= {"k", "level", "valid", "ties", "alpha", "relevance"}


@pytest.mark.parametrize("options", [{"k": 0}, {"k": 2.5}, {"k": None}, {"k": 2, "level": 4}, {"k": 2, "level": 0}])
def test_a_cut_off_or_level_that_cannot_be_is_refused(options):
    with pytest.raises(OptionError):
        metrics.recall_at_k([[2, 1]], [[1, 3]], **options)
