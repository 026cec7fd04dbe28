"""A backend of the rank losses against the torch backend, which evaluates every pair."""

from __future__ import annotations

import torch
from torch import Tensor

from hiertree import level_counts
from hiertree.losses import functional
from hiertree.losses.kernels.base import Backend
from hiertree.relevance import hap

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


def value_and_gradient(
    name: str, scores: Tensor, levels: Tensor, valid: Tensor, num_levels: int, backend: Backend, **step: float
) -> tuple[Tensor, Tensor]:
    leaf = scores.clone().requires_grad_()
    table = hap(level_counts(levels, num_levels, valid=valid))
    loss = getattr(functional, name)
    values = loss(leaf, levels, table, valid=valid, reduction="none", backend=backend, **step)
    values.sum().backward()
    assert leaf.grad is not None
    return values.detach(), leaf.grad


def assert_equals_torch(
    name: str, scores: Tensor, levels: Tensor, valid: Tensor, num_levels: int, backend: Backend, **step: float
) -> None:
    """Values to the tolerance of the type; gradients to that share of the largest, which is what an optimizer sees."""
    arguments = (name, scores, levels, valid, num_levels)
    value, gradient = value_and_gradient(*arguments, backend, **step)
    expected_value, expected = value_and_gradient(*arguments, "torch", **step)
    tolerance = TOLERANCE[scores.dtype]
    torch.testing.assert_close(value, expected_value, rtol=tolerance, atol=tolerance)
    largest = max(float(expected.abs().max()), 1.0)  # a gradient that cancels to 0 is rounding on both sides
    torch.testing.assert_close(gradient, expected, rtol=tolerance, atol=tolerance * largest)
