"""One thread for all tests of losses, and every way in which pairs are evaluated.

Their tensors are small, and waiting threads are slow on a busy machine.
"""

from __future__ import annotations

import pytest

from hiertree.losses.pairs import pairs as _pairs

FREE = {"all pairs": ("PAIR",), "sorted pairs": ("ITEM", "LEVEL", "CELL")}
"""Estimates of time that are set to 0, so that this way is chosen wherever it can be."""


@pytest.fixture(autouse=True)
def _on_one_thread(one_thread):
    """Every test of a loss."""


@pytest.fixture(params=FREE)
def every_kernel(request, monkeypatch):
    """Pairs are evaluated in the way that the test is about."""
    for cost in FREE[request.param]:
        monkeypatch.setattr(_pairs, cost, 0.0)
