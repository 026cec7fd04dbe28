"""Every way to evaluate pairs against dense losses in float64: sizes, steps and scores too large for loops."""

from __future__ import annotations

import pytest
import torch
from dense_losses import dense_losses
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from hiertree import level_counts
from hiertree.losses import functional
from hiertree.losses.kernels.sorted_pairs import SortedPairs
from hiertree.losses.kernels.steps import AllPairs
from hiertree.losses.pairs.pairs import COSINES
from hiertree.losses.pairs.soft_ranks import Sigmoid, SupStep
from hiertree.relevance import hap

LOSSES = ["sup_hap", "sup_ndcg", "sup_ap", "smooth_hap", "smooth_ndcg", "smooth_ap"]
TOLERANCE = {torch.float32: 2e-6, torch.float64: 1e-10}


def large_batch(num_levels, dtype, *, spread=0.2):
    generator = torch.Generator().manual_seed(num_levels)
    shape = (3, 300)
    scores = torch.randn(shape, generator=generator, dtype=torch.float64).mul(spread).to(dtype)
    levels = torch.randint(0, num_levels + 1, shape, generator=generator).to(torch.uint8)
    return scores, levels, torch.rand(shape, generator=generator) < 0.9


def value_and_gradient(name, scores, levels, valid, num_levels, **step):
    leaf = scores.clone().requires_grad_()
    table = hap(level_counts(levels, num_levels, valid=valid))
    values = getattr(functional, name)(leaf, levels, table, valid=valid, reduction="none", **step)
    return values.detach(), torch.autograd.grad(values.sum(), leaf)[0]


def assert_equals_dense(name, scores, levels, valid, num_levels, **step):
    """Values to the tolerance of the type; gradients to that share of the largest, which is what an optimizer sees."""
    value, gradient = value_and_gradient(name, scores, levels, valid, num_levels, **step)
    leaf = scores.double().requires_grad_()
    expected_value = dense_losses(name, leaf, levels, hap(level_counts(levels, num_levels, valid=valid)), valid, **step)
    expected = torch.autograd.grad(expected_value.sum(), leaf)[0]
    tolerance = TOLERANCE[scores.dtype]
    torch.testing.assert_close(value.double(), expected_value.detach(), rtol=tolerance, atol=tolerance)
    largest = max(float(expected.abs().max()), 1.0)  # a gradient that cancels to 0 is rounding on both sides
    torch.testing.assert_close(gradient.double(), expected, rtol=tolerance, atol=tolerance * largest)


@pytest.mark.usefixtures("every_kernel")
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("num_levels", [1, 4])
def test_large_rows_equal_the_dense_formula(name, dtype, num_levels):
    assert_equals_dense(name, *large_batch(num_levels, dtype), num_levels)


@pytest.mark.usefixtures("every_kernel")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("delta", [0.0, 0.004, 0.05, 5.0])
@pytest.mark.parametrize("tau", [0.002, 0.5, 1e6])
def test_every_margin_and_temperature_equals_the_dense_formula(dtype, delta, tau):
    scores, levels, valid = large_batch(2, dtype)
    scores = (scores * 256).round() / 256  # exact differences: both sides of δ and 0 agree about each pair
    assert_equals_dense("sup_hap", scores, levels, valid, 2, tau=tau, delta=delta, offset=1.44)


@pytest.mark.usefixtures("every_kernel")
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    rows=st.lists(st.lists(st.tuples(st.integers(-12, 12), st.integers(0, 6)), min_size=7, max_size=7), min_size=1),
    num_levels=st.integers(1, 5),
    name=st.sampled_from(LOSSES),
    unit=st.sampled_from([1e-6, 0.004, 0.05]),
)
def test_any_ties_masks_and_levels_equal_the_dense_formula(rows, num_levels, name, unit):
    case = torch.tensor(rows)
    scores, levels = case[..., 0].double() * unit, case[..., 1].clamp(max=num_levels)
    assert_equals_dense(name, scores, levels, case[..., 1] < 6, num_levels)


