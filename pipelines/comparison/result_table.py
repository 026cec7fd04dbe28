"""The table of a comparison: rows of means, in percent, and columns in the papers' order; as Markdown, LaTeX and HTML.

Papers group columns by what they measure: the finest level first (R@k, mAP@R, AP), then each coarser level, then the
hierarchy as a whole (H-AP, ASI, NDCG).

>>> groups_of(["H-AP", "NDCG", "ASI", "AP[1]", "AP[2]", "R@1"])
{'finest level': ['R@1', 'AP[2]'], 'level 1': ['AP[1]'], 'hierarchy': ['H-AP', 'ASI', 'NDCG']}
>>> groups_of(["mean AP", "AP[fine]", "R@1[fine]", "AP[coarse]"])
{'fine list': ['R@1[fine]', 'AP[fine]'], 'coarse list': ['AP[coarse]'], 'mean over levels': ['mean AP']}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape as escape_html
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np

from hiertree.metrics.request import split_name

from ..pages import fill_page, markdown_text
from ..report.metric_rows import best_value
from ..training.recipe.published import PublishedRow, published_rows
from .planned_runs import RowSettings, row_names, setting_text
from .significance import SIGNIFICANT

if TYPE_CHECKING:
    import pandas as pd

_OF_THE_TREE = ("H-AP", "ASI", "NDCG", "HP", "AHP", "HOPS", "HD", "mistake-severity")
_OF_A_LEVEL = ("R", "MRR", "TR", "P", "P@R", "mAP", "mAP@R", "AP", "AP@", "ASI")
_FINEST, _TREE, _MEANS, _OTHERS = "finest level", "hierarchy", "mean over levels", "others"
_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        "†": r"$^{\dagger}$",
        "−": "$-$",
        "<": r"$<$",
        ">": r"$>$",
        **{sign: rf"\{sign}" for sign in "&%$#_{}"},
        **{bracket: f"{{{bracket}}}" for bracket in "[]"},  # after \\ they would be an option
    }
)


@dataclass(frozen=True)
class TableCell:
    """A number of the table: its mean over seeds in percent, and the sample standard deviation; None for one run.

    It may be the ``best`` of the rows that are not published, or differ significantly from the reference's.
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
    """Columns in groups, by the heading above them, rows, and notes below them."""

    groups: Mapping[str, list[str]]
    rows: Sequence[TableRow]
    notes: Sequence[str] = ()

    @property
    def metrics(self) -> list[str]:
        """The metrics of all columns."""
        return [metric for group in self.groups.values() for metric in group]


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
    return ResultTable(groups_of(metrics, num_levels=num_levels), rows, [*notes, *explained, *dict.fromkeys(papers)])


def groups_of(metrics: Iterable[str], *, num_levels: int | None = None) -> dict[str, list[str]]:
    """The metrics in groups by their headings, both in the order of papers."""
    names = list(metrics)
    all_parts = [parts for parts in map(split_name, names) if parts and parts.family.kind in _OF_A_LEVEL]
    finest = num_levels or max((parts.level or 1 for parts in all_parts), default=1)
    coarser = (f"level {level}" for level in range(finest - 1, 0, -1))
    lists = (f"{parts.query_list} list" for parts in all_parts if parts.query_list)
    grouped: dict[str, list[str]] = {title: [] for title in (_FINEST, *coarser, *lists, _TREE, _MEANS, _OTHERS)}
    for name in sorted(names, key=_place):
        grouped.get(_title(name, finest), grouped[_OTHERS]).append(name)
    return {title: group for title, group in grouped.items() if group}


def _title(metric: str, finest: int) -> str:
    """The group of a metric: in brackets it has a level, or one of several lists of queries."""
    parts = split_name(metric)
    if parts is None or parts.family.kind not in (*_OF_A_LEVEL, *_OF_THE_TREE):
        return _OTHERS
    if parts.is_mean:
        return _MEANS
    if metric == "ASI" or parts.family.kind not in _OF_A_LEVEL:
        return _TREE
    if parts.query_list:
        return f"{parts.query_list} list"
    return _FINEST if parts.level in (None, finest) else f"level {parts.level}"


def _place(metric: str) -> tuple[int, int]:
    """The place of a metric within its group; unknown kinds keep their order."""
    parts = split_name(metric)
    kind = parts.family.kind if parts else ""
    if parts and kind in _OF_A_LEVEL and metric != "ASI":
        return _OF_A_LEVEL.index(kind), parts.cutoff or 0
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
    best = {metric: best_value(str(metric), means[metric]) for metric in means if len(means) > 1}
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
    head = ["recipe", "runs", *(escape_html(metric, quote=False).replace("|", r"\|") for metric in table.metrics)]
    rows = [head]
    for row in table.rows:
        name = markdown_text(row.name) if row.runs else f"*{markdown_text(row.name)}*"
        cells = [_shown(row.cells.get(metric), "–", "**%s**", str) for metric in table.metrics]
        rows.append([name, str(row.runs or ""), *cells])
    first, *rest = (f"| {' | '.join(cells)} |" for cells in rows)
    return "\n\n".join(
        ["\n".join([first, "|" + "---|" * len(head), *rest]), *(escape_html(note, quote=False) for note in table.notes)]
    )


def latex(table: ResultTable) -> str:
    r"""A ``tabular`` of booktabs, the notes as comments: ``\usepackage{booktabs}`` is all that it needs."""
    ends = accumulate(map(len, table.groups.values()), initial=2)
    rules = [rf"\cmidrule(lr){{{previous_end + 1}-{last}}}" for previous_end, last in pairwise(ends)]
    heads = [rf"\multicolumn{{{len(group)}}}{{c}}{{{escaped(title)}}}" for title, group in table.groups.items()]
    rows = [["", "", *heads], ["recipe", "runs", *map(escaped, table.metrics)]]
    for row in table.rows:
        name = escaped(row.name) if row.runs else rf"\quad\textit{{{escaped(row.name)}}}"
        cells = [_shown(row.cells.get(metric), "--", r"\textbf{%s}", escaped) for metric in table.metrics]
        rows.append([name, str(row.runs or ""), *cells])
    groups, metrics, *body = (" & ".join(cells) + r" \\" for cells in rows)
    lines = [
        r"% \usepackage{booktabs}",
        rf"\begin{{tabular}}{{lr{'c' * len(table.metrics)}}}",
        *(r"\toprule", groups, "".join(rules), metrics, r"\midrule", *body, r"\bottomrule"),
        r"\end{tabular}",
    ]
    return "\n".join([*lines, *(f"% {note}" for note in table.notes)])


def _shown(cell: TableCell | None, missing: str, bold: str, escape: Callable[[str], str]) -> str:
    """A cell with its marks in the syntax of a format."""
    if cell is None:
        return missing
    text = escape(cell.text)
    return (bold % text if cell.best else text) + (escape("†") if cell.differs else "")


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
