"""The table of a comparison: rows of means, in percent, and columns in the papers' order; in every format.

Papers group columns by what they measure: the finest level first (R@k, mAP@R, AP), then each coarser level, then the
hierarchy as a whole (H-AP, ASI, NDCG).

>>> groups_of(["H-AP", "NDCG", "ASI", "AP[1]", "AP[2]", "R@1"])
{'finest level': ['R@1', 'AP[2]'], 'level 1': ['AP[1]'], 'hierarchy': ['H-AP', 'ASI', 'NDCG']}
>>> groups_of(["mean AP", "AP[fine]", "R@1[fine]", "AP[coarse]"])
{'fine list': ['R@1[fine]', 'AP[fine]'], 'coarse list': ['AP[coarse]'], 'mean over levels': ['mean AP']}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape as escape_html
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.metrics.conventions import split_name
from hiertree.metrics.result import LATEX

from ..pages import fill_page, markdown_text
from ..report.queries_and_gallery import SIGNIFICANT
from ..report.tables import best_value
from ..training.recipe.published import PublishedRow, published_rows
from .planned_runs import RowSettings, row_names, setting_text

if TYPE_CHECKING:
    import pandas as pd

_OF_THE_TREE = ("H-AP", "ASI", "NDCG", "HP", "AHP", "HOPS", "HD", "mistake-severity")
_OF_A_LEVEL = ("R", "MRR", "TR", "P", "P@R", "mAP", "mAP@R", "AP", "AP@", "ASI")
_FINEST, _TREE, _MEANS, _OTHERS = "finest level", "hierarchy", "mean over levels", "others"
# Brackets would be an option after a line's end.
_LATEX = str.maketrans({**LATEX, "±": r"$\pm$", "−": "$-$", "<": "$<$", ">": "$>$", "[": "{[}", "]": "{]}"})


@dataclass(frozen=True)
class TableCell:
    """A number of the table: its mean over seeds in percent, and the sample standard deviation; None for one run.

    It may be the ``best`` of the rows with the same queries, or differ significantly from the reference's.
    ``difference`` is ours less a published value, in percentage points; None where ours has several rows.
    """

    mean: float
    deviation: float | None = None
    best: bool = False
    differs: bool = False
    difference: float | None = None

    @property
    def text(self) -> str:
        """Mean ± deviation; of a published value, the difference to ours in parentheses."""
        text = f"{self.mean:.1f}" if self.deviation is None else f"{self.mean:.1f} ± {self.deviation:.1f}"
        return text if self.difference is None else f"{text} ({self.difference:+.1f})".replace("-", "−")


@dataclass(frozen=True)
class TableRow:
    """A row of the table: recipe and settings with the number of runs, or where it was published and None.

    Cells are by metric; a metric that the row lacks is absent.
    """

    name: str
    runs: int | None
    cells: Mapping[str, TableCell]


@dataclass(frozen=True)
class ResultTable:
    """Columns in groups, by the heading above them, rows, notes below them, and the tests behind the marks."""

    groups: Mapping[str, list[str]]
    rows: Sequence[TableRow]
    notes: Sequence[str] = ()
    tests: pd.DataFrame | None = None

    @property
    def metrics(self) -> list[str]:
        """The metrics of all columns."""
        return [metric for group in self.groups.values() for metric in group]

    @property
    def has_seeds(self) -> bool:
        """Whether some row has several runs, which a column then counts."""
        return any((row.runs or 0) > 1 for row in self.rows)


def runs_table(rows: Sequence[tuple[str, RowSettings, int | None, Mapping[str, float]]]) -> pd.DataFrame:
    """The table of runs: columns ``recipe``, one for each key of the grid, ``seed``, and one for each metric.

    A key whose values are not all numbers holds texts. A row that is only measured has neither settings nor a seed.

    >>> runs_table([("a", {"loss.tau": 0.1}, 0, {"H-AP": 0.5})]).to_dict("records")
    [{'recipe': 'a', 'loss.tau': 0.1, 'seed': 0, 'H-AP': 0.5}]
    """
    import pandas as pd

    keys = dict.fromkeys(key for _, settings, _, _ in rows for key in settings)
    records = [
        {"recipe": recipe, **{key: settings.get(key, np.nan) for key in keys}, "seed": seed, **metrics}
        for recipe, settings, seed, metrics in rows
    ]
    table: pd.DataFrame = pd.DataFrame(records)
    if table["seed"].hasnans:
        table["seed"] = table["seed"].astype("Int64")
    for key in keys:
        values = [row[key] for row in records]
        if not all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
            table[key] = [setting_text(settings[key]) if key in settings else np.nan for _, settings, _, _ in rows]
    return table


def grid_keys(runs: pd.DataFrame) -> list[str]:
    """The keys of the grid: the columns between ``recipe`` and ``seed``."""
    return list(runs.loc[:, "recipe":"seed"].columns[1:-1])


def metric_names(runs: pd.DataFrame) -> list[str]:
    """The metrics: the columns after ``seed``."""
    return list(runs.loc[:, "seed":].columns[1:])


def rows_of_runs(runs: pd.DataFrame, *, omit: str | None = None) -> list[str]:
    """The name of each run's row: its recipe, and its settings except the key left out.

    >>> import pandas as pd
    >>> rows_of_runs(pd.DataFrame({"recipe": ["a", "a"], "loss.tau": [0.1, 1.0], "seed": [0, 0], "H-AP": [0.5, 0.6]}))
    ['a, loss.tau=0.1', 'a, loss.tau=1']
    """
    return row_names(runs["recipe"].tolist(), {key: runs[key].tolist() for key in grid_keys(runs) if key != omit})


def varied_number(runs: pd.DataFrame) -> str | None:
    """The one key of the grid that takes three or more numbers; None where none does, or several do."""
    from pandas.api.types import is_numeric_dtype

    numeric_keys = [key for key in grid_keys(runs) if is_numeric_dtype(runs[key]) and runs[key].nunique() >= 3]
    return numeric_keys[0] if len(numeric_keys) == 1 else None


def make_table(
    runs: pd.DataFrame,
    *,
    tests: pd.DataFrame | None = None,
    published: bool = False,
    num_levels: int | None = None,
    notes: Iterable[str] = (),
) -> ResultTable:
    """The table of runs and their tests, with what papers report for a built-in recipe below its rows if asked for.

    ``num_levels`` are those of the tree; unless given, the largest that a metric names.
    """
    labels, recipes = rows_of_runs(runs), runs["recipe"].tolist()
    recipe_of = dict(zip(labels, recipes, strict=True))
    run_rows = _rows(runs, labels, tests)
    rows: list[TableRow] = []
    papers: list[str] = []
    for recipe in dict.fromkeys(recipes):
        recipe_rows = [row for row in run_rows if recipe_of[row.name] == recipe]
        rows += recipe_rows
        for paper_row in published_rows(recipe) if published else ():
            rows.append(_published_row(paper_row, recipe_rows[0].cells if len(recipe_rows) == 1 else {}))
            papers += [f"{paper_row.paper}.", *paper_row.remarks]
    explained = ["In parentheses beside a published value: ours less theirs."] if papers else []
    metrics = dict.fromkeys(metric for row in rows for metric in row.cells)
    return ResultTable(
        groups_of(metrics, num_levels=num_levels), rows, [*notes, *explained, *dict.fromkeys(papers)], tests
    )


def groups_of(metrics: Iterable[str], *, num_levels: int | None = None) -> dict[str, list[str]]:
    """The metrics in groups by their headings, both in the order of papers."""
    names = list(metrics)
    fields_of_levels = [fields for fields in map(split_name, names) if fields and fields.family.kind in _OF_A_LEVEL]
    finest = num_levels or max((fields.level or 1 for fields in fields_of_levels), default=1)
    coarser = (f"level {level}" for level in range(finest - 1, 0, -1))
    lists = (f"{fields.query_list} list" for fields in fields_of_levels if fields.query_list)
    grouped: dict[str, list[str]] = {title: [] for title in (_FINEST, *coarser, *lists, _TREE, _MEANS, _OTHERS)}
    for name in sorted(names, key=_order):
        grouped.get(_title(name, finest), grouped[_OTHERS]).append(name)
    return {title: group for title, group in grouped.items() if group}


def _title(metric: str, finest: int) -> str:
    """The group of a metric: in brackets it has a level, or one of several lists of queries."""
    fields = split_name(metric)
    if fields is None or fields.family.kind not in (*_OF_A_LEVEL, *_OF_THE_TREE):
        return _OTHERS
    if fields.is_mean:
        return _MEANS
    if metric == "ASI" or fields.family.kind not in _OF_A_LEVEL:
        return _TREE
    if fields.query_list:
        return f"{fields.query_list} list"
    return _FINEST if fields.level in (None, finest) else f"level {fields.level}"


def _order(metric: str) -> tuple[int, int]:
    """The order of a metric within its group; unknown kinds keep their order."""
    fields = split_name(metric)
    kind = fields.family.kind if fields else ""
    if fields and kind in _OF_A_LEVEL and metric != "ASI":
        return _OF_A_LEVEL.index(kind), fields.cutoff or 0
    return _OF_THE_TREE.index(kind) if kind in _OF_THE_TREE else len(_OF_THE_TREE), 0


def _published_row(paper_row: PublishedRow, run_cells: Mapping[str, TableCell]) -> TableRow:
    means = {metric: cell.mean for metric, cell in run_cells.items()}
    cells = {
        metric: TableCell(value, difference=paper_row.difference(metric, means.get(metric)))
        for metric, value in paper_row.percent.items()
    }
    return TableRow(f"published [{paper_row.source}]", None, cells)


def _rows(runs: pd.DataFrame, labels: list[str], tests: pd.DataFrame | None) -> list[TableRow]:
    grouped = runs[metric_names(runs)].groupby(labels, sort=False)
    means, deviations = 100 * grouped.mean(), 100 * grouped.std()
    differing: set[tuple[str, str]] = set()
    if tests is not None:
        significant = tests[tests["p_holm"] < SIGNIFICANT]
        differing = set(zip(significant["row"], significant["metric"], strict=True))
    ranked = means if tests is None else means.loc[means.index.isin({*tests["row"], *tests["reference"]})]
    best = {metric: best_value(str(metric), ranked[metric]) for metric in means if len(ranked) > 1}
    rows = []
    for name, size in grouped.size().items():
        cells = {}
        for metric, mean in means.loc[name].dropna().items():
            deviation = deviations.loc[name, metric]  # NaN of a single run
            spread = None if np.isnan(deviation) else float(deviation)
            cells[str(metric)] = TableCell(float(mean), spread, mean == best.get(metric), (name, metric) in differing)
        rows.append(TableRow(str(name), int(size), cells))
    return rows


def markdown(table: ResultTable) -> str:
    """A pipe table, and the notes below it."""
    names = [markdown_text(row.name) if row.runs else f"*{markdown_text(row.name)}*" for row in table.rows]
    head, *rows = _rows_of_cells(
        table, names, "–", "**%s**", lambda name: escape_html(name, quote=False).replace("|", r"\|")
    )
    first, *rest = (f"| {' | '.join(cells)} |" for cells in (head, *rows))
    notes = [escape_html(note, quote=False) for note in table.notes]
    return "\n\n".join(["\n".join([first, "|" + "---|" * len(head), *rest]), *notes])


def latex(table: ResultTable) -> str:
    r"""A ``tabular`` of booktabs, the notes as comments: ``\usepackage{booktabs}`` is all that it needs."""
    before = 1 + table.has_seeds
    ends = accumulate(map(len, table.groups.values()), initial=before)
    rules = [rf"\cmidrule(lr){{{previous_end + 1}-{last}}}" for previous_end, last in pairwise(ends)]
    heads = [rf"\multicolumn{{{len(group)}}}{{c}}{{{escaped(title)}}}" for title, group in table.groups.items()]
    names = [escaped(row.name) if row.runs else rf"\quad\textit{{{escaped(row.name)}}}" for row in table.rows]
    rows = [[*[""] * before, *heads], *_rows_of_cells(table, names, "--", r"\textbf{%s}", escaped)]
    groups, metrics, *body = (" & ".join(cells) + r" \\" for cells in rows)
    lines = [
        r"% \usepackage{booktabs}",
        rf"\begin{{tabular}}{{l{'r' * (before - 1)}{'c' * len(table.metrics)}}}",
        *(r"\toprule", groups, "".join(rules), metrics, r"\midrule", *body, r"\bottomrule"),
        r"\end{tabular}",
    ]
    return "\n".join([*lines, *(f"% {note}" for note in table.notes)])


def text(table: ResultTable) -> str:
    """Columns of even width for a terminal, the best of each marked ★, and the notes below them."""
    from rich.cells import cell_len

    rows = _rows_of_cells(table, [row.name if row.runs else f"  {row.name}" for row in table.rows], "–", "★ %s")
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *cells in rows:
        padded = [" " * (width - cell_len(cell)) + cell for cell, width in zip(cells, widths[1:], strict=True)]
        lines.append("  ".join([first + " " * (widths[0] - cell_len(first)), *padded]))
    return "\n".join([*lines, "", *table.notes]).rstrip()


def csv(table: ResultTable) -> str:
    """A row for each row: the mean of each metric, from 0 to 1, and its p-value after Holm's correction if tested."""
    import pandas as pd

    p_values = {} if table.tests is None else table.tests.set_index(["row", "metric"])["p_holm"].to_dict()
    records = []
    for row in table.rows:
        record: dict[str, Any] = {"row": row.name}
        for metric, cell in row.cells.items():
            record |= {metric: cell.mean / 100, f"p of {metric}": p_values.get((row.name, metric))}
        records.append(record)
    text: str = pd.DataFrame(records).dropna(axis="columns", how="all").to_csv(index=False, lineterminator="\n")
    return text.rstrip()


