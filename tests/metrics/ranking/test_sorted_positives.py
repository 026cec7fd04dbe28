"""Sorted positives, and the others counted among them, against a comparison of every positive with every item."""

from __future__ import annotations

import numpy as np
import pytest

from hiertree.metrics.ranking.ranked import rank_matrix


def spread(kind, shape, random):
    """Scores that fall into intervals unevenly."""
    if kind == "heavy tails":
        return random.standard_t(1, shape)
    scores = random.standard_normal(shape)
    if kind == "tied":
        return np.round(scores, 1)
    if kind == "infinite":
        scores[:, ::7], scores[:, 1::7] = np.inf, -np.inf
    return scores


@pytest.mark.parametrize("kind", ["normal", "heavy tails", "tied", "infinite"])
@pytest.mark.parametrize("num_positives", [1, 3, 4, 5, 300, 9000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_positive_knows_how_many_items_are_ahead_and_equal(kind, num_positives, dtype):
    random, num_items = np.random.default_rng(0), 4 * num_positives + 600
    scores = spread(kind, (2, num_items), random).astype(dtype)
    levels = random.permuted(np.tile(np.arange(num_items) < num_positives, (2, 1)), axis=1).astype(np.uint8)
    ranked = rank_matrix(scores, levels, np.zeros(levels.shape, np.bool_), ties="average")("average", np.zeros((2, 2)))
    for row in range(2):
        all_scores, positive_scores = np.sort(-scores[row]), np.sort(-scores[row][levels[row] > 0])
        leading = np.searchsorted(all_scores, positive_scores, side="left")
        np.testing.assert_array_equal(ranked.offset[row], leading)
        np.testing.assert_array_equal(
            ranked.size[row], np.searchsorted(all_scores, positive_scores, side="right") - leading
        )
