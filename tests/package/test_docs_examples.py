"""The examples of the documentation are what the code prints, and its commands print what they show."""

from __future__ import annotations

import ast
import doctest
import re
import warnings
from operator import attrgetter

import pytest
from printed_commands import printed_by
from project import ROOT

import hiertree

_BLOCK = re.compile(r"^```(pycon|console|sh)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
RUN = ("python.md",)  # pages whose shell blocks make what the examples below them read
PAGES = {
    "../README.md": (),
    "concepts.md": (),
    "faq.md": (),
    "hierarchy.md": (),
    "metrics.md": ("faiss",),
    "python.md": ("faiss", "onnxruntime", "torchmetrics"),
    "scale.md": ("faiss",),
    "statistics.md": (),
    "report.md": (),
    "peers.md": ("ir_measures", "ranx", "pytorch_metric_learning"),
    "guides/hugging-face.md": ("datasets", "torchvision"),
    "guides/lightning.md": ("lightning",),
    "guides/model-selection.md": ("sklearn", "sentence_transformers", "accelerate"),
    "guides/pytorch-metric-learning.md": ("pytorch_metric_learning",),
    "guides/shops-and-biology.md": (),
    "guides/rankings.md": ("ir_measures", "ranx"),
}
TINY = (
    "data.families=2 data.kinds=2 data.instances=4 data.images=4 sampler.batch_size=16 model.width=4 training.epochs=1"
)


def run_small(block):
    """Run the commands of a shell block, trainings with few images and one epoch."""
    for line in block.splitlines():
        settings = " ".join(f"--set {setting}" for setting in TINY.split()) if " train " in line else ""
        printed_by(f"{line} {settings} --quiet")


NIGHTLY = ("peers.md", "guides/model-selection.md", "guides/rankings.md")  # which load and compile other libraries


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.nightly] * (page in NIGHTLY)) for page in PAGES]
)
def test_examples_print_what_the_page_shows(page, tmp_path, monkeypatch):
    for library in PAGES[page]:
        pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    text, names, outputs = (ROOT / "docs" / page).read_text(encoding="utf-8"), {}, []
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of other libraries
        for index, (kind, block) in enumerate(_BLOCK.findall(text)):
            if kind == "pycon":
                test = parser.get_doctest(block, names, f"{page}, block {index}", page, 0)
                runner.run(test, clear_globs=False)
                names = test.globs
            elif kind == "sh" and page in RUN:
                run_small(block)
            elif kind == "console":
                command, _, expected = block.removeprefix("$ ").partition("\n")
                outputs.append((printed_by(command), expected.rstrip("\n")))
    assert runner.tries == len(re.findall(r"^>>> ", text, flags=re.MULTILINE)) > 0
    assert runner.failures == 0
    for output, expected in outputs:
        assert output == expected


def _documents():
    return sorted(path.relative_to(ROOT).as_posix() for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("page", _documents())
def test_every_python_block_parses_and_imports_what_there_is(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for block in re.findall(r"^```python\n(?!>>>)(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hiertree"):
                names = ", ".join(name.name for name in node.names)
                exec(f"from {node.module} import {names}", {})  # modules too, which are no attributes before
            elif isinstance(node, ast.Attribute) and ast.unparse(node).startswith("ht."):
                assert attrgetter(ast.unparse(node).removeprefix("ht."))(hiertree)
