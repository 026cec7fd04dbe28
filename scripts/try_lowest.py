"""Run the tests of trees and metrics with the lowest versions of the core's packages that pyproject.toml allows.

uv finds them (``--resolution lowest-direct``) for the Python that runs this; they go into a venv of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ("hypothesis", "packaging", "pytest", "pytest-xdist", "tomli")
TESTS = (
    "tests/hiertree/tree/test_label_tree.py",
    "tests/metrics/test_request.py",
    "tests/metrics/test_conventions.py",
    "tests/metrics/engine/test_blocks.py",
    "tests/metrics/formulas/test_severity.py",
    "tests/metrics/ranking/test_full_sort.py",
    "tests/metrics/test_trec.py",
)


def main() -> None:
    """Install and test."""
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder) / "lowest.txt"
        find = ["uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--resolution", "lowest-direct"]
        subprocess.run([*find, "--python", sys.executable, "-o", constraints, "pyproject.toml"], cwd=ROOT, check=True)
        print(constraints.read_text(encoding="utf-8"))
        venv.create(Path(folder) / "venv", with_pip=False)
        python = Path(folder) / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
        install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "-c", str(constraints)]
        subprocess.run([*install, "-e", str(ROOT), *TOOLS], check=True)
        # Old packages warn of newer Pythons and of each other: only the tests' own verdict counts here.
        subprocess.run([python, "-m", "pytest", "-q", "-n0", "-W", "ignore", *TESTS], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
