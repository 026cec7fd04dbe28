"""Use the core and Parquet, and test tables, trees and metrics, with the lowest versions that pyproject.toml allows.

uv finds them (``--resolution lowest-direct``) for the Python that runs this; they go into a venv of their own, and what
runs stands outside of the checkout.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from try_extras import USED

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ("hypothesis", "packaging", "pytest", "pytest-xdist", "tomli")
TESTS = (
    "tests/hiertree/io/test_tables.py",
    "tests/hiertree/tree/test_label_tree.py",
    "tests/metrics/test_request.py",
    "tests/metrics/test_conventions.py",
    "tests/metrics/engine/test_blocks.py",
    "tests/metrics/formulas/test_severity.py",
    "tests/metrics/ranking/test_full_sort.py",
    "tests/metrics/test_trec.py",
)


def main() -> None:
    """Install, use and test."""
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder) / "lowest.txt"
        find = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
        find += ["--resolution", "lowest-direct", "--python", sys.executable, "-o", str(constraints)]
        find += ["--extra", "arrow", "pyproject.toml"]
        subprocess.run(find, cwd=ROOT, check=True)
        print(constraints.read_text(encoding="utf-8"), flush=True)
        venv.create(Path(folder) / "venv", with_pip=False)
        python = Path(folder) / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
        install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "-c", str(constraints)]
        subprocess.run([*install, f"{ROOT}[arrow]", *TOOLS], check=True)
        for program in (*USED["base"], *USED["arrow"]):
            subprocess.run([python, "-c", program], cwd=folder, check=True)
        # Old packages warn of newer Pythons and of each other: only the tests' own verdict counts here.
        tests = [python, "-m", "pytest", "-q", "-n0", "-W", "ignore", "-p", "no:cacheprovider", "-c"]
        tests += [str(ROOT / name) for name in ("pyproject.toml", *TESTS)]
        subprocess.run(tests, cwd=folder, check=True)


if __name__ == "__main__":
    main()
