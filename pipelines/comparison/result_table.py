"""The table of a comparison, whatever its format: rows of means, in percent, and columns in the papers' order.

Papers group columns by what they measure: the finest level first (R@k, mAP@R, AP), then each coarser level, then the
hierarchy as a whole (H-AP, ASI, NDCG).

>>> [(group.title, group.metrics) for group in groups_of(["H-AP", "NDCG", "ASI", "AP[1]", "AP[2]", "R@1"])]
[('finest level', ('R@1', 'AP[2]')), ('level 1', ('AP[1]',)), ('hierarchy', ('H-AP', 'ASI', 'NDCG'))]
>>> [(group.title, group.metrics) for group in groups_of(["mean AP", "AP[fine]", "R@1[fine]", "AP[coarse]"])]
[('fine list', ('R@1[fine]', 'AP[fine]')), ('coarse list', ('AP[coarse]',)), ('mean over levels', ('mean AP',))]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..report import has_a_best
from ..training.recipe.built_in import PublishedRow, published_rows
from .planned_runs import Settings, row_name, setting_text
from .significance import SIGNIFICANT

if TYPE_CHECKING:
    import pandas as pd

_OF_A_LEVEL = re.compile(r"(?P<kind>AP|ASI|R|TR|P|mAP)(@R|@(?P<cutoff>\d+))?(\[(?P<level>[^\]]+)\])?")
_OF_THE_TREE = ("H-AP", "ASI", "NDCG")
_KINDS = ("R", "TR", "P", "mAP", "AP", "ASI")
_FINEST, _TREE, _MEANS, _OTHERS = "finest level", "hierarchy", "mean over levels", "others"


@dataclass(frozen=True)
class TableCell:
    """A number of the table.

    Attributes:
        mean: over seeds, in percent.
        deviation: the sample standard deviation over seeds; None for one run.
        best: whether no other row, except published ones, has a larger mean.
        differs: whether it differs significantly from the reference.
        difference: of a published value: ours less this one, in percentage points; None where ours has several rows.
    """

    mean: float
    deviation: float | None = None
    best: bool = False
    differs: bool = False
    difference: float | None = None

    @property
    def text(self) -> str:
        """Mean ± deviation; of a published value, the difference to ours in parentheses."""
        shown = f"{self.mean:.1f}" if self.deviation is None else f"{self.mean:.1f} ± {self.deviation:.1f}"
        return shown if self.difference is None else f"{shown} ({self.difference:+.1f})".replace("-", "−")


@dataclass(frozen=True)
class TableRow:
    """A row of the table: recipe and settings with the number of runs, or where it was published and None.

    Cells are by metric; a metric that the row lacks is absent.
    """

    name: str
    runs: int | None
    cells: Mapping[str, TableCell]


@dataclass(frozen=True)
class ColumnGroup:
    """Columns under one heading."""

    title: str
    metrics: tuple[str, ...]


@dataclass(frozen=True)
class ResultTable:
    """Groups of columns, rows, and notes below them."""

    groups: tuple[ColumnGroup, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...] = ()

    @property
    def metrics(self) -> tuple[str, ...]:
        """All columns."""
        return tuple(metric for group in self.groups for metric in group.metrics)


def runs_table(rows: Sequence[tuple[str, Settings, int, Mapping[str, float]]]) -> pd.DataFrame:
    """The table of runs: columns ``recipe``, one for each key of the grid, ``seed``, and one for each metric.

    A key whose values are not all numbers holds texts.

    >>> runs_table([("a", {"loss.tau": 0.1}, 0, {"H-AP": 0.5})]).to_dict("records")
    [{'recipe': 'a', 'loss.tau': 0.1, 'seed': 0, 'H-AP': 0.5}]
    """
    import pandas as pd

    keys = list(rows[0][1])
    numeric = {key: all(_is_number(settings[key]) for _, settings, _, _ in rows) for key in keys}
    listed: list[dict[str, Any]] = []
    for recipe, settings, seed, metrics in rows:
        cells = {key: value if numeric[key] else setting_text(value) for key, value in settings.items()}
        listed.append({"recipe": recipe, **cells, "seed": seed, **metrics})
    table: pd.DataFrame = pd.DataFrame(listed)
    return table


def grid_keys(runs: pd.DataFrame) -> list[str]:
    """The keys of the grid: the columns between ``recipe`` and ``seed``."""
    columns = list(runs.columns)
    return columns[columns.index("recipe") + 1 : columns.index("seed")]


def metric_names(runs: pd.DataFrame) -> list[str]:
    """The metrics: the columns after ``seed``."""
    columns = list(runs.columns)
    return columns[columns.index("seed") + 1 :]


def row_names(runs: pd.DataFrame, *, without: str | None = None) -> list[str]:
    """The name of each run's row: its recipe, and its settings except the key left out.

    >>> import pandas as pd
    >>> row_names(pd.DataFrame({"recipe": ["a", "a"], "loss.tau": [0.1, 1.0], "seed": [0, 0], "H-AP": [0.5, 0.6]}))
    ['a, loss.tau=0.1', 'a, loss.tau=1']
    """
    keys = [key for key in grid_keys(runs) if key != without]
    columns = [runs[key].tolist() for key in ("recipe", *keys)]
    return [row_name(str(name), dict(zip(keys, own, strict=True))) for name, *own in zip(*columns, strict=True)]


def varied_number(runs: pd.DataFrame) -> str | None:
    """The one key of the grid that takes three or more numbers; None where none does, or several do."""
    from pandas.api.types import is_numeric_dtype

    found = [key for key in grid_keys(runs) if is_numeric_dtype(runs[key]) and runs[key].nunique() >= 3]
    return found[0] if len(found) == 1 else None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


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
    rows: list[TableRow] = []
    papers: list[str] = []
    labels, recipes = row_names(runs), runs["recipe"].tolist()
    recipe_of = dict(zip(labels, recipes, strict=True))
    ours = _rows(runs, labels, tests)
    for recipe in dict.fromkeys(recipes):
        own = [row for row in ours if recipe_of[row.name] == recipe]
        rows += own
        for found in published_rows(recipe) if published else ():
            rows.append(_published_row(found, own[0].cells if len(own) == 1 else {}))
            papers += [f"{found.paper}.", *found.remarks]
    shown = dict.fromkeys(metric for row in rows for metric in row.cells)
    explained = ["In parentheses beside a published value: ours less theirs."] if papers else []
    below = (*notes, *explained, *dict.fromkeys(papers))
    return ResultTable(tuple(groups_of(shown, num_levels=num_levels)), tuple(rows), below)


def groups_of(metrics: Iterable[str], *, num_levels: int | None = None) -> list[ColumnGroup]:
    """The metrics in groups, in the order of papers."""
    names = list(metrics)
    levels = [level for name in names if (level := _level(name))]
    finest = num_levels or max((int(level) for level in levels if level.isdigit()), default=1)
    coarser = (f"level {level}" for level in range(finest - 1, 0, -1))
    lists = (_list(level) for level in levels if not level.isdigit())
    grouped: dict[str, list[str]] = {title: [] for title in (_FINEST, *coarser, *lists, _TREE, _MEANS, _OTHERS)}
    for name in names:
        title = _title(name, finest)
        grouped[title if title in grouped else _OTHERS].append(name)
    return [ColumnGroup(title, tuple(sorted(own, key=_place))) for title, own in grouped.items() if own]


def _level(metric: str) -> str | None:
    """What a metric has in brackets: a level, or one of several lists of queries."""
    found = _OF_A_LEVEL.fullmatch(metric)
    return found["level"] if found else None


def _list(name: str) -> str:
    return f"{name} list"


def _title(metric: str, finest: int) -> str:
    if metric.startswith("mean "):
        return _MEANS
    if metric == "ASI" or metric.startswith(("H-AP", "NDCG")):
        return _TREE
    if not _OF_A_LEVEL.fullmatch(metric):
        return _OTHERS
    level = _level(metric) or str(finest)
    if not level.isdigit():
        return _list(level)
    return _FINEST if int(level) == finest else f"level {level}"


def _place(metric: str) -> tuple[int, int]:
    """Where a metric stands within its group; those of no known kind keep their order."""
    found = _OF_A_LEVEL.fullmatch(metric.removeprefix("mean "))
    if found and metric != "ASI":
        return _KINDS.index(found["kind"]), int(found["cutoff"] or 0)
    return next((number for number, kind in enumerate(_OF_THE_TREE) if metric.startswith(kind)), len(_OF_THE_TREE)), 0


def _published_row(found: PublishedRow, ours: Mapping[str, TableCell]) -> TableRow:
    cells = {}
    for metric, value in found.percent.items():
        mean = ours[metric].mean if metric in ours else None
        cells[metric] = TableCell(value, difference=found.difference(metric, mean))
    return TableRow(f"published [{found.source}]", None, cells)


def _rows(runs: pd.DataFrame, labels: list[str], tests: pd.DataFrame | None) -> list[TableRow]:
    metrics = metric_names(runs)
    grouped = runs[metrics].groupby(labels, sort=False)
    means, deviations, counts = 100 * grouped.mean(), 100 * grouped.std(), grouped.count()
    differing: set[tuple[str, str]] = set()
    if tests is not None:
        significant = tests[tests["p_holm"] < SIGNIFICANT]
        differing = set(zip(significant["row"], significant["metric"], strict=True))
    best = {metric: means[metric].max() for metric in metrics if has_a_best(metric) and len(means) > 1}
    rows = []
    for name, size in grouped.size().items():
        cells = {}
        for metric in metrics:
            mean, number = float(means.loc[name, metric]), int(counts.loc[name, metric])
            if number:
                deviation = float(deviations.loc[name, metric]) if number > 1 else None
                cells[metric] = TableCell(mean, deviation, mean == best.get(metric), (str(name), metric) in differing)
        rows.append(TableRow(str(name), int(size), cells))
    return rows
