"""Fixtures that every folder of tests shares."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("any speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any speed")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data that lies beside the checkout; tests that need it are skipped where it is absent."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the folder shared/data is not beside this checkout")
    return folder


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Where tensors are small and other work shares the machine, threads spend most of their time waiting."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _quiet_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep progress lines out of captured output."""
    monkeypatch.setenv("HIERTREE_PROGRESS", "0")
