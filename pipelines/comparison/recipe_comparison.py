"""Rows in one table: recipes over seeds, runs, embeddings, ranked lists; mean ± deviation of each metric, and tests."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import Unpack

from hiertree.errors import InputError, OptionError, RecipeError, TrainingError, require_package
from hiertree.io.files import AnyPath, locked_folder, write_text
from hiertree.metrics import evaluate

from ..report.sources import read_run
from ..stored_embeddings.embeddings_files import SUFFIXES, LabelFiles, naming_files, read_embeddings
from ..stored_embeddings.evaluating import ListOptions, measure_lists, measured_as
from ..stored_embeddings.locations import kind_of, locate, no_such
from ..training.data.splits import load_learning_splits, load_split
from ..training.recipe.reading import built_in_recipes
from ..training.run.experiment import train
from .comparison_files import write_comparison
from .planned_runs import Grid, PlannedRun, plan_runs, require_distinct, require_own
from .result_table import csv, latex, make_table, markdown, rows_of_runs, runs_table, table_json, text
from .significance import (
    QueryValues,
    choose_reference,
    compare_with_reference,
    describe_tests,
    lists_of_run,
    query_values,
    values_of_result,
)

if TYPE_CHECKING:
    import pandas as pd

    Measured = tuple[dict[str, float], QueryValues | None]  # means, and the values of queries

_log = logging.getLogger(__name__)
_LISTS = (".txt", ".trec", ".run", ".gz", ".csv", ".tsv", ".json")  # of files that are no recipe
_LIBRARIES = ("timm:", "open_clip:")


def compare(
    rows: Sequence[str | os.PathLike[str]],
    *,
    seeds: Sequence[int],
    out: str | os.PathLike[str],
    overrides: Sequence[str] = (),
    grid: Grid | None = None,
    against: str | None = None,
    published: bool = True,
    labels: LabelFiles | None = None,
    lists: ListOptions | None = None,
) -> pd.DataFrame:
    """Run every recipe with every combination of a grid and every seed, write a table, and return one row for each run.

    Among the rows may be what is only measured: finished runs, which stand with their own results; folders that
    ``hiertree embed`` wrote and files of embeddings, without labels inside by those of ``labels``; and, if ``lists``
    say what judges them, files of ranked lists. Metrics are those of the first recipe or run, or of ``lists``.
    Overrides and grids are for recipes.

    Runs live in ``out/<recipe>/seed-<seed>``, those of a grid in ``out/<recipe>/<settings>/seed-<seed>``; finished
    ones are not run again, interrupted ones go on. ``out`` then holds ``comparison.csv`` (a row for each run),
    ``comparison-tests.csv`` (a row for each test), the table as ``comparison.md``, ``.tex``, ``.txt``, ``.html`` and
    ``.json``, ``comparison.png``, where one setting takes three or more numbers ``comparison-lines.png`` with the
    metrics over it, and ``manifest.json``.

    ``overrides`` apply to every recipe, and the values of the grid, ``{"loss.lambda_": [0.1, 0.5]}``, after them. The
    other rows are tested ``against`` a row, or the first one of a recipe; the first of all unless given.
    """
    require_package("matplotlib", extra="train")
    target, names = Path(out), list(map(str, rows))
    require_distinct("rows", names)
    sources = {name: Path(name) for name in names if is_measured(name)}
    recipe_names = [name for name in names if name not in sources]
    if grid and not recipe_names:
        raise OptionError(f"a grid of {', '.join(grid)} without a recipe", expected="a recipe that is trained")
    plan: list[PlannedRun] = []
    if recipe_names:
        plan = plan_runs(recipe_names, seeds=seeds, out=target, overrides=overrides, grid=grid or {})
    require_own(target)
    size = len(plan) // max(1, len(recipe_names))
    runs_of = {name: plan[size * index : size * (index + 1)] for index, name in enumerate(recipe_names)}
    row_names = [row for name in names for row in ([run.row for run in runs_of[name]] if name in runs_of else [name])]
    reference = choose_reference(list(dict.fromkeys(row_names)), against)
    for source in sources.values():
        _require_measurable(source, labels or {}, lists)
    _require_data(plan, num_sources=len(sources))
    with locked_folder(target):
        train_in_turn(plan)
        finished = [run.network for run in plan] + [path for path in sources.values() if _is_run(path)]
        measured = measured_as(finished[0]) if finished else {}
        conventions: dict[str, Any] = {name: measured[name] for name in ("metrics", "protocol") if name in measured}
        results = {name: _measure(path, conventions, labels or {}, lists) for name, path in sources.items()}
        runs, values = _tabulated(names, runs_of, results)
        tests = compare_with_reference(values, reference)
        depths = [one_list.num_levels for row in values.values() for one_list in row or ()]
        notes = [*describe_tests(tests, values, reference), *_describe_networks(plan)]
        table = make_table(runs, tests=tests, published=published, num_levels=max(depths, default=None), notes=notes)
        parameters = {
            "recipes": list(dict.fromkeys(run.recipe.name for run in plan)),
            "measured": {name: _path_from(target, source) for name, source in sources.items()},
            "seeds": sorted(seeds) if plan else [],
            "overrides": list(overrides),
            "grid": {key: list(values_of_key) for key, values_of_key in (grid or {}).items()},
            "against": reference,
        }
        write_comparison(target, runs=runs, tests=tests, table=table, parameters=parameters)
    return runs


def compare_lists(
    runs: Sequence[AnyPath],
    *,
    out: Path | None = None,
    against: str | None = None,
    as_json: bool = False,
    **options: Unpack[ListOptions],
) -> str:
    """A table of several files of ranked lists, tested against one of them, the first unless given: as text or JSON.

    ``out`` is a ``.json``, ``.csv``, ``.tex``, ``.md`` or ``.txt`` file for it.
    """
    writers = {".csv": csv, ".tex": latex, ".md": markdown, ".txt": text, ".json": table_json}
    if out is not None and out.suffix not in writers:
        raise OptionError(f"a table {out.name!r}", expected=f"a name that ends in {', '.join(writers)}")
    names = list(map(str, runs))
    require_distinct("runs", names)
    reference = choose_reference(names, against)
    for path in map(Path, names):
        if not path.exists():
            raise no_such(path)
    results = {name: measure_lists(name, **options) for name in names}
    values = {name: values_of_result(result) for name, result in results.items()}
    tests = compare_with_reference(values, reference)
    table_of_runs = runs_table([(name, {}, None, dict(result.summary())) for name, result in results.items()])
    num_levels = next(iter(results.values())).convention.num_levels
    table = make_table(
        table_of_runs, tests=tests, num_levels=num_levels, notes=describe_tests(tests, values, reference)
    )
    if out is not None:
        write_text(out, writers[out.suffix](table) + "\n")
    return table_json(table) if as_json else text(table)


def is_measured(name: str) -> bool:
    """Whether a name is not a recipe's, but that of a folder, or of a file of embeddings or ranked lists."""
    path = Path(name)
    if name.startswith(_LIBRARIES) and not path.exists():
        remedy = f"`hiertree embed {name} PHOTOS --out embedded`, and name that folder here"
        raise OptionError(f"{name}, a network without embeddings", expected="embeddings of it", remedy=remedy)
    is_file = path.suffix in (*SUFFIXES, *_LISTS)
    if (
        not path.exists()
        and name not in built_in_recipes()
        and (is_file or len(path.parts) > 1 or no_such(path).remedy)
    ):
        raise no_such(path)
    return path.is_dir() or is_file


