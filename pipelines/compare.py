"""Several recipes, several seeds, one table: mean ± standard deviation of each metric."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hiertree import files
from hiertree.errors import OptionError
from hiertree.pipelines.train import train
from hiertree.pipelines.training.reading import load_recipe
from hiertree.pipelines.training.recipe import Recipe
from hiertree.provenance import manifest

if TYPE_CHECKING:
    import pandas as pd

_PANELS_IN_A_ROW = 4


def compare(
    recipes: Sequence[str | os.PathLike[str]],
    *,
    seeds: Sequence[int],
    out: str | os.PathLike[str],
    overrides: Sequence[str] = (),
) -> pd.DataFrame:
    """Run every recipe with every seed, one after the other, and write a table.

    Runs live in ``out/<recipe>/seed-<seed>``; finished ones are not run again, interrupted ones go on. ``out`` then
    holds ``comparison.csv`` (one row a run), ``comparison.md`` (mean ± standard deviation, best in bold),
    ``comparison.png`` and ``manifest.json``.

    Args:
        recipes: files or names of built-in recipes.
        seeds: the seeds; each takes the place of the recipes' own.
        out: the folder.
        overrides: ``"section.key=value"``, applied to every recipe.

    Returns:
        One row a run, with columns ``recipe``, ``seed`` and one a metric, in [0, 1].

    Raises:
        OptionError: no recipe or no seed, or one given twice.
        HiertreeError: as :func:`hiertree.pipelines.train.train`; every recipe is checked before the first is run.
    """
    import pandas as pd

    _require_distinct("seeds", list(map(str, seeds)))
    loaded = [load_recipe(recipe, [*overrides, f"seed={seed}"]) for recipe in recipes for seed in seeds]
    _require_distinct("recipes", [recipe.name for recipe in loaded if recipe.seed == seeds[0]])
    folder = Path(out)
    runs: pd.DataFrame = pd.DataFrame([_row(recipe, folder) for recipe in loaded])
    _write(runs, folder, overrides=overrides)
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
    grouped = 100 * runs.drop(columns="seed").groupby("recipe", sort=False).mean()
    deviations = 100 * runs.drop(columns="seed").groupby("recipe", sort=False).std()
    counts = runs.groupby("recipe", sort=False).size()
    lines = ["| " + " | ".join(["recipe", "runs", *grouped.columns]) + " |", "|" + "---|" * (2 + len(grouped.columns))]
    for name, means in grouped.iterrows():
        cells = []
        for metric, mean in means.items():
            deviation = deviations.loc[name, metric]
            cell = f"{mean:.1f}" if counts[name] == 1 else f"{mean:.1f} ± {deviation:.1f}"
            cells.append(f"**{cell}**" if mean == grouped[metric].max() else cell)
        lines.append("| " + " | ".join([str(name), str(counts[name]), *cells]) + " |")
    return "\n".join(lines)


def plot_comparison(runs: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """Draw a panel a metric, on its own scale: every run a point, the mean over seeds a line.

    Args:
        runs: one row a run, as :func:`compare` returns.
        path: a PNG, PDF or SVG file.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    metrics = [column for column in runs.columns if column not in ("recipe", "seed")]
    names = list(dict.fromkeys(runs["recipe"]))
    rows = -(-len(metrics) // _PANELS_IN_A_ROW)
    figure = Figure(figsize=(10, rows * (0.9 + 0.3 * len(names))), layout="constrained")
    FigureCanvasAgg(figure)
    panels = list(figure.subplots(rows, _PANELS_IN_A_ROW, sharey=True, squeeze=False).flat)
    for panel, metric in zip(panels, metrics, strict=False):
        for place, name in enumerate(names):
            values = 100 * runs.loc[runs["recipe"] == name, metric]
            panel.plot(values, [place] * len(values), "o", color=f"C{place}", alpha=0.6)
            panel.plot([values.mean()] * 2, [place - 0.3, place + 0.3], color=f"C{place}")
        panel.set_title(f"{metric} (%)", fontsize="medium")
        panel.set_yticks(range(len(names)), names)
        panel.set_ylim(len(names) - 0.5, -0.5)
        panel.margins(x=0.15)
        panel.spines[["top", "right"]].set_visible(False)
    for panel in panels[len(metrics) :]:
        panel.set_axis_off()
    with files.replacing(path) as temporary:
        figure.savefig(temporary, dpi=150)


def _row(recipe: Recipe, folder: Path) -> dict[str, Any]:
    trained = train(recipe, folder / recipe.name / f"seed-{recipe.seed}")
    return {"recipe": recipe.name, "seed": recipe.seed, **trained.metrics}


def _write(runs: pd.DataFrame, folder: Path, *, overrides: Sequence[str]) -> None:
    table, report, figure = (folder / f"comparison.{suffix}" for suffix in ("csv", "md", "png"))
    with files.open_replacing(table) as file:
        runs.to_csv(file, index=False, lineterminator="\n")
    files.write_text(report, comparison_table(runs) + "\n")
    plot_comparison(runs, figure)
    parameters = {
        "recipes": list(dict.fromkeys(runs["recipe"])),
        "seeds": sorted({int(seed) for seed in runs["seed"]}),
        "overrides": list(overrides),
    }
    made = manifest(command="hiertree compare", parameters=parameters, outputs=[table, report, figure])
    files.write_json(folder / "manifest.json", made)


def _require_distinct(what: str, given: Sequence[str]) -> None:
    if not given or len(set(given)) < len(given):
        raise OptionError(f"{what}: {', '.join(given) or 'none'}", expected="at least one, each once")
