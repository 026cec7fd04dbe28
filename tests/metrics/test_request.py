"""Metric names, and what bad input is told."""

from __future__ import annotations

import numpy as np
import pytest

from hiertree.errors import EmbeddingError, OptionError, PathError, ShapeError
from hiertree.metrics import evaluate, evaluate_scores, hierarchical_precision_recall, ndcg
from hiertree.metrics.conventions import parse_metrics

GALLERY = {"gallery": np.eye(2), "gallery_paths": [[0, 0], [0, 1]]}
GOOD = {"query": [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], "query_paths": [[0, 0], [0, 1], [1, 2]]}


def test_names_without_a_level_mean_the_finest():
    metrics = parse_metrics(["AP", "AP[1]", "R@10", "mAP@R[2]", "mAP@100", "NDCG@5", "H-AP(alpha=0.5)"], num_levels=3)
    assert [metric.level for metric in metrics] == [3, 1, 3, 2, 3, 0, 0]
    assert [metric.cutoff for metric in metrics] == [None, None, 10, None, 100, 5, None]
    assert [metric.kind for metric in metrics] == ["AP", "AP", "R", "mAP@R", "mAP", "NDCG", "H-AP"]
    assert metrics[-1].parameters == {"alpha": 0.5}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mAP", "did you mean 'AP'"),
        ("h-ap", "did you mean 'H-AP'"),
        ("Recall@1", "did you mean 'R@1'"),
        ("H-AP(alpha=-1)", "did you mean 'H-AP"),
        ("AP[0]", "between 1"),
        ("AP[4]", "and 3"),
        ("R@0", "k between 1 and"),
        ("R@99999999999999999999", "k between 1 and"),
        ("R@R", "name such as"),
        ("NDCG[1]", "name such as"),
        ("", "name such as"),
    ],
)
def test_unknown_names_are_refused_with_a_hint(name, message):
    with pytest.raises(OptionError, match=message.replace("(", r"\(")):
        parse_metrics([name], num_levels=3)


@pytest.mark.parametrize("names", [[], ["AP", "AP"]])
def test_no_name_or_the_same_twice_is_refused(names):
    with pytest.raises(OptionError, match="each once"):
        parse_metrics(names, num_levels=1)


def test_one_name_may_stand_without_a_list():
    assert evaluate(**GOOD, metrics="R@1").names == ("R@1",)


