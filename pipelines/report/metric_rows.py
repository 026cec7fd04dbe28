"""The metrics of several runs side by side, in words and numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_NAME = re.compile(r"(?P<kind>[A-Za-z-]+(@R)?)(@(?P<k>\d+))?(\[(?P<level>\d+)\])?")
_OF_THE_TREE = {
    "H-AP": "hierarchical average precision: close relatives first",
    "NDCG": "deep agreement counts more, late ranks count less",
    "NDCG@k": "deep agreement counts more, late ranks count less, in the first {k}",
    "ASI": "the order as a whole against the order of the tree",
}
_OF_A_LEVEL = {
    "AP": "images of the same {level} come first",
    "R@1": "the nearest image shows the same {level}",
    "R@k": "an image of the same {level} among the first {k}",
    "TR@k": "images of the same {level} in the first {k}, of those that fit there",
    "P@k": "share of the same {level} among the first {k}",
    "mAP@R": "precision over the first R, with R images of the same {level}",
    "mAP@k": "precision over the first {k}, for the same {level}",
}


@dataclass(frozen=True)
class MetricRow:
    """One metric of every run: what it asks, empty for the rarer ones, and a number in 0 … 1 for each run."""

    metric: str
    meaning: str
    values: tuple[float, ...]

    def is_best(self, run: int) -> bool:
        """Whether no other run does better; False for a single run, and for metrics without a best."""
        return len(self.values) > 1 and has_a_best(self.metric) and self.values[run] == max(self.values)

    @property
    def gain(self) -> float:
        """The last run's value less the first one's."""
        return self.values[-1] - self.values[0]


def has_a_best(metric: str) -> bool:
    """Whether a larger value is better: True for every metric but the shares of first errors."""
    return not metric.startswith("first-error")


def side_by_side(metrics: Sequence[Mapping[str, float]], *, level_names: Sequence[str]) -> list[MetricRow]:
    """One row for each metric that all runs have, in the order of the first run; level names are coarse → fine.

    >>> rows = side_by_side([{"H-AP": 0.5, "R@1": 0.9}, {"H-AP": 0.6, "R@1": 0.9}], level_names=["kind", "place"])
    >>> [(row.metric, row.meaning, row.is_best(0), row.is_best(1)) for row in rows][1]
    ('R@1', 'the nearest image shows the same place', True, True)
    """
    shared = [name for name in metrics[0] if all(name in others for others in metrics)]
    return [MetricRow(name, _meaning(name, level_names), tuple(values[name] for values in metrics)) for name in shared]


def _meaning(metric: str, level_names: Sequence[str]) -> str:
    found = _NAME.fullmatch(metric)
    if found is None:
        return ""
    k, kind = found["k"], found["kind"] + ("@k" if found["k"] else "")
    if found["level"] is None and kind in _OF_THE_TREE:
        return _OF_THE_TREE[kind].format(k=k)
    level = level_names[int(found["level"] or len(level_names)) - 1]
    return _OF_A_LEVEL.get("R@1" if (kind, k) == ("R@k", "1") else kind, "").format(k=k, level=level)
