"""Processes started on this machine: their places, how they end together, and which error is raised for all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
import started_functions

from hiertree.errors import DeviceError, ImageError, TrainingError
from hiertree.pipelines.training.distributed import group
from hiertree.pipelines.training.distributed.group import run_processes


@pytest.fixture(autouse=True)
def little_patience(monkeypatch):
    """For the process that waits in vain."""
    monkeypatch.setattr(group, "_SECONDS_TO_END", 0.5)


def test_every_process_knows_its_place(tmp_path):
    run_processes(started_functions.note_place, str(tmp_path), count=2)
    assert [(tmp_path / str(rank)).read_text() for rank in range(2)] == ["0 0 2 2 127.0.0.1", "1 1 2 2 127.0.0.1"]


@pytest.mark.parametrize(
    ("failure", "error", "message"),
    [
        ("typed", ImageError, r"one\.png: expected an image"),
        ("killed", TrainingError, r"process 1 of 2 was killed by signal 9.*run the same command to go on"),
        ("interrupted", TrainingError, "process 1 of 2 ended with status 130"),
        ("crash", DeviceError, "another process has ended"),
    ],
)
def test_failure_of_one_ends_all_with_its_error(tmp_path, failure, error, message):
    with pytest.raises(error, match=message):
        run_processes(started_functions.fail, str(tmp_path), failure, count=2)
    first = tmp_path / "pid-0"
    assert not first.exists() or not psutil.pid_exists(int(first.read_text()))


def started_from_a_script(folder):
    """A process that has started two others, and their ids."""
    command = [sys.executable, started_functions.__file__, str(folder)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 300
    while len(list(folder.glob("pid-*"))) < 2 or not all(path.read_text() for path in folder.glob("pid-*")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process, [int(path.read_text()) for path in folder.glob("pid-*")]


def test_sigterm_is_passed_on(tmp_path):
    process, process_ids = started_from_a_script(tmp_path)
    process.send_signal(signal.SIGTERM)
    _, message = process.communicate(timeout=30)
    assert (process.returncode, message) == (143, "")
    assert not any(map(psutil.pid_exists, process_ids))


def test_ctrl_c_ends_all(tmp_path):
    process, process_ids = started_from_a_script(tmp_path)
    for pid in (process.pid, *process_ids):  # as a terminal does
        os.kill(pid, signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode != 0
    assert not any(map(psutil.pid_exists, process_ids))


def test_processes_end_with_the_one_that_started_them(tmp_path):
    process, process_ids = started_from_a_script(tmp_path)
    process.kill()
    process.communicate(timeout=30)
    deadline = time.monotonic() + 30
    while any(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in process_ids):
        assert time.monotonic() < deadline
        time.sleep(0.02)
