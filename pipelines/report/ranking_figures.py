"""What the page says of whole rankings: precision over recall, severe errors, confused nodes, and batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hiertree import levels
from hiertree.metrics import average_precision

from ..stored_embeddings.neighbors import unit_rows
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


class ScoredBlock(NamedTuple):
    """(q, N) cosines, levels and booleans of some queries; False where the list of a query leaves an item out."""

    scores: NDArray[np.floating]
    levels: NDArray[np.uint8]
    valid: NDArray[np.bool_]


def scored_blocks(run: Measurement, data: QueriesAndGallery, queries: NDArray[np.int64]) -> Iterator[ScoredBlock]:
    """The scores of a model for some queries, in blocks, so that 100,000 queries need no more memory than a few."""
    embeddings, items = run.vectors
    own, gallery = unit_rows(embeddings[queries]), unit_rows(items)
    size = max(1, _BLOCK // len(gallery))
    for start in range(0, len(queries), size):
        rows = queries[start : start + size]
        valid = np.ones((len(rows), len(gallery)), dtype=np.bool_)
        for mask, query in zip(valid, rows.tolist(), strict=True):
            mask[run.left_out(query)] = False
        shared = levels(data.query_paths[rows], data.gallery_paths)
        yield ScoredBlock(own[start : start + size] @ gallery.T, shared, valid)


@dataclass(frozen=True)
class _Errors:
    """Of one model: (q, 101) precisions, (q, L) shares of errors and the (q,) first wrong items."""

    precision: NDArray[np.float64]
    severity: NDArray[np.float64]
    wrong: NDArray[np.int64]


@dataclass(frozen=True)
class ConfusionFigures:
    """A matrix for each model, of the shown nodes of a level; ``of`` is how many have queries or wrong items."""

    level: str
    shown: int
    of: int
    figures: list[SvgFigure]


@dataclass(frozen=True)
class ErrorFigures:
    """Curves and bars, drawn from so many queries ``of`` all; no confusion where no query has an item of its class."""

    queries: int
    of: int
    figures: list[SvgFigure]
    confusion: ConfusionFigures | None


def error_figures(
    found: Mapping[str, Measurement], data: QueriesAndGallery, values: NDArray[np.float64]
) -> ErrorFigures | None:
    """Draw the errors of at most 1,000 of the queries that have a value in every run: (Q, R), NaN where there is none.

    None where no query has one.
    """
    known = np.flatnonzero(~np.isnan(values).any(axis=1))
    if not len(known):
        return None
    queries = sample_of(known, MOST_QUERIES)
    errors = {name: _errors(run, data, queries) for name, run in found.items()}
    curves, classed = _precision_recall(errors), ~np.isnan(next(iter(errors.values())).severity).any(axis=1)
    if not classed.any():
        return ErrorFigures(len(queries), len(known), [curves], None)
    wrong = {name: own.wrong[classed] for name, own in errors.items()}
    confusion = _confusion(wrong, data, queries[classed])
    return ErrorFigures(len(queries), len(known), [curves, _severity(errors, data.tree.level_names)], confusion)


def _errors(run: Measurement, data: QueriesAndGallery, queries: NDArray[np.int64]) -> _Errors:
    computed = (interpolated_precision, error_severity, first_wrong_items)
    blocks = [
        [what(block.scores, block.levels, valid=block.valid, num_levels=data.tree.num_levels) for what in computed]
        for block in scored_blocks(run, data, queries)
    ]
    return _Errors(*map(np.concatenate, zip(*blocks, strict=True)))


def _precision_recall(errors: Mapping[str, _Errors]) -> SvgFigure:
    curves = {name: own.precision for name, own in errors.items()}
    means = {name: 100 * np.nanmean(curve, axis=0) for name, curve in curves.items()}
    numbers = (
        f"{name}: {mean[25]:.0f} at recall 25, {mean[50]:.0f} at 50, {mean[75]:.0f} at 75."
        for name, mean in means.items()
    )
    title = "Hierarchical precision over recall"
    return drawn(lambda: plot_precision_recall(curves), title=title, description=" ".join(numbers))


def _severity(errors: Mapping[str, _Errors], level_names: tuple[str, ...]) -> SvgFigure:
    shares, numbers = {name: own.severity for name, own in errors.items()}, []
    for name, share in shares.items():
        means = zip(height_names(level_names), 100 * np.nanmean(share, axis=0), strict=True)
        numbers.append(f"{name}: {', '.join(f'{mean:.0f} at {height}' for height, mean in means)}.")
    title, description = "Where the first wrong image lies", " ".join(numbers)
    return drawn(lambda: plot_error_severity(shares, level_names=level_names), title=title, description=description)


def _confusion(
    wrong: Mapping[str, NDArray[np.int64]], data: QueriesAndGallery, queries: NDArray[np.int64]
) -> ConfusionFigures:
    """A matrix for each model, from the gallery's row that is first wrong for each query, −1 where none is."""
    asked = data.query_paths[queries]
    every = np.concatenate([asked, *(data.gallery_paths[rows[rows >= 0]] for rows in wrong.values())])
    level = _deepest(every)
    found, asked = np.unique(every[:, :level], axis=0), asked[:, :level]
    nodes = _with_most_queries(found, asked)
    number_of = {tuple(node): number for number, node in enumerate(nodes.tolist())}
    own = np.array([number_of.get(tuple(path), -1) for path in asked.tolist()])
    names = [_names(data, node) for node in nodes.tolist()]
    figures = []
    for number, (name, rows) in enumerate(wrong.items()):
        items = [tuple(path) for path in data.gallery_paths[rows, :level].tolist()]
        hit = np.where(rows >= 0, [number_of.get(path, -1) for path in items], -1)
        matrix = confusion_matrix(own[own >= 0], hit[own >= 0], num_nodes=len(nodes))
        figures.append(_drawn_matrix(name, number, matrix, names))
    return ConfusionFigures(data.tree.level_names[level - 1], len(nodes), len(found), figures)


