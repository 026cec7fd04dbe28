"""The mean of the queries below every node of the tree: which supercategories fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from .tree_branches import own_label

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .queries_and_gallery import QueriesAndGallery

MOST_NODES = 1_500  # that a page draws of the tree
MOST_BELOW = 60  # nodes that it draws below one node
MOST_ROWS = 2_000  # nodes of the table that readers sort
MOST_VALUES = 12_000  # that it holds: 2,000 nodes, three metrics, two models


@dataclass(frozen=True)
class NodeMeans:
    """A node and the queries below it.

    Attributes:
        label: its own.
        path: the labels above it too.
        level: 1 is the coarsest.
        queries: how many have a value.
        means: of their values, one a run; NaN where none has one.
        below: nodes of the next level that are shown.
        left_out: how many more there are.
    """

    label: str
    path: str
    level: int
    queries: int
    means: tuple[float, ...]
    below: tuple[NodeMeans, ...] = ()
    left_out: int = 0

    @property
    def mean(self) -> float:
        """Over the runs."""
        return float(np.mean(self.means))


def answered_nodes(data: QueriesAndGallery, values: NDArray[np.float64]) -> dict[str, list[NodeMeans]]:
    """For each level above the finest (or that one alone) its nodes with queries, those of the least means first.

    Args:
        data: the queries.
        values: (Q, R) a metric of each query, a column a run; NaN where it has none.
    """
    names = data.tree.level_names[:-1] or data.tree.level_names
    return {
        name: sorted((node for node in _nodes(data, values, level) if node.queries), key=lambda node: node.mean)
        for level, name in enumerate(names, start=1)
    }


def tree_of_means(data: QueriesAndGallery, values: NDArray[np.float64]) -> tuple[tuple[NodeMeans, ...], int]:
    """The nodes of level 1 with those below them, as many as fit on a page, and how many more there are.

    Args:
        data: the queries.
        values: as above.
    """
    sizes = np.cumsum(data.tree.level_sizes)
    depth = max(1, int((sizes <= MOST_NODES).sum()))
    below: dict[tuple[int, ...], list[NodeMeans]] = {}
    for level in range(depth, 0, -1):
        above: dict[tuple[int, ...], list[NodeMeans]] = {}
        for path, node in zip(_paths(data, level), _nodes(data, values, level), strict=True):
            own = below.get(path, [])
            whole = NodeMeans(
                node.label,
                node.path,
                level,
                node.queries,
                node.means,
                tuple(own[:MOST_BELOW]),
                max(0, len(own) - MOST_BELOW),
            )
            above.setdefault(path[:-1], []).append(whole)
        below = above
    top = below[()]
    return tuple(top[:MOST_BELOW]), max(0, len(top) - MOST_BELOW)


@dataclass(frozen=True)
class NodeTable:
    """Nodes of all levels in one table.

    Attributes:
        columns: metric and model of each mean.
        nodes: those with the most queries first; their means are of all columns.
        of: how many nodes have queries.
    """

    columns: list[tuple[str, str]]
    nodes: list[NodeMeans]
    of: int


def node_table(data: QueriesAndGallery, models: Sequence[str], values: Mapping[str, NDArray[np.float64]]) -> NodeTable:
    """Several metrics of the nodes with the most queries.

    Args:
        data: the queries.
        models: their names.
        values: of each metric (Q, R), as above; the first one decides which queries count.
    """
    found = [
        replace(same[0], means=tuple(mean for node in same for mean in node.means))
        for level in range(1, data.tree.num_levels + 1)
        for same in zip(*(_nodes(data, columns, level) for columns in values.values()), strict=True)
        if same[0].queries
    ]
    found.sort(key=lambda node: -node.queries)
    columns = [(metric, model) for metric in values for model in models]
    return NodeTable(columns, found[: min(MOST_ROWS, MOST_VALUES // len(columns))], len(found))


def _paths(data: QueriesAndGallery, level: int) -> list[tuple[int, ...]]:
    """The paths of a level's nodes that queries or gallery have, in their order."""
    every = np.concatenate([data.query_paths[:, :level], data.gallery_paths[:, :level]])
    return [tuple(path) for path in np.unique(every, axis=0).tolist()]


def _nodes(data: QueriesAndGallery, values: NDArray[np.float64], level: int) -> list[NodeMeans]:
    """These nodes with their means; the nodes below them are not filled in."""
    paths = _paths(data, level)
    place = {path: number for number, path in enumerate(paths)}
    rows = np.array([place[tuple(path)] for path in data.query_paths[:, :level].tolist()])
    known = ~np.isnan(values).any(axis=1)
    counts = np.bincount(rows[known], minlength=len(paths))
    sums = [np.bincount(rows[known], weights=column[known], minlength=len(paths)) for column in values.T]
    means = np.divide(sums, counts, out=np.full((len(sums), len(paths)), np.nan), where=counts > 0)
    return [
        _node(data, path, int(counts[number]), tuple(means[:, number].tolist())) for number, path in enumerate(paths)
    ]


def _node(data: QueriesAndGallery, path: Sequence[int], queries: int, means: tuple[float, ...]) -> NodeMeans:
    labels = data.tree.labels_of(path)
    return NodeMeans(own_label(labels), data.label(np.array(path)), len(path), queries, means)
