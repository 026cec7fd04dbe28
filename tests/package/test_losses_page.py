"""docs/losses.md: its examples print what they say, and its figures are what their scripts draw."""

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


FIGURES = ("steps", "decomposability")
DRAW = """
import runpy, sys
for name in sys.argv[3:]:
    sys.argv[1] = f"{sys.argv[2]}/{name}.svg"
    runpy.run_path(f"scripts/{name}_figure.py", run_name="__main__")
"""


@pytest.fixture(scope="module")
def drawings(tmp_path_factory):
    """The figures of two processes."""
    folders = [tmp_path_factory.mktemp("drawn") for _ in range(2)]
    for folder in folders:
        subprocess.run([sys.executable, "-c", DRAW, "", folder, *FIGURES], cwd=ROOT, check=True)
    return folders


@pytest.mark.nightly
@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_drawn_alike_each_time(name, drawings):
    first, second = (folder / f"{name}.svg" for folder in drawings)
    assert first.read_bytes() == second.read_bytes()
    assert (ROOT / "docs" / "figures" / f"{name}.svg").read_text(encoding="utf-8").startswith("<?xml")
