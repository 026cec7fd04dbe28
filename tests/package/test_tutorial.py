"""docs/tutorials/images.md runs from its first line to its last, on drawn images and on photos, and its claims hold."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
from printed_commands import printed_by
from project import ROOT

pytest.importorskip("onnxruntime")
pytest.importorskip("faiss")
PAGE = (ROOT / "docs" / "tutorials" / "images.md").read_text(encoding="utf-8")
SMALL = {
    "families=6, kinds=4, instances=8, images=12": "families=2, kinds=2, instances=8, images=4",
    "batch_size: 128": "batch_size: 16",
    "epochs: 24": "epochs: 1",
    "0,1,2": "0",
    "::300": "::30",
}
DRAWN = re.compile(r"## 1\..*?(?=## 2\.)", flags=re.DOTALL)


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HIERTREE_PROGRESS", "0")


def follow(page: str) -> dict[str, str]:
    """Do what each block says, in order; what each Python block printed by what the page shows below it."""
    names: dict[str, object] = {}
    printed, outputs = "", {}
    for kind, block in re.findall(r"^```(\w+)\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE):
        if kind == "python":
            with redirect_stdout(StringIO()) as out:
                exec(compile(block, "images.md", "exec"), names)
            printed = out.getvalue()
        elif kind == "yaml":
            Path(block.partition("\n")[0].removeprefix("# ")).write_text(block)
        elif kind == "text":
            outputs[block] = printed
        else:
            for line in block.splitlines():
                run(line)
    return outputs


def run(line: str) -> None:
    """One line of a shell; a page that is served until Ctrl-C is opened and left."""
    if line.startswith("hiertree browse"):
        command = [sys.executable, "-m", *line.split(), "--no-browser"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as served:
            assert served.stdout is not None
            assert "http://127.0.0.1" in served.stdout.readline()
            served.terminate()
    elif not line.startswith("pip "):
        printed_by(line)


def replaced(page: str, changes: dict[str, str]) -> str:
    for old, new in changes.items():
        assert old in page
        page = page.replace(old, new)
    return page


def test_every_line_runs_on_fewer_drawn_images():
    follow(replaced(PAGE, SMALL))
    assert Path("report.html").stat().st_size > 0
    assert pd.read_csv("runs/compared/comparison.csv")["recipe"].tolist() == ["smooth-ap", "happier"]


def test_what_the_page_says_of_photos_is_a_recipe():
    for block in re.findall(r"^```yaml\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE):
        Path(block.partition("\n")[0].removeprefix("# ")).write_text(block)
    assert "resnet50" in printed_by("hiertree recipes show photos.yaml")


@pytest.mark.nightly
def test_every_line_after_the_drawing_runs_unchanged_on_photos(shared_data):
    with zipfile.ZipFile(shared_data / "gldv2_washington" / "gldv2_wa_112px.zip") as archive:
        archive.extractall("images")
    write_washington(shared_data / "gldv2_washington")
    quick = replaced(DRAWN.sub(imports_of, PAGE), {"epochs: 24": "epochs: 1", "0,1,2": "0"})
    follow(quick)
    assert Path("exported/model.onnx").stat().st_size > 100_000


def imports_of(step: re.Match[str]) -> str:
    """The lines of a step that import what later ones need."""
    return "```python\n" + "".join(re.findall(r"^(?:import|from) .*\n", step[0], flags=re.MULTILINE)) + "```\n"


def write_washington(folder: Path) -> None:
    """images.csv with the page's columns, of photos of landmarks: kind, supercategory and landmark stand in them."""
    printed_by(f"hiertree labels build {folder}/landmarks_washington_full.csv --instance-column supercategory --out w")
    printed_by(f"hiertree labels images w --images images --image-table {folder}/gldv2_wa_images.csv --out listed")
    table = pd.read_csv("listed/images.csv").drop(columns="split")
    table.set_axis(["file", "family", "kind", "instance"], axis=1).to_csv("images.csv", index=False)


@pytest.mark.nightly
def test_the_page_shows_what_it_prints_and_the_tree_helps_with_every_seed():
    for expected, printed in follow(PAGE).items():
        if "rank" in expected:  # which neighbors are found is a matter of the processor
            assert len(printed.splitlines()) == len(expected.splitlines())
        else:
            assert printed == expected
    runs = pd.read_csv("runs/compared/comparison.csv").set_index(["recipe", "seed"])
    metrics = ["H-AP", "NDCG", "ASI", "AP[1]", "AP[2]"]
    assert (runs.loc["happier", metrics] > runs.loc["smooth-ap", metrics]).all(axis=None)
