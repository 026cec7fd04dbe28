"""Writing the files of a comparison: runs, tests, the table in every format, figures, and the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hiertree.io import files
from hiertree.io.provenance import manifest

from .figures import plot_lines, plot_points
from .html_page import html
from .result_table import ResultTable
from .run_rows import varied_number
from .text_tables import latex, markdown

if TYPE_CHECKING:
    import pandas as pd

_TESTS, _LINES = _NOT_ALWAYS = ("comparison-tests.csv", "comparison-lines.png")


def write_comparison(
    folder: Path, *, runs: pd.DataFrame, tests: pd.DataFrame, table: ResultTable, parameters: Mapping[str, Any]
) -> None:
    """Write every file.

    Args:
        folder: where to write.
        runs: one row for each run.
        tests: one row for each test; empty where nothing was tested.
        table: the means.
        parameters: of the command.
    """
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
