"""From ranked lists to the values of the metrics asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..ranking.ranked_lists import RankedLists


_LEAVES_OUT = ("AP#",)  # kinds whose authors leave out queries without positives also where others score them 0


def compute_metrics(lists: RankedLists) -> NDArray[np.float64]:
    """(r, M) values; NaN where a query has no positive for a metric, or 0 where the rules say so."""
    values = np.empty((len(lists), len(lists.request.metrics)))
    for column, metric in enumerate(lists.request.metrics):
        formula = import_module(f"{__package__}.{metric.formula}")
        values[:, column] = formula.compute(lists, metric)
        if lists.request.rules.empty_queries == "zero" and metric.kind not in _LEAVES_OUT:
            values[np.isnan(values[:, column]), column] = 0.0
    return values
