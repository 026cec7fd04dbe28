"""Figures of whole rankings: precision over recall, severe errors, confused nodes, and batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree import levels
from hiertree.arrays import unit_rows
from hiertree.metrics import average_precision

from .figures import SvgFigure, drawn
from .plots import (
    confusion_matrix,
    error_severity,
    first_wrong_items,
    interpolated_precision,
    plot_confusion,
    plot_error_severity,
    plot_precision_recall,
)
from .plots.errors import height_names
from .queries_and_gallery import own_label, sample_of
from .sources import FinishedRun

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .queries_and_gallery import QueriesAndGallery
    from .sources import Measurement

MOST_QUERIES = 1_000
MOST_NODES = 30
_MOST_IN_BATCHES = 250  # queries: each is ranked once for every batch that holds one of its positives
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
    precisions, shares, wrong = (
        {name: np.concatenate(blocks) for name, blocks in zip(measurements, computed, strict=True)}
        for computed in zip(*(_errors(run, data, queries) for run in measurements.values()), strict=True)
    )
    counts = {"queries": len(queries), "of": len(answered)}
    classed = ~np.isnan(next(iter(shares.values()))).any(axis=1)
    if not classed.any():
        return {**counts, "figures": [_precision_recall(precisions)], "confusion": None}
    confusion = _confusion({name: rows[classed] for name, rows in wrong.items()}, data, queries[classed])
    figures = [_precision_recall(precisions), _severity(shares, data.tree.level_names)]
    return {**counts, "figures": figures, "confusion": confusion}


def _errors(
    run: Measurement, data: QueriesAndGallery, queries: NDArray[np.int64]
) -> Iterator[tuple[NDArray[Any], ...]]:
    """Yield per block, for one model: (q, 101) precisions, (q, L) shares of errors and (q,) first wrong items."""
    computed = (interpolated_precision, error_severity, first_wrong_items)
    blocks = [
        [function(scores, depths, valid=valid, num_levels=data.tree.num_levels) for function in computed]
        for scores, depths, valid in scored_blocks(run, data, queries)
    ]
    return zip(*blocks, strict=True)


def _precision_recall(precisions: Mapping[str, NDArray[np.float64]]) -> SvgFigure:
    means = {name: 100 * np.nanmean(rows, axis=0) for name, rows in precisions.items()}
    numbers = (
        f"{name}: {mean[25]:.0f} at recall 25, {mean[50]:.0f} at 50, {mean[75]:.0f} at 75."
        for name, mean in means.items()
    )
    title = "Hierarchical precision over recall"
    return drawn(plot_precision_recall, precisions, title=title, description=" ".join(numbers))


def _severity(shares: Mapping[str, NDArray[np.float64]], level_names: tuple[str, ...]) -> SvgFigure:
    numbers = []
    for name, share in shares.items():
        means = zip(height_names(level_names), 100 * np.nanmean(share, axis=0), strict=True)
        numbers.append(f"{name}: {', '.join(f'{mean:.0f} at {height}' for height, mean in means)}.")
    title, description = "Where the first wrong image lies", " ".join(numbers)
    return drawn(plot_error_severity, shares, level_names=level_names, title=title, description=description)


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
    number_of = {tuple(node): number for number, node in enumerate(nodes.tolist())}
    query_nodes = np.array([number_of.get(tuple(path), -1) for path in query_paths.tolist()])
    labels = [data.tree.labels_of(node) for node in nodes.tolist()]
    names = [[own_label(path[:depth]) for depth in range(1, level + 1)] for path in labels]
    figures = []
    for number, (name, rows) in enumerate(wrong.items()):
        items = [tuple(path) for path in data.gallery_paths[rows, :level].tolist()]
        hit = np.where(rows >= 0, [number_of.get(path, -1) for path in items], -1)
        matrix = confusion_matrix(query_nodes[query_nodes >= 0], hit[query_nodes >= 0], num_nodes=len(nodes))
        figures.append(_drawn_matrix(name, number, matrix, names))
    level_name = data.tree.level_names[level - 1]
    return {"level": level_name, "shown": len(nodes), "of": len(candidates), "figures": figures}


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


def _drawn_matrix(name: str, number: int, matrix: NDArray[np.float64], nodes: list[list[str]]) -> SvgFigure:
    """The drawn matrix of a model, and its largest confusions in words."""
    between = np.nan_to_num(matrix * (1 - np.eye(len(matrix))))
    greatest = np.unravel_index(np.argsort(-between, axis=None, kind="stable")[:_MOST_NAMED], between.shape)
    confusions = [
        f"{nodes[row][-1]} with {nodes[column][-1]} {100 * between[row, column]:.0f}"
        for row, column in zip(*(axis.tolist() for axis in greatest), strict=True)
        if between[row, column] > 0
    ]
    description = (
        f"Confused the most, in percent of the queries: {', '.join(confusions)}."
        if confusions
        else "No node is confused."
    )
    title = f"{name}: confusion"
    return drawn(
        plot_confusion, matrix, nodes=nodes, color=f"C{number}", title=title, description=description, letters=28
    )


def batch_gap(measurements: Mapping[str, Measurement], data: QueriesAndGallery) -> dict[str, Any] | None:
    """Rank some queries in batches as the first run was trained on, and in the whole gallery: the mean APs of both.

    None without runs or without torch, for a sampler of one's own without a batch size, where the gallery is no larger
    than a batch, or where no query has a positive.
    """
    first = next(iter(measurements.values()))
    if not isinstance(first, FinishedRun) or find_spec("torch") is None:
        return None
    options = first.recipe.sampler.options()
    size, per_class = options.get("batch_size"), options.get("images_per_class", 1)
    if not (isinstance(size, int) and isinstance(per_class, int) and 1 <= per_class <= size):
        return None  # of a sampler of one's own
    classes, counts = np.unique(data.gallery_paths[:, -1], return_counts=True)
    answerable = np.isin(data.query_paths[:, -1], classes[counts > (0 if data.separate else 1)])
    queries = sample_of(np.flatnonzero(answerable), _MOST_IN_BATCHES)
    if not len(queries) or len(data.gallery_paths) <= size:
        return None
    batches = balanced_batches(
        data.gallery_paths[:, -1], classes_per_batch=size // per_class, images_per_class=per_class
    )
    means = {name: _means_in_batches(run, data, queries, batches) for name, run in measurements.items()}
    return {"batch_size": size, "images_per_class": per_class, "queries": len(queries), "means": means}


def balanced_batches(
    labels: NDArray[np.integer], *, classes_per_batch: int, images_per_class: int
) -> NDArray[np.int64]:
    """Share items among batches by a fixed seed: (n,) the batch of each.

    A class is cut into groups of ``images_per_class`` items, and a batch takes ``classes_per_batch`` groups, first one
    of each class, then a second of those that have more.

    >>> balanced_batches(np.array([7, 7, 7, 7, 9, 9]), classes_per_batch=2, images_per_class=2)
    array([1, 1, 0, 0, 0, 0])
    """
    generator = np.random.default_rng(0)
    shuffled = generator.permutation(len(labels))
    order = shuffled[np.argsort(labels[shuffled], kind="stable")]
    _, first, sizes = np.unique(labels[order], return_index=True, return_counts=True)
    turn = (np.arange(len(labels)) - np.repeat(first, sizes)) // images_per_class
    random_order = np.repeat(generator.permutation(len(sizes)), sizes)
    _, group = np.unique(np.stack([turn, random_order]), axis=1, return_inverse=True)
    batches = np.empty(len(labels), dtype=np.int64)
    batches[order] = group.ravel() // classes_per_batch
    return batches


def _means_in_batches(
    run: Measurement, data: QueriesAndGallery, queries: NDArray[np.int64], batches: NDArray[np.int64]
) -> tuple[float, float]:
    from hiertree import losses

    gaps, wholes, level = [], [], data.tree.num_levels
    for scores, depths, valid in scored_blocks(run, data, queries):
        gaps.append(losses.decomposability_gap(scores, depths, batches, level=level, valid=valid))
        wholes.append(average_precision(scores, depths, level=level, valid=valid))
    gallery_mean = float(np.nanmean(np.concatenate(wholes)))
    return gallery_mean + float(np.nanmean(np.concatenate(gaps))), gallery_mean
