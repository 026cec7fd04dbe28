"""The metrics of several runs side by side, and what each asks in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hiertree.metrics.request import improves_downward, split_name, strip_brackets

_OF_THE_TREE = {
    "H-AP": "hierarchical average precision: close relatives first",
    "NDCG": "deep agreement counts more, late ranks count less",
    "NDCG@k": "deep agreement counts more, late ranks count less, in the first {k}",
    "ASI": "the order as a whole against the order of the tree",
    "HP@k": "levels shared with the first {k}, of those that {k} images can share",
    "AHP": "the mean of HP@k over all k",
    "AHP@k": "the mean of HP@1 … HP@{k}",
    "HD@k": "percent of a level up to the ancestor shared with the first {k}: less is better",
    "mistake-severity": "percent of a level up to the ancestor shared with a wrong nearest image: less is better",
    "HOPS": "the levels of all images against the order of the tree",
    "HOPS@k": "the levels of the first {k} against the order of the tree",
}
_OF_A_LEVEL = {
    "AP": "images with the same {level} label come first",
    "R@1": "the nearest image has the same {level} label",
    "R@k": "an image with the same {level} label among the first {k}",
    "TR@k": "images with the same {level} label in the first {k}, of those that fit there",
    "P@k": "share with the same {level} label among the first {k}",
    "P@R": "share with the same {level} label among the first R, the number of such images",
    "MRR": "one over the rank of the first image with the same {level} label",
    "MRR@k": "one over the rank of the first image with the same {level} label, 0 beyond the first {k}",
    "mAP@R": "precision over the first R, the number of images with the same {level} label",
    "mAP@k": "precision over the first {k}, for the same {level} label",
}


@dataclass(frozen=True)
class MetricRow:
    """One metric of every run: what it asks, empty for the rarer ones, and its value for each run."""

    metric: str
    meaning: str
    values: tuple[float, ...]

    def is_best(self, run: int) -> bool:
        """Whether no other run does better; False for a single run, and for metrics without a best."""
        return len(self.values) > 1 and self.values[run] == best_value(self.metric, self.values)

    @property
    def gain(self) -> float:
        """The last run's value less the first one's."""
        return self.values[-1] - self.values[0]


def best_value(metric: str, values: Iterable[float]) -> float | None:
    """The smallest of distances, else the largest, of those that are there (not NaN).

    None without any, and for shares of first errors, none of which is better.

    >>> best_value("H-AP", [math.nan, 0.2, 0.3]), best_value("HD@5", [math.nan, 0.2, 0.3])
    (0.3, 0.2)
    """
    measured = [value for value in values if not math.isnan(value)]
    if not measured or strip_brackets(metric) == "first-error":
        return None
    return min(measured) if improves_downward(metric, num_levels=0) else max(measured)


def side_by_side(metrics: Sequence[Mapping[str, float]], *, level_names: Sequence[str]) -> list[MetricRow]:
    """One row for each metric that all runs have, in the order of the first run; level names are coarse → fine.

    >>> rows = side_by_side([{"H-AP": 0.5, "R@1": 0.9}, {"H-AP": 0.6, "R@1": 0.9}], level_names=["kind", "place"])
    >>> [(row.metric, row.meaning, row.is_best(0), row.is_best(1)) for row in rows][1]
    ('R@1', 'the nearest image has the same place label', True, True)
    """
    common = [name for name in metrics[0] if all(name in run_metrics for run_metrics in metrics)]
    return [MetricRow(name, _meaning(name, level_names), tuple(values[name] for values in metrics)) for name in common]


def _meaning(metric: str, level_names: Sequence[str]) -> str:
    parts = split_name(metric)
    if parts is None or parts.is_mean or parts.parameters or parts.query_list:
        return ""
    k, kind = parts.cutoff, parts.family.kind + ("@k" if parts.cutoff else "")
    level = level_names[(parts.level or len(level_names)) - 1]
    text = _OF_THE_TREE.get(kind) if parts.level is None else None
    return (text or _OF_A_LEVEL.get(strip_brackets(metric), _OF_A_LEVEL.get(kind, ""))).format(k=k, level=level)
