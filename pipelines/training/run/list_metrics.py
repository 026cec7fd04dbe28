"""Metrics of tests with several lists or levels: DyML's lists of vehicles and animals, and the levels of its products.

The metrics of a list carry its name, as in ``AP[fine]``, and ``mean AP`` is the mean over the lists. In the same way
``mean AP`` of DyML's products is the mean of ``AP[1]``, ``AP[2]`` and ``AP[3]``.

>>> metric_of_list("R@1[1]", "fine"), names_of_means(["AP[fine]", "R@1[fine]", "AP[coarse]"])
('R@1[fine]', ('mean AP',))
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from hiertree.metrics import Evaluation, overall

if TYPE_CHECKING:
    from hiertree.datasets import ImageDataset


def list_name(part: ImageDataset) -> str:
    """Name of a list: ``fine`` for the split ``test_fine``."""
    return part.split.removeprefix("test_")


def metric_of_list(metric: str, name: str) -> str:
    """Name of a metric computed on the list ``name``, which has one level."""
    return f"{metric.partition('[')[0]}[{name}]"


def names_of_means(metrics: Iterable[str]) -> tuple[str, ...]:
    """Names of the means over lists or levels: one for each metric that occurs more than once."""
    counts = Counter(metric.partition("[")[0] for metric in metrics)
    return tuple(f"mean {metric}" for metric, count in counts.items() if count > 1)


def means_over_lists(results: Mapping[str, Evaluation]) -> dict[str, float]:
    """Unweighted means over lists and levels; empty if a list has no value for one of the metrics.

    Args:
        results: of the same metrics, by the name of the list.
    """
    if any(len(result.summary()) < len(result.names) for result in results.values()):
        return {}
    means = overall(results)
    wanted = names_of_means(metric for result in results.values() for metric in result.names)
    return {name: float(means[name.removeprefix("mean ")]) for name in wanted}
