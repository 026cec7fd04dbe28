"""Which queries are shown, what is found for them, and what each find is called."""

from __future__ import annotations

import numpy as np

from hiertree.metrics import evaluate
from hiertree.pipelines.pair_scores import nearest_images
from hiertree.pipelines.report.rankings import ranked_images


def nearest(embeddings, queries, count):
    """Among the others."""
    return nearest_images(embeddings[queries], embeddings, count=count, left_out=np.array(queries)[:, None])


def ranked(embeddings, paths, queries, count):
    """Among the others."""
    points = embeddings[queries], paths[queries]
    return ranked_images(points, (embeddings, paths), count=count, left_out=np.array(queries)[:, None])


PATHS = np.array([[0, 0, 0], [0, 0, 0], [0, 0, 1], [0, 1, 2], [1, 2, 3]])


def test_a_query_is_left_out_by_its_index_and_its_duplicates_stay():
    embeddings = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert nearest(embeddings, [0, 1], count=2).tolist() == [[1, 2], [0, 2]]


def test_equal_scores_put_the_smaller_index_first():
    embeddings = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 2.0], [0.0, 1.0]])
    assert nearest(embeddings, [0], count=3).tolist() == [[1, 2, 3]]


def test_no_more_hits_than_other_images():
    assert nearest(np.eye(3), [2], count=10).shape == (1, 2)


def test_each_hit_is_judged_by_the_depth_it_shares_with_the_query():
    embeddings = np.array([[1.0, 0.0], [0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]])
    assert ranked(embeddings, PATHS, [0], count=4) == [([1, 2, 3, 4], [3, 2, 1, 0])]


def test_a_query_whose_junk_fills_the_gallery_does_not_shorten_the_lists_of_others():
    embeddings = np.array([[1.0, 0.0], [0.9, 0.1]])
    gallery = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]]), PATHS[:3]
    junk = [np.array([0, 1]), np.array([], dtype=np.int64)]
    rankings = ranked_images((embeddings, PATHS[:2]), gallery, count=3, left_out=junk)
    assert [rows for rows, _ in rankings] == [[2], [1, 2, 0]]


def test_with_one_level_a_hit_is_right_or_wrong():
    embeddings = np.array([[1.0, 0.0], [0.9, 0.1], [0.8, 0.2]])
    assert ranked(embeddings, np.array([[0], [0], [1]]), [0], count=2) == [([1, 2], [1, 0])]


def test_first_hits_agree_with_the_metric():
    random = np.random.default_rng(0)
    embeddings, paths = random.normal(size=(60, 4)), random.integers(0, 3, size=(60, 2))
    paths[:, 1] += 3 * paths[:, 0]
    first = [shared_levels[0] == 2 for _, shared_levels in ranked(embeddings, paths, list(range(60)), count=1)]
    assert np.mean(first) == evaluate(embeddings, paths, metrics=["R@1"]).summary()["R@1"]
