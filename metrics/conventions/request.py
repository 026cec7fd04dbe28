"""What is asked for: the metrics, options and rules of an evaluation, checked before any score is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from hiertree import relevance as relevances
from hiertree.arrays import to_numpy
from hiertree.errors import OptionError
from hiertree.options import check_choice, check_number

from .card import Convention
from .names import H_AP, Metric, default_names, parse_metrics
from .protocols import Protocol
from .rules import OURS, Rules
from .ties import Ties

if TYPE_CHECKING:
    from numpy.typing import NDArray

RelevanceFunction: TypeAlias = "Callable[[NDArray[np.int64]], NDArray[np.float64]]"
Relevance: TypeAlias = "RelevanceFunction | NDArray[Any]"


@dataclass(frozen=True)
class MetricRequest:
    """What to compute.

    Attributes:
        metrics: the metrics, in the order of the columns.
        num_levels: L.
        relevance: for ``H-AP``: a function counts (r, L+1) → table (r, L+1) for any of the queries, or the table
            (Q, L+1) of all.
        relevance_name: how the convention card calls the relevance.
        ties: the policy for equal scores.
        rules: the choices on which authors differ.
        protocol: the benchmark, if one was named.
    """

    metrics: tuple[Metric, ...]
    num_levels: int
    relevance: Relevance
    relevance_name: str
    ties: Ties
    rules: Rules = OURS
    protocol: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the result."""
        return tuple(metric.name for metric in self.metrics)

    def table(self, metric: Metric, counts: NDArray[np.int64], rows: slice | NDArray[np.int64]) -> NDArray[np.float64]:
        """(r, L+1) the relevance of each level for some queries, for one of the H-APs; ``counts`` are of these.

        The largest of a query is about 1, lest sums overflow: H-AP is a quotient, in which a power of two cancels.
        """
        relevance = self.relevance if metric.alpha is None else partial(relevances.hap, alpha=metric.alpha)
        table = _checked_table(_as_numbers(relevance(counts)), counts.shape) if callable(relevance) else relevance[rows]
        return np.ldexp(table, -np.frexp(table.max(axis=1, keepdims=True))[1])

    def of_rows(self, rows: slice) -> MetricRequest:
        """The same for some queries alone."""
        return self if callable(self.relevance) else replace(self, relevance=self.relevance[rows])

    def convention(
        self, *, self_rule: str, scores: str, counts: str | None = None, approximation: str | None = None
    ) -> Convention:
        """The card of a result; ``counts`` is what the rules say unless given."""
        return Convention(
            self_rule=self_rule,
            scores=scores,
            num_levels=self.num_levels,
            relevance=self.relevance_name,
            counts=self.rules.counted if counts is None else counts,
            ties=self.ties,
            rules=self.rules,
            protocol=self.protocol,
            approximation=approximation,
        )


def metric_request(
    metrics: Iterable[str] | None,
    *,
    num_queries: int,
    num_levels: int,
    alpha: float,
    relevance: Relevance | None,
    ties: Ties,
    protocol: Protocol | None = None,
    rules: Rules = OURS,
    of_codes: bool = False,
) -> MetricRequest:
    """Check the options that every entry point shares.

    Args:
        metrics: names; those of the protocol, or else the default ones, unless given.
        num_queries: Q.
        num_levels: L.
        alpha: of the relevance of ``H-AP``.
        relevance: in place of that, a function counts (r, L+1) → table (r, L+1), or a table (Q, L+1).
        ties: the policy for equal scores.
        protocol: the benchmark.
        rules: the choices on which authors differ.
        of_codes: whether binary codes are ranked.

    Raises:
        OptionError: an unknown name or policy, an option outside its range, or options that exclude each other.
    """
    check_choice("ties", ties, Ties)
    check_number("alpha", alpha)
    if relevance is not None and alpha != 1.0:
        raise OptionError(f"alpha={alpha} beside relevance=", expected="one of the two")
    if metrics is None:
        metrics = default_names(num_levels) if protocol is None else protocol.names(num_levels)
    parsed = parse_metrics(metrics, num_levels=num_levels, of_codes=of_codes)
    if ties == "paper" and any(metric.kind == "first-error" for metric in parsed):
        raise OptionError("first-error with ties='paper'", expected="a policy that gives every rank one item")
    if rules.ideal == "retrieved" and ties != "index" and any(m.kind == "NDCG" and m.cutoff for m in parsed):
        raise OptionError(
            f"ties={ties!r} with NDCG@k and the ideal of the retrieved top k",
            expected="ties='index'",
            remedy="that ideal depends on which of the tied items are in the top k",
        )
    chosen = partial(relevances.hap, alpha=float(alpha)) if relevance is None else relevance
    if not callable(chosen):
        chosen = _checked_table(_as_numbers(chosen), (num_queries, num_levels + 1))
    name = None if protocol is None else protocol.name
    request = MetricRequest(parsed, num_levels, chosen, _name(chosen), ties, rules, name)
    request.table(H_AP, np.ones((1, num_levels + 1), np.int64), slice(0, 1))  # a bad relevance or alpha fails here
    return request


def _as_numbers(table: Any) -> NDArray[np.float64]:
    array = to_numpy(table, name="relevance")
    if array.dtype.kind not in "fiub":
        raise OptionError(f"relevance={table!r}", expected="a function of counts (Q, L+1), or a table (Q, L+1)")
    return array.astype(np.float64)


def _checked_table(checked: NDArray[np.float64], shape: tuple[int, ...]) -> NDArray[np.float64]:
    if checked.shape != shape:
        raise OptionError(f"a relevance of shape {checked.shape}", expected=f"one value per query and level, {shape}")
    if not np.isfinite(checked).all() or (checked < 0).any() or checked[:, 0].any():
        raise OptionError("a relevance table", expected="finite values ≥ 0, and 0 at level 0")
    return np.ascontiguousarray(checked)


def _name(relevance: Relevance) -> str:
    """How the convention card calls a relevance function."""
    if not callable(relevance):
        return "a table of one value per query and level"
    if isinstance(relevance, partial):
        options = ", ".join(f"{key}={value}" for key, value in relevance.keywords.items())
        return f"{relevance.func.__name__}({options})"
    return getattr(relevance, "__name__", type(relevance).__name__)
