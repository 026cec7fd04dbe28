"""The label tree as the page shows it, with the mean of the queries below every node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .queries_and_gallery import own_label

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .queries_and_gallery import QueriesAndGallery

MOST_NODES = 1_500  # that a page draws of the tree
MOST_BELOW = 60  # nodes that it draws below one node
MOST_ROWS = 2_000  # nodes of the table that readers sort
MOST_VALUES = 12_000  # that it holds: 2,000 nodes, three metrics, two models


@dataclass(frozen=True)
class NodeMeans:
    """A node, how many queries below it have a value, and the mean of these for each run, NaN where none has one.

    ``path`` holds the labels above it too; level 1 is the coarsest. ``below`` are the nodes of the next level that are
    shown, and ``left_out`` counts the others.
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


def tree_of_means(data: QueriesAndGallery, values: NDArray[np.float64]) -> tuple[tuple[NodeMeans, ...], int]:
    """The nodes of level 1 with those below them, as many as fit on a page, and how many more there are."""
    depth = max(1, int((np.cumsum(data.tree.level_sizes) <= MOST_NODES).sum()))
    children: dict[tuple[int, ...], list[NodeMeans]] = {}
    for level in range(depth, 0, -1):
        parents: dict[tuple[int, ...], list[NodeMeans]] = {}
        for path, node in _nodes(data, values, level).items():
            first_children, left_out = _first_nodes(children.get(path, []))
            parents.setdefault(path[:-1], []).append(replace(node, below=first_children, left_out=left_out))
        children = parents
    return _first_nodes(children[()])


def _first_nodes(nodes: Sequence[NodeMeans]) -> tuple[tuple[NodeMeans, ...], int]:
    return tuple(nodes[:MOST_BELOW]), max(0, len(nodes) - MOST_BELOW)


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
    """The nodes of a level that queries or gallery have, by path, with their means but without the nodes below them."""
    every = np.concatenate([data.query_paths[:, :level], data.gallery_paths[:, :level]])
    node_paths, inverse = np.unique(every, axis=0, return_inverse=True)
    answered = ~np.isnan(values).any(axis=1)
    rows, values = inverse.reshape(-1)[: len(values)][answered], values[answered]
    counts = np.bincount(rows, minlength=len(node_paths))
    sums = [np.bincount(rows, weights=column, minlength=len(node_paths)) for column in values.T]
    means = np.divide(sums, counts, out=np.full((len(sums), len(node_paths)), np.nan), where=counts > 0)
    return {
        tuple(path): NodeMeans(
            own_label(data.tree.labels_of(path)), data.label(np.array(path)), level, count, tuple(node_means)
        )
        for path, count, node_means in zip(node_paths.tolist(), counts.tolist(), means.T.tolist(), strict=True)
    }
