"""A full sort ranks lists as sorting their positives alone does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hiertree.metrics import evaluate
from hiertree.metrics.engine import compute
from hiertree.metrics.ranking.full_sort import rank_by_full_sort
from hiertree.metrics.ranking.gallery import fill_levels, tree_order
from hiertree.metrics.ranking.ranked import rank_matrix

QUERIES = 3


def tree(num_items, num_levels, random):
    """Queries and items of which many share the first labels."""
    paths = random.integers(0, 2, (QUERIES + num_items, num_levels))
    paths[:, 0] = random.random(len(paths)) < 0.1
    return tree_order(paths[:QUERIES], paths[QUERIES:])


def expected(scores, order):
    levels = np.empty(scores.shape, np.uint8)
    fill_levels(order.low, order.high, levels)
    rank = rank_matrix(scores, levels, scores == -np.inf, ties="average")
    return rank("average", np.zeros((QUERIES, order.low.shape[1] + 1)))


def check_same(result, wanted):
    np.testing.assert_array_equal(result.num_positives, wanted.num_positives)
    for row, count in enumerate(wanted.num_positives):
        for name in ("level", "offset", "size"):
            array, expected_array = getattr(result, name)[row, :count], getattr(wanted, name)[row, :count]
            np.testing.assert_array_equal(array, expected_array, err_msg=name)


def spread(kind, shape, random):
    """Scores that are hard in some way."""
    scores = 0.05 * random.standard_normal(shape)
    if kind == "tied":
        scores = np.round(scores, 2)
    elif kind == "equal":
        scores[:] = -0.25
    elif kind == "clumped":  # nearly all in one interval, unless the sample misses the outlier
        scores = 0.1 + 1e-5 * random.standard_normal(shape)
        scores[:, [0, -1]] = 0.99, -0.99
    elif kind == "narrow":  # dozens in an interval
        scores[:, np.arange(shape[1]) % 10 > 0] *= 0.02
    elif kind == "around zero":
        scores = random.choice([0.0, -0.0, 2.0**-31, -(2.0**-31), 2.0**-24, 1.0, -1.0], shape)
    return scores.astype(np.float32)


@pytest.mark.parametrize("kind", ["random", "tied", "equal", "clumped", "narrow", "around zero"])
@pytest.mark.parametrize("num_items", [1, 7, 512, 513, 3000])
@pytest.mark.parametrize("num_levels", [1, 7])
def test_a_full_sort_equals_sorted_positives(kind, num_items, num_levels):
    random = np.random.default_rng(num_items)
    order = tree(num_items, num_levels, random)
    scores = spread(kind, (QUERIES, num_items), random)
    scores[random.random(scores.shape) < 0.1] = -np.inf
    check_same(rank_by_full_sort(scores, order.low, order.high, ties="average"), expected(scores, order))


@settings(max_examples=60)
@given(data=st.data(), num_items=st.integers(1, 60))
def test_any_cosines_are_put_in_order(data, num_items):
    order = tree(num_items, 3, np.random.default_rng(num_items))
    cosine = st.one_of(st.sampled_from([0.0, -0.0, 0.5, -np.inf]), st.floats(-1.0, 1.0, width=32))
    values = data.draw(st.lists(cosine, min_size=QUERIES * num_items, max_size=QUERIES * num_items))
    scores = np.array(values, np.float32).reshape(QUERIES, num_items)
    result = rank_by_full_sort(scores, order.low, order.high, ties="average")
    small = ((scores != 0) & (np.abs(scores) < 2.0**-31)).any()
    if small:
        assert result is None
    else:
        check_same(result, expected(scores, order))


@pytest.mark.parametrize("score", [2.0**-32, -1e-30, 2.0, np.inf])
def test_scores_without_a_key_go_the_other_way(score):
    order = tree_order(np.zeros((1, 1), np.int64), np.zeros((40, 1), np.int64))
    scores = np.linspace(-1, 1, 40, dtype=np.float32)[None]
    assert rank_by_full_sort(scores, order.low, order.high, ties="average") is not None
    scores[0, 20] = score
    assert rank_by_full_sort(scores, order.low, order.high, ties="average") is None


def test_lists_of_many_positives_and_of_few_give_the_same_values(monkeypatch):
    random = np.random.default_rng(0)
    paths = random.integers(0, [2, 3, 4], (700, 3)) @ np.triu([[1, 2, 8], [0, 1, 4], [0, 0, 1]])
    embeddings = np.round(random.standard_normal((700, 6)), 1).astype(np.float32)
    embeddings[300:400] = embeddings[:100]
    at_once = evaluate(embeddings, paths).per_query()
    monkeypatch.setattr(compute, "WORTHWHILE", 0)
    np.testing.assert_array_equal(evaluate(embeddings, paths).per_query(), at_once)
