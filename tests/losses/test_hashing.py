"""Tie-aware hashing: what the relaxations are on binary codes, their gradients, and codes learned on real digits."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import reference_hashing as reference
import torch
from hypothesis import given
from hypothesis import strategies as st
from loss_loops import labeled_batch

from hiertree import level_counts
from hiertree.errors import EmbeddingError, OptionError, PathError, ShapeError
from hiertree.losses import (
    CSL,
    DPSH,
    DTSH,
    HAPPIER,
    CrossBatchMemory,
    DistributedLoss,
    GrowingAlpha,
    HashNet,
    LevelSum,
    MIHash,
    SmoothRecall,
    SupAP,
    SupNDCG,
    TieAwareAP,
    TieAwareNDCG,
    binary_codes,
    functional,
)
from hiertree.losses.kernels import steps as _all_pairs
from hiertree.losses.tie_aware import discount_of_mean, mean_discount, mean_reciprocal, mean_rise
from hiertree.metrics import average_precision, ndcg
from hiertree.relevance import gain

both = pytest.mark.parametrize("name", ["ap", "ndcg"])
either_form = pytest.mark.parametrize("simplified", [False, True])


def rise(count, size):
    return mean_rise(count, size, mean_reciprocal(count, size))


def random_distances(seed, num_levels, *, binary, queries=4, candidates=18, num_bits=6):
    """Minus distances, levels and a mask; every query has a candidate of each level."""
    generator = torch.Generator().manual_seed(seed)
    distances = torch.rand(queries, candidates, generator=generator, dtype=torch.float64) * num_bits
    levels = torch.randint(0, num_levels + 1, (queries, candidates), generator=generator)
    levels[:, : num_levels + 1] = torch.arange(num_levels + 1)
    valid = torch.rand(queries, candidates, generator=generator) < 0.8
    valid[:, : num_levels + 1] = True
    return -(distances.round() if binary else distances), levels, valid


def loss_of(name, scores, levels, num_levels, **options):
    table = gain(level_counts(levels, num_levels))
    loss = getattr(functional, f"tie_aware_{name}")
    return loss(scores, levels, table, **{"num_bits": 6, "reduction": "none", **options})


@both
@either_form
@pytest.mark.parametrize(("num_levels", "num_bins"), [(1, 6), (2, 4), (3, 6), (4, 1)])
def test_value_equals_the_loops(name, simplified, num_levels, num_bins):
    scores, levels, valid = random_distances(num_levels, num_levels, binary=False)
    values = loss_of(name, scores, levels, num_levels, valid=valid, num_bins=num_bins, simplified=simplified)
    for value, own_scores, own_levels, mask in zip(values.tolist(), scores, levels, valid, strict=True):
        distances, items = (-own_scores[mask]).tolist(), own_levels[mask].tolist()
        if name == "ap":
            positive = [level == num_levels for level in items]
            expected = reference.relaxed_ap(distances, positive, 6, num_bins, simplified=simplified)
        else:
            gains = [2.0**level - 1 for level in items]
            expected = reference.relaxed_ndcg(distances, gains, 6, num_bins, simplified=simplified)
        assert expected is not None
        assert value == pytest.approx(1 - expected, abs=1e-9)
        assert simplified or 0 <= value <= 1


@pytest.mark.parametrize("num_levels", [1, 3])
def test_on_binary_codes_ap_r_is_ap_averaged_over_the_orders_of_ties(num_levels):
    scores, levels, valid = random_distances(5, num_levels, binary=True, queries=30, candidates=40)
    for level in range(1, num_levels + 1):
        value = loss_of("ap", scores, levels, num_levels, valid=valid, level=level)
        metric = average_precision(scores, levels, level=level, valid=valid)
        np.testing.assert_allclose(value, 1 - metric, rtol=0, atol=1e-12)
        first = reference.tied_ap((-scores[0][valid[0]]).tolist(), (levels[0][valid[0]] >= level).tolist())
        assert metric[0] == pytest.approx(first, abs=1e-12)


def test_without_ties_ap_s_is_ap():
    scores = -torch.stack([torch.randperm(7) for _ in range(9)]).double()
    levels = torch.randint(0, 2, (9, 7))
    levels[:, 3] = 1
    value = loss_of("ap", scores, levels, 1, simplified=True)
    np.testing.assert_allclose(value, 1 - average_precision(scores, levels), rtol=0, atol=1e-12)


@given(items=st.integers(0, 40), tie_positives=st.integers(1, 30), data=st.data())
def test_a_tie_adds_less_to_ap_s_where_the_precision_ahead_exceeds_the_one_inside(items, tie_positives, data):
    positives = data.draw(st.integers(0, items))
    size = data.draw(st.integers(max(tie_positives, 2), tie_positives + 40))
    exact = sum(
        (positives + 1 + (t - items - 1) * (tie_positives - 1) / (size - 1)) / t
        for t in range(items + 1, items + size + 1)
    )
    bound = (2 * positives + tie_positives + 1) / (2 * items + size + 1)
    excess = (positives + 1) * (size - 1) - (tie_positives - 1) * (items + 1)
    difference = exact / size - bound
    assert difference * math.copysign(1, excess) >= -1e-12
    if excess == 0:
        assert difference == pytest.approx(0, abs=1e-12)


@given(items=st.integers(0, 5000), size=st.integers(1, 300))
def test_the_means_over_a_tie_are_those_of_its_ranks_and_bound_its_discount(items, size):
    start, group = torch.tensor(float(items)).double(), torch.tensor(float(size)).double()
    ranks = range(items + 1, items + size + 1)
    reciprocals = math.fsum(1 / t for t in ranks) / size
    assert float(mean_reciprocal(start, group)) == pytest.approx(reciprocals, rel=1e-9)
    if size > 1:
        of_members = math.fsum((t - items - 1) / (size - 1) / t for t in ranks) / size
        assert float(rise(start, group)) == pytest.approx(of_members, rel=1e-5, abs=1e-11)
    discount = math.fsum(1 / math.log2(1 + t) for t in ranks) / size
    assert float(discount_of_mean(start, group)) <= discount * (1 + 1e-9)
    assert discount <= float(mean_discount(start, group)) * (1 + 1e-9)


@pytest.mark.parametrize("num_levels", [1, 2, 4])
def test_on_binary_codes_the_simplified_ndcg_loss_bounds_one_minus_ndcg(num_levels):
    scores, levels, valid = random_distances(3, num_levels, binary=True, queries=30, candidates=40)
    metric = ndcg(scores, levels, valid=valid)
    values = loss_of("ndcg", scores, levels, num_levels, valid=valid, simplified=True).numpy()
    assert (values >= 1 - metric - 1e-12).all()
    integral = loss_of("ndcg", scores, levels, num_levels, valid=valid).numpy()
    assert np.abs(integral - (1 - metric)).max() < 0.05  # near, and no bound
    gains = [2.0**level - 1 for level in levels[0][valid[0]].tolist()]
    best = sum(value / math.log2(1 + t) for t, value in enumerate(sorted(gains, reverse=True), start=1))
    assert reference.tied_dcg((-scores[0][valid[0]]).tolist(), gains) / best == pytest.approx(metric[0], abs=1e-12)


@pytest.mark.parametrize("function", [mean_reciprocal, rise, mean_discount, discount_of_mean])
def test_means_over_a_tie_are_smooth_at_empty_and_single_bins(function):
    sizes = [0.0, 1e-5, 3e-4, 0.4, 1 - 1e-5, 1.0, 1.0 + 3e-4, 2.0, 7.5]
    grid = torch.tensor(list(product([0.0, 0.3, 4.0, 900.0], sizes)), dtype=torch.float64)
    start, size = grid[:, 0].clone().requires_grad_(), grid[:, 1].clone().requires_grad_()
    assert torch.autograd.gradcheck(function, (start, size), eps=1e-5, atol=1e-6, rtol=1e-4)


@both
@either_form
def test_gradient_equals_central_differences(name, simplified):
    scores, levels, valid = random_distances(7, 2, binary=False, queries=2, candidates=9)
    assert torch.autograd.gradcheck(
        lambda s: loss_of(name, s, levels, 2, valid=valid, simplified=simplified), scores.requires_grad_()
    )


LOSSES = {
    "ap": TieAwareAP,
    "ap simplified": lambda: TieAwareAP(simplified=True),
    "ndcg": TieAwareNDCG,
    "ndcg simplified": lambda: TieAwareNDCG(simplified=True),
}
EARLIER = {
    "HashNet": HashNet,
    "HashNet weighted": lambda: HashNet(positive_weight=3.0, slope=0.4),
    "DPSH": lambda: DPSH(quantization=0.02),
    "DTSH": lambda: DTSH(margin=1.5),
    "MIHash": MIHash,
    "MIHash of few bins": lambda: MIHash(num_bins=3, level=1),
}
every_tie_aware_loss = pytest.mark.parametrize("name", LOSSES)
every_loss = pytest.mark.parametrize("name", [*LOSSES, *EARLIER])


def made(name):
    return {**LOSSES, **EARLIER}[name]()


def batch(seed=0, num_items=20, *, size=12):
    return labeled_batch(seed, num_items, size=size, branching=3)


@every_tie_aware_loss
def test_the_loss_is_the_mean_over_queries_of_the_functional_form(name):
    embeddings, paths = batch()
    paths[0] = torch.tensor([9, 9])  # no other item shares anything with it
    loss = LOSSES[name]()
    codes = torch.tanh(embeddings).tolist()
    scores = -torch.tensor([[reference.hamming_distance(a, b) for b in codes] for a in codes], dtype=torch.float64)
    levels = (paths[:, None] == paths).cumprod(dim=2).sum(dim=2)
    function = functional.tie_aware_ap if name.startswith("ap") else functional.tie_aware_ndcg
    valid = ~torch.eye(20, dtype=torch.bool)
    expected = function(
        scores, levels, gain(level_counts(levels, 2)), num_bits=12, valid=valid, simplified=loss.simplified
    )
    torch.testing.assert_close(loss(embeddings, paths), expected)
    assert loss.last_num_skipped >= 1


def value_by_loops(name, codes, items, positive):
    """The loss of queries whose candidates are items, all of them."""
    products = [[sum(x * y for x, y in zip(a, b, strict=True)) for b in items] for a in codes]
    if name.startswith("HashNet"):
        if name == "HashNet":
            return reference.hashnet(products, positive, 10 / len(codes[0]))
        return reference.weighted_hashnet(products, positive, 0.4, 3.0)
    if name.startswith("MIHash"):
        bins = 12 if name == "MIHash" else 3
        distances = [[reference.hamming_distance(a, b) for b in items] for a in codes]
        information = [
            reference.minus_mutual_information(row, kinds, 12, bins)
            for row, kinds in zip(distances, positive, strict=True)
        ]
        is_known = [value for value in information if value is not None]
        return sum(is_known) / len(is_known)
    error = sum(map(reference.quantization_error, codes)) / len(codes)
    if name == "DPSH":
        values = [reference.dpsh(row, kinds) for row, kinds in zip(products, positive, strict=True)]
        return sum(values) / len(values) + 0.02 * error
    triplets = [reference.dtsh(row, kinds, 1.5) for row, kinds in zip(products, positive, strict=True)]
    counted = [value for value in triplets if value is not None]
    return sum(counted) / len(counted) + 0.0044 * error


@pytest.mark.parametrize("name", EARLIER)
def test_an_earlier_loss_is_that_of_the_loops(name):
    (embeddings, paths), (memory, memory_paths) = batch(), batch(1, 30)
    embeddings = embeddings.requires_grad_()
    paths[0], level = 9, 0 if name == "MIHash of few bins" else 1
    bounded = torch.tanh if name.split(maxsplit=1)[0] in ("HashNet", "MIHash") else lambda numbers: numbers
    codes, items = bounded(embeddings.detach()).tolist(), bounded(memory).tolist()
    positive = (paths[:, None, level] == memory_paths[:, level]).tolist()
    value = made(name)(embeddings, paths, memory, memory_paths)
    assert value.item() == pytest.approx(value_by_loops(name, codes, items, positive), rel=1e-9)
    assert torch.autograd.gradcheck(lambda e: made(name)(e, paths), embeddings)


def test_triplets_take_bounded_memory_at_a_time(monkeypatch):
    embeddings, paths = batch(0, 40)
    all_at_once = DTSH()(embeddings, paths)
    monkeypatch.setitem(_all_pairs.PAIRS_AT_ONCE, "cpu", 50)
    torch.testing.assert_close(DTSH()(embeddings, paths), all_at_once)


def test_the_memory_of_dpsh_is_the_embeddings_of_a_training_set():
    embeddings, paths = batch(0, 12)
    loss = CrossBatchMemory(DPSH(), 12, 2, size=12, enqueue="before").double()
    loss(embeddings[:6], paths[:6])
    leaf = embeddings[6:].clone().requires_grad_()
    value = loss(leaf, paths[6:])
    valid = ~torch.eye(12, dtype=torch.bool)[6:]
    expected = DPSH()(leaf, paths[6:], embeddings, paths, valid=valid)
    assert torch.equal(torch.autograd.grad(value, leaf)[0], torch.autograd.grad(expected, leaf)[0])


@every_loss
def test_gradient_reaches_embeddings_and_a_memory(name):
    embeddings, paths = batch(0, 4, size=5)
    memory, memory_paths = batch(1, 9, size=5)
    loss = made(name)
    assert torch.autograd.gradcheck(
        lambda e, m: loss(e, paths, m, memory_paths), (embeddings.requires_grad_(), memory.requires_grad_())
    )


@every_loss
def test_a_mask_leaves_queries_and_candidates_out(name):
    embeddings, paths = batch()
    loss = made(name)
    queries, candidates = torch.arange(20) < 8, torch.arange(20) >= 8
    masked = loss(embeddings, paths, valid=queries[:, None] & candidates)
    torch.testing.assert_close(masked, loss(embeddings[:8], paths[:8], embeddings[8:], paths[8:]))
    assert loss.last_num_skipped <= 8


@every_loss
def test_the_order_of_the_batch_does_not_matter(name):
    embeddings, paths = batch()
    shuffled = torch.randperm(len(paths), generator=torch.Generator().manual_seed(2))
    loss = made(name)
    torch.testing.assert_close(loss(embeddings, paths), loss(embeddings[shuffled], paths[shuffled]))


@every_loss
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("scale", [0.0, 1.0, 1000.0])
@pytest.mark.parametrize("spread", [0.0, 0.1, 1.0])
def test_autocast_gives_no_nan_from_undecided_to_saturated_codes_perfect_to_random(name, dtype, scale, spread):
    torch.manual_seed(0)
    noise, paths = batch()
    images = (1 - spread) * torch.randn(6, 12)[paths[:, 1]] + spread * noise.float()
    layer = torch.nn.Linear(12, 16)
    if name in ("DPSH", "DTSH"):
        scale /= 100  # their gradient grows with numbers that no tanh bounds: 16 bits overflow
    with torch.autocast("cpu", dtype=dtype):
        embeddings = layer(images) * scale
        value = made(name)(embeddings, paths)
    assert embeddings.dtype == dtype
    scaler = torch.amp.GradScaler("cpu", enabled=dtype == torch.float16, init_scale=1024.0)
    scaler.scale(value).backward()
    assert value.dtype == torch.float32
    assert bool(value.isfinite())
    assert bool(layer.weight.grad.isfinite().all())


@every_loss
def test_degenerate_batches_give_a_finite_loss_with_a_graph(name):
    embeddings = torch.zeros(3, 4, requires_grad=True)
    of_all, of_none = {"HashNet": (0, 0), "DPSH": (0, 0), "DTSH": (3, 3)}.get(name.split(maxsplit=1)[0], (0, 3))
    for labels, num_skipped in (([0, 0, 0], of_all), ([0, 1, 2], of_none)):
        loss = made(name)
        value = loss(embeddings, torch.tensor(labels))
        value.backward()
        assert bool(value.isfinite())
        assert loss.last_num_skipped == num_skipped
        assert bool(embeddings.grad.isfinite().all())


def test_separated_classes_give_0():
    embeddings = torch.tensor([[9.0, 9.0], [9.0, 9.0], [-9.0, 9.0], [-9.0, 9.0]])
    paths = torch.tensor([0, 0, 1, 1])
    assert float(TieAwareAP()(embeddings, paths)) == pytest.approx(0, abs=1e-6)
    assert float(TieAwareNDCG()(embeddings, paths)) == pytest.approx(0, abs=1e-6)


def test_alpha_grows_and_makes_codes_binary():
    embeddings, paths = batch()
    loss, growth = TieAwareAP(), GrowingAlpha(initial=1.0, factor=10.0, every=2)
    values = []
    for epoch in range(9):
        loss.alpha = growth(epoch)
        values.append(float(loss(embeddings, paths)))
    assert loss.alpha == 10_000
    signs = torch.where(embeddings > 0, 1.0, -1.0).double()
    scores, levels = (signs @ signs.T - 12) / 2, (paths[:, None, 1] == paths[:, 1]).long()
    metric = average_precision(scores, levels, valid=~np.eye(20, dtype=bool))
    assert values[-1] == pytest.approx(1 - np.nanmean(metric), abs=1e-3)
    assert values[0] == values[1] != values[2]


def test_alpha_grows_by_epochs_inside_whatever_wraps_the_loss():
    embeddings, paths = batch()
    inner = TieAwareAP(alpha=3.0, alpha_factor=2.0, alpha_every=5)
    sums = LevelSum(lambda _: TieAwareAP(alpha_factor=2.0), (3, 6))
    for loss in (CrossBatchMemory(inner, 12, 2), DistributedLoss(inner), sums):
        assert loss.learns_codes
        loss.start_epoch(0)
        early = float(loss.double()(embeddings, paths))
        loss.start_epoch(11)
        assert float(loss(embeddings, paths)) != early
    assert inner.alpha == 12.0
    inner.alpha = 1.0
    assert inner.alpha == 1.0
    assert not SupAP().learns_codes


def test_packed_codes_have_the_distances_of_the_signs():
    embeddings, _ = batch(size=19)
    codes = binary_codes(embeddings)
    assert codes.shape == (20, 3)
    unpacked = np.unpackbits(codes, axis=1)[:, :19]
    assert np.array_equal(unpacked == 1, embeddings.numpy() > 0)


def test_bad_input_is_refused():
    embeddings, paths = batch()
    embeddings[3, 0] = torch.nan
    with pytest.raises(EmbeddingError, match="rows: 3"):
        TieAwareAP()(embeddings, paths)
    with pytest.raises(EmbeddingError, match="rows: 3"):
        binary_codes(embeddings)
    with pytest.raises(ShapeError, match="20 rows"):
        TieAwareNDCG()(embeddings.nan_to_num(), paths[1:])
    with pytest.raises(OptionError, match="num_bins=13"):
        TieAwareAP(num_bins=13)(embeddings.nan_to_num(), paths)
    scores, levels = -torch.ones(2, 3), torch.tensor([[1, 0, 0], [0, 1, 1]])
    for bad in (scores * 9, -scores):
        with pytest.raises(EmbeddingError, match="in row 0: expected minus a distance, from -6 to 0"):
            loss_of("ap", bad, levels, 1)
    with pytest.raises(PathError, match="levels"):
        functional.tie_aware_ap(scores, levels * 2, torch.ones(2, 2), num_bits=6)
    with pytest.raises(OptionError, match="level=3"):
        loss_of("ap", scores, levels, 1, level=3)
    with pytest.raises(OptionError, match="num_bits=0"):
        loss_of("ndcg", scores, levels, 1, num_bits=0)


def digits():
    """1,797 images of 8 × 8 pixels, and paths: even or odd, digit."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    paths = torch.from_numpy(np.stack([labels % 2, labels], axis=1))
    return torch.from_numpy(images / 16).float(), paths


