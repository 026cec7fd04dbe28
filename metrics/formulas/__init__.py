"""The metrics, one independent file per family; each reads the ranked lists of some queries.

A kind of :mod:`hiertree.metrics.request` has a function ``(lists, metric)`` here, which returns the value of the metric
for each query, NaN where a query has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from hiertree.jit import Floats

from ..ranking.ranked import RankedLists
from ..request import Metric
from . import asi, average_precision, ndcg, severity, top_k

FORMULAS: Mapping[str, Callable[[RankedLists, Metric], Floats]] = MappingProxyType(
    {
        "H-AP": average_precision.hierarchical,
        "first-error": severity.first_error,
        "mistake-severity": severity.mistake_severity,
        "HD": severity.distance,
        "HOPS": severity.preference_order,
        "NDCG": ndcg.compute,
        "ASI": asi.compute,
        "AP": average_precision.compute,
        "AP#": average_precision.exact_level,
        "AP@": top_k.hashing_ap,
        "R": top_k.compute,
        "TR": top_k.compute,
        "P": top_k.compute,
        "P@R": top_k.compute,
        "MRR": top_k.reciprocal_rank,
        "HP": ndcg.hierarchical_precision,
        "AHP": ndcg.average_hierarchical_precision,
        "mAP@R": average_precision.compute,
        "mAP": average_precision.compute,
    }
)
