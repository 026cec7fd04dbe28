"""From ranked positives to the values of the metrics asked for: which kernel serves which name, and what divides it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..conventions.names import Metric
    from ..conventions.request import Plan
    from ..ranking.ranked import Ranked
    from ..ranking.sorted_positives import Placed

WHOLE_LIST = 2**31 - 1


class Ranking(NamedTuple):
    """The lists of some queries, as the metrics read them.

    Attributes:
        positives: from a preference among the levels of equal scores to the ranked positives; see
            :func:`hiertree.metrics.ranking.ranked.ranked_positives`.
        num_ranks: the length of the longest list.
    """

    positives: Callable[[NDArray[np.float64]], Ranked]
    num_ranks: int


def measure(
    placed: Placed, totals: NDArray[np.int64], plan: Plan, *, counts: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """Values of the metrics for r queries.

    Args:
        placed: the positives in order, and how many others stand among them.
        totals: (r, L+1) items per level that the gallery holds, ranked or not.
        plan: what to compute.
        counts: (r, L+1) what H-AP's relevance counts; the totals unless given.

    Returns:
        (r, M) float64, NaN where a query has no positive for a metric, or 0 where the rules say so.
    """
    from ..ranking.ranked import ranked_positives

    ranking = Ranking(
        positives=lambda preference: ranked_positives(placed, ties=plan.ties, preference=preference),
        num_ranks=placed.num_ranks,
    )
    return measure_ranking(ranking, totals, totals if counts is None else counts, plan)


def measure_ranking(
    ranking: Ranking, totals: NDArray[np.int64], counts: NDArray[np.int64], plan: Plan
) -> NDArray[np.float64]:
    """As :func:`measure`, of lists that are not held as keys."""
    from ..ranking.ties import tie_groups

    ranked = ranking.positives(np.tile(np.arange(plan.num_levels + 1.0), (len(totals), 1)))
    ties = tie_groups(ranked)
    values = np.empty((len(totals), len(plan.metrics)))
    precisions = _precisions_by_level(ranked, ties, plan)
    for column, metric in enumerate(plan.metrics):
        if metric.kind == "AP":
            values[:, column] = _average_precision(ranked, precisions, totals, metric, plan)
        elif metric.kind == "H-AP":
            table = plan.table(metric, counts)
            values[:, column] = _h_ap(ranking, ranked, precisions, totals, table, metric, plan)
        elif metric.kind == "first-error":
            values[:, column] = _first_error(ranked, totals, metric)
        elif metric.kind == "NDCG":
            values[:, column] = _ndcg(ranked, ties, totals, metric.cutoff, plan, ranking.num_ranks)
        elif metric.kind == "ASI":
            values[:, column] = _asi(ranked, ties, totals, metric, plan.paper)
        elif metric.kind in ("R", "TR", "P"):
            values[:, column] = _top_k(ranked, totals, metric, plan)
        else:
            values[:, column] = _precision_in_part(ranked, totals, metric, plan)
    if plan.rules.empty_queries == "zero":
        values[np.isnan(values)] = 0.0
    return values


def _h_ap(
    ranking: Ranking,
    ranked: Ranked,
    precisions: NDArray[np.float64],
    totals: NDArray[np.int64],
    table: NDArray[np.float64],
    metric: Metric,
    plan: Plan,
) -> NDArray[np.float64]:
    from ..ranking.ties import tie_groups
    from .average_precision import hierarchical_sums

    worth = np.argsort(np.argsort(table, axis=1, kind="stable"), axis=1).astype(np.uint8)
    rising = (worth == np.arange(table.shape[1])).all()
    if plan.ties in ("worst", "best") and not rising:
        ranked = ranking.positives(table)  # a deeper level may be worth less
    if metric.level:
        parts = np.empty(totals.shape)
        hierarchical_sums(ranked, table, plan.paper, parts)
        return _divide(parts[:, metric.level], (table * totals).sum(axis=1))
    if not rising:
        precisions = _precisions(ranked, tie_groups(ranked), worth, plan)
    sums = (np.diff(np.sort(table, axis=1), axis=1) * precisions[:, 1:]).sum(axis=1)
    return _divide(sums, (table * totals).sum(axis=1))


def _first_error(ranked: Ranked, totals: NDArray[np.int64], metric: Metric) -> NDArray[np.float64]:
    from .first_error import first_errors

    finest, shares = np.ascontiguousarray(totals[:, -1]), np.empty(totals.shape)
    first_errors(ranked, finest, shares)
    return np.where(finest > 0, shares[:, metric.level], np.nan)


def _ndcg(
    ranked: Ranked,
    ties: NDArray[np.int32],
    totals: NDArray[np.int64],
    cutoff: int | None,
    plan: Plan,
    num_ranks: int,
) -> NDArray[np.float64]:
    from .ndcg import cumulative_gains, discounts, ideal_gains
    from .recall import levels_within

    gains = np.exp2(np.arange(totals.shape[1], dtype=np.float64)) - 1.0
    sums, ideal = np.empty(len(totals)), np.empty(len(totals))
    discount = discounts(max(num_ranks, int(totals[:, 1:].sum(axis=1).max(initial=0))))
    cumulative_gains(ranked, ties, gains, discount, cutoff or WHOLE_LIST, plan.paper, sums)
    reachable = totals
    if cutoff and plan.rules.ideal == "retrieved":
        reachable = np.zeros_like(totals)
        levels_within(ranked, cutoff, reachable)
    ideal_gains(reachable, gains, discount, cutoff or WHOLE_LIST, ideal)
    return _divide(sums, ideal)


def _asi(
    ranked: Ranked, ties: NDArray[np.int32], totals: NDArray[np.int64], metric: Metric, paper: bool
) -> NDArray[np.float64]:
    from .asi import harmonic_numbers, overlap_sums

    if metric.level:  # two levels only: positive or not
        ranked = ranked._replace(level=(ranked.level >= metric.level).astype(np.uint8))
        totals = np.stack([totals[:, : metric.level].sum(axis=1), totals[:, metric.level :].sum(axis=1)], axis=1)
    sums, positives = np.empty(len(totals)), totals[:, 1:].sum(axis=1)
    harmonic = harmonic_numbers(1 << int(positives.max(initial=0)).bit_length())
    overlap_sums(ranked, ties, totals, harmonic, paper, sums)
    return _divide(sums, positives)


def _top_k(ranked: Ranked, totals: NDArray[np.int64], metric: Metric, plan: Plan) -> NDArray[np.float64]:
    from .recall import shorter_lists, top_k

    positives, cutoff = totals[:, metric.level :].sum(axis=1), metric.cutoff or WHOLE_LIST
    hits, some = np.empty(len(positives)), np.empty(len(positives))
    top_k(ranked, metric.level, cutoff, plan.paper, hits, some)
    if metric.kind == "R":
        return np.where(positives > 0, some, np.nan) if plan.rules.recall == "hit" else _divide(hits, positives)
    if metric.kind == "TR":
        return _divide(hits, np.minimum(cutoff, positives))
    precision = hits / cutoff
    if plan.rules.precision == "list":
        precision = hits / np.minimum(cutoff, totals.sum(axis=1).clip(min=1))
    elif plan.rules.precision == "last positive":
        shorter = np.empty(len(positives))
        shorter_lists(ranked, metric.level, cutoff, plan.paper, shorter)
        precision += shorter
    return np.where(positives > 0, precision, np.nan)


def _precisions_by_level(ranked: Ranked, ties: NDArray[np.int32], plan: Plan) -> NDArray[np.float64]:
    """(r, L+1) precision summed over the positives of each level, if a metric asks for it."""
    levels = np.tile(np.arange(plan.num_levels + 1, dtype=np.uint8), (len(ranked.number), 1))
    if any(metric.kind in ("AP", "H-AP") for metric in plan.metrics):
        return _precisions(ranked, ties, levels, plan)
    return np.empty(levels.shape)


def _precisions(ranked: Ranked, ties: NDArray[np.int32], step: NDArray[np.uint8], plan: Plan) -> NDArray[np.float64]:
    from .average_precision import precision_sums_by_step

    sums = np.empty(step.shape)
    precision_sums_by_step(ranked, ties, step, plan.paper, sums)
    return sums


def _average_precision(
    ranked: Ranked, precisions: NDArray[np.float64], totals: NDArray[np.int64], metric: Metric, plan: Plan
) -> NDArray[np.float64]:
    positives, sums = totals[:, metric.level :].sum(axis=1), precisions[:, metric.level]
    return _divide(_by_rule(sums, ranked, metric, plan), positives)


def _precision_in_part(ranked: Ranked, totals: NDArray[np.int64], metric: Metric, plan: Plan) -> NDArray[np.float64]:
    """Of a part of the list: its top, or without the deeper levels."""
    from .average_precision import precision_sums
    from .exact_level import without_deeper

    exact = metric.kind == "AP#"
    positives = totals[:, metric.level] if exact else totals[:, metric.level :].sum(axis=1)
    if exact:
        ranked = without_deeper(ranked, metric.level)
    cutoffs = positives if metric.kind == "mAP@R" else np.full(len(positives), metric.cutoff or WHOLE_LIST)
    sums = np.empty(len(positives))
    precision_sums(ranked, metric.level, np.ascontiguousarray(cutoffs), plan.paper, sums)
    return _divide(_by_rule(sums, ranked, metric, plan) if exact else sums, np.minimum(positives, cutoffs))


def _by_rule(sums: NDArray[np.float64], ranked: Ranked, metric: Metric, plan: Plan) -> NDArray[np.float64]:
    """Sums of precision, or of the trapezoids' heights."""
    from .average_precision import left_precision_sums

    if plan.rules.average_precision == "sum":
        return sums
    left = np.empty(len(sums))
    left_precision_sums(ranked, metric.level, plan.paper, left)
    return (sums + left) / 2


def _divide(sums: NDArray[np.float64], normalisers: NDArray[Any]) -> NDArray[np.float64]:
    """Divide; NaN where a normaliser is 0."""
    return np.where(normalisers > 0, sums / np.where(normalisers > 0, normalisers, 1), np.nan)
