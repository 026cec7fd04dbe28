"""Comparing systems: paired randomization tests on per-query values, corrected for their number; DyML's mean.

Under the null hypothesis two systems are exchangeable query by query: the sign of each difference is the toss of
a coin. The p-value is the share of sign patterns whose mean difference is at least as large as the one observed. It is
never 0: the observed pattern is one of them.

Fisher, *The Design of Experiments*, 1935; Smucker, Allan and Carterette, *A Comparison of Statistical Significance
Tests for Information Retrieval Evaluation*, CIKM 2007; Holm, *Scandinavian Journal of Statistics* 6, 1979.

>>> paired_randomization_test([0.9, 0.8, 0.7, 0.9, 0.6], [0.5, 0.6, 0.6, 0.4, 0.3])
0.0625
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hiertree.arrays import check_same_rows, to_numpy
from hiertree.errors import OptionError, ShapeError
from hiertree.evaluation_options import ArrayLike, Labels
from hiertree.options import check_choice, check_integer

from .conventions import improves_downward, strip_brackets
from .result import Evaluation, as_html, as_latex, as_markdown, cluster_numbers

if TYPE_CHECKING:
    import pandas as pd
    from narwhals.typing import IntoSeries
    from numpy.typing import NDArray

__all__ = ["SystemComparison", "compare_systems", "holm", "paired_randomization_test"]

Alternative = Literal["two-sided", "greater", "less"]
_MOST_EXACT = 20  # differences, 2^20 sign patterns
_SIGNS_AT_ONCE = 1 << 22
_ROUNDING = 1e-12
_LARGE = 512  # an exponent of two


def paired_randomization_test(
    first: ArrayLike | IntoSeries,
    second: ArrayLike | IntoSeries,
    *,
    alternative: Alternative = "two-sided",
    clusters: Labels | None = None,
    resamples: int = 10_000,
    seed: int = 0,
) -> float:
    """The p-value of the paired randomization test of two systems' values on the same queries.

    With at most 20 differences other than 0 all sign patterns are counted, and the p-value is exact. With more,
    ``resamples`` patterns are drawn, and it is (1 + patterns as extreme) / (1 + resamples).

    Args:
        first: (Q,) finite values of one system; a query for which either has NaN (no value) is left out.
        second: (Q,) values of the other, of the same queries in the same order.
        alternative: ``"two-sided"``, or that the first is ``"greater"`` or ``"less"``.
        clusters: a label for each query; the differences of one cluster change their signs together. Unless given
            each query by itself.
        resamples: how many sign patterns are drawn.
        seed: of the draws.

    Returns:
        A number in (0, 1].

    Raises:
        ShapeError: values that are not (Q,) both, or clusters of another length.
        OptionError: no query with two values, an infinite one, two series whose indexes name other queries or order
            them otherwise, an unknown alternative, or no resample.

    >>> paired_randomization_test([1.0, 1.0, 1.0], [0.0, 0.0, 0.0], alternative="greater")
    0.125
    """
    check_choice("alternative", alternative, Alternative)
    check_integer("resamples", resamples, least=1)
    check_integer("seed", seed, least=0)
    differences = _differences(first, second, clusters)
    observed = float(differences.sum())
    differences = differences[differences != 0]
    exact = len(differences) <= _MOST_EXACT
    sums = _all_sums(differences) if exact else _draw_sums(differences, resamples, np.random.default_rng(seed))
    slack = _ROUNDING * float(np.abs(differences).sum())
    if alternative == "two-sided":
        extreme = np.abs(sums) >= abs(observed) - slack
    else:
        extreme = sums >= observed - slack if alternative == "greater" else sums <= observed + slack
    num_extreme = int(np.count_nonzero(extreme))
    return num_extreme / len(sums) if exact else (1 + num_extreme) / (1 + len(sums))


def holm(p_values: ArrayLike | IntoSeries) -> NDArray[np.float64]:
    """Holm's correction of m p-values: the i-th smallest times m − i + 1, never below a smaller one's, at most 1.

    Args:
        p_values: (m,) numbers in [0, 1].

    Returns:
        (m,) adjusted p-values, in the given order. Rejecting those ≤ α keeps the chance of any false rejection ≤ α.

    Raises:
        OptionError: not (m,), or a number outside [0, 1].

    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    raw_p_values = _numbers(p_values, "p_values")
    if raw_p_values.ndim != 1 or not ((raw_p_values >= 0) & (raw_p_values <= 1)).all():
        raise OptionError(f"p-values {raw_p_values.tolist()}", expected="a list of numbers from 0 to 1")
    order = np.argsort(raw_p_values, kind="stable")
    adjusted = np.empty_like(raw_p_values)
    adjusted[order] = np.maximum.accumulate(raw_p_values[order] * np.arange(len(raw_p_values), 0, -1)).clip(max=1.0)
    return adjusted


