"""The tables of a report: the metrics of several runs side by side, and the mean of the queries below every node."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.metrics.conventions import improves_downward, split_name, strip_brackets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .queries_and_gallery import QueriesAndGallery

MOST_ROWS = 2_000  # nodes of the table that readers sort
MOST_VALUES = 12_000  # that it holds: 2,000 nodes, three metrics, two models
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
    """One metric of every run: what it asks, empty for the rarer ones, and its value for each run.

    ``differs`` says of two runs whether a paired test over their queries tells them apart.
    """

    metric: str
    meaning: str
    values: tuple[float, ...]
    differs: bool = False

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


def side_by_side(
    metrics: Sequence[Mapping[str, float]], *, level_names: Sequence[str], differing: Collection[str] = ()
) -> list[MetricRow]:
    """One row for each metric that all runs have, in the order of the first run; level names are coarse → fine.

    ``differing`` are the metrics in which two runs differ significantly.

    >>> rows = side_by_side([{"H-AP": 0.5, "R@1": 0.9}, {"H-AP": 0.6, "R@1": 0.9}], level_names=["kind", "place"])
    >>> [(row.metric, row.meaning, row.is_best(0), row.is_best(1)) for row in rows][1]
    ('R@1', 'the nearest image has the same place label', True, True)
    """
    common = [name for name in metrics[0] if all(name in run_metrics for run_metrics in metrics)]
    return [
        MetricRow(name, _meaning(name, level_names), tuple(values[name] for values in metrics), name in differing)
        for name in common
    ]


def _meaning(metric: str, level_names: Sequence[str]) -> str:
    fields = split_name(metric)
    if fields is None or fields.is_mean or fields.parameters or fields.query_list:
        return ""
    k, kind = fields.cutoff, fields.family.kind + ("@k" if fields.cutoff else "")
    level = level_names[(fields.level or len(level_names)) - 1]
    text = _OF_THE_TREE.get(kind) if fields.level is None else None
    return (text or _OF_A_LEVEL.get(strip_brackets(metric), _OF_A_LEVEL.get(kind, ""))).format(k=k, level=level)


@dataclass(frozen=True)
class NodeMeans:
    """A node by its labels, coarse › fine, and its level, 1 the coarsest.

    ``queries`` below it have a value; ``means`` are theirs for each run, NaN where none has one.
    """

    path: str
    level: int
    queries: int
    means: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over the runs."""
        return float(np.mean(self.means))


def answered_nodes(data: QueriesAndGallery, values: NDArray[np.float64]) -> dict[str, list[NodeMeans]]:
    """For each level above the finest (or that one alone) its nodes with queries, those of the smallest means first.

    ``values`` are (Q, R): a metric of each query, a column for each run; NaN where it has none.
    """
    names = data.tree.level_names[:-1] or data.tree.level_names
    return {
        name: sorted(
            (node for node in _nodes(data, values, level).values() if node.queries), key=lambda node: node.mean
        )
        for level, name in enumerate(names, start=1)
    }


def node_table(
    data: QueriesAndGallery, models: Sequence[str], values: Mapping[str, NDArray[np.float64]]
) -> dict[str, Any]:
    """The means of each metric and model, at the nodes of all levels, those with the most queries first.

    The first metric decides which queries count.
    """
    rows = [
        replace(row[0], means=tuple(mean for node in row for mean in node.means))
        for level in range(1, data.tree.num_levels + 1)
        for row in zip(*(_nodes(data, columns, level).values() for columns in values.values()), strict=True)
        if row[0].queries
    ]
    rows.sort(key=lambda node: -node.queries)
    columns = [(metric, model) for metric in values for model in models]
    limit = min(MOST_ROWS, MOST_VALUES // len(columns))
    return {"columns": columns, "nodes": rows[:limit], "of": len(rows)}


def _nodes(data: QueriesAndGallery, values: NDArray[np.float64], level: int) -> dict[tuple[int, ...], NodeMeans]:
    """The nodes of a level that queries or gallery have, by path, with their means."""
    every = np.concatenate([data.query_paths[:, :level], data.gallery_paths[:, :level]])
    node_paths, inverse = np.unique(every, axis=0, return_inverse=True)
    answered = ~np.isnan(values).any(axis=1)
    rows, values = inverse.reshape(-1)[: len(values)][answered], values[answered]
    counts = np.bincount(rows, minlength=len(node_paths))
    sums = [np.bincount(rows, weights=column, minlength=len(node_paths)) for column in values.T]
    means = np.divide(sums, counts, out=np.full((len(sums), len(node_paths)), np.nan), where=counts > 0)
    return {
        tuple(path): NodeMeans(data.label(np.array(path)), level, count, tuple(node_means))
        for path, count, node_means in zip(node_paths.tolist(), counts.tolist(), means.T.tolist(), strict=True)
    }
