"""docs/losses.md: its examples print what they say, and its figures are what their scripts draw."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from project import ROOT

PAGE = ROOT / "docs" / "losses.md"


def test_examples_print_what_they_say() -> None:
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


@pytest.mark.parametrize("name", ["steps", "decomposability"])
def test_a_figure_is_drawn_alike_each_time(name: str, tmp_path: Path) -> None:
    drawings = [tmp_path / "first.svg", tmp_path / "second.svg"]
    for path in drawings:
        subprocess.run([sys.executable, ROOT / "scripts" / f"{name}_figure.py", path], check=True)
    assert drawings[0].read_bytes() == drawings[1].read_bytes()
    assert (ROOT / "docs" / "figures" / f"{name}.svg").read_text(encoding="utf-8").startswith("<?xml")
