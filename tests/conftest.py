"""Fixtures that every folder of tests shares."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data that lies beside the checkout; tests that need it are skipped where it is absent."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the folder shared/data is not beside this checkout")
    return folder


@pytest.fixture(autouse=True)
def _quiet_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep progress lines out of captured output."""
    monkeypatch.setenv("HIERTREE_PROGRESS", "0")