def _is_run(path: Path) -> bool:
    return path.is_dir() and kind_of(path) == "run"


def _are_lists(path: Path, lists: ListOptions | None) -> bool:
    """Whether a file is read as ranked lists; an OptionError where nothing could judge them."""
    if path.is_dir() or (lists is None and path.suffix in SUFFIXES):
        return False
    if not path.exists():
        raise no_such(path)
    if lists is None:
        expected = "what judges them: --tree TABLE, of all items' labels, or --qrels"
        raise OptionError(f"ranked lists in {path.name}", expected=expected)
    return True


def _require_measurable(path: Path, labels: LabelFiles, lists: ListOptions | None) -> None:
    """Read a source but for its vectors, before the first recipe takes its time."""
    if not _are_lists(path, lists):
        locate(path)
        if not _is_run(path):
            read_embeddings(path, **labels, in_parts=True)


def _measure(path: Path, conventions: Mapping[str, Any], labels: LabelFiles, lists: ListOptions | None) -> Measured:
    """Means and values of the queries; of a run as its training has measured them."""
    if lists is not None and _are_lists(path, lists):
        result, images = measure_lists(path, **{**conventions, **lists}), None
    elif _is_run(path):
        run = read_run(path)
        return run.metrics, lists_of_run(path, run.recipe.data.options())
    else:
        images = read_embeddings(path, **labels)
        with naming_files(path, None):
            result = evaluate(*images.arguments, progress=True, **{**images.masks, **conventions})
    return dict(result.summary()), values_of_result(result, images)


def _path_from(folder: Path, path: Path) -> str:
    """A path relative to a folder, or the whole path on another drive of Windows."""
    try:
        return os.path.relpath(path, folder)
    except ValueError:
        return str(path.resolve())


def _require_data(runs: Sequence[PlannedRun], *, num_sources: int) -> None:
    """Read the labels of every data set that is yet to be trained on, before what is first takes its time."""
    missing = {json.dumps(run.recipe.as_dict()["data"]): run.recipe for run in runs if run.metrics() is None}
    for recipe in missing.values() if len(missing) + num_sources > 1 else ():
        if recipe.images.on_bad_image == "error":  # else every image would be decoded
            load_learning_splits(recipe)
            load_split(recipe, "test")


def _tabulated(
    names: Sequence[str], runs_of: Mapping[str, Sequence[PlannedRun]], results: Mapping[str, Measured]
) -> tuple[pd.DataFrame, dict[str, QueryValues | None]]:
    """The table of runs and of what is measured, in the order of the names, and the values of the queries of each row.

    Values of queries are by the row's name; all runs are finished.
    """
    records: list[Any] = []
    values: dict[str, QueryValues | None] = {}
    for name in names:
        if name in results:
            means, values[name] = results[name]
            records.append((name, {}, None, means))
            continue
        records += [(run.recipe.name, run.settings, run.recipe.seed, run.metrics() or {}) for run in runs_of[name]]
        for row, group in groupby(runs_of[name], key=lambda run: run.row):  # a row's seeds come together
            runs = list(group)
            values[row] = query_values([run.network for run in runs], data=runs[0].recipe.data.options())
    table = runs_table(records)
    return table, {row: values[row] for row in rows_of_runs(table)}


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
