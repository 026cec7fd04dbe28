"""Several recipes, several seeds, one table: mean ± standard deviation of each metric."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hiertree import files
from hiertree.pipelines.comparison.figures import plot_lines, plot_points
from hiertree.pipelines.comparison.grid import Grid
from hiertree.pipelines.comparison.plan import plan_runs
from hiertree.pipelines.comparison.runs_table import metric_names, row_names, runs_table, varied_number
from hiertree.pipelines.train import train
from hiertree.provenance import manifest

if TYPE_CHECKING:
    import pandas as pd


def compare(
    recipes: Sequence[str | os.PathLike[str]],
    *,
    seeds: Sequence[int],
    out: str | os.PathLike[str],
    overrides: Sequence[str] = (),
    grid: Grid | None = None,
) -> pd.DataFrame:
    """Run every recipe with every combination of a grid and every seed, one after the other, and write a table.

    Runs live in ``out/<recipe>/seed-<seed>``, those of a grid in ``out/<recipe>/<settings>/seed-<seed>``; finished
    ones are not run again, interrupted ones go on. ``out`` then holds ``comparison.csv`` (one row a run),
    ``comparison.md`` (mean ± standard deviation, best in bold), ``comparison.png``, where one setting takes three or
    more numbers ``comparison-lines.png`` with the metrics over it, and ``manifest.json``.

    Args:
        recipes: files or names of built-in recipes.
        seeds: the seeds; each takes the place of the recipes' own.
        out: the folder.
        overrides: ``"section.key=value"``, applied to every recipe.
        grid: values to try, ``{"loss.lambda_": [0.1, 0.5]}``: each combination is a row. Applied after the overrides.

    Returns:
        One row a run, with columns ``recipe``, one a key of the grid, ``seed`` and one a metric, in [0, 1].

    Raises:
        OptionError: no recipe or no seed, or one given twice; a grid without values or with one twice.
        HiertreeError: as :func:`hiertree.pipelines.train.train`; every recipe is checked before the first is run.
    """
    folder = Path(out)
    planned = plan_runs(recipes, seeds=seeds, out=folder, overrides=overrides, grid=grid or {})
    runs = runs_table(
        [(run.recipe.name, run.settings, run.recipe.seed, train(run.recipe, run.folder).metrics) for run in planned]
    )
    parameters = {
        "recipes": list(dict.fromkeys(run.recipe.name for run in planned)),
        "seeds": sorted(seeds),
        "overrides": list(overrides),
        "grid": {key: list(values) for key, values in (grid or {}).items()},
    }
    _write(runs, folder, parameters=parameters)
    return runs


def comparison_table(runs: pd.DataFrame) -> str:
    """Markdown of mean ± standard deviation over seeds, in percent, the best mean of each metric in bold.

    Args:
        runs: one row a run, as :func:`compare` returns.

    >>> import pandas as pd
    >>> runs = pd.DataFrame({"recipe": ["a", "a", "b"], "seed": [0, 1, 0], "H-AP": [0.5, 0.6, 0.4]})
    >>> print(comparison_table(runs))
    | recipe | runs | H-AP |
    |---|---|---|
    | a | 2 | **55.0 ± 7.1** |
    | b | 1 | 40.0 |
    """
    metrics = metric_names(runs)
    grouped = runs[metrics].groupby(row_names(runs), sort=False)
    means, deviations, counts = 100 * grouped.mean(), 100 * grouped.std(), grouped.size()
    lines = ["| " + " | ".join(["recipe", "runs", *metrics]) + " |", "|" + "---|" * (2 + len(metrics))]
    for name, own in means.iterrows():
        cells = []
        for metric, mean in own.items():
            cell = f"{mean:.1f}" if counts[name] == 1 else f"{mean:.1f} ± {deviations.loc[name, metric]:.1f}"
            cells.append(f"**{cell}**" if mean == means[metric].max() else cell)
        lines.append("| " + " | ".join([str(name), str(counts[name]), *cells]) + " |")
    return "\n".join(lines)


def _write(runs: pd.DataFrame, folder: Path, *, parameters: Mapping[str, Any]) -> None:
    table, report, figure = (folder / f"comparison.{suffix}" for suffix in ("csv", "md", "png"))
    with files.open_replacing(table) as file:
        runs.to_csv(file, index=False, lineterminator="\n")
    files.write_text(report, comparison_table(runs) + "\n")
    plot_points(runs, figure)
    written = [table, report, figure]
    if (key := varied_number(runs)) is not None:
        written.append(folder / "comparison-lines.png")
        plot_lines(runs, written[-1], key=key)
    made = manifest(command="hiertree compare", parameters=parameters, outputs=written)
    files.write_json(folder / "manifest.json", made)
