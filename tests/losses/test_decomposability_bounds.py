"""The decomposability gap and its bounds: hand-made toys, every interleaving of small batches, random batches."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import reference_metrics as reference
import torch
from hypothesis import given
from hypothesis import strategies as st

from hiertree.errors import EmbeddingError, OptionError, ShapeError
from hiertree.losses import (
    decomposability_bound,
    decomposability_bound_with_margins,
    decomposability_gap,
    functional,
    smooth_ap_error,
)

counts = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=4)


def perfect_batches(sizes, seed):
    """Scores of one query in batches of (positives, negatives), in each of which positives score higher."""
    generator = np.random.default_rng(seed)
    scores, levels, batches = [], [], []
    for batch, (positives, negatives) in enumerate(sizes):
        split = generator.uniform(0.1, 1.0)
        scores += [*generator.uniform(split, 1.0, positives), *generator.uniform(0.0, split, negatives)]
        levels += [1] * positives + [0] * negatives
        batches += [batch] * (positives + negatives)
    return np.array([scores]), np.array([levels]), np.array(batches)


def test_the_gap_is_the_mean_of_the_batches_minus_the_whole():
    generator = np.random.default_rng(0)
    scores, levels = generator.uniform(size=(5, 30)), generator.integers(0, 3, (5, 30))
    valid, batches = generator.uniform(size=(5, 30)) < 0.8, generator.integers(0, 4, 30)
    levels[4] = 0
    gaps = decomposability_gap(scores, levels, batches, level=2, valid=valid)

    def ap(query, members):
        return reference.average_precision(scores[query][members].tolist(), levels[query][members].tolist(), 2)

    for query in range(4):
        values = [ap(query, valid[query] & (batches == batch)) for batch in range(4)]
        terms = [value for value in values if value is not None]
        full_value = ap(query, valid[query])
        assert gaps[query] == pytest.approx(sum(terms) / len(terms) - full_value)
    assert np.isnan(gaps[4])


@given(sizes=counts, seed=st.integers(0, 10_000))
def test_perfect_batches_keep_within_both_bounds(sizes, seed):
    scores, levels, batches = perfect_batches(sizes, seed)
    if not levels.any():
        return
    gap = decomposability_gap(scores, levels, batches)[0]
    loose = decomposability_bound(levels, batches)[0]
    assert -1e-12 <= gap <= loose + 1e-12 <= 1
    for alpha, beta in ((0.9, 0.6), (0.5, 0.4), (0.2, 0.1)):
        tight = decomposability_bound_with_margins(scores, levels, batches, alpha=alpha, beta=beta)[0]
        assert gap <= tight + 1e-12
        assert tight <= loose + 1e-12


def printed_bound(scores, positive, batches, alpha, beta):
    """Eq. 27 of Ramzi et al. (TPAMI 2025) as it is printed, in the order of the batches' numbers."""
    good, bad, hard, negatives = (
        np.bincount(batches[subset], minlength=batches.max() + 1)
        for subset in (
            positive & (scores >= alpha), positive & (scores < alpha), ~positive & (scores > beta), ~positive
        )
    )  # fmt: skip
    total = 0.0
    for batch in range(len(good)):
        ranks = np.arange(1, good[batch] + 1) + good[:batch].sum()
        total += (ranks / (ranks + hard[:batch].sum())).sum()
        ranks = np.arange(1, bad[batch] + 1) + good.sum() + bad[:batch].sum()
        total += (ranks / (ranks + negatives[:batch].sum())).sum()
    return 1 - total / positive.sum()


def test_the_printed_sum_is_no_bound_in_a_given_order_and_looser_in_the_worst():
    scores, positive = np.array([0.72, 0.46, 1.0, 0.95]), np.array([True, False, True, False])
    for batches, printed in ((np.array([0, 0, 1, 1]), 0.0), (np.array([1, 1, 0, 0]), 1 / 6)):
        assert printed_bound(scores, positive, batches, 0.9, 0.6) == pytest.approx(printed)
        assert decomposability_gap(scores[None], positive[None], batches)[0] == pytest.approx(1 / 6)
        assert decomposability_bound_with_margins(scores[None], positive[None], batches)[0] == pytest.approx(1 / 6)
    differences = []
    for seed in range(60):
        scores, levels, batches = perfect_batches([(2, 2)] * 3, seed)
        worst = max(
            printed_bound(scores[0], levels[0] > 0, np.array(order)[batches], 0.9, 0.6)
            for order in permutations(range(3))
        )
        differences.append(worst - decomposability_bound_with_margins(scores, levels, batches)[0])
    assert -1e-12 <= min(differences) < 0.01 < max(differences)


