"""Several recipes, several seeds, one table: mean ± standard deviation of each metric, and whether rows differ."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from hiertree.errors import InputError, RecipeError, TrainingError, require_package
from hiertree.io import files
from hiertree.io.provenance import manifest

from ..training.run.experiment import train
from .figures import plot_lines, plot_points
from .planned_runs import Grid, PlannedRun, plan_runs
from .result_table import ResultTable, html, latex, make_table, markdown, runs_table, varied_number
from .significance import QueryValues, choose_reference, compare_with_reference, describe_tests, query_values

if TYPE_CHECKING:
    import pandas as pd

_log = logging.getLogger(__name__)
Launch: TypeAlias = Callable[[Sequence[PlannedRun]], None]
_TESTS, _LINES = _NOT_ALWAYS = ("comparison-tests.csv", "comparison-lines.png")


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
        num_levels=max((own.paths.shape[1] for row in values.values() if row for own in row.lists), default=None),
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
            remedy="mend or leave out these settings; the same command trains what is left and writes the table",
        )


def _failure_of(run: PlannedRun) -> str | None:
    """Train a run; what it failed by, if that is its own."""
    try:
        train(run.recipe, run.folder)
    except (InputError, RecipeError, TrainingError) as error:
        _log.error("%s: %s", run.label, error)
        return f"{run.label}: {error}"
    return None


def values_of_rows(planned: Sequence[PlannedRun]) -> dict[str, QueryValues | None]:
    """The values of the queries of every row, by the row's name; all runs are finished."""
    rows: dict[str, list[PlannedRun]] = {}
    for run in planned:
        rows.setdefault(run.row, []).append(run)
    return {
        name: query_values([run.network for run in own], data=own[0].recipe.data.options())
        for name, own in rows.items()
    }


def write_comparison(
    folder: Path, *, runs: pd.DataFrame, tests: pd.DataFrame, table: ResultTable, parameters: Mapping[str, Any]
) -> None:
    """Write every file: runs, tests, the table in every format, figures, and the manifest."""
    for name in _NOT_ALWAYS:
        (folder / name).unlink(missing_ok=True)
    frames = {"comparison.csv": runs} | ({_TESTS: tests} if len(tests) else {})
    for name, frame in frames.items():
        with files.open_replacing(folder / name) as file:
            frame.to_csv(file, index=False, lineterminator="\n")
    figures = _draw(runs, folder)
    lead = f"{len(runs)} runs of {', '.join(parameters['recipes'])}, seeds {', '.join(map(str, parameters['seeds']))}."
    texts = {
        "comparison.md": markdown(table) + "\n",
        "comparison.tex": latex(table) + "\n",
        "comparison.html": html(table, title="Comparison", lead=lead, figures=figures.values()),
    }
    for name, text in texts.items():
        files.write_text(folder / name, text)
    files.write_json(folder / "comparison.json", {"rows": _rows(table), "tests": tests.to_dict(orient="records")})
    outputs = [*(folder / name for name in [*frames, *texts, "comparison.json"]), *figures]
    made = manifest(command="hiertree compare", parameters=parameters, outputs=outputs)
    files.write_json(folder / "manifest.json", made)


def _draw(runs: pd.DataFrame, folder: Path) -> dict[Path, tuple[str, str]]:
    """The figures: each as SVG inside a page, and what it shows."""
    points, lines = folder / "comparison.png", folder / _LINES
    shown = "Each metric in a panel of its own: every run a point, the mean of a row a line."
    drawn = {points: (plot_points(runs, points), shown)}
    if (key := varied_number(runs)) is not None:
        shown = f"Each metric over {key}: means as lines, ± standard deviation as bands."
        drawn[lines] = (plot_lines(runs, lines, key=key), shown)
    return drawn


def _rows(table: ResultTable) -> list[dict[str, Any]]:
    """Names, runs (0 of a published row) and metrics, in 0 … 1."""
    return [
        {
            "row": row.name,
            "runs": row.runs or 0,
            "metrics": {
                metric: {"mean": cell.mean / 100, "deviation": None if cell.deviation is None else cell.deviation / 100}
                for metric, cell in row.cells.items()
            },
        }
        for row in table.rows
    ]
