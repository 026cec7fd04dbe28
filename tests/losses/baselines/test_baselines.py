"""Recall, binned and blackbox AP, CSL and proxies, against loop transcriptions."""

from __future__ import annotations

import math
import subprocess
import sys
from contextlib import contextmanager

import proxy_memory
import pytest
import reference_baselines as baselines
import reference_losses as reference
import torch

from hiertree.errors import EmbeddingError, OptionError, PathError, ShapeError
from hiertree.losses import (
    CSL,
    HAPPIER,
    BlackboxAP,
    FastAP,
    HiMulCon,
    ProxyDecomposability,
    SmoothRecall,
    SoftBinAP,
    SupAP,
    SupHAP,
    functional,
)
from hiertree.losses import decomposability as _proxies
from hiertree.losses.pairs import blocks as _blocks
from hiertree.losses.pairs.pairs import ScoredPairs

SIZE, MARGINS = 6, (0.1, 0.3, 0.05, 0.2)
SUP = {"equal": reference.heaviside, "lower": reference.h_minus()}
SMOOTH = {"equal": reference.sigmoid(), "lower": reference.sigmoid()}
levels_1_to_4 = pytest.mark.parametrize("num_levels", [1, 2, 3, 4])


def batch(num_levels, num_items=22, seed=0):
    """Embeddings and paths of a binary tree; item 0 is alone in every class of its own."""
    generator = torch.Generator().manual_seed(seed + num_levels)
    fine = torch.randint(0, 2**num_levels, (num_items,), generator=generator)
    paths = torch.stack([fine >> (num_levels - level) for level in range(1, num_levels + 1)], dim=1)
    paths[0] = 2**num_levels
    return torch.randn(num_items, SIZE, generator=generator, dtype=torch.float64), paths


def mean_of_loops(objective, embeddings, paths):
    rows, labels = embeddings.tolist(), paths.tolist()
    values = []
    for q in range(len(rows)):
        references = [j for j in range(len(rows)) if j != q]
        scores = reference.cosines(rows[q], [rows[j] for j in references])
        value = objective(scores, [reference.level_of(labels[q], labels[j]) for j in references])
        if value is not None:
            values.append(value)
    return sum(values) / len(values)


