"""Paths known down to some level: every entry point against the definitions, in loops, and against unique classes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import reference_metrics as reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_cases import names_for, random_paths, reference_metric
from reference_losses import level_of

import hiertree as ht
from hiertree.errors import PathError
from hiertree.metrics import RetrievalMetric, Rules, evaluate, evaluate_codes, evaluate_ranking, evaluate_scores

TIES = st.sampled_from(["average", "paper", "index"])


def known_in_part(random, num_items, num_levels):
    """Paths of a small tree, most of them with an unknown rest."""
    paths = random_paths(random, num_items, num_levels, branching=2)
    depth = random.integers(1, num_levels + 2, (num_items, 1))
    return np.where(np.arange(num_levels) < depth, paths, -1)


def distinct(paths, first):
    """The paths with a class of its own for every unknown id."""
    return np.where(paths < 0, first + np.arange(len(paths))[:, None], paths)


def expected_value(metric, scores, levels, ties):
    value = metric(scores, levels, ties == "paper")
    if ties == "average" and value is not None:
        return np.mean([metric(order, levels, False) for order in reference.tied_orders(scores)])
    return value


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.booleans(), TIES)
def test_every_entry_point_counts_an_item_at_the_levels_that_are_known(seed, num_levels, separate, ties):
    random = np.random.default_rng(seed)
    codes, gallery_codes = (random.integers(0, 2, (count, 5)) * 2.0 - 1 for count in (5, 6))
    paths, gallery_paths = (known_in_part(random, count, num_levels) for count in (5, 6))
    gallery = (gallery_codes, gallery_paths) if separate else (None, None)
    items, item_paths = (gallery_codes, gallery_paths) if separate else (codes, paths)
    scores, names = codes @ items.T, names_for(num_levels)
    mask = np.ones(scores.shape, bool) if separate else ~np.eye(5, dtype=bool)
    levels = np.array([[level_of(query, item) for item in item_paths.tolist()] for query in paths.tolist()])
    options = {"metrics": names, "ties": ties}
    order = np.argsort(np.where(mask, -scores, np.inf), axis=1, kind="stable")
    rankings = order[:, : mask[0].sum()]
    results = [
        evaluate(codes, paths, *gallery, **options),
        evaluate_codes(codes > 0, paths, None if gallery[0] is None else gallery[0] > 0, gallery[1], **options),
        evaluate_scores(scores, levels, valid=mask, num_levels=num_levels, **options),
    ]
    if ties == "index":  # the order of a list
        results.append(evaluate_ranking(rankings, query_paths=paths, gallery_paths=gallery[1], **options))
    assert (ht.levels(paths, item_paths) == levels).all()
    for query in range(5):
        query_case = scores[query][mask[query]].tolist(), levels[query][mask[query]].tolist()
        for name in names:
            expected = expected_value(reference_metric(name, num_levels), *query_case, ties)
            for result in results:
                value = result.per_query()[name].iloc[query]
                assert (None if np.isnan(value) else value) == pytest.approx(expected, abs=1e-12), name


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("options", [{}, {"compat": "official"}, {"query_ids": True}])
def test_an_unknown_rest_is_a_class_of_its_own(separate, options):
    random = np.random.default_rng(5)
    embeddings, paths = random.standard_normal((400, 8)), known_in_part(random, 400, 3)
    unique = distinct(paths, 1000)
    if "query_ids" in options:
        ids = random.integers(0, 60, 400)
        options = {"query_ids": ids[:100], "gallery_ids": ids[100:]} if separate else {"query_ids": ids}
    if separate:
        arrays = [(embeddings[:100], labels[:100], embeddings[100:], labels[100:]) for labels in (paths, unique)]
    else:
        arrays = [(embeddings, labels) for labels in (paths, unique)]
    names = ["NDCG", "AP", "AP[1]", "mAP@R[2]", "ASI"]  # H-AP counts the query itself officially, at the known level
    result, expected = (evaluate(*case, **options, metrics=names) for case in arrays)
    np.testing.assert_array_equal(result.values, expected.values)
    unknown = int((paths[: 100 if separate else 400, -1] < 0).sum())
    assert f"{unknown} queries" in str(result.convention)
    assert "coarser level" not in str(expected.convention)


def test_the_official_count_has_the_query_at_its_deepest_known_level():
    embeddings, paths = [[1.0, 0.0], [0.8, 0.6], [0.6, 0.8], [0.0, 1.0]], np.array([[0, -1], [0, 3], [0, 3], [1, 4]])
    value = evaluate(embeddings, paths, metrics=["H-AP"], compat=Rules(counts="official")).values[0, 0]
    levels = [1, 1, 0]
    assert value == pytest.approx(reference.h_ap([0.8, 0.6, 0.0], levels, [0.0, 0.5 / 3, 0.0]), abs=1e-12)


def test_queries_of_unknown_class_are_in_no_row_of_the_classes():
    embeddings, paths = (
        np.random.default_rng(0).standard_normal((6, 4)),
        [[0, 0], [0, 0], [0, -1], [1, 1], [1, 1], [1, -1]],
    )
    result = evaluate(embeddings, paths, metrics=["AP", "AP[1]"])
    assert result.skipped == {"AP": 2, "AP[1]": 0}
    assert result.by_class()["queries"].tolist() == [2, 2]
    assert result.by_class(level=1)["queries"].tolist() == [3, 3]


@pytest.mark.parametrize("paths", [[-1, 0, 0], [[0, -1, 2]] * 3, [[0, -2]] * 3, [[-1, -1]] * 3])
def test_what_is_no_unknown_rest_is_refused(paths):
    with pytest.raises(PathError, match="−1 from some level below the first"):
        evaluate(np.eye(3), paths)


def test_frames_lists_and_tensors_say_what_is_unknown_alike():
    paths = [[0, 0], [0, 0], [0, -1], [1, 1], [1, 1], [1, -1]]
    embeddings = np.random.default_rng(0).standard_normal((6, 4))
    expected = evaluate(embeddings, paths, metrics=["H-AP", "AP[1]"]).values
    names = pd.DataFrame({"kind": list("aaabbb"), "type": ["x", "x", None, "y", "y", None]})
    frame = pd.DataFrame(paths, columns=["kind", "type"])
    for labels in (
        torch.tensor(paths),
        np.array(paths, np.int8),
        frame,
        frame.astype(float),
        frame.assign(kind=names["kind"]),
        names.apply(lambda column: column.factorize()[0]),
    ):
        np.testing.assert_array_equal(evaluate(embeddings, labels, metrics=["H-AP", "AP[1]"]).values, expected)
    metric = RetrievalMetric(["H-AP"])
    metric.update(torch.tensor(embeddings), torch.tensor(paths))
    np.testing.assert_array_equal(metric.evaluation().values[:, 0], expected[:, 0])
    with pytest.raises(PathError, match="−1 for an unknown rest"):
        evaluate(embeddings, names)
