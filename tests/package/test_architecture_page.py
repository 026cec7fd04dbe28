"""docs/architecture.md is true: its files exist, its picture is drawn from today's imports, its additions work."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import pytest
from architecture_figure import FIGURE, drawing
from import_graph import PACKAGES
from project import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
DIFFS = re.findall(r"^```diff\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
USE = """
import numpy as np, torch
from click.testing import CliRunner
import hiertree.datasets as datasets
from hiertree import relevance
from hiertree.losses import SupHAP, SupLinearHAP
from hiertree.metrics import evaluate_scores
from hiertree.pipelines.cli.application import commands
from hiertree.pipelines.labels.encode import text_encoder
from hiertree.pipelines.labels.settings import EncoderSettings

tied = evaluate_scores([[0.5, 0.5, 0.5, 0.1]], [[1, 0, 0, 1]], metrics=["RBP(p=0.8)"])
assert np.isclose(tied.summary()["RBP(p=0.8)"], 0.2 * ((1 + 0.8 + 0.8**2) / 3 + 0.8**3))
paths = torch.tensor([[0, 0], [0, 0], [0, 1], [1, 2]])
assert SupLinearHAP()(torch.eye(4), paths) > 0
open("train.txt", "w").write("rosa canina a.jpg\\nrosa gallica b.jpg\\n")
for name in "ab":
    open(f"{name}.jpg", "w").close()
assert datasets.load("flowers", ".", "train").paths.tolist() == [[0, 0], [0, 1]]
assert relevance.capped_gain(np.zeros((1, 5))).tolist() == [[0, 1, 3, 3, 3]]
assert text_encoder(EncoderSettings(encoder="hashing")).encode(["lake", "glacial lake"]).shape == (2, 1024)
open("labels.csv", "w").write("kind,type\\nnatural,lake\\nhuman-made,church\\n")
print(CliRunner().invoke(commands, ["levels", "labels.csv", "--columns", "kind,type"]).output)
"""


def test_every_file_that_the_page_names_exists():
    files = [path.relative_to(ROOT).as_posix() for package in PACKAGES for path in (ROOT / package).rglob("*.*")]
    pages = set(re.findall(r"`([\w/-]+\.(?:py|yaml))`", PAGE.partition("## Adding to it")[0]))
    assert len(pages) > 40
    assert {name for name in pages if not any(f"/{file}".endswith(f"/{name}") for file in files)} == set()
    folders = set(re.findall(r"`([\w/-]+)/`", PAGE))
    assert {folder for folder in folders if not (ROOT / folder).is_dir()} == set()


def test_the_picture_is_that_of_the_imports():
    assert FIGURE.read_text(encoding="utf-8") == drawing(), "python scripts/architecture_figure.py draws it again"


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """A copy of the sources with every addition of the page, laid out as the package that they install as."""
    folder = tmp_path_factory.mktemp("extended")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    for diff in DIFFS:
        subprocess.run(["patch", "-p1", "--fuzz=0"], cwd=folder, input=diff, text=True, check=True, capture_output=True)
    for package in PACKAGES[1:]:
        (folder / package).rename(folder / "hiertree" / package)
    return folder


def test_each_addition_is_less_than_30_lines():
    assert len(DIFFS) == 6
    assert all(sum(line.startswith("+") for line in diff.splitlines()) < 30 for diff in DIFFS)


@pytest.mark.nightly
def test_a_metric_a_loss_a_data_set_a_relevance_an_encoder_and_a_command_are_added_so(extended, tmp_path):
    code = f"import sys; sys.path.insert(0, {str(extended)!r})\n{USE}"
    answer = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.split() == ["kind:", "2", "type:", "2"]
