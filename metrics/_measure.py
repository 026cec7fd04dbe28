"""From sorted keys to the values of the metrics asked for: which kernel serves which name, and what divides it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from hiertree import relevance as relevances
from hiertree.errors import OptionError
from hiertree.metrics._names import Metric, default_names, parse_metrics

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.metrics._ranked import Ranked, Ties

Relevance: TypeAlias = "Callable[[NDArray[np.int64]], NDArray[np.float64]]"
WHOLE_LIST = 2**31 - 1


@dataclass(frozen=True)
class Plan:
    """What to compute, settled before any score is.

    Attributes:
        metrics: the metrics, in the order of the columns.
        num_levels: L.
        relevance: counts (Q, L+1) → table (Q, L+1), for ``H-AP``.
        relevance_name: what the convention card calls it.
        ties: the policy for equal scores.
        extra_finest: added to |Ω^(L)| before the relevance is taken: 1 where the query itself counts.
    """

    metrics: tuple[Metric, ...]
    num_levels: int
    relevance: Relevance
    relevance_name: str
    ties: Ties
    extra_finest: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the result."""
        return tuple(metric.name for metric in self.metrics)

    def table(self, metric: Metric, totals: NDArray[np.int64]) -> NDArray[np.float64]:
        """Relevance of each level for each query, as an H-AP asks for."""
        counts = totals.copy()
        counts[:, -1] += self.extra_finest
        relevance = self.relevance if metric.alpha is None else partial(relevances.hap, alpha=metric.alpha)
        return _checked_table(relevance(counts), counts.shape)


def plan(
    metrics: Iterable[str] | None,
    *,
    num_levels: int,
    alpha: float,
    relevance: Relevance | None,
    ties: Ties,
    extra_finest: int = 0,
) -> Plan:
    """Check the options that every entrance shares."""
    from hiertree.metrics._ranked import check_ties

    check_ties(ties)
    if relevance is not None and alpha != 1.0:
        raise OptionError(f"alpha={alpha} beside relevance=", expected="one of the two")
    parsed = parse_metrics(default_names(num_levels) if metrics is None else metrics, num_levels=num_levels)
    chosen = partial(relevances.hap, alpha=alpha) if relevance is None else relevance
    settled = Plan(parsed, num_levels, chosen, _name(chosen), ties, extra_finest)
    settled.table(Metric("H-AP", "H-AP"), np.ones((1, num_levels + 1), np.int64))  # a bad relevance or alpha fails here
    return settled


def measure(keys: NDArray[np.uint64], totals: NDArray[np.int64], plan: Plan) -> NDArray[np.float64]:
    """Values of the metrics for r queries.

    Args:
        keys: (r, N) sorted keys (see :mod:`hiertree.metrics._ranked`).
        totals: (r, L+1) items per level that the gallery holds, ranked or not.
        plan: what to compute.

    Returns:
        (r, M) float64, NaN where a query has no positive for a metric.
    """
    from hiertree.metrics._ranked import ranked_positives

    by_level = np.tile(np.arange(plan.num_levels + 1.0), (len(keys), 1))
    ranked = ranked_positives(keys, ties=plan.ties, preference=by_level)
    at_least = np.cumsum(totals[:, ::-1], axis=1)[:, ::-1]
    values = np.empty((len(keys), len(plan.metrics)))
    for column, metric in enumerate(plan.metrics):
        if metric.kind == "H-AP":
            values[:, column] = _h_ap(keys, ranked, totals, plan.table(metric, totals), plan.ties)
        elif metric.kind == "NDCG":
            values[:, column] = _ndcg(ranked, totals, metric.cutoff or WHOLE_LIST, plan.ties == "paper", keys.shape[1])
        elif metric.kind == "ASI":
            values[:, column] = _asi(ranked, totals, plan.ties == "paper")
        elif metric.kind in ("R", "TR", "P"):
            values[:, column] = _top_k(ranked, at_least[:, metric.level], metric, plan.ties == "paper")
        else:
            values[:, column] = _average_precision(ranked, at_least[:, metric.level], metric, plan.ties == "paper")
    return values


