"""docs/losses.md: its examples print what they say, and its figures and the papers' are what their scripts draw."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys

import pytest
import torch
from project import ROOT

PAGE = ROOT / "docs" / "losses.md"


def test_examples_print_what_they_say():
    pytest.importorskip("pytorch_metric_learning")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # small tensors, and the same sums everywhere
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    examples = doctest.DocTestParser().get_doctest("".join(blocks), {}, PAGE.name, str(PAGE), 0)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    failed, attempted = runner.run(examples)
    torch.set_num_threads(threads)
    assert attempted == len(re.findall(r"^>>> ", text, flags=re.MULTILINE)) > 0
    assert failed == 0


FIGURES = ("steps", "decomposability", "papers_smooth_ap", "papers_roadmap", "papers_suprank", "papers_hashing")
DRAW = """
import runpy, sys
for script, figure in {"steps_figure": "/steps.svg", "decomposability_figure": "/decomposability.svg"}.items():
    sys.argv[1] = sys.argv[2] + figure
    runpy.run_path(f"scripts/{script}.py", run_name="__main__")
sys.argv[1] = sys.argv[2]
runpy.run_path("scripts/papers_figures.py", run_name="__main__")
"""


@pytest.fixture(scope="module")
def drawings(tmp_path_factory):
    """The figures of two processes."""
    folders = [tmp_path_factory.mktemp("drawn") for _ in range(2)]
    for folder in folders:
        subprocess.run([sys.executable, "-c", DRAW, "", folder], cwd=ROOT, check=True)
    return folders


@pytest.mark.nightly
@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_drawn_alike_each_time(name, drawings):
    first, second = (folder / f"{name}.svg" for folder in drawings)
    assert first.read_bytes() == second.read_bytes()
    assert (ROOT / "docs" / "figures" / f"{name}.svg").read_text(encoding="utf-8").startswith("<?xml")
