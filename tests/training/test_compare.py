"""Comparisons: every recipe with every seed, once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from hiertree.errors import OptionError, RecipeError
from hiertree.pipelines.compare import compare, comparison_table
from hiertree.pipelines.comparison.grid import read_grid
from hiertree.pipelines.training.reading import load_recipe
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


def test_grid_runs_every_combination_in_a_folder_of_its_own(tmp_path: Path, overrides: list[str]) -> None:
    grid = read_grid(["training.epochs=1,2,3", "images.augmentation={name: none},{name: glyph, shear: 0.0}"])
    overrides = [override for override in overrides if not override.startswith("images=")]
    overrides += ["images.size=16", "images.channels=1"]
    runs = compare(TWO[:1], seeds=[0], out=tmp_path, overrides=overrides, grid=grid)
    assert list(runs.columns[:4]) == ["recipe", "training.epochs", "images.augmentation", "seed"]
    assert runs["training.epochs"].tolist() == [1, 1, 2, 2, 3, 3]
    folders = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("**/seed-0"))
    assert len(folders) == 6
    assert all(re.fullmatch(r"synthetic-happier/[A-Za-z0-9_.,=+-]+/seed-0", folder) for folder in folders)
    recipes = [load_recipe(path) for path in tmp_path.glob("**/recipe.yaml")]
    assert sorted(recipe.training.epochs for recipe in recipes) == [1, 1, 2, 2, 3, 3]
    assert "| synthetic-happier, training.epochs=2, " in comparison_table(runs)
    assert (tmp_path / "comparison-lines.png").read_bytes().startswith(b"\x89PNG")
    other_order = {"images.augmentation": grid["images.augmentation"], "training.epochs": [3.0]}
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("**/seed-0/*")}
    compare(TWO[:1], seeds=[0], out=tmp_path, overrides=overrides, grid=other_order)
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.glob("**/seed-0/*")}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["loss.alpha"], "KEY=V1,V2"),
        (["loss.alpha="], "KEY=V1,V2"),
        (["loss.alpha=1", "loss.alpha=2"], "each key once"),
        (["loss.alpha=1,1.0"], "each once"),
        (["seed=1,2"], "give --seeds"),
        (["data.root=2020-01-01"], "a text, number"),
    ],
)
def test_impossible_grids_are_refused(options: list[str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        read_grid(options)


def test_settings_that_do_not_fit_a_recipe_are_refused_before_the_first_is_run(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="unknown key 'alpha'"):
        compare(TWO, seeds=[0], out=tmp_path / "out", grid={"loss.alpha": [1, 2]})
    assert not (tmp_path / "out").exists()
