"""Fixtures that every folder of tests shares."""

from __future__ import annotations

import datetime as dt
import os
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Every core has its own tests: a second thread for their small tensors waits for the first, and spins meanwhile.
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch, OpenBLAS or scikit-learn is loaded; children inherit it

settings.register_profile("any speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any speed")

ROOT = Path(__file__).resolve().parent.parent
FUZZ_SHARE = 10  # one case in so many runs each time


def pytest_configure():
    """Share the day's seed with the processes of pytest-xdist, and so the choice of cases."""
    os.environ.setdefault("HIERTREE_FUZZ_SEED", str(dt.date.today().toordinal()))


def pytest_report_header():
    """What repeats this run's choice of fuzz cases."""
    return f"one fuzz case in {FUZZ_SHARE}: HIERTREE_FUZZ_SEED={os.environ['HIERTREE_FUZZ_SEED']}; all: -m nightly"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Leave fuzz cases to the nightly run, but for a seeded tenth."""
    seed, all_of_them = os.environ["HIERTREE_FUZZ_SEED"], config.option.markexpr == "nightly"
    for item in items:
        if item.get_closest_marker("fuzz") and (
            all_of_them or zlib.crc32(f"{seed} {item.nodeid}".encode()) % FUZZ_SHARE
        ):
            item.add_marker("nightly")


@pytest.fixture(scope="session")
def shared_data():
    """The folder of real data that lies beside the checkout; tests that need it are skipped where it is absent."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the folder shared/data is not beside this checkout")
    return folder


@pytest.fixture
def one_thread():
    """Where tensors are small and other work shares the machine, threads spend most of their time waiting."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _quiet_progress(monkeypatch):
    """Keep progress lines out of captured output."""
    monkeypatch.setenv("HIERTREE_PROGRESS", "0")
