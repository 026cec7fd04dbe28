"""Every argument of every public function of the metrics, given something else: an error of ours, or a value."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from hiertree import metrics
from hiertree.errors import HiertreeError

EMBEDDINGS, PATHS = np.random.default_rng(0).standard_normal((3, 2)), [[0, 0], [0, 0], [0, 1]]
OPTIONS = {"metrics": ["AP"], "alpha": 1.0, "relevance": "hap", "ties": "average", "protocol": None, "compat": None}
MASKS = {"query_ids": [1, 2, 3], "gallery_ids": [1, 2], "junk": None}
RETRIEVAL = {"query_paths": PATHS, "gallery_paths": PATHS[:2], **OPTIONS, **MASKS}
SEARCH = {"block_size": None, "distributed": False, "progress": False}
SCORES = {"scores": [[1.0, 2.0]], "levels": [[0, 1]], "valid": None, "ties": "average"}
RESULT = metrics.evaluate(EMBEDDINGS, PATHS, metrics=["AP"])
CALLS = {
    metrics.evaluate: {"query": EMBEDDINGS, "gallery": EMBEDDINGS[:2], **RETRIEVAL, **SEARCH},
    metrics.evaluate_codes: {"query_codes": EMBEDDINGS > 0, "gallery_codes": EMBEDDINGS[:2] > 0, **RETRIEVAL},
    metrics.evaluate_scores: {**SCORES, **OPTIONS, "num_levels": None},
    metrics.evaluate_ranking: {"run": [[0, 1], [1, 0], [1, -1]], "num_levels": None, **RETRIEVAL},
    metrics.hierarchical_precision_recall: {**SCORES, "alpha": 1.0, "relevance": "hap"},
    metrics.ndcg: {**SCORES, "k": 2},
    metrics.recall_at_k: {**SCORES, "k": 2, "level": 1},
    metrics.overall: {"results": RESULT},
    metrics.revisitop_levels: {
        "ground_truth": [{"easy": [0], "hard": [], "junk": []}],
        "num_items": 3,
        "setup": "easy",
    },
    metrics.statistics.holm: {"p_values": [0.1]},
    metrics.statistics.paired_randomization_test: {
        "first": [1.0, 2.0],
        "second": [2.0, 1.0],
        "alternative": "two-sided",
        "clusters": None,
        "resamples": 10,
        "seed": 0,
    },
    RESULT.confidence_interval: {"clusters": None, "confidence": 0.95, "resamples": 10, "seed": 0},
}
BAD = (
    *(None, 3, 2.5, -1, "foo", "", b"x", float("nan"), {}, [], [None], ["a"], [[1, 2], [3]], [1, "a"], lambda x: x),
    *(np.array(3), np.zeros((0, 2)), np.full((3, 2), np.nan), np.array(["a", "b", "c"]), np.ones((3, 2, 2))),
    *(np.ma.masked_equal([[1.0, 2], [3, 4], [5, 6]], 2), np.ones((3, 2)) * 1j, np.datetime64(3, "s"), [np.ones(2)] * 2),
)


@pytest.mark.parametrize("function", CALLS, ids=lambda function: function.__name__)
def test_a_bad_argument_is_an_error_of_ours_or_does_no_harm(function, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some arguments are names of files to write
    function(**CALLS[function])
    for argument in CALLS[function]:
        for bad in BAD:
            with suppress(HiertreeError):
                function(**{**CALLS[function], argument: bad})
