"""The Triton backend against the loops and against torch: on a GPU, or interpreted where there is none.

``test_triton.py`` runs these in a process of their own, because Triton must know that it is to interpret before it is
imported. On a machine with a GPU, ``pytest tests/losses/kernels/triton_cases.py`` runs them too.
"""

from __future__ import annotations

import pytest
import reference_losses as reference
import torch
from against_torch import assert_equals_torch, value_and_gradient
from largest_tensor import LargestTensor
from torch import Tensor

from hiertree import level_counts
from hiertree.losses import HAPPIER, SmoothRecall, SupHAP, functional
from hiertree.losses.base import PairLoss
from hiertree.losses.kernels import triton_kernel
from hiertree.losses.pairs.pairs import ScoredPairs, pairs_of
from hiertree.relevance import hap

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SINGLE, DOUBLE = torch.float32, torch.float64
LOSSES = [
    ("sup_hap", 4, SINGLE), ("sup_hap", 2, DOUBLE), ("sup_ndcg", 3, SINGLE), ("sup_ap", 1, DOUBLE),
    ("sup_recall", 2, SINGLE), ("smooth_hap", 2, SINGLE), ("smooth_hap", 3, DOUBLE), ("smooth_ndcg", 3, DOUBLE),
    ("smooth_ap", 1, SINGLE), ("smooth_recall", 2, DOUBLE),
]  # fmt: skip


