"""Values, bounds and gradients of the functional losses, against the loop transcriptions."""

from __future__ import annotations

import math
from functools import partial

import pytest
import reference_losses as reference
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hiertree import level_counts
from hiertree import levels as levels_of
from hiertree.errors import EmbeddingError, OptionError, PathError, ShapeError
from hiertree.losses import HAPPIER, SupHAP, functional
from hiertree.losses.kernels import steps as _all_pairs
from hiertree.losses.pairs import blocks as _blocks
from hiertree.metrics import evaluate_scores
from hiertree.relevance import gain, hap, linear

H_MINUS, HEAVISIDE, SIGMOID = reference.h_minus(), reference.heaviside, reference.sigmoid()
RANK_LOSSES = ["sup_hap", "sup_ndcg", "sup_ap", "smooth_hap", "smooth_ndcg", "smooth_ap"]
RELEVANCE = {"hap": hap, "ndcg": gain, "ap": linear}


def random_batch(seed, num_levels, *, queries=5, candidates=14, ties=False):
    """Scores, levels and a mask; every query has a candidate at each level."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(queries, candidates, generator=generator, dtype=torch.float64) * 0.2
    if ties:
        scores = (scores * 40).round() / 40
    levels = torch.randint(0, num_levels + 1, (queries, candidates), generator=generator)
    levels[:, : num_levels + 1] = torch.arange(num_levels + 1)
    valid = torch.rand(queries, candidates, generator=generator) < 0.8
    valid[:, : num_levels + 1] = True
    return scores, levels.to(torch.uint8), valid


def table_for(name, levels, valid, num_levels):
    return RELEVANCE[name.split("_")[1]](level_counts(levels, num_levels, valid=valid))


def expected_values(name, scores, levels, table, valid):
    equal, lower = (HEAVISIDE, H_MINUS) if name.startswith("sup") else (SIGMOID, SIGMOID)
    return [
        one_value(name, scores[q][valid[q]].tolist(), levels[q][valid[q]].tolist(), table[q].tolist(), equal, lower)
        for q in range(len(scores))
    ]


def one_value(name, scores, levels, table, equal, lower):
    if name.endswith("_ap"):
        value = reference.one_minus_ap(scores, levels, len(table) - 1, equal=equal, lower=lower)
    else:
        objective = reference.one_minus_h_ap if name.endswith("hap") else reference.one_minus_ndcg
        value = objective(scores, levels, table, equal=equal, lower=lower)
    return 0.0 if value is None else value


@pytest.mark.usefixtures("every_kernel")
@pytest.mark.parametrize("name", RANK_LOSSES)
@pytest.mark.parametrize("num_levels", [1, 2, 3, 4])
@pytest.mark.parametrize("ties", [False, True])
def test_value_equals_the_loops(name, num_levels, ties):
    scores, levels, valid = random_batch(num_levels, num_levels, ties=ties)
    table = table_for(name, levels, valid, num_levels)
    expected = torch.tensor(expected_values(name, scores, levels, table, valid), dtype=torch.float64)
    loss = getattr(functional, name)
    values = loss(scores, levels, table, valid=valid, reduction="none")
    torch.testing.assert_close(values, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(loss(scores, levels, table, valid=valid), expected.mean(), rtol=1e-12, atol=1e-12)
    single = loss(scores.float(), levels, table, valid=valid, reduction="none")
    assert single.dtype == torch.float32
    if not ties:  # float32 neither makes nor breaks a tie here
        torch.testing.assert_close(single.double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("every_kernel")
@pytest.mark.parametrize(("start", "offset", "delta"), [(0.5, 1.44, 0.05), (0.0, 1.0, 0.05), (0.5, None, 0.02)])
def test_steps_of_the_authors_configurations(start, offset, delta):
    scores, levels, valid = random_batch(3, 2, ties=True)
    table = table_for("sup_hap", levels, valid, 2)
    step = reference.h_minus(tau=0.02, rho=50.0, delta=delta, start=start, offset=offset)
    expected = [
        one_value("sup_hap", s[v].tolist(), lev[v].tolist(), rel.tolist(), HEAVISIDE, step)
        for s, lev, v, rel in zip(scores, levels, valid, table, strict=True)
    ]
    values = functional.sup_hap(
        scores,
        levels,
        table,
        valid=valid,
        reduction="none",
        tau=0.02,
        rho=50.0,
        delta=delta,
        start=start,
        offset=offset,
    )
    torch.testing.assert_close(values, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("every_kernel")
@pytest.mark.parametrize("name", RANK_LOSSES)
@pytest.mark.parametrize("num_levels", [1, 3])
def test_gradient_equals_central_differences(name, num_levels):
    scores, levels, valid = random_batch(7, num_levels, queries=3, candidates=9)
    scores = scores.argsort(dim=1).argsort(dim=1) * 0.011 + scores * 0.005  # far enough apart: no jump inside a step
    table = table_for(name, levels, valid, num_levels)
    loss = getattr(functional, name)
    assert torch.autograd.gradcheck(
        lambda s: loss(s, levels, table, valid=valid, tau=0.05, reduction="none"),
        scores.requires_grad_(),
        eps=1e-7,
        atol=1e-6,
        rtol=1e-5,
    )


@pytest.mark.usefixtures("every_kernel")
def test_gradient_at_a_tie_is_that_of_the_sigmoid_branch():
    scores = torch.tensor([[0.3, 0.3]], dtype=torch.float64, requires_grad=True)
    functional.sup_ap(scores, torch.tensor([[0, 1]]), torch.ones(1, 2)).backward()
    slope = 0.25 / 0.01 / 4  # σ'(0)/τ over rank², rank = 1 + H⁻(0) = 2
    torch.testing.assert_close(scores.grad, torch.tensor([[slope, -slope]], dtype=torch.float64))


@pytest.mark.usefixtures("every_kernel")
@pytest.mark.parametrize("name", ["sup_hap", "sup_ndcg", "sup_ap"])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data(), num_levels=st.integers(1, 4), grid=st.sampled_from([2, 5, 30, 1000]))
def test_sup_losses_bound_one_minus_the_metric_even_under_ties(name, data, num_levels, grid):
    items = data.draw(
        st.lists(st.tuples(st.integers(-grid, grid), st.integers(0, num_levels)), min_size=1, max_size=15)
    )
    scores = torch.tensor([[score / grid for score, _ in items]], dtype=torch.float64)
    levels = torch.tensor([[level for _, level in items]])
    valid = torch.ones_like(levels, dtype=torch.bool)
    table = table_for(name, levels, valid, num_levels)
    value = float(getattr(functional, name)(scores, levels, table))
    metric = one_value(name, scores[0].tolist(), levels[0].tolist(), table[0].tolist(), HEAVISIDE, HEAVISIDE)
    assert value >= metric - 1e-12
    assert value >= -1e-12


@pytest.mark.parametrize("name", ["sup_hap", "sup_ndcg", "sup_ap"])
@settings(max_examples=60)
@given(data=st.data(), num_levels=st.integers(1, 3))
def test_whatever_the_policy_sup_losses_bound_one_minus_the_metric_unless_positives_tie(name, data, num_levels):
    items = st.lists(st.tuples(st.integers(0, 6), st.integers(0, num_levels)), min_size=1, max_size=9)
    cases = data.draw(items.filter(lambda found: any(level for _, level in found)))
    if name != "sup_ndcg":
        ranks = set()  # by a positive
        cases = [item for item in cases if item[1] == 0 or not (item[0] in ranks or ranks.add(item[0]))]
    scores = torch.tensor([[score / 200 for score, _ in cases]], dtype=torch.float64)
    levels = torch.tensor([[level for _, level in cases]])
    if not (levels == num_levels).any():
        return  # AP has no positive
    table = table_for(name, levels, torch.ones_like(levels, dtype=torch.bool), num_levels)
    value = float(getattr(functional, name)(scores, levels, table))
    metric = {"sup_hap": "H-AP", "sup_ndcg": "NDCG", "sup_ap": "AP"}[name]
    for ties in ("worst", "average", "index", "paper"):
        assert value >= 1 - evaluate_scores(scores, levels, metrics=[metric], ties=ties).summary()[metric] - 1e-12


def test_ties_among_positives_lie_outside_the_bound_of_ap():
    scores, levels = torch.zeros(1, 4, dtype=torch.float64), torch.tensor([[1, 1, 0, 0]])
    value = float(functional.sup_ap(scores, levels, torch.ones(1, 2)))
    of = {
        ties: 1 - evaluate_scores(scores, levels, metrics=["AP"], ties=ties).summary()["AP"]
        for ties in ("paper", "worst")
    }
    assert value == pytest.approx(of["paper"]) == pytest.approx(1 / 2)
    assert value < of["worst"]


def test_ap_takes_the_level_asked_for():
    scores, levels, valid = random_batch(4, 3)
    table = table_for("sup_ap", levels, valid, 3)
    coarse = functional.sup_ap(scores, levels, table, level=1, valid=valid)
    as_binary = functional.sup_ap(scores, (levels >= 1).int(), table[:, :2], valid=valid)
    torch.testing.assert_close(coarse, as_binary, rtol=0, atol=0)


@pytest.mark.usefixtures("every_kernel")
@pytest.mark.parametrize("name", RANK_LOSSES)
def test_neither_order_nor_blocks_nor_the_tables_scale_matter(name, monkeypatch):
    scores, levels, valid = random_batch(5, 3, queries=7, candidates=20, ties=True)
    table, loss = table_for(name, levels, valid, 3), getattr(functional, name)

    def value_and_gradient(columns, scale=1.0):
        leaf = scores.clone().requires_grad_()
        value = loss(leaf[:, columns], levels[:, columns], table * scale, valid=valid[:, columns])
        return value.detach(), torch.autograd.grad(value, leaf)[0]

    expected = value_and_gradient(torch.arange(20))
    torch.testing.assert_close(value_and_gradient(torch.randperm(20), 1e40), expected, rtol=1e-12, atol=1e-13)
    monkeypatch.setitem(_all_pairs.PAIRS_AT_ONCE, "cpu", 1)
    monkeypatch.setitem(_blocks.SCORES_AT_ONCE, "cpu", 1)
    monkeypatch.setattr(_blocks, "FEW_SCORES", 0)
    torch.set_num_threads(3)
    torch.testing.assert_close(value_and_gradient(torch.arange(20)), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", RANK_LOSSES)
def test_queries_without_a_positive_are_left_out_of_the_mean(name):
    scores, levels, valid = random_batch(6, 2)
    levels[1] = 0
    table = table_for(name, levels, valid, 2)
    values = getattr(functional, name)(scores, levels, table, valid=valid, reduction="none")
    mean = getattr(functional, name)(scores, levels, table, valid=valid)
    assert values[1] == 0
    torch.testing.assert_close(mean, values.sum() / 4)


@pytest.mark.parametrize("name", RANK_LOSSES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_scores_are_computed_with_in_float32(name, dtype):
    scores, levels, valid = random_batch(8, 2)
    half = scores.to(dtype).requires_grad_()
    table = table_for(name, levels, valid, 2)
    value = getattr(functional, name)(half, levels, table, valid=valid)
    value.backward()
    torch.testing.assert_close(value, getattr(functional, name)(half.float(), levels, table, valid=valid))
    assert value.dtype == torch.float32
    assert bool(half.grad.isfinite().all())


def test_a_tree_of_255_levels_has_finite_ndcg():
    scores = torch.tensor([[0.3, 0.2, 0.1]], requires_grad=True)
    table = gain(torch.ones(1, 256, dtype=torch.int64))
    value = functional.sup_ndcg(scores, torch.tensor([[0, 255, 254]]), table)
    value.backward()
    assert 0 < value.item() < 1
    assert bool(scores.grad.isfinite().all())


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_pair_decomposability_equals_the_loops(reduction):
    scores, levels, valid = random_batch(9, 3)
    scores = scores * 8 - 0.5
    levels[2] = 0
    loops = [
        reference.pair_decomposability(s[v].tolist(), lev[v].tolist(), 2)
        for s, lev, v in zip(scores, levels, valid, strict=True)
    ]
    value = functional.pair_decomposability(scores, levels, level=2, valid=valid, reduction=reduction)
    given_values = [v for v in loops if v is not None]
    expected = [v or 0.0 for v in loops] if reduction == "none" else math.fsum(given_values) / len(given_values)
    torch.testing.assert_close(value, torch.tensor(expected, dtype=torch.float64))
    assert torch.autograd.gradcheck(
        lambda s: functional.pair_decomposability(s, levels, level=2, valid=valid, reduction=reduction),
        scores.requires_grad_(),
    )


def test_avg_nonzero_divides_by_the_pairs_that_still_hurt():
    scores = torch.tensor([[0.95, 0.7, 0.5, 0.8], [0.3, 0.99, 0.1, 0.2]])
    levels = torch.tensor([[1, 1, 0, 0], [1, 1, 0, 0]])
    value = functional.pair_decomposability(scores, levels, level=1, reduction="avg_nonzero")
    assert float(value) == pytest.approx((0.2 + 0.6) / 2 + 0.2)


def test_proxy_decomposability_equals_the_loops():
    scores = torch.rand(4, 6, dtype=torch.float64) * 2 - 1
    classes = torch.tensor([5, 0, 3, 3])
    expected = [reference.proxy_decomposability(s.tolist(), c) for s, c in zip(scores, classes.tolist(), strict=True)]
    values = functional.proxy_decomposability(scores, classes, reduction="none")
    torch.testing.assert_close(values, torch.tensor(expected, dtype=torch.float64))


def test_transposed_scores_give_the_same_value():
    scores, levels, valid = random_batch(1, 2)
    table = table_for("sup_hap", levels, valid, 2)
    transposed = scores.T.contiguous().T
    assert functional.sup_hap(transposed, levels, table, valid=valid) == functional.sup_hap(
        scores, levels, table, valid=valid
    )


def test_bad_arguments_of_the_decomposability_terms_are_refused():
    scores, levels = torch.rand(2, 3), torch.tensor([[1, 0, 0], [1, 1, 0]])
    with pytest.raises(OptionError, match="level=0"):
        functional.pair_decomposability(scores, levels, level=0)
    with pytest.raises(OptionError, match="alpha=nan"):
        functional.pair_decomposability(scores, levels, level=1, alpha=math.nan)
    with pytest.raises(OptionError, match="eta=0"):
        functional.proxy_decomposability(scores, torch.tensor([0, 1]), eta=0)
    with pytest.raises(PathError, match="finest id 3 in row 1"):
        functional.proxy_decomposability(scores, torch.tensor([0, 3]))
    with pytest.raises(ShapeError, match="scores, classes"):
        functional.proxy_decomposability(scores, torch.tensor([0, 1, 1]))
    with pytest.raises(EmbeddingError, match="first in row 1"):
        functional.proxy_decomposability(torch.tensor([[0.5, 0.1], [0.2, math.nan]]), torch.tensor([0, 1]))


BAD_CALLS = {
    "scores and levels of two shapes": (ShapeError, {"levels": torch.zeros(2, 4)}),
    "a table without level 1": (ShapeError, {"table": torch.zeros(2, 1)}),
    "a table of another batch": (ShapeError, {"table": torch.zeros(3, 2)}),
    "no candidates": (ShapeError, {"scores": torch.zeros(2, 0), "levels": torch.zeros(2, 0)}),
    "a NaN score": (EmbeddingError, {"scores": torch.tensor([[0.0, 0.0, 0.0], [0.0, float("nan"), 0.0]])}),
    "a relevance that is no number": (OptionError, {"table": torch.tensor([[0.0, 1.0], [0.0, float("nan")]])}),
    "a negative relevance": (OptionError, {"table": torch.tensor([[0.0, 1.0], [0.0, -1.0]])}),
    "an infinite relevance": (OptionError, {"table": torch.tensor([[0.0, math.inf], [0.0, 1.0]])}),
    "a level beyond the table": (PathError, {"levels": torch.full((2, 3), 2)}),
    "a negative level": (PathError, {"levels": torch.full((2, 3), -1)}),
    "levels that are no integers": (PathError, {"levels": torch.zeros(2, 3)}),
    "a zero temperature": (OptionError, {"tau": 0.0}),
    "a negative slope": (OptionError, {"rho": -1.0}),
    "an infinite margin": (OptionError, {"delta": math.inf}),
    "an unknown reduction": (OptionError, {"reduction": "sum"}),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_input_is_refused_by_name(case):
    error, changed = BAD_CALLS[case]
    arguments = {"scores": torch.rand(2, 3), "levels": torch.ones(2, 3, dtype=torch.int64), "table": torch.ones(2, 2)}
    with pytest.raises(error):
        functional.sup_hap(**{**arguments, **changed})


def crowded_batch():
    """Tables whose relevance falls, rises, ties and is 0 at levels above 0: by levels and by relevance differ."""
    scores, levels, valid = random_batch(11, 3, queries=6, candidates=16, ties=True)
    table = torch.tensor(
        [[0, 0.5, 0.1, 0.9], [0, 0.9, 0.5, 0.1], [0, 0.3, 0.3, 1], [0, 0, 0.4, 0.2], [0, 1, 2, 3], [0, 0, 0, 0]],
        dtype=torch.float64,
    )
    return scores, levels, valid, table


@pytest.mark.usefixtures("every_kernel")
@pytest.mark.parametrize("name", ["sup_hap", "sup_ndcg"])
def test_split_by_relevance_equals_the_loops(name):
    scores, levels, valid, table = crowded_batch()
    objective = reference.one_minus_h_ap if name == "sup_hap" else reference.one_minus_ndcg
    rows = zip(scores, levels, valid, table, strict=True)
    arguments = [(s[v].tolist(), lev[v].tolist(), rel.tolist()) for s, lev, v, rel in rows]
    steps = {"equal": HEAVISIDE, "lower": H_MINUS}
    expected = [objective(*arguments_of_case, **steps, by_relevance=True) or 0.0 for arguments_of_case in arguments]
    loss = partial(getattr(functional, name), valid=valid, reduction="none")
    values = loss(scores, levels, table, split_by="relevance")
    torch.testing.assert_close(values, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-12)
    by_level = loss(scores, levels, table)
    assert bool((values != by_level)[:4].any())
    assert values[4] == by_level[4]  # relevance rises with the level
    assert torch.equal(table[3], torch.tensor([0, 0, 0.4, 0.2], dtype=torch.float64))


@pytest.mark.usefixtures("every_kernel")
@pytest.mark.parametrize("name", ["sup_hap", "sup_ndcg"])
def test_gradient_of_the_split_by_relevance_equals_central_differences(name):
    scores, levels, valid, table = crowded_batch()
    scores = scores.argsort(dim=1).argsort(dim=1) * 0.011 + torch.rand(6, 16, dtype=torch.float64) * 0.004
    assert torch.autograd.gradcheck(
        lambda s: getattr(functional, name)(
            s, levels, table, valid=valid, tau=0.05, reduction="none", split_by="relevance"
        ),
        scores.requires_grad_(),
        eps=1e-7,
        atol=1e-6,
        rtol=1e-5,
    )


def test_sup_hap_splits_by_the_relevance_of_its_own_table():
    paths = torch.tensor([[0, 0], *[[0, 1]] * 9, *[[1, 2]] * 3])
    embeddings = torch.randn(13, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    unit = torch.nn.functional.normalize(embeddings, dim=1)
    levels, valid = levels_of(paths, paths), ~torch.eye(13, dtype=torch.bool)
    table = hap(level_counts(levels, 2, valid=valid))
    expected = functional.sup_hap(unit @ unit.T, levels, table, valid=valid, split_by="relevance")
    loss = SupHAP(split_by="relevance")
    torch.testing.assert_close(loss(embeddings, paths), expected)
    assert float(loss(embeddings, paths)) != float(SupHAP()(embeddings, paths))
    torch.testing.assert_close(
        HAPPIER(3, 4, split_by="relevance").double().terms(embeddings, paths)["SupHAP"], expected
    )


def test_a_recall_at_tau_star_1_is_that_of_the_equation_without_a_limit():
    scores, levels, valid = random_batch(12, 1, queries=8, candidates=30, ties=True)
    levels[0] = 1
    ranks = [
        [
            reference.rank(k, s[v].tolist(), lev[v].tolist(), HEAVISIDE, H_MINUS)
            for k in range(int(v.sum()))
            if lev[v][k] == 1
        ]
        for s, lev, v in zip(scores, levels, valid, strict=True)
    ]
    expected = [
        1 - sum(sum(reference.logistic(k - rank) for rank in row) / min(k, len(row)) for k in (1, 2, 4)) / 3
        for row in ranks
    ]
    values = functional.sup_recall(scores, levels, torch.ones(8, 2), ks=(1, 2, 4), valid=valid, reduction="none")
    torch.testing.assert_close(values, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-12)


TABLES = ["sup_hap", "sup_ndcg", "sup_ap", "sup_recall", "smooth_hap", "smooth_ndcg", "smooth_ap", "smooth_recall"]


@pytest.mark.parametrize("name", TABLES)
def test_more_levels_than_a_byte_counts_are_refused(name):
    scores, levels = torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 299, 256]])
    with pytest.raises(ShapeError, match="table of 300 levels: expected at most 255"):
        getattr(functional, name)(scores, levels, torch.ones(1, 301))


def test_hashing_losses_refuse_more_affinities_than_256_and_one_level_may_be_any():
    scores, levels, table = -torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[0, 299, 256]]), torch.ones(1, 301)
    for loss in (functional.tie_aware_ap, functional.tie_aware_ndcg):
        with pytest.raises(ShapeError, match="table of 300 levels"):
            loss(scores, levels, table, num_bits=4)
    for loss in (functional.fast_ap, functional.blackbox_ap, functional.pair_decomposability):
        torch.manual_seed(0)
        value = loss(scores / 4, levels, level=257)
        torch.manual_seed(0)
        assert value == loss(scores / 4, torch.tensor([[0, 1, 0]]), level=1)
