"""The result of an evaluation: a value per query and metric, means, and the conventions behind them."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

import hiertree
from hiertree.arrays import to_numpy
from hiertree.errors import OptionError, ShapeError, UnknownMetricError, nearest_name, require_package
from hiertree.evaluation_options import Labels
from hiertree.options import check_integer, check_number, require

from .conventions import Convention, parse_metrics

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

_DRAWS_AT_ONCE = 1 << 21
LATEX = {sign: rf"\{sign}" for sign in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "†": r"$^\dagger$",
    "–": "--",
    "—": "---",
}


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The values of every metric for every query.

    A metric that a query has no value for (it has no positive) is NaN in ``values`` and ``per_query()``, is left out of
    every mean and is counted in ``skipped``. A metric that *no* query has a value for is absent from ``summary()``.

    Attributes:
        names: M metric names.
        values: (Q, M) float64.
        query_ids: Q ids, the row names of ``per_query()``.
        convention: how the numbers were computed.
        query_paths: (Q, L) label ids of the queries, where the evaluation knows them.
        class_names: for each level the label of each id, where labels were text; None where ids are the labels.

    >>> from hiertree.metrics import evaluate
    >>> result = evaluate([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]], ["lake", "lake", "hill"], metrics=["AP", "R@1"])
    >>> result["AP"], result.skipped
    (1.0, {'AP': 1, 'R@1': 1})
    """

    names: tuple[str, ...]
    values: NDArray[np.float64]
    query_ids: Sequence[Any]
    convention: Convention
    query_paths: NDArray[np.int64] | None = None
    class_names: tuple[tuple[Hashable, ...], ...] | None = None

    __iter__ = None  # ``result["H-AP"]`` alone would make it a sequence

    def __getitem__(self, metric: str) -> float:
        """The mean of a metric over the queries that have a value.

        Raises:
            UnknownMetricError: it was not computed, or no query has a positive.
        """
        if metric not in self.names:
            similar_name = nearest_name(metric, self.names[::-1], cutoff=0.3)
            remedy = f"did you mean {similar_name!r}? Others are computed" if similar_name else "others are computed"
            remedy += " where metrics= names them"
            raise UnknownMetricError(f"metric {metric!r}", expected=f"one of {', '.join(self.names)}", remedy=remedy)
        if metric not in self:
            raise UnknownMetricError(f"{metric} of {len(self)} queries without positives", expected="a query with one")
        return self._means()[metric]

    def __contains__(self, metric: object) -> bool:
        return metric in self._columns()

    def __len__(self) -> int:
        return len(self.values)

    @property
    def has_values(self) -> bool:
        """Whether any query has a value for any metric; if none has, labels or masks are probably wrong."""
        return not np.isnan(self.values).all()

    @property
    def skipped(self) -> dict[str, int]:
        """How many queries have no value, for each metric."""
        return dict(zip(self.names, map(int, np.isnan(self.values).sum(axis=0)), strict=True))

    @property
    def level_names(self) -> tuple[str, ...] | None:
        """The names of the levels, where labels were given as a frame or a table."""
        return self.convention.level_names

    @property
    def has_classes(self) -> bool:
        """Whether the queries are known to be of several classes, over which intervals are drawn by default."""
        return self.query_paths is not None and bool((self.query_paths != self.query_paths[:1]).any())

    def summary(self) -> pd.Series[float]:
        """Mean of each metric over the queries that have a value; a metric that none has is absent."""
        import pandas as pd

        return pd.Series(self._means(), dtype=float)

    def per_query(self) -> pd.DataFrame:
        """One row per query, one column per metric; NaN where a query has no positive."""
        import pandas as pd

        table: pd.DataFrame = pd.DataFrame(
            self.values, columns=list(self.names), index=pd.Index(self.query_ids, name="query")
        )
        return table

    def by_level(self) -> pd.DataFrame:
        """One row per level, coarse → fine, one column per metric of one level; NaN where a level was not asked for.

        >>> from hiertree.metrics import evaluate
        >>> embeddings, paths = [[1.0, 0.0], [0.9, 0.1], [0.6, 0.8], [0.5, 0.9]], [(0, 0), (0, 1), (0, 0), (0, 1)]
        >>> evaluate(embeddings, paths, metrics=["AP[1]", "AP[2]", "R@1"]).by_level()["AP"].round(3).to_dict()
        {1: 1.0, 2: 0.417}
        """
        import pandas as pd

        num_levels = self.convention.num_levels
        names, means = [0, *(self.level_names or range(1, num_levels + 1))], self._means()
        columns: dict[str, dict[int, float]] = {}
        for metric in parse_metrics(self.names, num_levels=num_levels, of_codes=True):
            if metric.has_level:
                columns.setdefault(metric.name_without_level, {})[metric.level] = means.get(metric.name, np.nan)
        first = 0 if any(0 in column for column in columns.values()) else 1  # 0 of first-error: no level is shared
        table: pd.DataFrame = pd.DataFrame(columns, index=range(first, num_levels + 1), dtype=np.float64)
        table.index = pd.Index(names[first:], name="level")
        return table

    def by_class(self, *, level: int | str | None = None) -> pd.DataFrame:
        """One row per class of the queries: their number, and the mean of each metric over those that have a value.

        Queries whose class at that level is unknown are left out.

        Args:
            level: whose classes, by number (from 1) or by the name of its column; the finest unless given. Below the
                first level a class is named by its path, in an index of as many columns.

        Raises:
            OptionError: a level that does not exist, or a result that does not know its queries' labels.

        >>> from hiertree.metrics import evaluate
        >>> embeddings, labels = [[1.0, 0.0], [0.9, 0.1], [0.6, 0.8], [0.5, 0.9]], ["hill", "hill", "lake", "lake"]
        >>> evaluate(embeddings, labels, metrics=["AP"]).by_class().loc["lake"].to_dict()
        {'queries': 2.0, 'AP': 1.0}
        """
        import pandas as pd

        if self.query_paths is None:
            problem = "by_class of a result that does not know its queries' labels"
            expected = "a result of evaluate, evaluate_codes or evaluate_ranking of indices"
            raise OptionError(problem, expected=expected, remedy="group per_query() by labels of your own")
        depth, names = self._depth(level, self.query_paths.shape[1]), self.class_names
        has_class = self.query_paths[:, depth - 1] >= 0
        titles = self.level_names or [f"level {level}" for level in range(1, depth + 1)]
        keys = []
        for column, title in zip(range(depth), titles, strict=False):
            ids = self.query_paths[has_class, column]
            labels = ids if names is None else [names[column][node] for node in ids.tolist()]
            keys.append(pd.Series(labels, name=title))
        classes = self.per_query()[has_class].reset_index(drop=True).groupby(keys, sort=names is None)
        table: pd.DataFrame = classes.mean()
        table.insert(0, "queries", classes.size())
        return table

    def confidence_interval(
        self, *, clusters: Labels | None = None, confidence: float = 0.95, resamples: int = 1000, seed: int = 0
    ) -> pd.DataFrame:
        """Percentile bootstrap over clusters of queries: a row per metric, columns ``low``, ``high`` and ``clusters``.

        Queries of one class share their positives, so that their values vary together: whole classes are drawn, with
        replacement, as many as there are; each metric draws among those where some query has a value. The column
        ``clusters`` says how many that were; from few, an interval is too narrow, and from one there is none: NaN.

        Args:
            clusters: a label for each query, (Q,) or (Q, anything). Unless given, the finest class where the evaluation
                knows it (:func:`hiertree.metrics.evaluate` does) and there are several, else each query by itself; ask
                for the latter with ``clusters=range(len(result))``.
            confidence: between 0 and 1.
            resamples: how often the clusters are drawn anew.
            seed: of the draws.

        Raises:
            OptionError: ``confidence`` outside (0, 1), no resample, or a query without a cluster.
            ShapeError: ``clusters`` of another length.

        >>> from hiertree.metrics import evaluate_scores
        >>> result = evaluate_scores([[3, 2, 1], [2, 3, 1]], [[1, 0, 0], [1, 0, 0]], metrics=["AP"])
        >>> result.confidence_interval().loc["AP"].to_dict()
        {'low': 0.5, 'high': 1.0, 'clusters': 2.0}
        """
        import pandas as pd

        bounds = self._bounds(clusters, confidence=confidence, resamples=resamples, seed=seed)
        table: pd.DataFrame = pd.DataFrame([*bounds.values()], [*bounds], columns=["low", "high", "clusters"])
        return table

    def _bounds(
        self, clusters: Any = None, *, confidence: float = 0.95, resamples: int = 1000, seed: int = 0
    ) -> dict[str, tuple[float, float, int]]:
        """The rows of :meth:`confidence_interval`."""
        check_number("confidence", confidence)
        require(0 < confidence < 1, "confidence", float(confidence), "a number between 0 and 1")
        check_integer("resamples", resamples, least=1)
        check_integer("seed", seed, least=0)
        cluster_ids, tails = self._clusters(clusters), [(1 - float(confidence)) / 2, (1 + float(confidence)) / 2]
        has_value = ~np.isnan(self.values)
        rows: dict[str, tuple[float, float, int]] = {}
        patterns = {column.tobytes(): column for column in has_value.T if column.any()}
        for pattern in patterns.values():  # metrics defined for the same queries share draws
            columns = np.flatnonzero((has_value == pattern[:, None]).all(axis=0))
            query_clusters = cluster_ids[pattern]
            num_clusters = len(np.unique(query_clusters))
            means = bootstrap_means(
                self.values[np.ix_(pattern, columns)], query_clusters, resamples=resamples, seed=seed
            )
            bounds = np.quantile(means, tails, axis=0) if num_clusters > 1 else np.full((2, len(columns)), np.nan)
            for column, (low, high) in zip(columns, bounds.T, strict=True):
                rows[self.names[column]] = (float(low), float(high), num_clusters)
        return {name: rows[name] for name in self.names if name in rows}

    def as_dict(self) -> dict[str, Any]:
        """Means, skipped counts, number of queries, convention and version: what ``to_json`` writes."""
        return {
            "summary": self._means(),
            "skipped": self.skipped,
            "num_queries": len(self),
            "convention": self.convention.as_dict(),
            "hiertree": hiertree.__version__,
        }

    def to_json(self) -> str:
        """The result without its per-query values, as JSON text."""
        return json.dumps(self.as_dict(), indent=2, ensure_ascii=False, allow_nan=False)

    def plot(self) -> Figure:
        """One bar per metric with its 95 % confidence interval, as a matplotlib figure."""
        require_package("matplotlib", extra="plots")
        from matplotlib.figure import Figure

        means, bounds = self.summary(), self.confidence_interval()
        figure = Figure(figsize=(6, 0.8 + 0.3 * len(means)), layout="constrained")
        axes = figure.add_subplot()
        errors = [(means - bounds["low"]).clip(lower=0), (bounds["high"] - means).clip(lower=0)]
        axes.barh(list(means.index), means.to_numpy(), xerr=np.array(errors), color="tab:blue", capsize=3)
        axes.invert_yaxis()
        axes.set_xlim(0, 1)
        axes.set_xlabel(f"mean over queries (of {len(self)})")
        return figure

    def __str__(self) -> str:
        means, width = self._means(), max(map(len, self.names))
        rows = [
            f"{name:<{width}}  "
            + (f"{means[name]:.4f}" if name in means else f"{'—':>6}")
            + (f"  ({skipped} of {len(self)} queries without a value)" if skipped else "")
            for name, skipped in self.skipped.items()
        ]
        return "\n".join([*rows, "", str(self.convention)])

    def to_latex(self) -> str:
        """A ``tabular`` of means, their 95 % intervals and skipped queries, for a paper with booktabs."""
        return as_latex(*self.table())

    def to_markdown(self) -> str:
        """The same table in Markdown.

        >>> from hiertree.metrics import evaluate
        >>> print(evaluate([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]], [0, 0, 1], metrics=["AP", "R@1"]).to_markdown())
        | metric | mean | 95 % interval | skipped |
        |---|---:|---:|---:|
        | AP | 1.0000 | — | 1 |
        | R@1 | 1.0000 | — | 1 |
        """
        return as_markdown(*self.table())

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        cells = [(escape(name), escape(text)) for name, text in self.convention.rows().items()]
        card = "".join(f"<tr><th>{name}</th><td>{text}</td></tr>" for name, text in cells)
        return f"{as_html(*self.table())}\n<details><summary>Conventions</summary><table>{card}</table></details>"

    def table(self, *, percent: bool = False) -> tuple[Sequence[str], list[list[str]]]:
        """Heads and rows of cells: means and intervals of four digits, or in percent of two, and skipped queries."""
        means, bounds, skipped, rows = self._means(), self._bounds(), self.skipped, []
        scale, digits, unit, dash = (100, 2, ", %", "…") if percent else (1, 4, "", "–")
        for name in self.names:
            low, high, _ = bounds.get(name, (np.nan, np.nan, 0))
            mean = f"{scale * means[name]:.{digits}f}" if name in means else "—"
            interval = "—" if np.isnan(low) else f"{scale * low:.{digits}f} {dash} {scale * high:.{digits}f}"
            rows.append([name, mean, interval, str(skipped[name] or "")])
        return ("metric", f"mean{unit}", "95 % interval", "skipped"), rows

    def _depth(self, level: int | str | None, num_levels: int) -> int:
        """The number of a level, 1 … L, from its number or name; the finest by default."""
        if isinstance(level, str):
            names = list(self.level_names or ())
            if level not in names:
                raise OptionError(f"level={level!r}", expected=", ".join([*names, "its number"]))
            return names.index(level) + 1
        check_integer("level", level, or_none=True)
        depth = num_levels if level is None else int(level)
        require(depth <= num_levels, "level", depth, f"a level between 1 (coarsest) and {num_levels} (finest)")
        return depth

    def _means(self) -> dict[str, float]:
        return {name: float(column.mean()) for name, column in self._columns().items()}

    def _clusters(self, clusters: Any) -> NDArray[np.int64]:
        """The cluster of each query: as requested, or its class."""
        if clusters is not None:
            return cluster_numbers(clusters, len(self))
        return cluster_numbers(self.query_paths, len(self)) if self.has_classes else np.arange(len(self))

    def _columns(self) -> dict[str, NDArray[np.float64]]:
        """For each metric with a value, the values of the queries that have one."""
        columns = {name: column[~np.isnan(column)] for name, column in zip(self.names, self.values.T, strict=True)}
        return {name: column for name, column in columns.items() if len(column)}