@pytest.fixture
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many tiles in short rows, so that every way of meeting one is taken."""
    monkeypatch.setattr(triton_kernel, "TILE", 16)
    monkeypatch.setattr(triton_kernel, "OWN", 16)
    monkeypatch.setattr(triton_kernel, "BLOCK", 64)


def batch(num_levels: int, dtype: torch.dtype, *, queries: int = 1, items: int = 66) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(num_levels)
    shape = (queries, items)
    scores = torch.randn(shape, generator=generator, dtype=torch.float64).mul(0.1).to(dtype)
    levels = torch.randint(0, num_levels + 1, shape, generator=generator).to(torch.uint8)
    return scores.to(DEVICE), levels.to(DEVICE), (torch.rand(shape, generator=generator) < 0.9).to(DEVICE)


@pytest.mark.usefixtures("_small_tiles")
@pytest.mark.parametrize(("name", "num_levels", "dtype"), LOSSES)
def test_values_and_gradients_equal_those_of_torch(name: str, num_levels: int, dtype: torch.dtype) -> None:
    assert_equals_torch(name, *batch(num_levels, dtype, queries=2), num_levels, "triton")


@pytest.mark.parametrize("num_levels", [1, 3])
@pytest.mark.parametrize("ties", [False, True])
def test_values_equal_the_loops(num_levels: int, ties: bool) -> None:
    scores, levels, valid = batch(num_levels, DOUBLE, items=20)
    scores = (scores * 40).round() / 40 if ties else scores
    table = hap(level_counts(levels, num_levels, valid=valid))
    step = reference.h_minus(delta=0.05, start=0.5, offset=1.44)
    expected = [
        reference.one_minus_h_ap(s[v].tolist(), lev[v].tolist(), rel.tolist(), equal=reference.heaviside, lower=step)
        for s, lev, v, rel in zip(scores, levels, valid, table, strict=True)
    ]
    options = {"delta": 0.05, "start": 0.5, "offset": 1.44}
    values = functional.sup_hap(
        scores,
        levels,
        table,
        valid=valid,
        reduction="none",
        backend="triton",
        **options,  # type: ignore[arg-type]
    )
    torch.testing.assert_close(values.cpu(), torch.tensor(expected, dtype=DOUBLE), rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("_small_tiles")
def test_a_split_by_relevance_equals_that_of_torch() -> None:
    scores, levels, valid = batch(3, DOUBLE, items=40)
    found = []
    for backend in ("triton", "torch"):
        leaf = scores.clone().requires_grad_()
        table = torch.tensor([[0, 0.5, 0.1, 0.9]], dtype=DOUBLE, device=DEVICE)
        value = functional.sup_hap(leaf, levels, table, valid=valid, split_by="relevance", backend=backend)
        found.append((value.detach(), torch.autograd.grad(value, leaf)[0]))
    torch.testing.assert_close(*found, rtol=1e-10, atol=1e-10)


@pytest.mark.usefixtures("_small_tiles")
@pytest.mark.parametrize(("start", "offset"), [(0.5, 1.44), (0.0, 1.0)])
@pytest.mark.parametrize(("tau", "delta"), [(0.002, 0.0), (0.02, 0.004), (0.5, 0.05)])
def test_every_step_equals_torch(tau: float, delta: float, start: float, offset: float) -> None:
    scores, levels, valid = batch(1, SINGLE)
    scores = (scores * 256).round() / 256  # exact differences: both sides of δ and 0 agree about each pair
    options = {"tau": tau, "delta": delta, "start": start, "offset": offset}
    assert_equals_torch("sup_hap", scores, levels, valid, 1, "triton", **options)


@pytest.mark.usefixtures("_small_tiles")
@pytest.mark.parametrize(
    ("case", "name"),
    [*[(case, "sup_ap") for case in ("perfect", "wide", "all equal", "an outlier", "no candidates", "one level")],
     ("transposed", "sup_hap"), ("transposed", "smooth_ap"), ("all equal", "smooth_ap")],
)  # fmt: skip
def test_extreme_scores_and_masks_equal_torch(case: str, name: str) -> None:
    scores, levels, valid = batch(2, SINGLE, queries=2, items=40)
    if case == "no candidates":
        valid[0] = False
    if case == "transposed":
        scores, levels, valid = (tensor.T.contiguous().T for tensor in (scores, levels, valid))
    if case == "one level":
        levels = torch.full_like(levels, 2)
    outlier = torch.arange(scores.shape[1], device=DEVICE) == 5
    scores = {
        "perfect": levels.float() / 2,
        "all equal": torch.full_like(scores, 0.3),
        "wide": scores * 1000,
        "an outlier": torch.where(outlier, 1e4, scores),
    }.get(case, scores)
    assert_equals_torch(name, scores, levels, valid, 2, "triton")


@pytest.mark.usefixtures("_small_tiles")
@pytest.mark.parametrize("name", ["sup_hap", "smooth_ap"])
def test_points_that_stand_for_narrow_tiles_change_nothing(name: str) -> None:
    scores, levels, valid = batch(1, DOUBLE)
    assert_equals_torch(name, scores * 0.4, levels, valid, 1, "triton", tau=0.07)


@pytest.mark.parametrize("scale", [0.2, 1.0, 3.0])  # the spread is 2, 10 and 30 τ: long runs; short ones; wide tiles
@pytest.mark.parametrize("name", ["sup_ap", "smooth_ap"])
def test_rows_of_many_tiles_equal_torch(scale: float, name: str) -> None:
    scores, levels, valid = batch(1, SINGLE, items=700)
    assert_equals_torch(name, scores * scale, levels, valid, 1, "triton")


@pytest.mark.parametrize("num_levels", [3, 255])
def test_counts_are_exact(num_levels: int) -> None:
    scores, levels, valid = batch(3, SINGLE, items=140 if num_levels == 3 else 3)
    if num_levels == 255:
        levels = torch.tensor([[255, 254, 255]], dtype=torch.uint8, device=DEVICE)
    pairs, positives = ScoredPairs(scores, levels, valid, num_levels, "triton"), valid & (levels > 0)
    found = pairs.kernel().not_below()
    not_below = (scores[:, None, :] >= scores[:, :, None]) & (levels[:, None, :] >= levels[:, :, None])
    expected = (not_below & valid[:, None, :]).sum(dim=2)
    assert torch.equal(found[positives], expected[positives].float())


def test_no_tensor_is_larger_than_a_few_score_matrices() -> None:
    scores, levels, valid = batch(2, SINGLE, items=300)
    with LargestTensor() as memory:
        value_and_gradient("sup_hap", scores, levels, valid, 2, "triton")
    assert scores.numel() <= memory.largest <= 8 * scores.numel()  # the interpreter copies bytes, four a score


def test_a_second_run_is_the_same_bit_for_bit() -> None:
    scores, levels, valid = batch(2, SINGLE, items=90)
    runs = [value_and_gradient("sup_hap", scores, levels, valid, 2, "triton") for _ in range(2)]
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


def test_how_rows_are_split_over_programs_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, levels, valid = batch(2, SINGLE, items=300)
    whole = value_and_gradient("sup_hap", scores, levels, valid, 2, "triton")
    monkeypatch.setattr(triton_kernel, "BLOCK", 64)
    split = value_and_gradient("sup_hap", scores, levels, valid, 2, "triton")
    row = value_and_gradient("sup_hap", *(tensor.repeat(3, 1) for tensor in (scores, levels, valid)), 2, "triton")
    assert all(torch.equal(a, b) for a, b in zip(whole, split, strict=True))
    assert torch.equal(row[0][1:2], whole[0])


@pytest.mark.parametrize("loss", [SupHAP(), SmoothRecall()], ids=["SupHAP", "SmoothRecall"])
def test_a_batch_with_a_memory_has_the_gradient_of_torch(loss: PairLoss) -> None:
    torch.manual_seed(0)
    fine = torch.randint(0, 6, (4,)), torch.randint(0, 6, (60,))
    paths, ref_paths = (torch.stack([column // 2, column], dim=1) for column in fine)
    embeddings, memory = torch.randn(4, 8).to(DEVICE), torch.randn(60, 8).to(DEVICE)
    gradients = []
    for backend in ("triton", "torch"):
        leaf = embeddings.clone().requires_grad_()
        loss.of_scores(pairs_of(leaf, paths, memory, ref_paths).compared()._replace(backend=backend)).backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)


@pytest.mark.skipif(DEVICE == "cpu", reason="'auto' is numba on a CPU")
def test_auto_is_triton_on_a_gpu_and_trains() -> None:
    torch.manual_seed(0)
    embeddings, fine = torch.randn(64, 8, device=DEVICE, requires_grad=True), torch.arange(64) // 4
    pairs = pairs_of(embeddings, fine).compared()
    assert pairs.kernel_type() is triton_kernel.TritonKernel
    HAPPIER(16, 8).to(DEVICE)(embeddings, torch.stack([fine // 4, fine], dim=1)).backward()
    assert embeddings.grad is not None
    assert bool(embeddings.grad.isfinite().all())
