"""Embeddings on the unit sphere: their directions, and derivatives through the normalization."""

from __future__ import annotations

import pytest
import torch

from hiertree.losses.pairs.inputs import unit_vectors


def test_unit_vectors_have_first_and_second_derivatives() -> None:
    embeddings = torch.randn(5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    assert torch.autograd.gradcheck(unit_vectors, (embeddings,))
    assert torch.autograd.gradgradcheck(unit_vectors, (embeddings,))


@pytest.mark.parametrize("size", [1e-37, 1e-20, 1e20, 3e38])
def test_tiny_and_huge_vectors_have_the_direction_and_gradient_of_float64(size: float) -> None:
    generator = torch.Generator().manual_seed(0)
    embeddings = (torch.rand(4, 6, generator=generator) * 2 - 1).mul(size).requires_grad_()
    exact = embeddings.detach().double().requires_grad_()
    unit, expected = unit_vectors(embeddings), exact / exact.norm(dim=1, keepdim=True)
    torch.testing.assert_close(unit.double(), expected, rtol=1e-6, atol=1e-7)
    weights = torch.arange(6.0)
    (unit * weights).sum().backward()
    (expected * weights).sum().backward()
    assert embeddings.grad is not None
    assert exact.grad is not None
    torch.testing.assert_close(embeddings.grad.double() * size, exact.grad * size, rtol=1e-5, atol=1e-5)