def test_the_error_of_smooth_ap_is_its_distance_from_ap_and_vanishes_with_tau():
    scores = np.random.default_rng(0).uniform(size=(4, 12))
    levels = np.tile([2, 1, 0, 0], (4, 3))
    levels[3] = 0
    loss = functional.smooth_ap(
        torch.tensor(scores), torch.tensor(levels >= 2), torch.ones(4, 2), tau=0.1, reduction="none"
    )
    exact = [
        reference.average_precision(row.tolist(), row_levels.tolist(), 2)
        for row, row_levels in zip(scores[:3], levels[:3], strict=True)
    ]
    error = smooth_ap_error(scores, levels, tau=0.1, level=2)
    np.testing.assert_allclose(error[:3], abs(1 - loss[:3].numpy() - np.array(exact)), rtol=1e-6)
    assert np.isnan(error[3])
    assert np.nanmax(smooth_ap_error(scores, levels, tau=1e-5, level=2)) < 1e-6


@pytest.mark.parametrize("num_batches", [1, 2, 3])
@pytest.mark.parametrize(("positives", "negatives"), [(1, 1), (2, 1), (1, 3), (3, 2)])
def test_batches_alike_attain_the_bound_one_after_the_other(num_batches, positives, negatives):
    levels = np.array([([1] * positives + [0] * negatives) * num_batches])
    scores = -np.arange(levels.size, dtype=float)[None]
    batches = np.arange(num_batches).repeat(positives + negatives)
    bound = decomposability_bound(levels, batches)
    np.testing.assert_allclose(decomposability_gap(scores, levels, batches), bound, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "sizes", [[(2, 1), (1, 2)], [(1, 0), (1, 2), (0, 1)], [(1, 1), (1, 1), (1, 1)], [(0, 2), (2, 1)]]
)
def test_no_order_that_keeps_batches_perfect_exceeds_the_bound(sizes):
    scores, levels, batches = perfect_batches(sizes, 0)
    worst = 0.0
    for order in permutations(range(levels.size)):
        rank = np.array(order)
        positive_ranks = [rank[(batches == b) & (levels[0] == 1)] for b in range(len(sizes))]
        negative_ranks = [rank[(batches == b) & (levels[0] == 0)] for b in range(len(sizes))]
        if all(a.max(initial=-1) < b.min(initial=99) for a, b in zip(positive_ranks, negative_ranks, strict=True)):
            worst = max(worst, decomposability_gap(-rank[None].astype(float), levels, batches)[0])
    assert 0 < worst <= decomposability_bound(levels, batches)[0] + 1e-12
    assert scores.shape == levels.shape


@given(sizes=counts.filter(lambda sizes: any(p for p, _ in sizes)), seed=st.integers(0, 10_000))
def test_where_l_dg_is_zero_there_is_no_gap(sizes, seed):
    _, levels, batches = perfect_batches(sizes, seed)
    spread = np.random.default_rng(seed).uniform(0, 0.1, levels.shape)
    scores = np.where(levels == 1, 0.9 + spread, 0.6 - spread)
    assert float(functional.pair_decomposability(torch.from_numpy(scores), torch.from_numpy(levels), level=1)) == 0
    assert decomposability_bound_with_margins(scores, levels, batches)[0] == 0
    assert decomposability_gap(scores, levels, batches)[0] == pytest.approx(0)


def test_margins_count_only_what_crosses_them():
    scores = np.array([[0.95, 0.7, 0.2, 0.93, 0.65, 0.1]])  # both batches perfect; 0.7 and 0.65 are above β
    levels, batches = np.array([[1, 0, 0, 1, 0, 0]]), np.array([0, 0, 0, 1, 1, 1])
    assert decomposability_bound(levels, batches)[0] == pytest.approx(1 - (1 + 2 / 4) / 2)
    assert decomposability_bound_with_margins(scores, levels, batches)[0] == pytest.approx(1 - (1 + 2 / 3) / 2)


def test_queries_without_a_positive_have_no_bound():
    levels, batches = np.array([[0, 0], [1, 0]]), np.array([0, 1])
    for bound in (
        decomposability_bound(levels, batches),
        decomposability_bound_with_margins(levels * 1.0, levels, batches),
    ):
        assert np.isnan(bound[0])
        assert not np.isnan(bound[1])


def test_bad_input_is_refused():
    scores, levels, batches = np.ones((2, 3)), np.ones((2, 3), int), np.arange(3)
    with pytest.raises(ShapeError, match="one shape"):
        decomposability_gap(scores[:1], levels, batches)
    with pytest.raises(ShapeError, match="one for each candidate"):
        decomposability_bound(levels, batches[:2])
    with pytest.raises(OptionError, match="level=0"):
        decomposability_gap(scores, levels, batches, level=0)
    with pytest.raises(OptionError, match="alpha above beta"):
        decomposability_bound_with_margins(scores, levels, batches, alpha=0.5, beta=0.5)
    with pytest.raises(EmbeddingError, match="row 1"):
        decomposability_gap([[1.0], [np.nan]], [[1], [1]], [0])
