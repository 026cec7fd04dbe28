"""One thread for all tests of losses, and every way in which pairs are evaluated.

Their tensors are small, and waiting threads are slow on a busy machine.
"""

from __future__ import annotations

import pytest

from hiertree.losses.kernels import numba_kernel as _numba_kernel

FREE = {"torch": (), "numba by pairs": ("PAIR",), "numba by a grid": ("ITEM", "NODE", "TAP")}
"""Estimates of time that are set to 0, so that this way is chosen wherever it can be."""


@pytest.fixture(autouse=True)
def _on_one_thread(one_thread: None) -> None:
    """Every test of a loss."""


@pytest.fixture(params=FREE)
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The backend to ask for; the numba one takes the route that the test is about."""
    for cost in FREE[request.param]:
        monkeypatch.setattr(_numba_kernel, cost, 0.0)
    return str(request.param.split()[0])
