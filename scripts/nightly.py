"""Run the nightly tests group by group, or with ``--if-changed`` only those whose subject has changed.

What each group tests is digested, and the digest is recorded in tests/package/nightly.json by ``--record`` after a run
in which all passed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "tests" / "package" / "nightly.json"
# What each group runs, and the files it tests.
GROUPS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "architecture": (
        ("tests/package/test_architecture_page.py",),
        ("docs/architecture.md", "metrics/request.py", "hiertree/relevance.py", "pipelines/labels/encode"),
    ),
    "extras": ((), ("pyproject.toml",)),
    "figures": (
        ("tests/package/test_losses_page.py",),
        ("scripts/steps_figure.py", "scripts/decomposability_figure.py"),
    ),
    "jobs": (("tests/pipelines/comparison",), ("pipelines/comparison", "pipelines/training/run")),
    "labels": (
        ("tests/pipelines/labels",),
        ("pipelines/labels/plan.py", "pipelines/labels/steps.py", "pipelines/labels/scrape"),
    ),
    "peers": (
        ("tests/metrics/test_runs.py", "tests/package/test_docs_examples.py"),
        ("metrics/formulas", "metrics/interop", "metrics/runs.py", "docs/peers.md", "docs/guides/rankings.md"),
    ),
    "processes": (
        ("tests/pipelines/stored_embeddings", "tests/pipelines/training/distributed"),
        ("pipelines/stored_embeddings", "pipelines/training/distributed", "metrics/engine/processes.py"),
    ),
    "site": (("tests/package/test_site.py",), ("docs", "mkdocs.yml", "scripts/site_*")),
    "slurm": (
        ("tests/pipelines/test_slurm.py",),
        ("docs/clusters.md", "pipelines/comparison/cluster_jobs.py", "pipelines/training/distributed"),
    ),
    "tutorial": (
        ("tests/package/test_tutorial.py",),
        ("docs/tutorials/images.md", "hiertree/datasets/synthetic.py", "pipelines/training/learning"),
    ),
    "triton": (
        ("tests/losses/kernels/test_triton.py",),
        ("losses/kernels/base.py", "losses/kernels/triton_*.py", "losses/pairs", "tests/losses/kernels/*triton*"),
    ),
    "wheel": (
        ("tests/package/test_packaging.py",),
        ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", ":(glob,exclude)pipelines/**/*.py", "pipelines"),
    ),
}
EXTRAS = ("scripts/try_extras.py", "--if-changed", "--shared", "base", "download", "plots", "search", "arrow", "labels")


def digest_of(patterns: tuple[str, ...]) -> str:
    """Of the names and contents of the files that git tracks below some paths."""
    listed = subprocess.run(
        ["git", "ls-files", "--error-unmatch", "--", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    )
    digest = hashlib.sha256()
    for name in sorted(listed.stdout.splitlines()):
        digest.update(name.encode() + b"\0" + (ROOT / name).read_bytes())
    return digest.hexdigest()[:16]


def run(command: tuple[str, ...]) -> tuple[int, bool]:
    """The exit status of a command of Python, and whether pytest said that tests passed."""
    passed = False
    with subprocess.Popen([sys.executable, *command], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            passed = passed or re.search(r"\b[1-9]\d* passed\b", line) is not None
    return process.returncode, passed


def main() -> int:
    """Status 1 if a group failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", choices=[[], *GROUPS], help="all unless named")
    parser.add_argument("--if-changed", action="store_true", help="leave out groups whose subject is the recorded one")
    parser.add_argument("--record", action="store_true", help="record what has passed")
    options = parser.parse_args()
    recorded = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    failed = []
    for group in options.groups or GROUPS:
        tests, subject = GROUPS[group]
        if options.if_changed and recorded.get(group) == digest_of(subject):
            print(f"{group}: as recorded")
            continue
        print(f"== {group}", flush=True)
        command = ("-m", "pytest", "-n0", "-m", "nightly", *tests) if tests else EXTRAS
        status, passed = run(command)
        if status:
            failed.append(group)
        elif passed or not tests:
            recorded[group] = digest_of(subject)
        else:
            print(f"{group}: skipped on this machine, and not recorded")
    if options.record:
        RECORD.write_text(json.dumps(recorded, indent=2) + "\n", encoding="utf-8")
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main())