@pytest.mark.parametrize(
    ("error", "changed"),
    [
        (EmbeddingError, {"query": [[1.0, np.nan], [0.0, 1.0], [1.0, 1.0]]}),
        (EmbeddingError, {"query": [[1.0, np.inf], [0.0, 1.0], [1.0, 1.0]]}),
        (EmbeddingError, {"query": [[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]]}),
        (ShapeError, {"query": [1.0, 2.0, 3.0]}),
        (ShapeError, {"query_paths": [[0, 0], [0, 1]]}),
        (ShapeError, {"query": [[1.0, 0.0]], "query_paths": [[0, 0]]}),
        (PathError, {"query_paths": [[0, 0], [0, -2], [1, 2]]}),
        (PathError, {"query_paths": [[0, 0], [0, 1.5], [1, 2]]}),
        (OptionError, {"gallery": [[1.0, 0.0]]}),
        (ShapeError, {"gallery": np.zeros((0, 2)), "gallery_paths": np.zeros((0, 2), int)}),
        (ShapeError, {"gallery": [[1.0, 0.0, 0.0]], "gallery_paths": [[0, 0]]}),
        (ShapeError, {"gallery": [[1.0, 0.0]], "gallery_paths": [[0, 0, 0]]}),
        (OptionError, {"ties": "random"}),
        (OptionError, {"alpha": -1.0}),
        (OptionError, {"alpha": float("nan")}),
        (OptionError, {"alpha": 2.0, "relevance": lambda counts: counts * 0.0}),
        (OptionError, {"relevance": lambda counts: counts * np.nan}),
        (OptionError, {"relevance": lambda counts: counts + 1.0}),
        (OptionError, {"relevance": lambda counts: counts[:, 1:]}),
        (OptionError, {"block_size": 0}),
        (OptionError, {"block_size": 2.5}),
        (OptionError, {"tile_size": 7}),
        (OptionError, {"metrics": [3]}),
        (OptionError, {"metrics": 3}),
        (OptionError, {"metrics": [["AP"]]}),
        (OptionError, {"alpha": "3"}),
        (OptionError, {"ties": ["average"]}),
        (OptionError, {"protocol": 3}),
        (OptionError, {"compat": ["official"]}),
        (ShapeError, {"query": np.zeros((0, 2)), "query_paths": np.zeros((0, 2), int)}),
        (ShapeError, {"query": [[1.0, 0.0], [1.0], [1.0, 1.0]]}),
        (ShapeError, {"query_paths": [[0, 0], [0], [1, 2]]}),
        (ShapeError, {"query": np.ma.masked_invalid([[1.0, np.nan], [0.0, 1.0], [1.0, 1.0]])}),
        (ShapeError, {"query_paths": np.ma.masked_equal([[0, 0], [0, 1], [1, 2]], 2)}),
        (ShapeError, {"junk": 3}),
        (PathError, {"junk": [1, 2, 3]}),
        (PathError, {"query_paths": [0, 0, -1]}),
        (OptionError, {"protocol": "imagenet"}),
        (OptionError, {"compat": "happier"}),
        (OptionError, {"protocol": "sop", **GALLERY}),
        (OptionError, {"protocol": "gldv2"}),
        (OptionError, {"protocol": "dyml", **GALLERY}),
        (OptionError, {"query_ids": [1, 2, 3], **GALLERY}),
        (OptionError, {"gallery_ids": [1, 2], **GALLERY}),
        (OptionError, {"query_ids": [1, 2, 3], "gallery_ids": [1, 2]}),
        (OptionError, {"query_ids": [1, 2, 3], "gallery_ids": ["1", "2"], **GALLERY}),
        (OptionError, {"query_ids": [0.5, 1.0, 2.0]}),
        (ShapeError, {"query_ids": [1, 2]}),
        (ShapeError, {"junk": [[0]]}),
        (PathError, {"junk": [[3], [], []]}),
        (PathError, {"junk": [[-1], [], []]}),
        (PathError, {"junk": [[0.5], [], []]}),
        (PathError, {"gallery": np.eye(2), "gallery_paths": [[0, 0], [0, -2]]}),
    ],
)
def test_bad_embeddings_and_options_are_refused(error, changed):
    with pytest.raises(error):
        evaluate(**{**GOOD, **changed})


@pytest.mark.parametrize(
    ("error", "changed"),
    [
        (EmbeddingError, {"scores": [[np.nan, 1.0]]}),
        (EmbeddingError, {"scores": [["a", "b"]]}),
        (ShapeError, {"scores": [1.0, 2.0]}),
        (ShapeError, {"scores": np.zeros((1, 0))}),
        (ShapeError, {"levels": [[1, 0, 0]]}),
        (ShapeError, {"levels": [1, 0]}),
        (PathError, {"levels": [[-1, 0]]}),
        (PathError, {"levels": [[0.5, 0]]}),
        (PathError, {"levels": [[256, 0]]}),
        (ShapeError, {"valid": [[True]]}),
        (OptionError, {"valid": [[False, False]]}),
        (ShapeError, {"valid": [[1, 0]]}),
        (OptionError, {"num_levels": 0}),
        (OptionError, {"num_levels": 1.5}),
        (ShapeError, {"scores": np.ma.masked_equal([[2.0, 1.0]], 1.0)}),
        (ShapeError, {"levels": [[1, 0], [1]]}),
    ],
)
def test_bad_score_matrices_are_refused(error, changed):
    with pytest.raises(error):
        evaluate_scores(**{"scores": [[2.0, 1.0]], "levels": [[1, 0]], **changed})


def test_functions_refuse_what_they_cannot_compute():
    with pytest.raises(OptionError, match="one item"):
        hierarchical_precision_recall([[1.0]], [[1]], ties="paper")
    with pytest.raises(OptionError, match="k=0: expected None or an integer"):
        ndcg([[1.0]], [[1]], k=0)