def _h_ap(
    keys: NDArray[np.uint64], ranked: Ranked, totals: NDArray[np.int64], table: NDArray[np.float64], ties: Ties
) -> NDArray[np.float64]:
    from hiertree.metrics._precision import hierarchical_sums
    from hiertree.metrics._ranked import ranked_positives

    if ties in ("worst", "best") and (np.diff(table, axis=1) < 0).any():
        ranked = ranked_positives(keys, ties=ties, preference=table)  # a deeper level may be worth less
    sums = np.empty(len(keys))
    hierarchical_sums(ranked, table, ties == "paper", sums)
    return _divide(sums, (table * totals).sum(axis=1))


def _ndcg(ranked: Ranked, totals: NDArray[np.int64], cutoff: int, paper: bool, num_ranks: int) -> NDArray[np.float64]:
    from hiertree.metrics._gain import cumulative_gains, discounts, ideal_gains

    gains = np.exp2(np.arange(totals.shape[1], dtype=np.float64)) - 1.0
    sums, ideal = np.empty(len(totals)), np.empty(len(totals))
    discount = discounts(max(num_ranks, int(totals[:, 1:].sum(axis=1).max(initial=0))))
    cumulative_gains(ranked, gains, discount, cutoff, paper, sums)
    ideal_gains(totals, gains, discount, cutoff, ideal)
    return _divide(sums, ideal)


def _asi(ranked: Ranked, totals: NDArray[np.int64], paper: bool) -> NDArray[np.float64]:
    from hiertree.metrics._asi import overlap_sums

    sums = np.empty(len(totals))
    overlap_sums(ranked, totals, paper, sums)
    return _divide(sums, totals[:, 1:].sum(axis=1))


def _top_k(ranked: Ranked, positives: NDArray[np.int64], metric: Metric, paper: bool) -> NDArray[np.float64]:
    from hiertree.metrics._top_k import top_k

    cutoff = metric.cutoff or WHOLE_LIST
    hits, some = np.empty(len(positives)), np.empty(len(positives))
    top_k(ranked, metric.level, cutoff, paper, hits, some)
    shares = {"R": some, "TR": hits / np.maximum(np.minimum(cutoff, positives), 1), "P": hits / cutoff}
    return np.where(positives > 0, shares[metric.kind], np.nan)


def _average_precision(
    ranked: Ranked, positives: NDArray[np.int64], metric: Metric, paper: bool
) -> NDArray[np.float64]:
    from hiertree.metrics._precision import precision_sums

    cutoffs = positives if metric.kind == "mAP@R" else np.full(len(positives), metric.cutoff or WHOLE_LIST)
    sums = np.empty(len(positives))
    precision_sums(ranked, metric.level, np.ascontiguousarray(cutoffs), paper, sums)
    return _divide(sums, np.minimum(positives, cutoffs))


def _divide(sums: NDArray[np.float64], normalisers: NDArray[Any]) -> NDArray[np.float64]:
    """Divide; NaN where a normaliser is 0."""
    return np.where(normalisers > 0, sums / np.where(normalisers > 0, normalisers, 1), np.nan)


def _checked_table(table: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    checked = np.asarray(table, dtype=np.float64)
    if checked.shape != shape:
        raise OptionError(f"a relevance of shape {checked.shape}", expected=f"one value per query and level, {shape}")
    if not np.isfinite(checked).all() or (checked < 0).any() or checked[:, 0].any():
        raise OptionError("a relevance table", expected="finite values ≥ 0, and 0 at level 0")
    return np.ascontiguousarray(checked)


def _name(relevance: Relevance) -> str:
    """How the convention card calls a relevance function."""
    if isinstance(relevance, partial):
        options = ", ".join(f"{key}={value}" for key, value in relevance.keywords.items())
        return f"{relevance.func.__name__}({options})"
    return getattr(relevance, "__name__", type(relevance).__name__)