@dataclass(frozen=True, eq=False)
class SystemComparison:
    """Systems side by side.

    Attributes:
        tests: one row per metric and pair, with columns ``metric``, ``first``, ``second``, ``queries`` (where both have
            a value), ``difference`` (mean of the first less that of the second over them), ``p`` and ``p_holm``,
            corrected over the pairs of that metric. A metric that no query has for a pair has no row.
        means: one row per system, one column per metric.
        num_levels: L.
        significance: below it a ``p_holm`` marks a system that differs from the first one, by †.
    """

    tests: pd.DataFrame
    means: pd.DataFrame
    num_levels: int
    significance: float = 0.05

    def to_latex(self) -> str:
        """A ``tabular`` of the means, the best in bold and † where a system differs from the first."""
        return as_latex(*self._table())

    def to_markdown(self) -> str:
        """The same in Markdown."""
        return as_markdown(*self._table())

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return as_html(*self._table())

    def __str__(self) -> str:
        return self.to_markdown()

    def _table(self) -> tuple[Sequence[str], list[list[str]]]:
        """Heads and rows of cells."""
        first, metrics = self.means.index[0], list(self.means.columns)
        significant = self.tests[(self.tests["first"] == first) & (self.tests["p_holm"] < self.significance)]
        marked = set(zip(significant["second"], significant["metric"], strict=True))
        is_lower = [improves_downward(metric, num_levels=self.num_levels) for metric in metrics]
        best = [
            min(column) if lower else max(column)
            for column, lower in zip(self.means.to_numpy().T, is_lower, strict=True)
        ]
        rows = []
        for system, values in zip(self.means.index, self.means.to_numpy(), strict=True):
            cells = []
            for metric, value, best_value in zip(metrics, values, best, strict=True):
                cell = f"{value:.4f}{'†' * ((system, metric) in marked)}"
                cells.append(f"**{cell}**" if value == best_value else cell)
            rows.append([str(system), *cells])
        return ("system", *metrics), rows


