"""Evaluation where torch places the positives: on the processor here, and on a GPU where there is one."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
import torch
from forked_processes import run_together
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_cases import names_for, random_paths
from shared_evaluation import PROCESSES, share_of_an_evaluation
from shared_evaluation import retrieval as shared_retrieval
from small_tiles import small_tiles

from hiertree.errors import DeviceError, OptionError
from hiertree.metrics import evaluate

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
GROUPS = [("gloo", "cpu"), *([("nccl", "cuda")] if torch.cuda.device_count() >= PROCESSES else [])]


def exact(random, num_items):
    """Vectors of one norm whose cosines are the same number in any type and order of summation; many are equal."""
    signs = random.choice([-1.0, 1.0], (num_items, 16))
    return np.where(random.random((num_items, 1)) < 0.3, signs[:1], signs)


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    num_levels=st.integers(1, 9),
    ties=st.sampled_from(["average", "worst", "best", "paper", "index"]),
    dtype=st.sampled_from([np.float32, np.float64]),
    tile_size=st.sampled_from([None, 13]),
    longest_row=st.sampled_from([1, 2**18]),  # whether the scores of a query with all tiles are held
    separate=st.booleans(),
)
def test_every_metric_is_bit_for_bit_that_of_the_processor(
    device, seed, num_levels, ties, dtype, tile_size, longest_row, separate
):
    random = np.random.default_rng(seed)
    embeddings, paths = exact(random, 40).astype(dtype), random_paths(random, 40, num_levels)
    given_gallery = (exact(random, 30).astype(dtype), random_paths(random, 30, num_levels)) if separate else ()
    junk = [random.choice(30, 3, replace=False).tolist() for _ in range(40)]
    options = {"metrics": names_for(num_levels), "ties": ties, "junk": junk}
    expected = evaluate(embeddings, paths, *given_gallery, **options).values
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("hiertree.metrics.engine.on_device._LONGEST_ROW", longest_row)
        with small_tiles(tile_size):
            result = evaluate(embeddings, paths, *given_gallery, **options, device=device).values
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("ties", ["average", "index"])
def test_so_it_is_of_a_memory_map_that_the_device_does_not_hold(device, ties, tmp_path, monkeypatch):
    random = np.random.default_rng(2)
    embeddings, paths = exact(random, 300).astype(np.float32), random_paths(random, 300, 3)
    expected = evaluate(embeddings, paths, ties=ties).values
    np.save(tmp_path / "gallery.npy", embeddings)
    mapped = np.load(tmp_path / "gallery.npy", mmap_mode="r")
    monkeypatch.setattr("hiertree.metrics.engine.device._GALLERY_BYTES", 0)
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda _: (0, 0))
    for block_size in (None, 1):
        with small_tiles(64):
            result = evaluate(mapped, paths, ties=ties, device=device, block_size=block_size)
        np.testing.assert_array_equal(result.values, expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("size", [2, 300])  # of a class: hundreds of items between two positives, and few
def test_so_it_is_however_many_items_lie_between_two_positives(device, size):
    embeddings, paths = exact(np.random.default_rng(size), 700), np.arange(700) // size
    arrays = embeddings[::7], paths[::7], embeddings, paths
    for ties in ("average", "best"):
        result = evaluate(*arrays, ties=ties, device=device)
        np.testing.assert_array_equal(result.values, evaluate(*arrays, ties=ties).values)


@pytest.fixture(scope="module")
def retrieval():
    random = np.random.default_rng(5)
    paths = random_paths(random, 700, 3)
    centers = random.standard_normal((27, 32))
    return (centers[paths[:, 2]] + 2 * random.standard_normal((700, 32))).astype(np.float32), paths


@pytest.mark.parametrize("device", DEVICES)
def test_the_block_size_changes_no_number(device, retrieval):
    embeddings, paths = retrieval
    expected = evaluate(embeddings, paths, device=device)
    for block_size in (1, 300):
        blocks = evaluate(embeddings, paths, device=device, block_size=block_size)
        np.testing.assert_array_equal(blocks.values, expected.values)
    exact_one = evaluate(embeddings.astype(np.float64), paths)
    np.testing.assert_allclose(expected.values.mean(axis=0), exact_one.values.mean(axis=0), atol=2e-3)


def test_items_behind_the_last_positive_are_not_added_to_one_cell(retrieval, monkeypatch):
    embeddings, paths = np.asarray(retrieval[0], np.float64), retrieval[1]  # float32 rounds by processor
    added, scatter = [], torch.Tensor.scatter_add_

    def recorded(counts, dim, indices, ones):
        cells = indices + (torch.arange(len(indices)) * counts.shape[-1])[:, None] if dim else indices
        added.append(int(cells.flatten().bincount(ones.flatten() > 0).max()))
        return scatter(counts, dim, indices, ones)

    expected = evaluate(embeddings, paths)
    monkeypatch.setattr(torch.Tensor, "scatter_add_", recorded)
    result = evaluate(embeddings, paths, device="cpu")
    assert max(added) < 100  # of 700 items in each of 256 lists
    np.testing.assert_allclose(result.values, expected.values, atol=1e-6)


def test_coarse_products_are_off_and_then_as_they_were(retrieval, monkeypatch):
    matmul, precisions = torch.backends.mkldnn.matmul, []
    multiply = torch.Tensor.__matmul__
    monkeypatch.setattr(
        torch.Tensor, "__matmul__", lambda *both: precisions.append(matmul.fp32_precision) or multiply(*both)
    )
    precision, threads = torch.get_float32_matmul_precision(), torch.get_num_threads()
    torch.set_float32_matmul_precision("medium")
    try:
        evaluate(*retrieval, device="cpu")
        assert torch.get_num_threads() == threads
        assert set(precisions) == {"ieee"}
        assert torch.get_float32_matmul_precision() == "medium"
        assert matmul.fp32_precision == "bf16"
    finally:
        torch.set_float32_matmul_precision(precision)


@pytest.mark.parametrize(("backend", "device"), GROUPS)
def test_two_processes_share_an_evaluation_and_both_have_the_values_of_one(backend, device, tmp_path):
    run_together(share_of_an_evaluation, str(tmp_path), backend, device, count=PROCESSES)
    on_host, on_device = (evaluate(*shared_retrieval(), device=where).values for where in (None, device))
    for rank in range(PROCESSES):
        results = np.load(tmp_path / f"{rank}.npy")
        for values, expected_values in zip(results, (on_host, on_device, on_host), strict=True):
            np.testing.assert_array_equal(values, expected_values)
    assert not list(tmp_path.glob("*shares with other*"))


def test_a_device_whose_memory_does_not_suffice_is_named(retrieval, monkeypatch):
    def exhausted(*_, **__):
        raise torch.OutOfMemoryError

    monkeypatch.setattr("hiertree.metrics.engine.device.Device.multiply", exhausted)
    with pytest.raises(DeviceError, match="free memory there"):
        evaluate(*retrieval, device="cpu")


def test_lists_that_lose_their_worst_item_are_multiplied_on_the_device_too(retrieval):
    embeddings, paths = (values[:90] for values in retrieval)
    options = {"compat": "official", "ties": "index"}
    arrays = (embeddings.astype(np.float64), paths) * 2
    np.testing.assert_allclose(
        evaluate(*arrays, **options, device="cpu").values, evaluate(*arrays, **options).values, atol=1e-12
    )


def test_work_is_shared_only_in_a_process_group():
    with pytest.raises(OptionError, match="process group"):
        evaluate(np.eye(3), [0, 0, 1], distributed=True)


@contextmanager
def half_precision():
    torch.set_default_dtype(torch.float64)
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            yield
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    "context",
    [torch.inference_mode, torch.no_grad, torch.enable_grad, half_precision, lambda: np.errstate(all="raise")],
    ids=["inference", "no gradients", "gradients", "autocast", "errors of numpy"],
)
@pytest.mark.parametrize("device", [None, *DEVICES])
def test_no_context_of_the_caller_changes_a_number(context, device, retrieval):
    embeddings, paths = retrieval
    tensors = torch.from_numpy(embeddings), torch.from_numpy(paths)
    expected = evaluate(embeddings, paths, device=device).values
    with context():
        values = evaluate(*tensors, device=device).values
        made_there = evaluate(tensors[0] * 1, tensors[1] * 1, device=device).values
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(made_there, expected)
