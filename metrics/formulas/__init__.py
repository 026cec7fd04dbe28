"""The metrics, one independent file per family; each reads the ranked lists of some queries.

A kind of metric has a function here, of the lists and the options of its name, level and k, which returns the
value of each query, NaN where one has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from hiertree.jit import Floats

from . import asi, average_precision, ndcg, severity, top_k

FORMULAS: Mapping[str, Callable[..., Floats]] = MappingProxyType(
    {
        "H-AP": average_precision.h_ap,
        "first-error": severity.first_error,
        "mistake-severity": severity.mistake_severity,
        "HD": severity.distance,
        "HOPS": severity.preference_order,
        "NDCG": ndcg.compute,
        "ASI": asi.compute,
        "AP": average_precision.ap,
        "AP#": average_precision.ap_of_level,
        "AP@": top_k.hashing_ap,
        "R": top_k.recall,
        "TR": top_k.true_recall,
        "P": top_k.precision,
        "P@R": top_k.r_precision,
        "MRR": top_k.reciprocal_rank,
        "HP": ndcg.hierarchical_precision,
        "AHP": ndcg.average_hierarchical_precision,
        "mAP@R": average_precision.map_at_r,
        "mAP": average_precision.map_at_k,
    }
)
