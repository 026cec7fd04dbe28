"""Embeddings on the unit sphere, with derivatives; and pairs on a device whose values are not read before its end."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference_losses import level_of

from hiertree.losses import SmoothAP, SmoothHAP, SupAP, SupHAP, SupNDCG
from hiertree.losses.pairs import pairs as _pairs
from hiertree.losses.pairs.inputs import checked_paths, unit_vectors
from hiertree.losses.pairs.pairs import most_positives

LOSSES = {
    "SupHAP": SupHAP,
    "SupHAP by relevance": lambda: SupHAP(split_by="relevance"),
    "SupNDCG": SupNDCG,
    "SmoothHAP": SmoothHAP,
    "SupAP": SupAP,
    "SmoothAP of level 1": lambda: SmoothAP(level=1),
}
ROWS = st.lists(st.lists(st.integers(0, 2), min_size=3, max_size=3), min_size=1, max_size=9)


def test_unit_vectors_have_first_and_second_derivatives():
    embeddings = torch.randn(5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    assert torch.autograd.gradcheck(unit_vectors, (embeddings,))
    assert torch.autograd.gradgradcheck(unit_vectors, (embeddings,))


@pytest.mark.parametrize("size", [1e-37, 1e-20, 1e20, 3e38])
def test_tiny_and_huge_vectors_have_the_direction_and_gradient_of_float64(size):
    generator = torch.Generator().manual_seed(0)
    embeddings = (torch.rand(4, 6, generator=generator) * 2 - 1).mul(size).requires_grad_()
    exact = embeddings.detach().double().requires_grad_()
    unit, expected = unit_vectors(embeddings), exact / exact.norm(dim=1, keepdim=True)
    torch.testing.assert_close(unit.double(), expected, rtol=1e-6, atol=1e-7)
    weights = torch.arange(6.0)
    (unit * weights).sum().backward()
    (expected * weights).sum().backward()
    assert exact.grad is not None
    torch.testing.assert_close(embeddings.grad.double() * size, exact.grad * size, rtol=1e-5, atol=1e-5)


@given(ROWS, ROWS)
def test_the_most_positives_of_a_query_are_counted_from_the_paths(queries, items):
    paths = [checked_paths(np.array(rows), torch.empty(len(rows), 1)) for rows in (queries, items)]
    expected = [max(sum(level_of(query, item) >= level for item in items) for query in queries) for level in (1, 2, 3)]
    assert most_positives(*paths) == tuple(expected)


@pytest.mark.usefixtures("every_kernel")
@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_a_device_whose_values_are_not_looked_at_gives_the_same(name, memory, monkeypatch):
    loss, generator = LOSSES[name](), torch.Generator().manual_seed(0)
    embeddings = torch.randn(30, 5, dtype=torch.float64, generator=generator).requires_grad_()
    paths = torch.randint(0, 3, (30, 3), generator=generator)
    references = (torch.randn(41, 5, dtype=torch.float64, generator=generator), paths.repeat(2, 1)[:41])
    valid = torch.rand(30, 41 if memory else 30, generator=generator) < 0.8
    results = []
    for waits in (False, True):
        monkeypatch.setattr(_pairs, "waits_for_a_look", lambda _, waits=waits: waits)
        value = loss(embeddings, paths, *(references if memory else ()), valid=valid)
        results.append((value, *torch.autograd.grad(value, embeddings)))
    torch.testing.assert_close(results[1], results[0], rtol=1e-10, atol=1e-12)
