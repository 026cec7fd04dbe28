"""Recipes over seeds and networks that are only measured in one table: mean ± deviation of each metric, and tests."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from hiertree.errors import InputError, OptionError, RecipeError, TrainingError, require_package
from hiertree.io.locks import locked_folder

from ..stored_embeddings.evaluating import measured_as
from ..stored_embeddings.locations import kind_of
from ..training.data.splits import load_learning_splits, load_split
from ..training.run.experiment import train
from .comparison_files import write_comparison
from .measured_networks import Images, MeasuredNetwork, is_measured, prepare_networks
from .planned_runs import Grid, PlannedRun, plan_runs, require_distinct, require_own
from .result_table import make_table, rows_of_runs, runs_table
from .significance import QueryValues, choose_reference, compare_with_reference, describe_tests, query_values

if TYPE_CHECKING:
    import pandas as pd

_log = logging.getLogger(__name__)
Launch: TypeAlias = Callable[[Sequence[PlannedRun]], None]


def compare(
    recipes: Sequence[str | os.PathLike[str]],
    *,
    seeds: Sequence[int],
    out: str | os.PathLike[str],
    overrides: Sequence[str] = (),
    grid: Grid | None = None,
    against: str | None = None,
    published: bool = True,
    launch: Launch | None = None,
    images: Images | None = None,
) -> pd.DataFrame:
    """Run every recipe with every combination of a grid and every seed, write a table, and return one row for each run.

    Among the recipes may be what is only measured: ``timm:NAME``, ``open_clip:NAME/WEIGHTS`` and ``transformers:NAME``,
    which embed ``images`` or else the test split of the first recipe or run; finished runs, which embed ``images`` if
    there are any, or else stand with their own results; folders that ``hiertree embed`` wrote, and files of embeddings
    with labels. Metrics are those of the first recipe or run. Overrides and grids are not for these.

    Runs live in ``out/<recipe>/seed-<seed>``, those of a grid in ``out/<recipe>/<settings>/seed-<seed>``; finished
    ones are not run again, interrupted ones go on. ``out`` then holds ``comparison.csv`` (a row for each run),
    ``comparison-tests.csv`` (a row for each test), the table as ``comparison.md``, ``.tex``, ``.html`` and ``.json``,
    ``comparison.png``, where one setting takes three or more numbers ``comparison-lines.png`` with the metrics over it,
    and ``manifest.json``.

    ``overrides`` apply to every recipe, and the values of the grid, ``{"loss.lambda_": [0.1, 0.5]}``, after them. The
    other rows are tested ``against`` a row, or the first one of a recipe; the first of all unless given. ``launch``
    finishes the runs; unless given, they are trained here, one after the other.
    """
    require_package("matplotlib", extra="train")
    target, names = Path(out), list(map(str, recipes))
    require_distinct("recipes", names)
    recipe_names = [name for name in names if not is_measured(name)]
    if grid and not recipe_names:
        raise OptionError(f"a grid of {', '.join(grid)} without a recipe", expected="a recipe that is trained")
    plan: list[PlannedRun] = []
    if recipe_names:
        plan = plan_runs(recipe_names, seeds=seeds, out=target, overrides=overrides, grid=grid or {})
    require_own(target)
    measured_names = [name for name in names if name not in recipe_names]
    size = len(plan) // max(1, len(recipe_names))
    runs_of = {name: plan[size * number : size * (number + 1)] for number, name in enumerate(recipe_names)}
    rows = [row for name in names for row in ([run.row for run in runs_of[name]] if name in runs_of else [name])]
    reference = choose_reference(list(dict.fromkeys(rows)), against)
    _require_data(plan, num_networks=len(measured_names))
    with locked_folder(target):
        networks = prepare_networks(measured_names, target, images or Images(), [run.recipe for run in plan])
        if plan:
            (launch or train_in_turn)(plan)
        runs, values = _tabulated(names, runs_of, networks)
        tests = compare_with_reference(values, reference)
        table = make_table(
            runs,
            tests=tests,
            published=published,
            num_levels=max(
                (part.images.queries.paths.shape[1] for row in values.values() for part in row or ()), default=None
            ),
            notes=[*describe_tests(tests, values, reference), *_describe_networks(plan)],
        )
        parameters = {
            "recipes": list(dict.fromkeys(run.recipe.name for run in plan)),
            "measured": {network.name: _path_from(target, network.source) for network in networks},
            "images": None if images is None else images._asdict(),
            "seeds": sorted(seeds) if plan else [],
            "overrides": list(overrides),
            "grid": {key: list(tried) for key, tried in (grid or {}).items()},
            "against": reference,
        }
        write_comparison(target, runs=runs, tests=tests, table=table, parameters=parameters)
    return runs


def _path_from(folder: Path, path: Path) -> str:
    """A path relative to a folder, or the whole path on another drive of Windows."""
    try:
        return os.path.relpath(path, folder)
    except ValueError:
        return str(path.resolve())


def _require_data(runs: Sequence[PlannedRun], *, num_networks: int) -> None:
    """Read the labels of every data set that is yet to be trained on, before what is first takes its time."""
    missing = {json.dumps(run.recipe.as_dict()["data"]): run.recipe for run in runs if run.metrics() is None}
    for recipe in missing.values() if len(missing) + num_networks > 1 else ():
        if recipe.images.on_bad_image == "error":  # else every image would be decoded
            load_learning_splits(recipe)
            load_split(recipe, "test")


def _tabulated(
    names: Sequence[str], runs_of: Mapping[str, Sequence[PlannedRun]], networks: Sequence[MeasuredNetwork]
) -> tuple[pd.DataFrame, dict[str, QueryValues | None]]:
    """The table of runs and networks, in the order of the names, and the values of the queries of each row."""
    options = _measured_as([run for runs in runs_of.values() for run in runs], networks)
    network_of = {network.name: network for network in networks}
    records: list[Any] = []
    values: dict[str, QueryValues | None] = {}
    for name in names:
        if name in runs_of:
            records += [(run.recipe.name, run.settings, run.recipe.seed, run.metrics() or {}) for run in runs_of[name]]
            values |= values_of_rows(runs_of[name])
        else:
            means, values[name] = network_of[name].measure(options)
            records.append((name, {}, None, means))
    runs = runs_table(records)
    return runs, {row: values[row] for row in rows_of_runs(runs)}


def _measured_as(runs: Sequence[PlannedRun], networks: Sequence[MeasuredNetwork]) -> dict[str, Any]:
    """Metrics and protocol of the first recipe or run, if there is one."""
    of_networks = (network.source for network in networks if kind_of(network.source) == "run")
    first = next(chain((run.network for run in runs), of_networks), None)
    if first is None:
        return {}
    options = measured_as(first)
    return {name: options[name] for name in ("metrics", "protocol")}


def _describe_networks(runs: Sequence[PlannedRun]) -> list[str]:
    """A note on the rows whose networks a validation picked, if there are any."""
    rows = dict.fromkeys(run.row for run in runs if run.network != run.folder)
    return [f"Of the epoch that a validation picked: {'; '.join(rows)}; other rows of the last epoch."] if rows else []


def train_in_turn(runs: Sequence[PlannedRun]) -> None:
    """Train every run here, one after the other.

    A run that fails by an impossible setting or gradient does not stop the others; a TrainingError names it at the end.
    Any other error would meet the other runs as well and is raised at once.
    """
    failed = [failure for run in runs if (failure := _failure_of(run))]
    if failed:
        raise TrainingError(
            f"{len(failed)} of {len(runs)} runs failed ({'; '.join(failed)})",
            expected="all of them to finish",
            remedy="correct or omit these settings; the same command trains the rest and writes the table",
        )


def _failure_of(run: PlannedRun) -> str | None:
    """Train a run; return its error if only this run is affected."""
    try:
        train(run.recipe, run.folder)
    except (InputError, RecipeError, TrainingError) as error:
        _log.error("%s: %s", run.label, error)
        return f"{run.label}: {error}"
    return None


def values_of_rows(runs: Sequence[PlannedRun]) -> dict[str, QueryValues | None]:
    """The values of the queries of every row, by the row's name; all runs are finished."""
    rows = {name: list(group) for name, group in groupby(runs, key=lambda run: run.row)}  # a row's seeds come together
    return {
        name: query_values([run.network for run in group], data=group[0].recipe.data.options())
        for name, group in rows.items()
    }
