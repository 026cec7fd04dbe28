"""Why another library's number differs from ours.

A reason is not looked up but shown: our metric is computed again under the conventions by which a library is known to
differ, and the fewest under which it gives the library's number are the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, combinations
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.metrics import evaluate_scores

from .other_libraries import K, ScoredQueries

if TYPE_CHECKING:
    from numpy.typing import NDArray

TOLERANCE = 2e-6  # theirs are means of float32 numbers
_MOST_REASONS = 4

DIFFERENCES: Mapping[str, str] = MappingProxyType(
    {
        "empty": "a query without positives counts as 0",
        "linear": "the gain is l, not 2^l − 1",
        "positive": "positives of score ≤ 0 are ignored",
        "own": "equal scores stand in an order of its own, worth between the worst and the best",
        "reversed": "of equal scores the later name comes first",
        "grouped": "equal scores are one threshold: all of them count as ahead",
        "all": "the divisor is all positives, not min(k, positives)",
        "found": "the divisor is the positives found in the top k",
    }
)
_KNOWN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "torchmetrics": ("empty", "linear", "positive", "all", "found", "own"),
        "sklearn": ("empty", "linear", "grouped"),
        "ir_measures": ("empty", "linear", "reversed", "all"),
        "ranx": ("empty", "linear", "all", "own"),
        "pytorch_metric_learning": ("all", "own"),
    }
)


class DifferenceReasons:
    """Our metrics of the same queries under other conventions, each computed once.

    Args:
        queries: what every library was given.
    """

    def __init__(self, queries: ScoredQueries) -> None:
        self._queries = queries
        self._means: dict[frozenset[str], dict[str, float]] = {}

    def ours(self, metric: str, reading: frozenset[str] = frozenset()) -> float:
        """Our mean of a metric, under the conventions of a reading."""
        if reading not in self._means:
            self._means[reading] = _means(self._queries, reading)
        return self._means[reading][metric]

    def reason(self, library: str, metric: str, theirs: float) -> str:
        """The fewest differences under which our metric is their number, or bounds it; empty where they agree."""
        known = _KNOWN[library]
        subsets = chain.from_iterable(combinations(known, size) for size in range(_MOST_REASONS + 1))
        for chosen in sorted(subsets, key=lambda subset: "own" in subset):
            low, high = (self.ours(metric, reading) for reading in _bounds(chosen))
            if low - TOLERANCE <= theirs <= high + TOLERANCE:
                return "; ".join(DIFFERENCES[name] for name in chosen)
        return "not explained"


def _bounds(chosen: Sequence[str]) -> tuple[frozenset[str], frozenset[str]]:
    """The readings of the least and the greatest value; they differ where a library has its own order of ties."""
    reading = frozenset(chosen)
    if "own" not in reading:
        return reading, reading
    return reading - {"own"} | {"worst"}, reading - {"own"} | {"best"}


def _means(queries: ScoredQueries, reading: frozenset[str]) -> dict[str, float]:
    """Our means under a reading: a set of keys of DIFFERENCES, with ``worst`` or ``best`` in place of ``own``."""
    scores, depths, valid = queries.scores, queries.levels, queries.valid
    if "positive" in reading:
        depths = np.where(scores > 0, depths, 0).astype(np.uint8)
    if "reversed" in reading:
        scores, depths, valid = scores[:, ::-1], depths[:, ::-1], valid[:, ::-1]
    policies = {"reversed": "index", "grouped": "paper", "worst": "worst", "best": "best"}
    ties: Any = next((policy for name, policy in policies.items() if name in reading), "average")
    names = [f"AP[{level}]" for level in range(1, queries.num_levels + 1)]
    names += [f"mAP@{K}", f"P@{K}", f"R@{K}", f"TR@{K}", "NDCG", f"NDCG@{K}", "P@1", "mAP@R"]
    table = evaluate_scores(
        scores, depths, valid=valid, num_levels=queries.num_levels, metrics=names, ties=ties
    ).per_query()
    if "linear" in reading:
        for name in ("NDCG", f"NDCG@{K}"):
            table[name] = _linear_ndcg(scores, depths, valid, queries.num_levels, name, ties)
    positives = ((depths == queries.num_levels) & valid).sum(axis=1)
    if "all" in reading:
        for name in (f"mAP@{K}", f"TR@{K}"):
            table[name] *= np.minimum(K, positives) / np.maximum(positives, 1)
    if "found" in reading:
        found = table[f"P@{K}"] * K
        table[f"mAP@{K}"] = (table[f"mAP@{K}"] * np.minimum(K, positives) / found.where(found > 0)).where(found > 0, 0)
    means = (table.fillna(0.0) if "empty" in reading else table).mean()
    return {str(name): float(mean) for name, mean in means.items()}


def _linear_ndcg(
    scores: NDArray[Any], depths: NDArray[np.uint8], valid: NDArray[np.bool_], num_levels: int, name: str, ties: Any
) -> NDArray[np.float64]:
    """NDCG with gain l: the level is the number of thresholds it reaches, so its DCG is a sum of binary ones."""
    total, ideal = np.zeros(len(scores)), np.zeros(len(scores))
    discount = 1.0 / np.log2(np.arange(2.0, scores.shape[1] + 2))
    if name != "NDCG":
        discount[K:] = 0.0
    best = np.concatenate([[0.0], np.cumsum(discount)])
    for level in range(1, num_levels + 1):
        reached = (depths >= level).astype(np.uint8)
        found = evaluate_scores(scores, reached, valid=valid, num_levels=1, metrics=[name], ties=ties).values[:, 0]
        reachable = best[(reached.astype(bool) & valid).sum(axis=1)]
        total += np.nan_to_num(found) * reachable
        ideal += reachable
    return np.where(ideal > 0, total / np.where(ideal > 0, ideal, 1.0), np.nan)
