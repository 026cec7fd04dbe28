"""The demonstration from end to end, small, as the command runs it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from click.testing import CliRunner
from project import ROOT

from hiertree import LabelTree
from hiertree.errors import MissingResourceError, OutputError
from hiertree.io.tables import read_table
from hiertree.pipelines.cli.application import commands
from hiertree.pipelines.demo import LANDMARKS, run_demo
from hiertree.tree import H_GLDV2_LEVELS


def _demo(out, *options):
    result = CliRunner().invoke(commands, ["demo", "--quick", "--out", str(out), *options])
    assert result.exception is None, result.output
    return result


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "out"
    return folder, _demo(folder)


def test_it_prints_the_tree_and_every_metric_of_both_models(demo):
    folder, result = demo
    assert "human-made" in result.output
    assert "Matterhorn" in result.output
    for run in (folder / "runs").iterdir():
        for name, value in json.loads((run / "metrics.json").read_text())["metrics"].items():
            (line,) = [line for line in result.output.splitlines() if line.split()[:1] == [name]]
            assert f"{100 * value:.1f}" in line


def test_the_page_shows_both_models_and_the_labels_just_built(demo):
    folder, _ = demo
    page = BeautifulSoup((folder / "index.html").read_text(encoding="utf-8"), "html.parser")
    assert [cell.text for cell in page.select("#metrics thead th")[1:]] == ["SmoothAP", "HAPPIER", "Difference"]
    tree = LabelTree.from_csv(folder / "labels" / "exported" / "hierarchical.csv", levels=H_GLDV2_LEVELS)
    leaves = [name for label in page.select("#tree small") for name in label.text.split(" · ")]
    rows_of_landmark = read_table(LANDMARKS).set_index("landmark_id")["name"]
    assert sum(name in set(rows_of_landmark) for name in leaves) > 0.9 * len(
        leaves
    )  # a few categories have longer names
    assert len(leaves) == len(set(leaves)) == len(tree.leaves) >= 150
    assert [kind.text for kind in page.select("#tree .outline > li > details > summary > b")] == [
        "human-made",
        "natural",
    ]
    assert page.select_one("#reproduce code").text.startswith("hiertree demo --out ")


def test_finished_runs_are_reused_until_asked_otherwise(demo):
    folder, first = demo
    times = _times(folder)
    repeat = _demo(folder)
    assert _times(folder) == times
    assert _numbers(repeat) == _numbers(first)
    fresh = _demo(folder, "--fresh")
    assert all(_times(folder)[path] != time for path, time in times.items())
    assert _numbers(fresh) == _numbers(first)


def test_another_seed_trains_other_models_beside_them(demo):
    folder, first = demo
    times = _times(folder)
    assert _numbers(_demo(folder, "--seed", "1")) != _numbers(first)
    assert times.items() < _times(folder).items()


def test_it_runs_on_omniglot(shared_data, tmp_path):
    page = run_demo(tmp_path / "out", data=shared_data / "omniglot" / "images_background_small1.zip", quick=True)
    assert "alphabet" in page.read_text(encoding="utf-8")


def test_the_snippets_of_the_readme_run_on_what_it_has_written(demo, tmp_path, monkeypatch):
    folder, _ = demo
    monkeypatch.chdir(tmp_path)
    Path("hiertree-demo").symlink_to(folder)
    readme = (ROOT / "README.md").read_text(encoding="utf-8").replace("/synthetic-happier", "/synthetic-happier-quick")
    snippets = re.findall(r"^```python\n(.*?)^```$", readme, flags=re.DOTALL | re.MULTILINE)
    assert len(snippets) == 3
    names = {}
    for snippet in snippets:
        exec(compile(snippet, "README.md", "exec"), names)
    assert names["paths"].shape[1] == 3


def test_a_folder_of_other_files_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(OutputError, match="a folder of other files"):
        run_demo(tmp_path, quick=True)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_data_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(MissingResourceError, match="Omniglot"):
        run_demo(tmp_path / "out", data=tmp_path / "nowhere", quick=True)


def _times(folder):
    return {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/metrics.json")}


def _numbers(result):
    """The lines of the table, from which nothing but the time may differ."""
    return result.stdout.split("What a label hierarchy buys")[1].splitlines()[1:-2]