def compare_systems(
    systems: Mapping[str, Evaluation],
    *,
    metrics: str | Iterable[str] | None = None,
    clusters: Labels | None = None,
    resamples: int = 10_000,
    seed: int = 0,
) -> SystemComparison:
    """Compare every pair of systems on every metric by the paired randomization test.

    Args:
        systems: evaluations of the same queries, by name.
        metrics: one name or several; those that all systems have, unless given.
        clusters: as :func:`paired_randomization_test` takes them.
        resamples: likewise.
        seed: likewise.

    Returns:
        The tests as a frame, and the means as a table for LaTeX, Markdown or a notebook.

    Raises:
        OptionError: fewer than two systems, other queries, other conventions (levels, ties, rules, or for H-AP the
            relevance), or a metric that a system lacks.

    >>> from hiertree.metrics import evaluate_scores
    >>> levels = [[1, 0, 0]] * 6
    >>> good = evaluate_scores([[3, 2, 1]] * 6, levels, metrics=["AP"])
    >>> poor = evaluate_scores([[2, 3, 1]] * 6, levels, metrics=["AP"])
    >>> comparison = compare_systems({"good": good, "poor": poor})
    >>> print(comparison)
    | system | AP |
    |---|---:|
    | good | **1.0000** |
    | poor | 0.5000† |
    >>> comparison.tests
      metric first second  queries  difference        p   p_holm
    0     AP  good   poor        6         0.5  0.03125  0.03125
    """
    import pandas as pd

    names = _shared_metrics(systems, metrics)
    tables = {name: system.per_query() for name, system in systems.items()}
    tests = []
    for metric in names:
        rows = []
        for first, second in combinations(systems, 2):
            values = [tables[name][metric].to_numpy() for name in (first, second)]
            difference = (values[0] - values[1])[~np.isnan(values).any(axis=0)]
            if len(difference):
                p = paired_randomization_test(*values, clusters=clusters, resamples=resamples, seed=seed)
                rows.append((metric, first, second, len(difference), float(difference.mean()), p))
        corrected = holm([row[-1] for row in rows])
        tests += [(*row, adjusted) for row, adjusted in zip(rows, corrected.tolist(), strict=True)]
    columns = ["metric", "first", "second", "queries", "difference", "p", "p_holm"]
    means = pd.DataFrame({name: system.summary() for name, system in systems.items()}).reindex(names).T
    num_levels = next(iter(systems.values())).convention.num_levels
    return SystemComparison(pd.DataFrame(tests, columns=columns), means, num_levels)


def overall(results: Evaluation | Mapping[str, Evaluation]) -> pd.Series[float]:
    """The unweighted mean of each metric over benchmarks and levels, DyML's "overall".

    DyML-Vehicle and -Animal have one query set and gallery for each level: give the three results by name. For
    DyML-Product give the one result, whose columns ``AP[1]``, ``AP[2]``, … become ``AP``.

    Args:
        results: one evaluation, or several of the same metrics by the name of their benchmark.

    Returns:
        A mean for each metric, its level taken off the name.

    Raises:
        OptionError: no result, results of different metrics, or a metric that some benchmark has no value for.

    >>> from hiertree.metrics import evaluate
    >>> embeddings, fine = [[1.0, 0.0], [0.9, 0.1], [0.2, 0.8], [0.0, 1.0]], [0, 0, 1, 1]
    >>> results = {
    ...     "fine": evaluate(embeddings, fine, protocol="dyml"),
    ...     "coarse": evaluate(embeddings, [0, 1, 0, 1], protocol="dyml"),
    ... }
    >>> overall(results).round(3).to_dict()
    {'AP': 0.708, 'ASI': 0.5, 'R@1': 0.5, 'R@10': 1.0, 'R@20': 1.0}
    """
    import pandas as pd

    results_by_name: Any = {"the result": results} if isinstance(results, Evaluation) else results
    if not isinstance(results_by_name, Mapping) or not all(
        isinstance(result, Evaluation) for result in results_by_name.values()
    ):
        raise OptionError(f"results of type {type(results).__name__}", expected="an evaluation, or several by name")
    if not results_by_name or len({result.names for result in results_by_name.values()}) > 1:
        raise OptionError(f"{len(results_by_name)} results", expected="at least one, and all of the same metrics")
    means: dict[str, list[float]] = {}
    for name, result in results_by_name.items():
        summary = result.summary()
        for metric in result.names:
            if metric not in summary:
                raise OptionError(f"{metric} of {name} without a value", expected="at least one query with a positive")
            means.setdefault(strip_brackets(metric), []).append(float(summary[metric]))
    return pd.Series({metric: sum(values) / len(values) for metric, values in means.items()}, dtype=float)