@levels_1_to_4
@pytest.mark.parametrize(("constrained", "base"), [(True, 2.0), (False, 2.0), (True, 1.0), (True, math.e)])
def test_levels_contrast_one_item_of_each_node_below(num_levels, constrained, base):
    embeddings, paths = batch(num_levels)
    expected, rows, terms = 0.0, list(range(len(paths))), list[float]()
    for level in range(num_levels, 0, -1):
        if level < num_levels:
            nodes = [tuple(path[: level + 1]) for path in paths.tolist()]
            rows = [row for row in rows if nodes.index(nodes[row]) == row]
        batch_rows, labels = embeddings[rows], paths[rows, :level]
        value = mean_of_loops(
            lambda s, lev, at=level: baselines.contrastive(s, [x >= at for x in lev], 0.2), batch_rows, labels
        )
        terms.append(max([value, *terms]) if constrained else value)
        expected += base ** (1 / (num_levels - level + 1)) / (num_levels + 1) * terms[-1]
    loss = HiMulCon(num_levels, temperature=0.2, constrained=constrained, base=base)
    assert float(loss(embeddings, paths)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", ["sup_recall", "smooth_recall"])
def test_recall_of_scores_is_that_of_the_loops_with_ties_and_a_mask(name):
    generator = torch.Generator().manual_seed(1)
    scores = (torch.rand(4, 15, generator=generator, dtype=torch.float64) * 8).round() / 40
    levels, valid = torch.randint(0, 3, (4, 15), generator=generator), torch.rand(4, 15, generator=generator) < 0.8
    steps = SUP if name == "sup_recall" else SMOOTH
    expected = [
        baselines.one_minus_recall(s[v].tolist(), lev[v].tolist(), 2, ks=(1, 4), tau_star=1.0, **steps)
        for s, lev, v in zip(scores, levels, valid, strict=True)
    ]
    values = getattr(functional, name)(scores, levels, torch.ones(4, 3), ks=(1, 4), valid=valid, reduction="none")
    assert values.tolist() == pytest.approx(expected, rel=1e-10)


def test_a_recall_counts_as_one_at_most():
    ones = torch.ones(40, 2) / math.sqrt(2)
    assert float(SmoothRecall(ks=(30,))(ones, torch.zeros(40, dtype=torch.int64))) == 0.0


@levels_1_to_4
def test_weighted_ap_bounds_the_weighted_mean_of_ap_over_levels(num_levels):
    embeddings, paths = batch(num_levels)
    embeddings, paths = embeddings[1:], paths[1:]
    level_weights = tuple(level / sum(range(1, num_levels + 1)) for level in range(1, num_levels + 1))

    def weighted(scores, levels):
        step = {"equal": reference.heaviside, "lower": reference.heaviside}
        values = [reference.one_minus_ap(scores, levels, level, **step) for level in range(1, num_levels + 1)]
        terms = [(weight, v) for weight, v in zip(level_weights, values, strict=True) if v is not None]
        return sum(weight * v for weight, v in terms) / sum(weight for weight, _ in terms) if terms else None

    expected = mean_of_loops(weighted, embeddings, paths)
    assert float(SupHAP(level_weights=level_weights)(embeddings, paths)) >= expected - 1e-12
    if num_levels == 1:
        term = SupHAP(level_weights=(1.0,))(embeddings, paths)
        torch.testing.assert_close(term, SupAP()(embeddings, paths))


def test_happier_takes_weights_of_levels_and_options_of_proxies():
    loss = HAPPIER(5, 3, level_weights=(0.5, 0.5), centers=2, sampled_classes=4)
    assert loss(torch.randn(4, 3), torch.tensor([[0, 1], [0, 1], [0, 2], [1, 4]])).isfinite()
    with pytest.raises(OptionError, match="alpha=2"):
        SupHAP(alpha=2.0, level_weights=(0.5, 0.5))
    with pytest.raises(ShapeError, match="2 levels"):
        SupHAP(level_weights=(1.0,))(torch.eye(2), torch.tensor([[0, 0], [0, 0]]))


def test_fast_ap_is_that_of_pytorch_metric_learning():
    library = pytest.importorskip("pytorch_metric_learning.losses")
    embeddings, paths = batch(2)
    embeddings_ours, embeddings_theirs = embeddings.clone().requires_grad_(), embeddings.clone().requires_grad_()
    value, expected = (
        FastAP(num_bins=7)(embeddings_ours, paths),
        library.FastAPLoss(num_bins=7)(embeddings_theirs, paths[:, -1]),
    )
    torch.testing.assert_close(value, expected)
    value.backward()
    expected.backward()
    torch.testing.assert_close(embeddings_ours.grad, embeddings_theirs.grad)


def test_binned_ap_of_few_bins_is_coarser_and_needs_no_more_memory():
    embeddings, paths = batch(1, num_items=30)
    assert float(FastAP(num_bins=19)(embeddings, paths)) == pytest.approx(
        float(SoftBinAP(num_bins=20)(embeddings, paths))
    )


@pytest.mark.parametrize("lambda_", [0.5, 4.0, 50.0])
def test_blackbox_gradient_is_that_of_the_shifted_ranks(lambda_):
    scores = torch.rand(3, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    positive = torch.tensor([[1, 0, 0, 1, 0, 0, 1, 0, 0], [0, 0, 1, 0, 0, 0, 0, 0, 0], [0] * 9], dtype=torch.bool)

    leaf = scores.clone().requires_grad_()
    pairs = ScoredPairs(leaf, positive.to(torch.uint8), torch.ones_like(positive), 1)
    loss = BlackboxAP(blackbox_lambda=lambda_, margin=0.0)
    loss.of_scores(pairs).backward()
    for q in (0, 1):
        expected = baselines.blackbox_gradient(scores[q].tolist(), positive[q].tolist(), lambda_, weight=1 / 2)
        assert leaf.grad[q].tolist() == pytest.approx(expected)
    assert leaf.grad[2].abs().max() == 0
    assert loss.last_num_skipped == 1


def test_functional_forms_are_the_modules_on_cosines():
    embeddings, paths = batch(2)
    unit = torch.nn.functional.normalize(embeddings)
    scores, valid = unit @ unit.T, ~torch.eye(len(paths), dtype=torch.bool)
    levels = (paths[:, None] == paths[None, :]).sum(dim=2)
    torch.testing.assert_close(functional.fast_ap(scores, levels, level=2, valid=valid), FastAP()(embeddings, paths))
    torch.testing.assert_close(
        functional.blackbox_ap(scores, levels, level=1, margin=0.0, valid=valid),
        BlackboxAP(margin=0.0, level=1)(embeddings, paths),
    )
    with pytest.raises(OptionError, match="level=0"):
        functional.fast_ap(scores, levels, level=0)
    with pytest.raises(OptionError, match="blackbox_lambda=0"):
        functional.blackbox_ap(scores, levels, level=1, blackbox_lambda=0)


def test_blackbox_margin_lowers_positives_and_follows_torchs_seed():
    embeddings, paths = batch(1)
    loss = BlackboxAP(margin=0.5)
    torch.manual_seed(3)
    first = float(loss(embeddings, paths))
    torch.manual_seed(3)
    assert float(loss(embeddings, paths)) == first > float(BlackboxAP(margin=0.0)(embeddings, paths))


def test_blackbox_noise_does_not_depend_on_which_query_a_thread_takes_first(monkeypatch):
    embeddings, paths = batch(1)
    losses = []
    for first_to_last in (True, False):

        @contextmanager
        def one_by_one(threads, first_to_last=first_to_last):
            def mapped(work, ranges):
                queries = [query for rows in ranges for query in range(rows.start, rows.stop)]
                return [work(slice(q, q + 1)) for q in (queries if first_to_last else reversed(queries))]

            yield mapped

        monkeypatch.setattr(_blocks, "sharing", one_by_one)
        torch.manual_seed(1)
        losses.append(float(BlackboxAP(margin=0.5)(embeddings, paths)))
    assert losses[0] == losses[1]


@levels_1_to_4
def test_csl_is_that_of_the_loops(num_levels):
    embeddings, paths = batch(num_levels)
    class_paths = paths.unique(dim=0).flip(0)
    loss = CSL(class_paths, SIZE).double()
    values = [
        baselines.csl(
            reference.cosines(row, loss.proxies.tolist()),
            path,
            loss.class_paths.tolist(),
            margins=loss.margins,
            scale=32.0,
        )
        for row, path in zip(embeddings.tolist(), paths.tolist(), strict=True)
    ]
    assert loss(embeddings, paths).item() == pytest.approx(sum(values) / len(values), rel=1e-10)
    assert loss.margins[-1] == 0.25
    assert torch.autograd.gradcheck(
        lambda e, p: _with_proxies(loss, e, p, paths), (embeddings.requires_grad_(), loss.proxies)
    )


def _with_proxies(loss, embeddings, proxies, paths):
    return torch.func.functional_call(loss, {"proxies": proxies}, (embeddings, paths))


def test_csl_of_one_branch_or_one_class_is_finite_and_half_precision_too():
    loss = CSL(torch.tensor([[0, 0]]), 4)
    embeddings = torch.eye(4).bfloat16().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(embeddings, torch.zeros(4, 2, dtype=torch.int64))
    value.backward()
    assert value.item() == 0.0
    assert bool(loss.proxies.grad.isfinite().all())


def test_csl_refuses_what_it_has_no_proxy_for():
    loss = CSL(torch.tensor([[0, 0], [1, 1]]), 2)
    with pytest.raises(PathError, match=r"path \(1, 0\) in row 1"):
        loss(torch.eye(2), torch.tensor([[0, 0], [1, 0]]))
    with pytest.raises(ShapeError, match="1 levels"):
        loss(torch.eye(2), torch.tensor([0, 1]))
    with pytest.raises(PathError, match="finest id 3 twice"):
        CSL(torch.tensor([[0, 3], [1, 3]]), 2)


@pytest.mark.parametrize("centers", [1, 3])
def test_proxies_in_chunks_are_those_of_the_loops_in_value_and_gradient(centers, monkeypatch):
    embeddings, paths = batch(2)
    loss = ProxyDecomposability(5, SIZE, centers=centers).double()
    value = loss(embeddings, paths)
    cosines = [reference.cosines(row, loss.proxies.tolist()) for row in embeddings.tolist()]
    values = [
        baselines.proxy_mixture([row[c * centers : (c + 1) * centers] for c in range(5)], class_id, eta=0.05)
        for row, class_id in zip(cosines, paths[:, -1].tolist(), strict=True)
    ]
    assert value.item() == pytest.approx(sum(values) / len(values), rel=1e-10)
    monkeypatch.setattr(_proxies, "LOGITS_AT_ONCE", 2 * centers * len(paths))  # two classes a chunk
    torch.testing.assert_close(loss(embeddings, paths), value)
    assert torch.autograd.gradcheck(
        lambda e, p: _with_proxies(loss, e, p, paths), (embeddings.requires_grad_(), loss.proxies)
    )


def test_sampled_classes_hold_the_batchs_own():
    torch.manual_seed(0)
    loss = ProxyDecomposability(1000, SIZE, sampled_classes=20).double()
    embeddings, paths = batch(2)
    all_classes = ProxyDecomposability(1000, SIZE).double()
    all_classes.load_state_dict(loss.state_dict())
    value = loss(embeddings, paths)
    value.backward()
    touched = loss.proxies.grad.abs().sum(dim=1) > 0
    assert int(touched.sum()) == 20
    assert bool(touched[paths[:, -1]].all())
    assert value.item() < all_classes(embeddings, paths).item()
    assert loss.eval()(embeddings, paths).item() == all_classes(embeddings, paths).item()


@pytest.mark.parametrize("centers", [1, 3])
def test_centers_may_be_assigned_softly_as_in_the_authors_code(centers, monkeypatch):
    embeddings, paths = batch(2)
    loss = ProxyDecomposability(5, SIZE, centers=centers, center_temperature=0.1).double()
    values = []
    for row, class_id in zip(embeddings.tolist(), paths[:, -1].tolist(), strict=True):
        cosines = reference.cosines(row, loss.proxies.tolist())
        by_class = [cosines[c * centers : (c + 1) * centers] for c in range(5)]
        values.append(baselines.softly_assigned_proxies(by_class, class_id, eta=0.05, center_temperature=0.1))
    assert loss(embeddings, paths).item() == pytest.approx(sum(values) / len(values), rel=1e-10)
    value = loss(embeddings, paths)
    monkeypatch.setattr(_proxies, "LOGITS_AT_ONCE", 2 * centers * len(paths))  # two classes a chunk
    torch.testing.assert_close(loss(embeddings, paths), value)
    assert torch.autograd.gradcheck(
        lambda e, p: _with_proxies(loss, e, p, paths), (embeddings.requires_grad_(), loss.proxies)
    )


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of its memory from /proc")
def test_100_000_classes_need_less_than_a_matrix_of_logits():
    """Gradients included, and what the process takes from the system, not only tensors."""
    command = [sys.executable, proxy_memory.__file__]
    peak = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    gradient = 4 * proxy_memory.NUM_CLASSES * proxy_memory.SIZE
    assert gradient <= peak < 0.5 * 4 * proxy_memory.NUM_CLASSES * proxy_memory.BATCH


def test_proxies_that_went_bad_are_refused():
    loss = ProxyDecomposability(3, 2)
    for bad in (float("nan"), float("inf"), 0.0):
        with torch.no_grad():
            loss.proxies[1] = bad
        with pytest.raises(EmbeddingError, match=r"proxies.*rows: 1"):
            loss(torch.eye(2), torch.tensor([0, 1]))


@pytest.mark.parametrize("similarity_mixup", [False, True])
def test_a_mask_says_who_queries_and_who_is_ranked(similarity_mixup):
    embeddings, paths = batch(1)
    loss = SmoothRecall(similarity_mixup=similarity_mixup, ks=(2,))
    queries = torch.arange(len(paths)) < 7
    torch.manual_seed(0)
    value = loss(embeddings, paths, valid=queries[:, None])
    assert value.isfinite()
    if not similarity_mixup:
        expected = loss(embeddings[:7], paths[:7], embeddings, paths, valid=~torch.eye(7, len(paths), dtype=torch.bool))
        torch.testing.assert_close(value, expected)
    with pytest.raises(ShapeError, match="booleans that broadcast"):
        loss(embeddings, paths, valid=torch.ones(3, 3, dtype=torch.bool))


def test_virtual_images_have_mixed_similarities_to_all():
    embeddings, paths = batch(1, num_items=9)
    torch.manual_seed(0)
    pairs = SmoothRecall(similarity_mixup=True).pairs_of(embeddings, paths, None, None, valid=None).compared()
    torch.manual_seed(0)
    positive_pairs = (paths == paths.T).triu(diagonal=1).nonzero()
    alpha = torch.rand(len(positive_pairs), 1, dtype=torch.float64)
    unit = torch.nn.functional.normalize(embeddings)
    real = unit @ unit.T
    mixed = alpha * real[positive_pairs[:, 0]] + (1 - alpha) * real[positive_pairs[:, 1]]
    torch.testing.assert_close(pairs.scores[9:, :9], mixed)
    torch.testing.assert_close(pairs.scores[:9, 9:], mixed.T)
    assert pairs.scores.shape == (9 + len(positive_pairs), 9 + len(positive_pairs))
    assert not bool(pairs.valid.diagonal().any())


def test_similarity_mixup_leaves_evaluation_alone():
    embeddings, paths = batch(1)
    mixing, baseline = SmoothRecall(similarity_mixup=True), SmoothRecall()
    assert float(mixing(embeddings, paths)) != float(baseline(embeddings, paths))
    assert float(mixing.eval()(embeddings, paths)) == float(baseline(embeddings, paths))
