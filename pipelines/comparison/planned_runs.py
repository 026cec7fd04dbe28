"""The runs of a comparison: every recipe with every combination of a grid of settings and every seed.

>>> grid = read_grid(["loss.lambda_=0.1,0.5", "optimizer.name=adam,sgd"])
>>> settings = combinations_of(grid)
>>> row_names(["happier"] * 4, {key: [own[key] for own in settings] for key in grid})[1]
'happier, loss.lambda_=0.1, optimizer.name=sgd'
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

from hiertree.errors import OptionError, raised_as, some_of

from ..training.recipe.reading import load_recipe
from ..training.recipe.settings import Recipe
from ..training.run.run_folder import RunFolder
from ..yaml_files import parse_yaml

Grid: TypeAlias = Mapping[str, Sequence[Any]]
RowSettings: TypeAlias = Mapping[str, Any]

_UNSAFE = re.compile(r"[^A-Za-z0-9_.,=+-]")
_LONGEST_FOLDER = 120
_NOT_VARIED = {"seed": "give --seeds", "name": "a recipe keeps its name"}


def read_grid(options: Iterable[str]) -> dict[str, list[Any]]:
    """Parse ``KEY=V1,V2,…`` texts, the values as a list of YAML: commas inside brackets or quotes belong to them.

    >>> read_grid(["loss.margins=[0.4, 0.2],[0.5, 0.3]", "optimizer.clip_norm=null,1e-1"])
    {'loss.margins': [[0.4, 0.2], [0.5, 0.3]], 'optimizer.clip_norm': [None, 0.1]}
    """
    grid: dict[str, list[Any]] = {}
    for option in options:
        key, _, text = map(str.strip, option.partition("="))
        if not key or not text or key in grid:
            raise OptionError(f"--grid {option}", expected="KEY=V1,V2,… , each key once")
        grid[key] = parse_yaml(f"[{text}]", source=f"--grid {option}")
    check_grid(grid)
    return grid


def check_grid(grid: Grid) -> None:
    """Check that every key can vary and has distinct values that a recipe can hold."""
    for key, values in grid.items():
        if key in _NOT_VARIED:
            raise OptionError(f"grid key {key!r}", expected="a setting of the recipe", remedy=_NOT_VARIED[key])
        texts = [setting_text(value) for value in values]
        if not texts or len(set(texts)) < len(texts):
            raise OptionError(f"grid {key}={','.join(texts) or 'nothing'}", expected="at least one value, each once")


def combinations_of(grid: Grid) -> list[dict[str, Any]]:
    """Every combination of the grid's values, the last key's changing fastest; without keys, one of no settings."""
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def overrides_of(settings: RowSettings) -> list[str]:
    """The settings as ``--set`` takes them."""
    return [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in settings.items()]


def setting_text(value: Any) -> str:
    """A value as rows and folders show it: equal numbers have equal texts.

    >>> [setting_text(value) for value in (1.0, 1, 1e-05, "adam", None, [0.5, 1])]
    ['1', '1', '1e-05', 'adam', 'null', '[0.5, 1]']
    """
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:.12g}"
    expected = "a text, number, true, false, null, list or mapping"
    with raised_as(OptionError, f"grid value {value!r}", expected=expected, on=TypeError):
        return json.dumps(value, ensure_ascii=False)


def row_names(recipes: Sequence[str], settings: Mapping[str, Sequence[Any]]) -> list[str]:
    """The names of rows in tables: the recipe, and what each key is set to; NaN in rows that are only measured."""
    columns = [[_entry(key, value) for value in values] for key, values in settings.items()]
    return [", ".join(filter(None, texts)) for texts in zip(recipes, *columns, strict=True)]


def _entry(key: str, value: Any) -> str:
    is_unset = isinstance(value, float) and math.isnan(value)
    return "" if is_unset else f"{key}={setting_text(value)}"


def settings_folder(settings: RowSettings) -> str:
    """A folder name for the settings, the same in whatever order they are given.

    Where characters had to be replaced, a hash of the settings follows.

    >>> settings_folder({"loss.lambda_": 0.1, "loss.alpha": 1.0})
    'loss.alpha=1,loss.lambda_=0.1'
    >>> settings_folder({"model.pretrained": "../weights.pt"})
    'model.pretrained=.._weights.pt,bb1a83c2'
    """
    text = ",".join(f"{key}={setting_text(value)}" for key, value in sorted(settings.items()))
    safe = _UNSAFE.sub("_", text)[:_LONGEST_FOLDER]
    return safe if safe == text else f"{safe},{hashlib.sha256(text.encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class PlannedRun:
    """One run of a comparison: the recipe with its seed, the settings of the grid, and its folder in the comparison's.

    The folder is ``<recipe>/<settings>/seed-<n>``; without a grid ``<recipe>/seed-<n>``.
    """

    recipe: Recipe
    settings: RowSettings
    folder: Path
    row: str  # the name of its row in tables; runs that differ in their seed alone share it

    @property
    def label(self) -> str:
        """The run's name in messages."""
        return f"{self.row}, seed {self.recipe.seed}"

    @property
    def network(self) -> Path:
        """The folder of the network that is compared: the one a validation picked, or else that of the last epoch."""
        best = RunFolder(self.folder).best
        return best if self.recipe.validation is not None and best.is_dir() else self.folder

    def metrics(self) -> dict[str, float] | None:
        """The metrics of that network; None while the run is not finished."""
        results = RunFolder(self.folder).finished(self.recipe)
        return None if results is None else dict(results.get("best_metrics") or results["metrics"])


