"""Losses computed some queries at a time, on several threads, against the same losses of all scores at once."""

from __future__ import annotations

import threading

import pytest
import torch
from largest_tensor import LargestTensor
from loss_loops import labeled_batch

from hiertree.losses import FastAP, PairDecomposability, SmoothHAP, SmoothRecall, SupHAP, SupNDCG, TieAwareNDCG
from hiertree.losses.pairs import blocks as _blocks
from hiertree.losses.pairs.blocks import LossPerQuery, sharing
from hiertree.losses.pairs.pairs import pairs_of
from hiertree.metrics.engine.blocks import ranges

LOSSES = {
    "SupHAP": SupHAP,
    "SupNDCG include_self": lambda: SupNDCG(include_self=True),
    "SmoothRecall": lambda: SmoothRecall(ks=(1, 2)),
    "FastAP": FastAP,
    "PairDecomposability": PairDecomposability,
    "avg_nonzero": lambda: PairDecomposability(reduction="avg_nonzero"),
}


@pytest.fixture(autouse=True, params=[7, 17], ids=["some gradients kept", "all gradients kept"])
def _three_queries_at_a_time(monkeypatch, request):
    monkeypatch.setitem(_blocks.SCORES_AT_ONCE, "cpu", 3 * 17)
    monkeypatch.setattr(_blocks, "FEW_SCORES", 0)
    monkeypatch.setitem(_blocks.SCORES_KEPT, "cpu", request.param * 17)


def batch(seed, num_items, dtype=torch.float64):
    vectors, paths = labeled_batch(seed, num_items, dtype=dtype)
    return vectors.requires_grad_(), paths


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_value_and_gradients_are_those_of_all_scores_at_once(name, memory, masked):
    loss = LOSSES[name]()
    (embeddings, paths), (memory_vectors, memory_paths) = batch(0, 17), batch(1, 14)
    references = (memory_vectors, memory_paths) if memory else ()
    valid = torch.rand(17, 14 if memory else 17, generator=torch.Generator().manual_seed(2)) < 0.8 if masked else None
    pairs = pairs_of(embeddings, paths, *references, valid=valid, include_self=loss.include_self)
    leaves = (embeddings, memory_vectors) if memory else (embeddings,)
    expected = loss.of_scores(pairs.compared())
    value = loss(embeddings, paths, *references, valid=valid)
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-12)
    for gradient, expected_gradient in zip(
        torch.autograd.grad(value, leaves), torch.autograd.grad(expected, leaves), strict=True
    ):
        torch.testing.assert_close(gradient, expected_gradient, rtol=1e-10, atol=1e-12)


def test_queries_may_weigh_differently_and_the_graph_may_be_kept():
    loss, (embeddings, paths) = SupHAP(), batch(0, 17)
    weights = torch.linspace(0.5, 2.0, 17, dtype=torch.float64)
    loss.average = lambda losses: (losses.values * weights).sum()
    expected = torch.autograd.grad(loss.of_scores(pairs_of(embeddings, paths).compared()), embeddings)[0]
    value = loss(embeddings, paths)
    for _ in range(2):
        gradient = torch.autograd.grad(value, embeddings, retain_graph=True)[0]
        torch.testing.assert_close(gradient, expected, rtol=1e-10, atol=1e-12)
    loss.average = LossPerQuery.mean
    assert torch.autograd.grad(loss(embeddings, paths), embeddings)[0].shape == (17, 5)


@pytest.mark.parametrize("memory", [False, True])
def test_threads_change_neither_value_nor_gradients(memory):
    (embeddings, paths), (memory_vectors, memory_paths) = batch(0, 17), batch(1, 14)
    references = (memory_vectors, memory_paths) if memory else ()
    results = []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        value = SupHAP()(embeddings, paths, *references)
        assert torch.get_num_threads() == threads
        with torch.inference_mode():  # which threads do not inherit
            assert torch.equal(SupHAP()(embeddings, paths, *references), value)
        results.append((value, *torch.autograd.grad(value, (embeddings, memory_vectors) if memory else (embeddings,))))
    assert torch.equal(results[0][0], results[1][0])
    for single_threaded, multi_threaded in zip(*results, strict=True):
        torch.testing.assert_close(multi_threaded, single_threaded, rtol=1e-12, atol=1e-14)


def test_only_what_asks_for_a_gradient_gets_one():
    (embeddings, paths), (references, memory_paths) = batch(0, 17), batch(1, 14, torch.float32)
    value = SupHAP()(embeddings.detach(), paths, references, memory_paths)
    assert torch.autograd.grad(value, references)[0].dtype == torch.float32
    assert not SupHAP()(embeddings.detach(), paths).requires_grad
    with torch.no_grad():
        assert not SupHAP()(embeddings, paths).requires_grad


@pytest.mark.parametrize("name", LOSSES)
def test_inference_mode_changes_no_value_on_any_thread(name):
    torch.set_num_threads(2)
    loss = LOSSES[name]()
    embeddings, paths = batch(0, 17)
    expected = loss(embeddings, paths)
    with torch.inference_mode():
        assert torch.equal(loss(embeddings.detach().clone(), paths.clone()), expected)


@pytest.mark.parametrize("loss", [*LOSSES.values(), SmoothHAP, TieAwareNDCG])
def test_a_device_that_torch_uses_by_default_changes_no_value(loss):
    torch.set_num_threads(1)  # a default device is a matter of one thread
    embeddings, paths = batch(0, 17)
    expected = loss()(embeddings, paths)
    with torch.device("meta"):
        value = loss()(embeddings, paths)
        value.backward()
    assert torch.equal(value, expected)


def test_no_matrix_of_all_scores_is_ever_made():
    embeddings, paths = batch(0, 640, torch.float32)
    with LargestTensor() as tensors:
        SupHAP()(embeddings, paths).backward()
    assert embeddings.numel() <= tensors.largest < 640 * 640 / 4


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_range_is_worked_on_once_and_again_in_a_second_round(threads):
    with sharing(threads) as share:
        for _ in range(2):
            worked = []
            share(worked.append, ranges(40, 6, start=3))
            assert sorted(worked, key=lambda rows: rows.start) == ranges(40, 6, start=3)
    assert [(rows.start, rows.stop) for rows in ranges(16, 6, start=3)] == [(3, 9), (9, 15), (15, 16)]


def test_torch_starts_no_threads_meanwhile_and_its_own_again_afterwards():
    torch.set_num_threads(2)
    large = torch.rand(512, 512)
    expected = large @ large
    thread_ids, barrier = set[tuple[int, int]](), threading.Barrier(2)

    def work(_):
        barrier.wait(timeout=60)  # both threads are here
        thread_ids.add((threading.get_ident(), torch.get_num_threads()))

    with sharing(2) as share:
        share(work, ranges(2, 1))
    assert len(thread_ids) == 2
    assert {count for _, count in thread_ids} == {1}
    assert torch.get_num_threads() == 2
    torch.testing.assert_close(large @ large, expected)


def test_an_error_of_any_thread_arrives_and_torch_has_its_threads():
    torch.set_num_threads(2)

    def work(rows):
        raise ValueError(f"row {rows.start}")

    with pytest.raises(ValueError, match="row"), sharing(2) as share:
        share(work, ranges(4, 1))
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("threads", [1, 2])
def test_after_an_error_no_thread_begins_another_range(threads):
    starts = []

    def work(rows):
        starts.append(rows.start)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), sharing(threads) as share:
        share(work, ranges(100, 1))
    assert len(starts) <= threads
