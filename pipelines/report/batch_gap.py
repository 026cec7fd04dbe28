"""How much better batches look than the whole that they are drawn from: the decomposability gap of runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from hiertree.metrics import average_precision

from .measurements import FinishedRun
from .queries_and_gallery import sample_of, scored_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .measurements import Measurement
    from .queries_and_gallery import QueriesAndGallery

_MOST_QUERIES = 250  # each is ranked once for every batch that holds one of its positives


@dataclass(frozen=True)
class BatchGap:
    """A table of the page.

    Attributes:
        batch_size: images of the gallery in a batch.
        images_per_class: of one class, at most.
        queries: how many were ranked.
        means: of each model the mean AP in a batch and in the whole gallery.
    """

    batch_size: int
    images_per_class: int
    queries: int
    means: dict[str, tuple[float, float]]


def batch_gap(found: Mapping[str, Measurement], data: QueriesAndGallery) -> BatchGap | None:
    """Rank some queries in batches as the first run trained on, and in the whole gallery.

    None without runs or without torch, where the gallery is no larger than a batch, or where no query has a positive.
    """
    first = next(iter(found.values()))
    if not isinstance(first, FinishedRun) or find_spec("torch") is None:
        return None
    options = first.recipe.sampler.options()
    size, per_class = int(options["batch_size"]), int(options["images_per_class"])
    classes, counts = np.unique(data.gallery_paths[:, -1], return_counts=True)
    several = np.isin(data.query_paths[:, -1], classes[counts > (0 if data.separate else 1)])
    queries = sample_of(np.flatnonzero(several), _MOST_QUERIES)
    if not len(queries) or len(data.gallery_paths) <= size:
        return None
    batches = balanced_batches(
        data.gallery_paths[:, -1], classes_per_batch=size // per_class, images_per_class=per_class
    )
    means = {name: _means(run, data, queries, batches) for name, run in found.items()}
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


def _means(
    run: Measurement, data: QueriesAndGallery, queries: NDArray[np.int64], batches: NDArray[np.int64]
) -> tuple[float, float]:
    from hiertree import losses

    gaps, wholes, level = [], [], data.tree.num_levels
    for block in scored_blocks(run, data, queries):
        gaps.append(losses.decomposability_gap(block.scores, block.levels, batches, level=level, valid=block.valid))
        wholes.append(average_precision(block.scores, block.levels, level=level, valid=block.valid))
    whole = float(np.nanmean(np.concatenate(wholes)))
    return whole + float(np.nanmean(np.concatenate(gaps))), whole
