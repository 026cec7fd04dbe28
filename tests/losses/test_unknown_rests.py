"""Losses of paths known down to some level, against unique classes and against the items whose class is known."""

from __future__ import annotations

import copy

import pytest
import torch
from every_loss import CLASSES, LOSSES, SIZE

from hiertree.losses import CrossBatchMemory, HiMulCon, ProxyDecomposability, PytorchMetricLearning, SupAP
from hiertree.losses.baselines.metric_learning import as_pytorch_metric_learning

WITH_PROXIES = ("Proxy", "proxies", "centers", "CSL", "softmax", "HAPPIER", "ROD")
OF_PAIRS = [
    name for name in LOSSES if not any(word in name for word in (*WITH_PROXIES, "Sum", "memory", "Distributed"))
]


def in_part(seed, num_items=24):
    """Embeddings, paths with some unknown rests, and the same with a class of its own for each."""
    generator = torch.Generator().manual_seed(seed)
    fine = torch.randint(0, CLASSES, (num_items,), generator=generator)
    embeddings = torch.randn(num_items, SIZE, generator=generator, dtype=torch.float64)
    is_unknown = torch.rand(num_items, generator=generator) < 0.3
    unique_ids = torch.where(is_unknown, 100 + torch.arange(num_items), fine)
    return (
        embeddings,
        torch.stack([fine // 2, fine.masked_fill(is_unknown, -1)], 1),
        torch.stack([fine // 2, unique_ids], 1),
    )


def value_and_gradient(loss, embeddings, paths):
    torch.manual_seed(3)
    leaf = embeddings.clone().requires_grad_()
    value = loss(leaf, paths)
    return value.detach(), torch.autograd.grad(value, leaf)[0]


@pytest.mark.parametrize("name", [*OF_PAIRS, "HiMulCon", "MultiSimilarityLoss", "with a miner"])
def test_a_loss_of_pairs_takes_an_unknown_rest_for_a_class_of_its_own(name):
    embeddings, paths, unique = in_part(1)
    library_losses = {
        "HiMulCon": lambda: HiMulCon(2),
        "MultiSimilarityLoss": lambda: PytorchMetricLearning("MultiSimilarityLoss"),
        "with a miner": lambda: PytorchMetricLearning("TripletMarginLoss", miner="TripletMarginMiner"),
    }
    results = []
    for labels in (paths, unique):
        torch.manual_seed(0)  # of proxies that stand for no class
        results.append(value_and_gradient({**LOSSES, **library_losses}[name]().double(), embeddings, labels))
    result, expected = results
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["soft centers", "CSL", "the library's softmax"])
def test_a_loss_of_classes_leaves_items_of_unknown_class_out(name):
    embeddings, paths, _ = in_part(2)
    torch.manual_seed(0)
    loss, is_known = LOSSES[name]().double(), paths[:, 1] >= 0
    loss = loss.losses[1] if name == "the library's softmax" else loss
    value, gradient = value_and_gradient(loss, embeddings, paths)
    expected, of_known = value_and_gradient(loss, embeddings[is_known], paths[is_known])
    torch.testing.assert_close((value, gradient[is_known]), (expected, of_known), rtol=1e-12, atol=1e-12)
    assert not gradient[~is_known].any()


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("fraction", [0.3, 1.0])
def test_every_loss_is_finite_where_classes_are_unknown(name, fraction):
    embeddings, paths, _ = in_part(4)
    if fraction == 1.0:
        paths[:, 1] = -1
    torch.manual_seed(0)
    loss = LOSSES[name]().double()
    for _ in range(2):  # the second step of a memory
        value, gradient = value_and_gradient(loss, embeddings, paths)
        assert value.isfinite()
        assert gradient.isfinite().all()


def test_terms_of_classes_and_of_pairs_add_up():
    embeddings, paths, unique = in_part(5)
    torch.manual_seed(0)
    loss = LOSSES["HAPPIER"]().double()
    is_known = paths[:, 1] >= 0
    with torch.no_grad():
        pairs, classes = loss.terms(embeddings, paths).values()
        _, of_known = loss.terms(embeddings[is_known], paths[is_known]).values()
        of_unique = LOSSES["SupHAP"]().double()(embeddings, unique)
    torch.testing.assert_close((pairs, classes), (of_unique, of_known), rtol=1e-12, atol=0)


def test_a_memory_keeps_what_is_unknown():
    embeddings, paths, unique = in_part(6)
    remembered, unique_ids = (CrossBatchMemory(SupAP(level=2), SIZE, 2, size=64).double() for _ in range(2))
    for start in (0, 12):
        rows = slice(start, start + 12)
        value, expected = remembered(embeddings[rows], paths[rows]), unique_ids(embeddings[rows], unique[rows])
    assert float(value) == pytest.approx(float(expected), rel=1e-12)
    assert (remembered.paths[:24] == paths).all()


def test_as_a_loss_of_another_library_paths_keep_their_unknown_rest():
    embeddings, paths, unique = in_part(7)
    loss = as_pytorch_metric_learning(SupAP())
    assert float(loss(embeddings, paths)) == pytest.approx(float(loss(embeddings, unique)), rel=1e-12)


@pytest.mark.parametrize("name", [name for name in LOSSES if name not in ("SmoothRecall", "DistributedLoss")])
def test_an_item_is_no_candidate_of_its_own_whatever_the_diagonal_of_a_mask_says(name):
    generator = torch.Generator().manual_seed(4)
    embeddings = torch.randn(12, SIZE, dtype=torch.float64, generator=generator)
    fine = torch.randint(0, 6, (12,), generator=generator)
    valid = torch.rand(12, 12, generator=generator) < 0.6
    valid[3] = False
    results = []
    for diagonal in (False, True):
        torch.manual_seed(0)
        loss, leaf = LOSSES[name]().double(), embeddings.clone().requires_grad_()
        torch.manual_seed(3)
        terms = loss.terms(leaf, torch.stack([fine // 2, fine], dim=1), valid=valid.clone().fill_diagonal_(diagonal))
        (gradient,) = torch.autograd.grad(loss.total(terms), leaf)
        results.append((terms, gradient))
    torch.testing.assert_close(results[1], results[0], rtol=0, atol=0)


def test_the_only_item_of_a_batch_is_a_query_of_proxies_with_a_mask_and_without():
    loss, item = ProxyDecomposability(3, SIZE), (torch.ones(1, SIZE), torch.tensor([[0, 1]]))
    assert loss(*item).item() == loss(*item, valid=torch.ones(1, 1, dtype=torch.bool)).item() > 0
    assert loss(*item, valid=torch.zeros(1, 1, dtype=torch.bool)).item() == 0


@pytest.mark.parametrize("name", [name for name in LOSSES if "library" not in name])
def test_autocast_changes_neither_value_nor_gradient_though_backward_runs_in_it(name):
    generator = torch.Generator().manual_seed(5)
    embeddings, fine = torch.randn(24, SIZE, generator=generator), torch.arange(24) % 8
    torch.manual_seed(0)
    loss, results = LOSSES[name](), []
    for enabled in (False, True):
        torch.manual_seed(1)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            results.append(value_and_gradient(copy.deepcopy(loss), embeddings, torch.stack([fine // 2, fine], 1)))
    torch.testing.assert_close(results[1], results[0], rtol=1e-7, atol=1e-12)
