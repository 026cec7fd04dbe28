"""Errors in whole rankings: precision over recall, how severe the first ones are, and which nodes are confused."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree import levels
from hiertree.arrays import unit_rows

from .figures import DrawnFigure, drawn
from .plots import (
    confusion_matrix,
    error_severity,
    first_wrong_items,
    height_names,
    interpolated_precision,
    plot_error_severity,
    plot_precision_recall,
)
from .queries_and_gallery import own_label, sample_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .queries_and_gallery import QueriesAndGallery
    from .sources import Measurement

MOST_QUERIES = 1_000
MOST_NODES = 30
_BLOCK = 4_000_000  # scores that are held at once
_MOST_NAMED = 3  # confusions that are put in words


def scored_blocks(
    run: Measurement, data: QueriesAndGallery, queries: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.floating], NDArray[np.uint8], NDArray[np.bool_]]]:
    """(q, N) cosines, levels and booleans of some queries; False where the list of a query leaves an item out.

    They come in blocks, so that 100,000 queries need no more memory than a few.
    """
    embeddings, items = run.vectors
    vectors, gallery = unit_rows(embeddings[queries]), unit_rows(items)
    size = max(1, _BLOCK // len(gallery))
    for start in range(0, len(queries), size):
        rows = queries[start : start + size]
        valid = np.ones((len(rows), len(gallery)), dtype=np.bool_)
        for mask, query in zip(valid, rows.tolist(), strict=True):
            mask[run.left_out(query)] = False
        yield vectors[start : start + size] @ gallery.T, levels(data.query_paths[rows], data.gallery_paths), valid


def error_figures(
    measurements: Mapping[str, Measurement], data: QueriesAndGallery, values: NDArray[np.float64]
) -> dict[str, Any] | None:
    """Draw the errors of at most 1,000 of the queries that have a value in every run: (Q, R), NaN where there is none.

    None where no query has one; without confusion where no query has an item of its class.
    """
    answered = np.flatnonzero(~np.isnan(values).any(axis=1))
    if not len(answered):
        return None
    queries = sample_of(answered, MOST_QUERIES)
    precisions, severities, wrong = (
        {name: np.concatenate(blocks) for name, blocks in zip(measurements, computed, strict=True)}
        for computed in zip(*(_errors(run, data, queries) for run in measurements.values()), strict=True)
    )
    counts = {"queries": len(queries), "of": len(answered)}
    classed = ~np.isnan(next(iter(severities.values()))).any(axis=1)
    if not classed.any():
        return {**counts, "figures": [_precision_recall(precisions)], "confusion": None}
    confusion = _confusion({name: rows[classed] for name, rows in wrong.items()}, data, queries[classed])
    figures = [_precision_recall(precisions), _severity(severities, data.tree.level_names)]
    return {**counts, "figures": figures, "confusion": confusion}


def _errors(
    run: Measurement, data: QueriesAndGallery, queries: NDArray[np.int64]
) -> Iterator[tuple[NDArray[Any], ...]]:
    """Yield per block, for one model: (q, 101) precisions, (q, L) severities and (q,) first wrong items."""
    computed = (interpolated_precision, error_severity, first_wrong_items)
    blocks = [
        [function(scores, depths, valid=valid, num_levels=data.tree.num_levels) for function in computed]
        for scores, depths, valid in scored_blocks(run, data, queries)
    ]
    return zip(*blocks, strict=True)


def _precision_recall(precisions: Mapping[str, NDArray[np.float64]]) -> DrawnFigure:
    means = {name: 100 * np.nanmean(rows, axis=0) for name, rows in precisions.items()}
    sentences = (
        f"{name}: {mean[25]:.0f} at recall 25, {mean[50]:.0f} at 50, {mean[75]:.0f} at 75."
        for name, mean in means.items()
    )
    title = "Hierarchical precision over recall"
    return drawn(plot_precision_recall, precisions, title=title, description=" ".join(sentences))


def _severity(severities: Mapping[str, NDArray[np.float64]], level_names: tuple[str, ...]) -> DrawnFigure:
    sentences = []
    for name, severity in severities.items():
        means = zip(height_names(level_names), 100 * np.nanmean(severity, axis=0), strict=True)
        sentences.append(f"{name}: {', '.join(f'{mean:.0f} at {height}' for height, mean in means)}.")
    title, description = "Where the first wrong image lies", " ".join(sentences)
    return drawn(plot_error_severity, severities, level_names=level_names, title=title, description=description)


def _confusion(
    wrong: Mapping[str, NDArray[np.int64]], data: QueriesAndGallery, queries: NDArray[np.int64]
) -> dict[str, Any]:
    """A matrix for each model, from the gallery's row that is first wrong for each query, −1 where none is.

    ``shown`` are the nodes of a level in the matrices, ``of`` all that have queries or wrong items.
    """
    query_paths = data.query_paths[queries]
    every = np.concatenate([query_paths, *(data.gallery_paths[rows[rows >= 0]] for rows in wrong.values())])
    level = _deepest(every)
    candidates, query_paths = np.unique(every[:, :level], axis=0), query_paths[:, :level]
    nodes = _pick_largest(candidates, query_paths)
    row_of = {tuple(node): row for row, node in enumerate(nodes.tolist())}
    query_nodes = np.array([row_of.get(tuple(path), -1) for path in query_paths.tolist()])
    labels = [data.tree.labels_of(node) for node in nodes.tolist()]
    matrices = {}
    for name, rows in wrong.items():
        items = [tuple(path) for path in data.gallery_paths[rows, :level].tolist()]
        hits = np.where(rows >= 0, [row_of.get(path, -1) for path in items], -1)
        shown = query_nodes >= 0
        matrices[name] = confusion_matrix(query_nodes[shown], hits[shown], num_nodes=len(nodes))
    return {
        "level": data.tree.level_names[level - 1],
        "shown": len(nodes),
        "of": len(candidates),
        "nodes": [own_label(path) for path in labels],
        "groups": [_groups([path[:depth] for path in labels]) for depth in range(1, level)],
        "matrices": {name: matrix.tolist() for name, matrix in matrices.items()},
        "largest": {name: _largest_confusions(matrix, labels) for name, matrix in matrices.items()},
    }


def _groups(parents: Sequence[tuple[Hashable, ...]]) -> dict[int, tuple[str, int]]:
    """Label and size of each parent's nodes, by the row in which these begin.

    >>> _groups([("a",), ("a",), ("b",)])
    {0: ('a', 2), 2: ('b', 1)}
    """
    groups, start = {}, 0
    for parent, members in groupby(parents):
        size = len(list(members))
        groups[start] = (own_label(parent), size)
        start += size
    return groups


def _deepest(paths: NDArray[np.int32]) -> int:
    """The deepest level above the finest whose nodes fit on the page; 1 if none does."""
    coarser = range(max(1, paths.shape[1] - 1), 0, -1)
    return next((level for level in coarser if len(np.unique(paths[:, :level], axis=0)) <= MOST_NODES), 1)


def _pick_largest(nodes: NDArray[np.int32], query_paths: NDArray[np.int32]) -> NDArray[np.int32]:
    """The nodes with the most queries that fit, in the order of the tree."""
    if len(nodes) <= MOST_NODES:
        return nodes
    query_nodes, counts = np.unique(query_paths, axis=0, return_counts=True)
    return np.unique(query_nodes[np.argsort(-counts, kind="stable")[:MOST_NODES]], axis=0)


def _largest_confusions(matrix: NDArray[np.float64], labels: Sequence[tuple[Hashable, ...]]) -> list[str]:
    """The largest confusions of a matrix in words."""
    between = np.nan_to_num(matrix * (1 - np.eye(len(matrix))))
    greatest = np.unravel_index(np.argsort(-between, axis=None, kind="stable")[:_MOST_NAMED], between.shape)
    return [
        f"{own_label(labels[row])} with {own_label(labels[column])} {100 * between[row, column]:.0f}"
        for row, column in zip(*(axis.tolist() for axis in greatest), strict=True)
        if between[row, column] > 0
    ]
