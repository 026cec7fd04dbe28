"""Several recipes, several seeds, one table: mean ± standard deviation of each metric, and whether rows differ."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from hiertree.errors import InputError, RecipeError, TrainingError, require_package

from ..training.run.experiment import train
from .comparison_files import write_comparison
from .planned_runs import Grid, PlannedRun, plan_runs
from .result_table import make_table, runs_table
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
) -> pd.DataFrame:
    """Run every recipe with every combination of a grid and every seed, write a table, and return one row for each run.

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
    planned = plan_runs(recipes, seeds=seeds, out=Path(out), overrides=overrides, grid=grid or {})
    reference = choose_reference(list(dict.fromkeys(run.row for run in planned)), against)
    (launch or train_in_turn)(planned)
    runs = runs_table([(run.recipe.name, run.settings, run.recipe.seed, run.metrics() or {}) for run in planned])
    values = values_of_rows(planned)
    tests = compare_with_reference(values, reference)
    table = make_table(
        runs,
        tests=tests,
        published=published,
        num_levels=max((own.paths.shape[1] for row in values.values() for own in row or ()), default=None),
        notes=[*describe_tests(tests, values, reference), *_describe_networks(planned)],
    )
    parameters = {
        "recipes": list(dict.fromkeys(run.recipe.name for run in planned)),
        "seeds": sorted(seeds),
        "overrides": list(overrides),
        "grid": {key: list(tried) for key, tried in (grid or {}).items()},
        "against": reference,
    }
    write_comparison(Path(out), runs=runs, tests=tests, table=table, parameters=parameters)
    return runs


def _describe_networks(planned: Sequence[PlannedRun]) -> list[str]:
    """A note on the rows whose networks a validation picked, if there are any."""
    rows = dict.fromkeys(run.row for run in planned if run.network != run.folder)
    return [f"Of the epoch that a validation picked: {'; '.join(rows)}; other rows of the last epoch."] if rows else []


def train_in_turn(planned: Sequence[PlannedRun]) -> None:
    """Train every run here, one after the other.

    A run that fails by an impossible setting or gradient does not stop the others; a TrainingError names it at the end.
    Any other error would meet the other runs as well and is raised at once.
    """
    failed = [failure for run in planned if (failure := _failure_of(run))]
    if failed:
        raise TrainingError(
            f"{len(failed)} of {len(planned)} runs failed ({'; '.join(failed)})",
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


def values_of_rows(planned: Sequence[PlannedRun]) -> dict[str, QueryValues | None]:
    """The values of the queries of every row, by the row's name; all runs are finished."""
    rows = {name: list(own) for name, own in groupby(planned, key=lambda run: run.row)}  # seeds of a row come together
    return {
        name: query_values([run.network for run in own], data=own[0].recipe.data.options())
        for name, own in rows.items()
    }