def plan_runs(
    recipes: Sequence[str | os.PathLike[str]],
    *,
    seeds: Sequence[int],
    out: Path,
    overrides: Sequence[str] = (),
    grid: Grid,
) -> list[PlannedRun]:
    """Read and check every recipe with every combination and seed, and see that its folder can be used."""
    require_distinct("seeds", list(map(str, seeds)))
    check_grid(grid)
    clashes = sorted({override.partition("=")[0].strip() for override in overrides} & set(grid))
    if clashes:
        raise OptionError(f"{', '.join(clashes)} in both the overrides and the grid", expected="a key in one of them")
    variants = [(settings, seed) for settings in combinations_of(grid) for seed in seeds]
    loaded = [
        (load_recipe(os.fspath(recipe), [*overrides, *overrides_of(settings), f"seed={seed}"]), settings)
        for recipe, (settings, seed) in product(recipes, variants)
    ]
    columns = {key: [settings[key] for _, settings in loaded] for key in grid}
    rows = row_names([recipe.name for recipe, _ in loaded], columns)
    runs = [
        PlannedRun(recipe, settings, out / _subfolder(recipe, settings), row)
        for (recipe, settings), row in zip(loaded, rows, strict=True)
    ]
    require_distinct("recipes", [run.recipe.name for run in runs[:: len(variants)]])
    require_own(out)
    for run in runs:
        RunFolder(run.folder).require_usable(run.recipe, fresh=False)
    return runs


def _subfolder(recipe: Recipe, settings: RowSettings) -> Path:
    if recipe.name == ".." or Path(recipe.name).name != recipe.name:
        raise OptionError(f"recipe name {recipe.name!r}", expected="a name that a folder can have")
    return Path(recipe.name, settings_folder(settings), f"seed-{recipe.seed}")


def require_own(out: Path) -> None:
    """Refuse a folder with other files than those of a comparison."""
    if not out.is_dir() or (out / "comparison.csv").is_file():
        return
    foreign = [path.name for path in sorted(out.iterdir()) if not _is_of_a_comparison(path)]
    if foreign:
        expected = "a new or empty folder, or that of an earlier comparison"
        raise OptionError(f"out={out} with {some_of(foreign, 3)}", expected=expected)


def _is_of_a_comparison(path: Path) -> bool:
    """Whether a comparison may have made a file or folder, perhaps one that was stopped at once."""
    if path.is_dir():
        return next(path.glob("**/seed-*"), None) is not None or not any(file.is_file() for file in path.rglob("*"))
    return path.name.startswith((".", "comparison.", "comparison-"))


def require_distinct(option: str, values: Sequence[str]) -> None:
    """Check that there is one, and none twice."""
    if not values or len(set(values)) < len(values):
        raise OptionError(f"{option}: {', '.join(values) or 'none'}", expected="at least one, each once")