def table_json(table: ResultTable) -> str:
    """Rows with their runs (0 of a published row) and metrics, in 0 … 1, and the tests."""
    rows = [
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
    tests = [] if table.tests is None else table.tests.to_dict(orient="records")
    return json.dumps({"rows": rows, "tests": tests, "notes": list(table.notes)}, indent=2, ensure_ascii=False)


def _rows_of_cells(
    table: ResultTable, names: Sequence[str], missing: str, bold: str, escape: Callable[[str], str] = str
) -> list[list[str]]:
    """The heads, and the cells of each row in the syntax of a format, with their marks."""

    def marked(cell: TableCell | None) -> str:
        if cell is None:
            return missing
        value = escape(cell.text)
        return (bold % value if cell.best else value) + (escape("†") if cell.differs else "")

    heads = ["system", *(["runs"] if table.has_seeds else []), *map(escape, table.metrics)]
    return [heads] + [
        [name, *([str(row.runs or "")] if table.has_seeds else []), *(marked(row.cells.get(m)) for m in table.metrics)]
        for name, row in zip(names, table.rows, strict=True)
    ]


def html(table: ResultTable, *, title: str, lead: str, figures: Iterable[tuple[str, str]]) -> str:
    """The page, in the look of the report; figures are SVG elements, each with what it shows."""
    page = {"table": table, "title": title, "lead": lead, "pictures": list(figures)}
    return fill_page("hiertree.pipelines.comparison", page)


def escaped(text: str) -> str:
    r"""Text that LaTeX prints as it is.

    >>> print(escaped("loss.lambda_=0.1, 100 %"))
    loss.lambda\_=0.1, 100 \%
    """
    return text.translate(_LATEX)
