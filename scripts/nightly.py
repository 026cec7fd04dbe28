"""Run groups of the nightly tests, all unless named: ``python scripts/nightly.py wheel site``."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GROUPS = {
    "architecture": ("tests/package/test_architecture_page.py",),
    "compiled": ("tests/losses/test_compiled.py",),
    "damages": ("tests/pipelines/cli/test_damaged_files.py",),
    "extras": ("scripts/try_extras.py", "--shared", "base", "download", "plots", "search", "arrow", "labels"),
    "growth": ("benchmarks/growth_table.py",),
    "figures": ("tests/package/test_losses_page.py",),
    "fuzz": ("tests/package/test_bad_calls.py", "tests/pipelines/cli/test_fuzz_commands.py"),
    "labels": ("tests/pipelines/labels/test_build_drill.py",),
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


def run(group: str) -> tuple[bool, str]:
    """Whether a group failed, and what its tests skipped."""
    arguments = GROUPS[group]
    if not arguments[0].startswith("tests/"):
        return bool(subprocess.run([sys.executable, *arguments], cwd=ROOT, check=False).returncode), ""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        pytest = [sys.executable, "-m", "pytest", "-n0", "-m", "nightly", f"--junit-xml={report}", *arguments]
        failed = bool(subprocess.run(pytest, cwd=ROOT, check=False).returncode)
        summary = report.read_text(encoding="utf-8") if report.is_file() else ""
    counts = re.search(r'skipped="([1-9]\d*)" tests="(\d+)"', summary)
    return failed, "{} of {} tests".format(*counts.groups()) if counts else ""


def main() -> int:
    """Status 1 if a group failed; what was skipped is said last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", choices=[[], *GROUPS], help="all unless named")
    failures, skips = [], []
    for group in parser.parse_args().groups or GROUPS:
        print(f"== {group}", flush=True)
        start = time.monotonic()
        failed, skipped = run(group)
        print(f"== {group}: {'failed' if failed else 'passed'} in {time.monotonic() - start:.0f} s", flush=True)
        failures += [group] if failed else []
        skips += [f"{group} ({skipped})"] if skipped else []
    print(f"failed: {', '.join(failures)}" if failures else "none failed")
    if skips:
        print(f"skipped: {', '.join(skips)}")
    return int(bool(failures))


if __name__ == "__main__":
    raise SystemExit(main())
