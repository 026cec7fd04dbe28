"""The examples of the documentation are what the code prints, and its commands print what they show."""

from __future__ import annotations

import ast
import doctest
import importlib
import io
import re
import shlex
import warnings
from contextlib import redirect_stdout
from operator import attrgetter
from pathlib import Path

import pytest
from project import ROOT

import hiertree
from hiertree.datasets import load_synthetic
from hiertree.pipelines.cli.application import main

_BLOCK = re.compile(r"^```(pycon|console)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
PAGES = {
    "concepts.md": (),
    "faq.md": (),
    "hierarchy.md": (),
    "metrics.md": ("torchmetrics", "pytorch_metric_learning"),
    "python.md": ("faiss", "onnxruntime", "torchmetrics"),
    "statistics.md": (),
    "report.md": (),
    "peers.md": ("ir_measures", "ranx", "pytorch_metric_learning"),
    "guides/hugging-face.md": ("datasets", "torchvision"),
    "guides/lightning.md": ("lightning",),
    "guides/pytorch-metric-learning.md": ("pytorch_metric_learning",),
    "guides/rankings.md": ("ir_measures", "ranx"),
}
TINY = (
    "data.families=2 data.kinds=2 data.instances=4 data.images=4 sampler.batch_size=16 model.width=4 training.epochs=1"
)


def printed_by(command: str) -> str:
    """What a command that ends well prints."""
    name, *arguments = shlex.split(command)
    assert name == "hiertree"
    with redirect_stdout(io.StringIO()) as printed, pytest.raises(SystemExit) as ended:
        main(arguments)
    assert not ended.value.code
    return "\n".join(line.rstrip() for line in printed.getvalue().rstrip().splitlines())


def train_index_and_save_photos() -> None:
    """The run, the index and the photos that docs/python.md presupposes."""
    settings = " ".join(f"--set {setting}" for setting in TINY.split())
    printed_by(f"hiertree train synthetic-happier --out runs/first --quiet {settings}")
    printed_by("hiertree export runs/first --faiss --out index --quiet")
    photos = load_synthetic("test", families=2, kinds=1, instances=1, images=1)
    Path("photos").mkdir()
    for row in range(len(photos)):
        photos.images[row].save(f"photos/{row}.png")


NIGHTLY = ("peers.md",)


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.nightly] * (page in NIGHTLY)) for page in PAGES]
)
def test_examples_print_what_the_page_shows(page, tmp_path, monkeypatch):
    for library in PAGES[page]:
        pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    if page == "python.md":
        train_index_and_save_photos()
    text, names, shown = (ROOT / "docs" / page).read_text(encoding="utf-8"), {}, []
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of other libraries
        for number, (kind, block) in enumerate(_BLOCK.findall(text)):
            if kind == "pycon":
                test = parser.get_doctest(block, names, f"{page}, block {number}", page, 0)
                runner.run(test, clear_globs=False)
                names = test.globs
            else:
                command, _, expected = block.removeprefix("$ ").partition("\n")
                shown.append((printed_by(command), expected.rstrip("\n")))
    assert runner.tries == len(re.findall(r"^>>> ", text, flags=re.MULTILINE)) > 0
    assert runner.failures == 0
    for found, expected in shown:
        assert found == expected


def _documents() -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("page", _documents())
def test_every_python_block_parses_and_imports_what_there_is(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for block in re.findall(r"^```python\n(?!>>>)(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hiertree"):
                module = importlib.import_module(node.module)
                assert [name.name for name in node.names if not hasattr(module, name.name)] == []
            elif isinstance(node, ast.Attribute) and ast.unparse(node).startswith("ht."):
                assert attrgetter(ast.unparse(node).removeprefix("ht."))(hiertree)