def _differences(first: Any, second: Any, clusters: Any) -> NDArray[np.float64]:
    """The differences whose signs are drawn: those of queries, or their sums over clusters."""
    check_same_rows({"first": first, "second": second})
    values = [_numbers(first, "first"), _numbers(second, "second")]
    if values[0].ndim != 1 or values[0].shape != values[1].shape:
        raise ShapeError(f"values of shapes {values[0].shape} and {values[1].shape}", expected="(Q,) both")
    for name, system_values in zip(("first", "second"), values, strict=True):
        if np.isinf(system_values).any():
            raise OptionError(
                f"{name} is infinite at query {np.isinf(system_values).argmax()}", expected="finite values, or NaN"
            )
    exponent = max(
        int(np.frexp(np.max(np.abs(system_values), initial=0.0, where=~np.isnan(system_values)))[1])
        for system_values in values
    )
    if exponent > _LARGE:  # avoids overflow; scaling by a power of two changes no comparison
        values = [np.ldexp(system_values, -exponent) for system_values in values]
    differences = values[0] - values[1]
    has_both = ~np.isnan(differences)
    if not has_both.any():
        raise OptionError(f"{len(differences)} queries, none with two values", expected="at least one")
    if clusters is None:
        return differences[has_both]
    sums = np.bincount(cluster_numbers(clusters, len(values[0]))[has_both], weights=differences[has_both])
    return sums.astype(np.float64)


def _numbers(values: Any, name: str) -> NDArray[np.float64]:
    if isinstance(values, Evaluation):
        remedy = "call per_query()['H-AP']"
        raise OptionError(f"{name} is an Evaluation", expected="values of one metric", remedy=remedy)
    array = to_numpy(values, name=name)
    if array.dtype.kind not in "fiub":
        raise OptionError(f"{name} of type {array.dtype}", expected="real numbers")
    return array.astype(np.float64)


def _all_sums(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sums under every sign pattern."""
    sums = np.zeros(1)
    for difference in differences:
        sums = np.concatenate([sums + difference, sums - difference])
    return sums


def _draw_sums(differences: NDArray[np.float64], resamples: int, random: np.random.Generator) -> NDArray[np.float64]:
    """The sums under random sign patterns: twice the sum of the kept differences minus the total."""
    sums = np.empty(resamples)
    width = -(-len(differences) // 8)
    step = max(_SIGNS_AT_ONCE // (8 * width), 1)
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        coins = np.frombuffer(random.bytes((stop - start) * width), np.uint8).reshape(-1, width)
        keep_mask = np.unpackbits(coins, axis=1, count=len(differences)).astype(np.float64)
        sums[start:stop] = 2.0 * (keep_mask @ differences) - differences.sum()
    return sums


def _shared_metrics(systems: Mapping[str, Any], metrics: str | Iterable[str] | None) -> list[str]:
    if not isinstance(systems, Mapping):
        raise OptionError(f"systems as a {type(systems).__name__}", expected="a mapping from names to evaluations")
    evaluations = list(systems.values())
    if len(evaluations) < 2:
        raise OptionError(f"systems {', '.join(systems) or 'none'}", expected="at least two")
    for name, evaluation in systems.items():
        if not isinstance(evaluation, Evaluation):
            remedy = "to compare values of one metric call paired_randomization_test"
            problem = f"system {name!r} is a {type(evaluation).__name__}"
            raise OptionError(problem, expected="what evaluate returns", remedy=remedy)
        if list(evaluation.query_ids) != list(evaluations[0].query_ids):
            raise OptionError(f"system {name!r} with other queries", expected="the queries of the first, in its order")
    common = [name for name in evaluations[0].names if all(name in result.names for result in evaluations)]
    metric_names = common if metrics is None else [metrics] if isinstance(metrics, str) else list(metrics)
    missing = [name for name in metric_names if name not in common]
    if missing or not metric_names:
        raise OptionError(f"metrics {', '.join(missing) or 'none'}", expected=f"those of all systems: {common}")
    weighted = any(strip_brackets(metric) == "H-AP" for metric in metric_names)
    (first, reference), *other_systems = systems.items()
    for name, system in other_systems:
        for field in ["num_levels", "ties", "rules"] + ["relevance"] * weighted:
            reference_value, system_value = getattr(reference.convention, field), getattr(system.convention, field)
            if reference_value != system_value:
                problem = f"systems of different {field}: {first!r} has {reference_value}, {name!r} {system_value}"
                raise OptionError(problem, expected="one convention; evaluate all systems alike")
    return metric_names
