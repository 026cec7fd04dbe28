"""One number from several: DyML's mean over its benchmarks and its levels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hiertree.errors import OptionError

from ..result import Evaluation

if TYPE_CHECKING:
    import pandas as pd


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

    named = {"the result": results} if isinstance(results, Evaluation) else dict(results)
    if not named or len({result.names for result in named.values()}) > 1:
        raise OptionError(f"{len(named)} results", expected="at least one, and all of the same metrics")
    means: dict[str, list[float]] = {}
    for name, result in named.items():
        summary = result.summary()
        for metric in result.names:
            if metric not in summary:
                raise OptionError(f"{metric} of {name} without a value", expected="a query with positives")
            means.setdefault(metric.partition("[")[0], []).append(float(summary[metric]))
    return pd.Series({metric: sum(values) / len(values) for metric, values in means.items()}, dtype=float)