def shared_labels(queries, items):
    """How many of five labels two rows share, of 40 whose labels are drawn."""
    labels = (np.random.default_rng(0).random((40, 5)) < 0.4).astype(np.int64)
    return labels[queries] @ labels[items].T


def test_a_memory_ranks_rows_by_their_grades():
    vectors = torch.randn(20, 8, generator=torch.Generator().manual_seed(1))
    rows = torch.randperm(40, generator=torch.Generator().manual_seed(2))[:20]
    memory = CrossBatchMemory(SupNDCG(), 8, 1, size=30).compare_rows(shared_labels, 5)
    memory(vectors[:10], rows[:10])
    value = memory(vectors[10:], rows[10:])
    order = torch.cat([torch.arange(10, 20), torch.arange(10)])
    units = torch.nn.functional.normalize(vectors, dim=1)
    levels = torch.from_numpy(shared_labels(rows[10:].numpy(), rows[order].numpy()))
    mask = torch.arange(10, 20)[:, None] != order
    counts = torch.stack([((levels == level) & mask).sum(dim=1) for level in range(6)], dim=1)
    expected = functional.sup_ndcg(units[10:] @ units[order].T, levels, gain(counts), valid=mask)
    assert value.item() == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.parametrize(
    "make", [lambda: HAPPIER(5, 8), lambda: SmoothRecall(similarity_mixup=True), lambda: CSL([[0]], 8)]
)
def test_a_loss_that_needs_classes_takes_no_grades(make):
    with pytest.raises(OptionError, match=r"pairs are graded.*TieAwareNDCG"):
        make().compare_rows(shared_labels, 5)


@pytest.mark.parametrize(
    ("grades", "paths", "error", "message"),
    [
        (shared_labels, [[0, 1], [0, 2]], ShapeError, "2 columns.*row of each image"),
        (lambda queries, _: np.zeros(len(queries)), [0, 1], PathError, r"shape \(2,\).*\(2, 2\)"),
        (lambda queries, items: 0 * queries[:, None] + items, [0, 6], PathError, "from 0 to 6.*0 to 5"),
        (lambda *_: np.full((2, 2), 0.5), [0, 1], PathError, "float64.*integers from 0 to 5"),
    ],
)
def test_grades_that_do_not_fit_the_rows_are_refused(grades, paths, error, message):
    with pytest.raises(error, match=message):
        TieAwareNDCG().compare_rows(grades, 5)(torch.eye(2), torch.tensor(paths))
