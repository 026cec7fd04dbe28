"""Comparisons: every recipe with every seed, once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from hiertree.errors import OptionError, RecipeError
from hiertree.pipelines.compare import compare, comparison_table
from hiertree.pipelines.training.recipe import Recipe

TWO = ["synthetic-happier", "synthetic-smooth-ap"]


@pytest.fixture(scope="module")
def overrides(tiny_recipe: Callable[..., Recipe]) -> list[str]:
    values = tiny_recipe().as_dict()
    return [
        f"{section}={json.dumps(values[section])}" for section in ("data", "images", "sampler", "model", "evaluation")
    ] + ["training={epochs: 1, device: cpu}"]


def test_runs_are_made_once_and_tabled(tmp_path: Path, overrides: list[str]) -> None:
    runs = compare(TWO, seeds=[0, 1], out=tmp_path, overrides=overrides)
    assert list(zip(runs["recipe"], runs["seed"], strict=True)) == [(name, seed) for name in TWO for seed in (0, 1)]
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/seed-*/*")}
    pd.testing.assert_frame_equal(compare(TWO, seeds=[0, 1], out=tmp_path, overrides=overrides), runs)
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/seed-*/*")}
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "comparison.csv"), runs)
    assert (tmp_path / "comparison.md").read_text() == comparison_table(runs) + "\n"
    assert (tmp_path / "comparison.png").read_bytes().startswith(b"\x89PNG")
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert [output["name"] for output in manifest["outputs"]] == ["comparison.csv", "comparison.md", "comparison.png"]


def test_table_shows_mean_and_sample_deviation_with_the_best_in_bold() -> None:
    runs = pd.DataFrame(
        {"recipe": ["a", "a", "b", "b"], "seed": [0, 1, 0, 1], "X": [0.1, 0.3, 0.15, 0.15], "Y": 4 * [0.5]}
    )
    lines = comparison_table(runs).splitlines()
    assert lines[2] == "| a | 2 | **20.0 ± 14.1** | **50.0 ± 0.0** |"
    assert lines[3] == "| b | 2 | 15.0 ± 0.0 | **50.0 ± 0.0** |"


@pytest.mark.parametrize(("recipes", "seeds"), [([], [0]), (TWO, []), (TWO, [1, 1]), ([TWO[0]] * 2, [0])])
def test_nothing_to_compare_is_refused(tmp_path: Path, recipes: list[str], seeds: list[int]) -> None:
    with pytest.raises(OptionError, match="at least one, each once"):
        compare(recipes, seeds=seeds, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_misspelt_recipe_is_refused_before_the_first_is_run(tmp_path: Path, overrides: list[str]) -> None:
    with pytest.raises(RecipeError, match="did you mean 'synthetic-happier'"):
        compare([TWO[1], "synthetic-hapier"], seeds=[0], out=tmp_path / "out", overrides=overrides)
    assert not (tmp_path / "out").exists()
