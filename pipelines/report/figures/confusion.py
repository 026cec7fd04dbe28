"""The confusion matrix of each model, between the deepest nodes that a page has room for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..plots import confusion_matrix, plot_confusion
from ..tree_branches import own_label
from .svg import SvgFigure, drawn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..queries_and_gallery import QueriesAndGallery

MOST_NODES = 30
_SAID = 3  # confusions that are put in words


@dataclass(frozen=True)
class ConfusionFigures:
    """The matrices.

    Attributes:
        level: name of the nodes' level.
        shown: how many of its nodes a matrix has.
        of: how many have queries or wrong items.
        figures: one a model.
    """

    level: str
    shown: int
    of: int
    figures: list[SvgFigure]


def confusion_figures(
    wrong: Mapping[str, NDArray[np.int64]], data: QueriesAndGallery, queries: NDArray[np.int64]
) -> ConfusionFigures:
    """Draw a matrix for each model.

    Args:
        wrong: of each model the row of the gallery that is first wrong for each query, −1 where none is.
        data: what was measured.
        queries: their indices.
    """
    asked = data.query_paths[queries]
    every = np.concatenate([asked, *(data.gallery_paths[rows[rows >= 0]] for rows in wrong.values())])
    level = _deepest(every)
    found, asked_of = np.unique(every[:, :level], axis=0), asked[:, :level]
    nodes = _with_most_queries(found, asked_of)
    place = {tuple(node): number for number, node in enumerate(nodes.tolist())}
    own = np.array([place.get(tuple(path), -1) for path in asked_of.tolist()])
    names = [_names(data, node) for node in nodes.tolist()]
    figures = []
    for number, (name, rows) in enumerate(wrong.items()):
        items = data.gallery_paths[rows, :level].tolist()
        hit = np.array([place.get(tuple(path), -1) if row >= 0 else -1 for path, row in zip(items, rows, strict=True)])
        matrix = confusion_matrix(own[own >= 0], hit[own >= 0], num_nodes=len(nodes))
        figures.append(_drawn(name, number, matrix, names))
    return ConfusionFigures(data.tree.level_names[level - 1], len(nodes), len(found), figures)


def _deepest(paths: NDArray[np.int32]) -> int:
    """The deepest level above the finest whose nodes fit on the page; 1 if none does."""
    coarser = range(max(1, paths.shape[1] - 1), 0, -1)
    return next((level for level in coarser if len(np.unique(paths[:, :level], axis=0)) <= MOST_NODES), 1)


def _with_most_queries(nodes: NDArray[np.int32], asked: NDArray[np.int32]) -> NDArray[np.int32]:
    """As many nodes as fit, in their order."""
    if len(nodes) <= MOST_NODES:
        return nodes
    own, counts = np.unique(asked, axis=0, return_counts=True)
    chosen = own[np.argsort(-counts, kind="stable")[:MOST_NODES]]
    return np.unique(chosen, axis=0)


def _names(data: QueriesAndGallery, node: list[int]) -> list[str]:
    labels = data.tree.labels_of(node)
    return [own_label(labels[: depth + 1]) for depth in range(len(labels))]


def _drawn(name: str, number: int, matrix: NDArray[np.float64], nodes: list[list[str]]) -> SvgFigure:
    """The matrix of a model, and its greatest confusions between different nodes in words."""
    between = np.nan_to_num(matrix * (1 - np.eye(len(matrix))))
    rows, columns = np.unravel_index(np.argsort(-between, axis=None, kind="stable")[:_SAID], between.shape)
    pairs = zip(rows.tolist(), columns.tolist(), strict=True)
    said = [
        f"{nodes[row][-1]} with {nodes[column][-1]} {100 * between[row, column]:.0f}"
        for row, column in pairs
        if between[row, column] > 0
    ]
    most = f"Confused the most, in percent of the queries: {', '.join(said)}." if said else "No node is confused."
    title = f"{name}: confusion"
    return drawn(
        lambda: plot_confusion(matrix, nodes=nodes, color=f"C{number}"), title=title, description=most, letters=28
    )
