"""Run groups of the nightly tests, all unless named: ``python scripts/nightly.py wheel site``."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GROUPS = {
    "architecture": ("tests/package/test_architecture_page.py",),
    "damages": ("tests/pipelines/cli/test_damaged_files.py",),
    "extras": ("scripts/try_extras.py", "--shared", "base", "download", "plots", "search", "arrow", "labels"),
    "growth": ("benchmarks/growth_table.py",),
    "figures": ("tests/package/test_losses_page.py",),
    "labels": ("tests/pipelines/labels",),
    "lowest": ("scripts/try_lowest.py",),
    "peers": ("tests/metrics/test_runs.py", "tests/package/test_docs_examples.py"),
    "processes": ("tests/pipelines/stored_embeddings", "tests/pipelines/training/distributed"),
    "real-networks": ("tests/pipelines/labels/test_real_networks.py", "tests/pipelines/training/test_real_backbone.py"),
    "site": ("tests/package/test_site.py",),
    "slurm": ("tests/pipelines/test_slurm.py",),
    "stops": ("tests/pipelines/cli/test_stops.py",),
    "tutorial": ("tests/package/test_tutorial.py",),
    "wheel": ("tests/package/test_packaging.py",),
}
"""What Python runs for a group: a script with its arguments, or tests."""


def command(group: str) -> list[str]:
    """The command line of a group."""
    arguments = GROUPS[group]
    pytest = [] if not arguments[0].startswith("tests/") else ["-m", "pytest", "-n0", "-m", "nightly"]
    return [sys.executable, *pytest, *arguments]


def main() -> int:
    """Status 1 if a group failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", choices=[[], *GROUPS], help="all unless named")
    failures = []
    for group in parser.parse_args().groups or GROUPS:
        print(f"== {group}", flush=True)
        if subprocess.run(command(group), cwd=ROOT, check=False).returncode:
            failures.append(group)
    print(f"failed: {', '.join(failures)}" if failures else "all passed")
    return int(bool(failures))


if __name__ == "__main__":
    raise SystemExit(main())