def _deepest(paths: NDArray[np.int32]) -> int:
    """The deepest level above the finest whose nodes fit on the page; 1 if none does."""
    coarser = range(max(1, paths.shape[1] - 1), 0, -1)
    return next((level for level in coarser if len(np.unique(paths[:, :level], axis=0)) <= MOST_NODES), 1)


def _with_most_queries(nodes: NDArray[np.int32], asked: NDArray[np.int32]) -> NDArray[np.int32]:
    """As many nodes as fit, in the order of the tree."""
    if len(nodes) <= MOST_NODES:
        return nodes
    own, counts = np.unique(asked, axis=0, return_counts=True)
    return np.unique(own[np.argsort(-counts, kind="stable")[:MOST_NODES]], axis=0)


def _names(data: QueriesAndGallery, node: list[int]) -> list[str]:
    labels = data.tree.labels_of(node)
    return [own_label(labels[: depth + 1]) for depth in range(len(labels))]


def _drawn_matrix(name: str, number: int, matrix: NDArray[np.float64], nodes: list[list[str]]) -> SvgFigure:
    """The matrix of a model, and its greatest confusions between different nodes in words."""
    between = np.nan_to_num(matrix * (1 - np.eye(len(matrix))))
    greatest = np.unravel_index(np.argsort(-between, axis=None, kind="stable")[:_MOST_NAMED], between.shape)
    named = [
        f"{nodes[row][-1]} with {nodes[column][-1]} {100 * between[row, column]:.0f}"
        for row, column in zip(*(axis.tolist() for axis in greatest), strict=True)
        if between[row, column] > 0
    ]
    most = f"Confused the most, in percent of the queries: {', '.join(named)}." if named else "No node is confused."
    return drawn(
        lambda: plot_confusion(matrix, nodes=nodes, color=f"C{number}"),
        title=f"{name}: confusion",
        description=most,
        letters=28,
    )


@dataclass(frozen=True)
class BatchGap:
    """For each model its mean AP in a batch and in the whole gallery, for so many queries."""

    batch_size: int
    images_per_class: int
    queries: int
    means: dict[str, tuple[float, float]]


def batch_gap(found: Mapping[str, Measurement], data: QueriesAndGallery) -> BatchGap | None:
    """Rank some queries in batches as the first run was trained on, and in the whole gallery.

    None without runs or without torch, where the gallery is no larger than a batch, or where no query has a positive.
    """
    first = next(iter(found.values()))
    if not isinstance(first, FinishedRun) or find_spec("torch") is None:
        return None
    options = first.recipe.sampler.options()
    size, per_class = int(options["batch_size"]), int(options.get("images_per_class", 1))
    classes, counts = np.unique(data.gallery_paths[:, -1], return_counts=True)
    several = np.isin(data.query_paths[:, -1], classes[counts > (0 if data.separate else 1)])
    queries = sample_of(np.flatnonzero(several), _MOST_IN_BATCHES)
    if not len(queries) or len(data.gallery_paths) <= size:
        return None
    batches = balanced_batches(
        data.gallery_paths[:, -1], classes_per_batch=size // per_class, images_per_class=per_class
    )
    means = {name: _means_in_batches(run, data, queries, batches) for name, run in found.items()}
    return BatchGap(size, per_class, len(queries), means)


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
    drawn = np.repeat(generator.permutation(len(sizes)), sizes)
    _, group = np.unique(np.stack([turn, drawn]), axis=1, return_inverse=True)
    batches = np.empty(len(labels), dtype=np.int64)
    batches[order] = group.ravel() // classes_per_batch
    return batches


def _means_in_batches(
    run: Measurement, data: QueriesAndGallery, queries: NDArray[np.int64], batches: NDArray[np.int64]
) -> tuple[float, float]:
    from hiertree import losses

    gaps, wholes, level = [], [], data.tree.num_levels
    for block in scored_blocks(run, data, queries):
        gaps.append(losses.decomposability_gap(block.scores, block.levels, batches, level=level, valid=block.valid))
        wholes.append(average_precision(block.scores, block.levels, level=level, valid=block.valid))
    whole = float(np.nanmean(np.concatenate(wholes)))
    return whole + float(np.nanmean(np.concatenate(gaps))), whole
