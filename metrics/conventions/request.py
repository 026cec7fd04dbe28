"""What to compute: the names, options and rules of an evaluation, checked before any score is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from hiertree import relevance as relevances
from hiertree.errors import OptionError

from .names import Metric, default_names, parse_metrics
from .rules import OURS, Rules

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..ranking.ranked import Ties

Relevance: TypeAlias = "Callable[[NDArray[np.int64]], NDArray[np.float64]]"


@dataclass(frozen=True)
class Plan:
    """What to compute, settled before any score is.

    Attributes:
        metrics: the metrics, in the order of the columns.
        num_levels: L.
        relevance: counts (Q, L+1) → table (Q, L+1), for ``H-AP``.
        relevance_name: what the convention card calls it.
        ties: the policy for equal scores.
        rules: the choices on which authors differ.
    """

    metrics: tuple[Metric, ...]
    num_levels: int
    relevance: Relevance
    relevance_name: str
    ties: Ties
    rules: Rules = OURS

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the result."""
        return tuple(metric.name for metric in self.metrics)

    @property
    def paper(self) -> bool:
        """Whether every item of equal score counts as ahead."""
        return self.ties == "paper"

    def table(self, metric: Metric, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Relevance of each level for each query, as an H-AP asks for."""
        relevance = self.relevance if metric.alpha is None else partial(relevances.hap, alpha=metric.alpha)
        return _checked_table(relevance(counts), counts.shape)


def plan(
    metrics: Iterable[str] | None,
    *,
    num_levels: int,
    alpha: float,
    relevance: Relevance | None,
    ties: Ties,
    rules: Rules = OURS,
) -> Plan:
    """Check the options that every entrance shares."""
    from ..ranking.ranked import check_ties

    check_ties(ties)
    if relevance is not None and alpha != 1.0:
        raise OptionError(f"alpha={alpha} beside relevance=", expected="one of the two")
    parsed = parse_metrics(default_names(num_levels) if metrics is None else metrics, num_levels=num_levels)
    if ties == "paper" and any(metric.kind == "first-error" for metric in parsed):
        raise OptionError("first-error with ties='paper'", expected="a policy that gives every rank one item")
    if rules.ideal == "retrieved" and ties != "index" and any(m.kind == "NDCG" and m.cutoff for m in parsed):
        raise OptionError(
            f"ties={ties!r} with NDCG@k and the ideal of the retrieved top k",
            expected="ties='index'",
            remedy="which items those are must be settled before their ideal is",
        )
    chosen = partial(relevances.hap, alpha=alpha) if relevance is None else relevance
    settled = Plan(parsed, num_levels, chosen, _name(chosen), ties, rules)
    settled.table(Metric("H-AP", "H-AP"), np.ones((1, num_levels + 1), np.int64))  # a bad relevance or alpha fails here
    return settled


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
