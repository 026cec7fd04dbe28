"""The metrics of several runs side by side, in words and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hiertree.metrics._names import Metric, parse_metrics

_OF_THE_WHOLE_TREE = {
    "H-AP": "hierarchical average precision: close relatives first",
    "NDCG": "deep agreement counts more, late ranks count less",
    "ASI": "the order as a whole against the order of the tree",
}


@dataclass(frozen=True)
class MetricRow:
    """One metric of every run.

    Attributes:
        metric: its name.
        meaning: what it asks, in a few words.
        values: one number in 0 … 1 a run.
    """

    metric: str
    meaning: str
    values: tuple[float, ...]

    def is_best(self, run: int) -> bool:
        """Whether no other run has a higher value; never where there is only one run."""
        return len(self.values) > 1 and self.values[run] == max(self.values)

    @property
    def gain(self) -> float:
        """The last run's value less the first one's."""
        return self.values[-1] - self.values[0]


def side_by_side(metrics: Sequence[Mapping[str, float]], *, level_names: Sequence[str]) -> list[MetricRow]:
    """One row for each metric that all runs have, in the order of the first.

    Args:
        metrics: of each run.
        level_names: L names, coarse → fine.

    >>> rows = side_by_side([{"H-AP": 0.5, "R@1": 0.9}, {"H-AP": 0.6, "R@1": 0.9}], level_names=["kind", "place"])
    >>> [(row.metric, row.meaning, row.is_best(0), row.is_best(1)) for row in rows][1]
    ('R@1', 'the nearest image shows the same place', True, True)
    """
    shared = [name for name in metrics[0] if all(name in others for others in metrics)]
    parsed = parse_metrics(shared, num_levels=len(level_names))
    return [
        MetricRow(metric.name, _meaning(metric, level_names), tuple(values[metric.name] for values in metrics))
        for metric in parsed
    ]


def _meaning(metric: Metric, level_names: Sequence[str]) -> str:
    if metric.level == 0:
        cut = f", in the first {metric.cutoff}" if metric.cutoff else ""
        return _OF_THE_WHOLE_TREE[metric.kind] + cut
    same = f"the same {level_names[metric.level - 1]}"
    if metric.kind == "R" and metric.cutoff == 1:
        return f"the nearest image shows {same}"
    return {
        "AP": f"images of {same} come first",
        "R": f"an image of {same} among the first {metric.cutoff}",
        "TR": f"how many images of {same} the first {metric.cutoff} hold, of those they could",
        "P": f"share of {same} among the first {metric.cutoff}",
        "mAP@R": f"precision over the first R, with R images of {same}",
        "mAP": f"precision over the first {metric.cutoff}, for {same}",
    }[metric.kind]
