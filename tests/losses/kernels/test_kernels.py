"""The compiled kernel against the one that evaluates every pair: sizes, steps and scores too large for loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from against_torch import assert_equals_torch, value_and_gradient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from hiertree import levels
from hiertree.errors import OptionError
from hiertree.losses.kernels.base import Backend
from hiertree.losses.kernels.sorted_rows import SortedRows, sort_rows
from hiertree.losses.pairs.pairs import kernel_for

LOSSES = ["sup_hap", "sup_ndcg", "sup_ap", "smooth_hap", "smooth_ndcg", "smooth_ap"]


def large_batch(num_levels: int, dtype: torch.dtype, *, spread: float = 0.2) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(num_levels)
    shape = (3, 300)
    scores = torch.randn(shape, generator=generator, dtype=torch.float64).mul(spread).to(dtype)
    levels = torch.randint(0, num_levels + 1, shape, generator=generator).to(torch.uint8)
    return scores, levels, torch.rand(shape, generator=generator) < 0.9


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("num_levels", [1, 4])
def test_large_rows_equal_those_of_torch(name: str, dtype: torch.dtype, num_levels: int, backend: Backend) -> None:
    assert_equals_torch(name, *large_batch(num_levels, dtype), num_levels, backend)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("delta", [0.0, 0.004, 0.05, 5.0])
@pytest.mark.parametrize("tau", [0.002, 0.5])
def test_every_margin_and_temperature_equals_torch(
    dtype: torch.dtype, delta: float, tau: float, backend: Backend
) -> None:
    scores, levels, valid = large_batch(2, dtype)
    scores = (scores * 256).round() / 256  # exact differences: both sides of δ and 0 agree about each pair
    assert_equals_torch("sup_hap", scores, levels, valid, 2, backend, tau=tau, delta=delta, offset=1.44)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    rows=st.lists(st.lists(st.tuples(st.integers(-12, 12), st.integers(0, 6)), min_size=7, max_size=7), min_size=1),
    num_levels=st.integers(1, 5),
    name=st.sampled_from(LOSSES),
    unit=st.sampled_from([1e-6, 0.004, 0.05]),
)
def test_any_ties_masks_and_levels_equal_torch(
    backend: Backend, rows: list[list[tuple[int, int]]], num_levels: int, name: str, unit: float
) -> None:
    drawn = torch.tensor(rows)
    scores, levels = drawn[..., 0].double() * unit, drawn[..., 1].clamp(max=num_levels)
    assert_equals_torch(name, scores, levels, drawn[..., 1] < 6, num_levels, backend)


def test_255_levels_equal_torch(backend: Backend) -> None:
    scores, _, valid = large_batch(1, torch.float64)
    levels = (torch.arange(300) % 256).expand(3, 300)
    assert_equals_torch("sup_hap", scores, levels, valid, 255, backend)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("case", ["perfect", "all equal", "wide", "an outlier", "far apart", "two crowds δ apart"])
def test_extreme_scores_equal_torch_and_stay_finite(name: str, dtype: torch.dtype, case: str) -> None:
    scores, levels, valid = large_batch(2, dtype)
    far = torch.arange(300).sub(150).expand(3, 300).to(dtype)
    scores = {
        "perfect": levels.to(dtype) / 2,
        "all equal": torch.full_like(scores, 0.3),
        "wide": scores * 40,  # thousands of τ
        "an outlier": torch.where(torch.arange(300) == 5, 1e4, scores).to(dtype),
        "far apart": far * far.abs() * 16,
        "two crowds δ apart": torch.where(far == 0, -1.0, 0.9 - 0.0459512 * (levels > 0) + scores * 1e-4).to(dtype),
    }[case]
    assert_equals_torch(name, scores, levels, valid, 2, "numba")
    value, gradient = value_and_gradient(name, scores, levels, valid, 2, "numba")
    assert bool(value.isfinite().all() & gradient.isfinite().all())


@pytest.mark.parametrize("num_levels", [1, 2, 255])
def test_levels_count_leading_columns_alone(num_levels: int) -> None:
    paths = torch.randint(0, 2, (60, num_levels), generator=torch.Generator().manual_seed(0))
    paths[40:] = paths[:20]  # of which all columns are equal
    found = kernel_for("numba", paths.device).levels(paths[::2], paths)
    assert found.dtype == torch.uint8
    assert torch.equal(found, levels(paths[::2], paths))


@pytest.mark.parametrize("case", ["spread", "crowded", "equal", "infinite width"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_sorted_by_falling_score(case: str, dtype: type[np.floating]) -> None:
    generator = np.random.default_rng(0)
    scores = generator.normal(size=(5, 900)).astype(dtype)
    if case == "crowded":
        scores[:, 7] = 1e9
    if case == "equal":
        scores[:] = -0.25
    if case == "infinite width":
        scores *= np.finfo(dtype).max / 8
    valid = generator.random(scores.shape) < 0.8
    ranking = SortedRows.empty(scores)
    sort_rows(scores, valid, ranking)
    for row in range(5):
        number = int(ranking.number[row])
        assert sorted(ranking.items[row, :number]) == np.flatnonzero(valid[row]).tolist()
        assert np.array_equal(ranking.values[row, :number], np.sort(scores[row][valid[row]])[::-1])
        assert np.array_equal(scores[row][ranking.items[row, :number]], ranking.values[row, :number])


def test_the_gradient_is_the_same_bit_for_bit_on_any_number_of_threads() -> None:
    scores, levels, valid = large_batch(3, torch.float32)
    batch = [tensor.repeat(120, 1) for tensor in (scores, levels, valid)]
    alone = value_and_gradient("sup_hap", *batch, 3, "numba")
    torch.set_num_threads(2)
    together = value_and_gradient("sup_hap", *batch, 3, "numba")
    assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))


def test_backends_that_cannot_be_had_are_refused() -> None:
    scores, levels, valid = large_batch(1, torch.float32)
    with pytest.raises(OptionError, match="backend='dense'"):
        value_and_gradient("sup_hap", scores, levels, valid, 1, "dense")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="'triton' for scores on cpu"):
        value_and_gradient("sup_hap", scores, levels, valid, 1, "triton")
    with pytest.raises(OptionError, match="on meta"):
        kernel_for("numba", torch.device("meta"))
    assert math.isfinite(float(value_and_gradient("sup_hap", scores, levels, valid, 1, "auto")[0].sum()))
