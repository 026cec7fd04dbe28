"""On a device that computes while the program goes on, training and embedding rarely wait for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_training_and_embedding_wait_only_where_they_must() -> None:
    cases = str(Path(__file__).with_name("waiting_cases.py"))
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", cases]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