@pytest.mark.usefixtures("every_kernel")
def test_255_levels_equal_the_dense_formula():
    scores, _, valid = large_batch(1, torch.float64)
    levels = (torch.arange(300) % 256).expand(3, 300)
    assert_equals_dense("sup_hap", scores, levels, valid, 255)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("case", ["perfect", "all equal", "wide", "an outlier", "far apart", "two crowds δ apart"])
def test_extreme_scores_equal_the_dense_formula_and_stay_finite(name, dtype, case):
    scores, levels, valid = large_batch(2, dtype)
    offsets = torch.arange(300).sub(150).expand(3, 300).to(dtype)
    scores = {
        "perfect": levels.to(dtype) / 2,
        "all equal": torch.full_like(scores, 0.3),
        "wide": scores * 40,  # thousands of τ
        "an outlier": torch.where(torch.arange(300) == 5, 1e4, scores).to(dtype),
        "far apart": offsets * offsets.abs() * 16,
        "two crowds δ apart": torch.where(offsets == 0, -1.0, 0.9 - 0.0459512 * (levels > 0) + scores * 1e-4).to(dtype),
    }[case]
    assert_equals_dense(name, scores, levels, valid, 2)
    value, gradient = value_and_gradient(name, scores, levels, valid, 2)
    assert bool(value.isfinite().all() & gradient.isfinite().all())


def test_the_gradient_is_the_same_bit_for_bit_on_any_number_of_threads():
    scores, levels, valid = large_batch(3, torch.float32)
    batch = [tensor.repeat(120, 1) for tensor in (scores, levels, valid)]
    torch.set_num_threads(1)
    expected = value_and_gradient("sup_hap", *batch, 3)
    torch.set_num_threads(2)
    value_and_gradients = value_and_gradient("sup_hap", *batch, 3)
    assert all(torch.equal(a, b) for a, b in zip(expected, value_and_gradients, strict=True))


class Looks(TorchDispatchMode):
    """What reads numbers, for which a GPU would have to be waited for, and copies between devices."""

    NAMES = ("_local_scalar_dense", "item", "is_nonzero", "nonzero", "equal", "masked_select", "_unique2")

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert func.overloadpacket not in {getattr(torch.ops.aten, name) for name in self.NAMES}
        return func(*args, **kwargs or {})


@pytest.mark.parametrize("kernel_type", [AllPairs, SortedPairs])
@pytest.mark.parametrize("step", [SupStep(), Sigmoid()])
def test_a_kernel_that_knows_the_span_looks_at_no_number(kernel_type, step):
    scores, levels, valid = large_batch(2, torch.float32)
    scores, weights = scores.clamp(-1, 1), torch.ones(1, 3, 3).tril(-1)
    observations = []
    for span in (float(scores.max() - scores.min()), COSINES):
        with Looks():
            kernel = kernel_type(scores, levels, valid, 2, span, 300)
            sums, state = kernel.steps(weights, step.parameters)
            observations.append((kernel.ahead(weights), sums, kernel.backward(torch.ones_like(sums), state)))
    for exact, of_cosines in zip(*observations, strict=True):
        torch.testing.assert_close(of_cosines, exact, rtol=1e-5, atol=1e-5 * float(exact.abs().max()))


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.usefixtures("every_kernel")
@pytest.mark.parametrize("name", LOSSES)
def test_a_gpu_gives_what_the_dense_formula_gives(name):
    scores, levels, valid = large_batch(3, torch.float32)
    value, gradient = value_and_gradient(name, scores.cuda(), levels.cuda(), valid.cuda(), 3)
    leaf = scores.double().requires_grad_()
    expected = dense_losses(name, leaf, levels, hap(level_counts(levels, 3, valid=valid)), valid)
    torch.testing.assert_close(value.double().cpu(), expected.detach(), rtol=2e-6, atol=2e-6)
    (slope,) = torch.autograd.grad(expected.sum(), leaf)
    torch.testing.assert_close(gradient.double().cpu(), slope, rtol=2e-6, atol=2e-6 * float(slope.abs().max()))
