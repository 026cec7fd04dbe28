"""The files of a comparison: runs, tests, the table in every format, two figures, and the manifest."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from hiertree.io import files
from hiertree.io.provenance import manifest

from ..pages import STYLE, figure_uri
from .planned_runs import setting_text
from .result_table import (
    ResultTable,
    groups_of,
    html,
    latex,
    markdown,
    metric_names,
    rows_of_runs,
    table_json,
    text,
    varied_number,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TESTS, _LINES = _NOT_ALWAYS = ("comparison-tests.csv", "comparison-lines.png")
_PANELS_IN_A_ROW = 4
_INCHES_A_LETTER = 0.085
_LETTERS_IN_A_LINE = 60
_LOGARITHMIC_FROM = 16  # largest value over smallest
_MARKERS = "osD^vP*X<>"
_STYLE = {**STYLE, "font.size": 10}


def write_comparison(
    folder: Path, *, runs: pd.DataFrame, tests: pd.DataFrame, table: ResultTable, parameters: Mapping[str, Any]
) -> None:
    """Write every file: runs, tests, the table in every format, figures, and the manifest."""
    for name in _NOT_ALWAYS:
        (folder / name).unlink(missing_ok=True)
    points, lines = folder / "comparison.png", folder / _LINES
    caption = "Each metric in a panel of its own: every run a point, the mean of a row a line."
    figures = {points: (plot_points(runs, points), caption)}
    if (key := varied_number(runs)) is not None:
        caption = f"Each metric over {key}: means as lines, ± standard deviation as bands."
        figures[lines] = (plot_lines(runs, lines, key=key), caption)
    frames = {"comparison.csv": runs} | ({_TESTS: tests} if len(tests) else {})
    sentences = []
    if parameters["recipes"]:
        recipe_names, seeds = ", ".join(parameters["recipes"]), ", ".join(map(str, parameters["seeds"]))
        sentences.append(f"{runs['seed'].notna().sum()} runs of {recipe_names}, seeds {seeds}.")
    if parameters["measured"]:
        sentences.append(f"Measured without training: {', '.join(parameters['measured'])}.")
    texts = {name: frame.to_csv(index=False, lineterminator="\n") for name, frame in frames.items()} | {
        "comparison.md": markdown(table) + "\n",
        "comparison.tex": latex(table) + "\n",
        "comparison.txt": text(table) + "\n",
        "comparison.json": table_json(table) + "\n",
        "comparison.html": html(table, title="Comparison", lead=" ".join(sentences), figures=figures.values()),
    }
    for name, output in texts.items():
        files.write_text(folder / name, output)
    outputs = [*(folder / name for name in texts), *figures]
    files.write_json(
        folder / "manifest.json", manifest(command="hiertree compare", parameters=parameters, outputs=outputs)
    )


def plot_points(runs: pd.DataFrame, path: str | os.PathLike[str]) -> str:
    """Draw a panel for each metric, on its own scale: runs as points, means over seeds as lines, recipes by color.

    Returns what is written to the path, a PNG, as the data URI of an SVG.
    """
    import matplotlib as mpl

    with mpl.rc_context(_STYLE):
        labels = rows_of_runs(runs)
        names = list(dict.fromkeys(labels))
        lines = [wrap(name, _LETTERS_IN_A_LINE) for name in names]
        rows_of_text = sum(map(len, lines))
        height = 0.9 + max(0.3 * min(rows_of_text, 8), 0.2 * rows_of_text)
        margin = _INCHES_A_LETTER * max(len(line) for label_lines in lines for line in label_lines)
        figure, panels = _panels(runs, height=height, margin=margin, sharey=True)
        recipes = runs["recipe"].tolist()
        color_keys = recipes if len(set(recipes)) > 1 else labels
        colors = {name: f"C{index}" for index, name in enumerate(dict.fromkeys(color_keys))}
        for metric, panel in panels.items():
            for height, name in enumerate(names):
                rows = [row for row, label in enumerate(labels) if label == name]
                values, color = 100 * runs[metric].iloc[rows].dropna(), colors[color_keys[rows[0]]]
                panel.plot(values, [height] * len(values), "o", color=color, alpha=0.6)
                panel.plot([values.mean()] * 2, [height - 0.3, height + 0.3], color=color)
            panel.set_title(f"{metric} (%)", fontsize="medium")
            panel.set_yticks(range(len(names)), ["\n".join(label_lines) for label_lines in lines])
            panel.set_ylim(len(names) - 0.5, -0.5)
            panel.margins(x=0.15)
        return _save(figure, path)


def plot_lines(runs: pd.DataFrame, path: str | os.PathLike[str], *, key: str) -> str:
    """Draw a panel for each metric over the numbers of a grid's key: means as lines, ± standard deviation as bands.

    Recipes and the other keys tell lines apart. Returns the same as :func:`plot_points`.
    """
    import matplotlib as mpl

    with mpl.rc_context(_STYLE):
        lines = runs.assign(line=rows_of_runs(runs, omit=key)).dropna(subset=[key])
        values = sorted(lines[key].unique().tolist())
        figure, panels = _panels(runs, height=2.6, margin=0, sharey=False)
        for metric, panel in panels.items():
            for index, (name, group) in enumerate(lines.groupby("line", sort=False)):
                over = 100 * group.groupby(key)[metric].agg(["mean", "std"]).fillna({"std": 0.0})
                color, marker = f"C{index}", _MARKERS[index % len(_MARKERS)]
                panel.plot(over.index, over["mean"], marker=marker, markersize=4, color=color, label=str(name))
                low, high = over["mean"] - over["std"], over["mean"] + over["std"]
                panel.fill_between(over.index, low, high, color=color, alpha=0.15, linewidth=0)
            panel.set_title(f"{metric} (%)", fontsize="medium")
            _scale(panel, key, values)
        handles, names = next(iter(panels.values())).get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=min(3, len(names)), frameon=False)
        return _save(figure, path)


def _panels(runs: pd.DataFrame, *, height: float, margin: float, sharey: bool) -> tuple[Figure, dict[str, Axes]]:
    """A figure with a panel for each metric of any run."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = [name for name in metric_names(runs) if runs[name].notna().any()]
    metrics = list(chain.from_iterable(groups_of(names).values()))
    columns = min(_PANELS_IN_A_ROW, len(metrics))
    rows = -(-len(metrics) // columns)
    figure = Figure(figsize=(2.2 * columns + max(margin, 0.6), rows * height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(rows, columns, sharey=sharey, squeeze=False).flat)
    for panel in axes[len(metrics) :]:
        panel.set_axis_off()
    for panel in axes:
        panel.spines[["top", "right"]].set_visible(False)
    return figure, dict(zip(metrics, axes, strict=False))


def _scale(panel: Axes, key: str, values: list[Any]) -> None:
    """Put ticks at the values, on a logarithmic scale if they span a wide range."""
    if values[0] > 0 and values[-1] >= _LOGARITHMIC_FROM * values[0]:
        panel.set_xscale("log")
    panel.set_xticks(values, [setting_text(value) for value in values], fontsize="small")
    panel.set_xticks([], minor=True)
    panel.set_xlabel(key)


def _save(figure: Figure, path: str | os.PathLike[str]) -> str:
    with warnings.catch_warnings(), files.replacing(path) as temporary:
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        figure.savefig(temporary, dpi=150)
    return figure_uri(figure)
