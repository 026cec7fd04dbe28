"""The runs of a comparison: every recipe with every combination of the grid and every seed, each in its folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from hiertree.errors import OptionError

from ..training.recipe.reading import load_recipe
from ..training.recipe.schema import Recipe
from ..training.run.run_folder import RunFolder
from .grid import Grid, Settings, check_grid, combinations_of, overrides_of, row_name, settings_folder


@dataclass(frozen=True)
class PlannedRun:
    """One run of a comparison.

    Attributes:
        recipe: the experiment, its seed and settings included.
        settings: those of the grid.
        folder: ``<recipe>/<settings>/seed-<n>`` of the comparison's folder; without a grid ``<recipe>/seed-<n>``.
    """

    recipe: Recipe
    settings: Settings
    folder: Path

    @property
    def row(self) -> str:
        """The name of its row in tables; runs that differ in their seed alone share it."""
        return row_name(self.recipe.name, self.settings)

    @property
    def label(self) -> str:
        """Its name in messages."""
        return f"{self.row}, seed {self.recipe.seed}"

    @property
    def network(self) -> Path:
        """The folder of the network that is compared: the one a validation picked, or else that of the last epoch."""
        best = RunFolder(self.folder).best
        return best if self.recipe.validation is not None and best.is_dir() else self.folder

    def metrics(self) -> dict[str, float] | None:
        """The metrics of that network; None while the run is not finished.

        Raises:
            CheckpointError: its ``metrics.json`` is damaged.
        """
        content = RunFolder(self.folder).finished(self.recipe)
        return None if content is None else dict(content.get("best_metrics") or content["metrics"])


def plan_runs(
    recipes: Sequence[str | os.PathLike[str]],
    *,
    seeds: Sequence[int],
    out: Path,
    overrides: Sequence[str] = (),
    grid: Grid,
) -> list[PlannedRun]:
    """Read and check every recipe with every combination and seed, and see that its folder can be used.

    Raises:
        OptionError: no recipe or no seed, or one given twice; an impossible grid, or one that varies an override; a
            folder that holds something else.
        RecipeError: an impossible recipe or setting, or a folder with a run of another recipe.
    """
    _require_distinct("seeds", list(map(str, seeds)))
    check_grid(grid)
    _require_apart(overrides, grid)
    each = [(settings, seed) for settings in combinations_of(grid) for seed in seeds]
    planned = []
    for recipe, (settings, seed) in product(recipes, each):
        loaded = load_recipe(recipe, [*overrides, *overrides_of(settings), f"seed={seed}"])
        planned.append(PlannedRun(loaded, settings, out / _subfolder(loaded, settings)))
    _require_distinct("recipes", [run.recipe.name for run in planned[:: len(each)]])
    _require_own(out)
    for run in planned:
        RunFolder(run.folder).require_usable(run.recipe, fresh=False)
    return planned


def _subfolder(recipe: Recipe, settings: Settings) -> Path:
    if recipe.name == ".." or Path(recipe.name).name != recipe.name:
        raise OptionError(f"recipe name {recipe.name!r}", expected="a name that can be a folder's")
    return Path(recipe.name, settings_folder(settings), f"seed-{recipe.seed}")


def _require_own(out: Path) -> None:
    """Refuse a folder with other files than those of a comparison."""
    if not out.is_dir() or (out / "comparison.csv").is_file():
        return
    foreign = [
        path.name
        for path in sorted(out.iterdir())
        if path.name != "jobs" and not path.name.startswith(".") and next(path.glob("**/seed-*"), None) is None
    ]
    if foreign:
        expected = "a new or empty folder, or that of an earlier comparison"
        raise OptionError(f"out={out} with {', '.join(foreign[:3])}", expected=expected)


def _require_apart(overrides: Sequence[str], grid: Grid) -> None:
    twice = sorted({override.partition("=")[0].strip() for override in overrides} & set(grid))
    if twice:
        raise OptionError(f"{', '.join(twice)} among the overrides and in the grid", expected="a key in one of them")


def _require_distinct(what: str, given: Sequence[str]) -> None:
    if not given or len(set(given)) < len(given):
        raise OptionError(f"{what}: {', '.join(given) or 'none'}", expected="at least one, each once")