def cluster_numbers(clusters: Any, num_queries: int) -> NDArray[np.int64]:
    """The cluster number of each query, from 0; equal rows form a cluster."""
    labels = to_numpy(clusters)
    if labels.ndim not in (1, 2) or len(labels) != num_queries:
        raise ShapeError(f"clusters of shape {labels.shape}", expected=f"a label for each of {num_queries} queries")
    if labels.dtype.kind not in "biu":
        import pandas as pd

        is_text = labels.dtype.kind in "US" and not isinstance(clusters, np.ndarray)  # also for None and NaN
        missing = np.argwhere(pd.isna(np.array(clusters, dtype=object) if is_text else labels))
        if len(missing):
            raise OptionError(f"clusters without a label in row {missing[0][0]}", expected="one per query")
        if labels.ndim == 2 and labels.dtype.kind == "O":  # numpy does not sort rows of objects
            labels = pd.MultiIndex.from_arrays([*labels.T]).factorize()[0]
    try:
        cluster_ids: NDArray[np.int64] = np.unique(labels, axis=0 if labels.ndim == 2 else None, return_inverse=True)[1]
    except TypeError as error:
        raise OptionError(f"clusters: {error}", expected="labels of one type, text or numbers") from None
    return cluster_ids.reshape(-1)


def bootstrap_means(
    values: NDArray[np.float64], clusters: NDArray[np.int64], *, resamples: int, seed: int
) -> NDArray[np.float64]:
    """(resamples, M) means of values (n, M) without NaN, over clusters drawn with replacement, as many as there are."""
    cluster_ids = np.unique(clusters, return_inverse=True)[1]
    sizes = np.bincount(cluster_ids)
    sums = np.stack([np.bincount(cluster_ids, weights=column) for column in values.T], axis=1)
    random = np.random.default_rng(seed)
    means = np.empty((resamples, values.shape[1]))
    step = max(_DRAWS_AT_ONCE // len(sizes), 1)
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        draws = random.integers(0, len(sizes), (stop - start, len(sizes)))
        times = np.stack([np.bincount(row, minlength=len(sizes)) for row in draws]).astype(np.float64)
        means[start:stop] = (times @ sums) / (times @ sizes)[:, None]
    return means


def as_latex(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A ``tabular`` with rules of booktabs; signs of LaTeX stand for themselves, and ``**…**`` is bold."""
    lines = [" & ".join(_latex(cell) for cell in row) + r" \\" for row in (heads, *rows)]
    columns = "l" + "r" * (len(heads) - 1)
    begin, end = rf"\begin{{tabular}}{{{columns}}}", r"\end{tabular}"
    return "\n".join([begin, r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule", end])


def _latex(cell: str) -> str:
    text = "".join(LATEX.get(sign, sign) for sign in cell.strip("*"))
    return rf"\textbf{{{text}}}" if cell.startswith("**") else text


def as_markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = ["| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in (heads, *rows)]
    return "\n".join([lines[0], "|---" + "|---:" * (len(heads) - 1) + "|", *lines[1:]])


def as_html(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of HTML; ``**…**`` is bold."""
    body = "".join("<tr>" + "".join(map(_html, row)) + "</tr>" for row in rows)
    return f"<table><tr>{''.join(f'<th>{escape(head)}</th>' for head in heads)}</tr>{body}</table>"


def _html(cell: str) -> str:
    text = escape(cell.strip("*"))
    return f"<td><b>{text}</b></td>" if cell.startswith("**") else f"<td>{text}</td>"
