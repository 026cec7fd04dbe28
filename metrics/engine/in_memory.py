"""The values of blocks of queries, the scores of a block with the whole gallery held at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.io.progress import Advance

from ..ranking.full_sort import whole_lists
from ..ranking.sorted_positives import row_bytes, sort
from .blocks import for_row_ranges, loaded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..evaluation.retrieval import Job
    from .scoring import Layout


def values_by_rows(
    job: Job, layout: Layout, blocks: list[NDArray[np.int64]], advance: Advance
) -> Iterator[NDArray[np.float64]]:
    """Yield the values of each block."""
    places = np.arange(len(job.tree.order))
    memory = np.empty(layout.rows * len(places), job.similarity.dtype)  # of the scores, taken once
    for rows in blocks:
        queries = job.similarity.queries(rows, layout.height)
        scores = memory[: len(queries) * len(places)].reshape(len(queries), -1)
        _fill(job, queries, scores, layout.height)
        found = _values(job, scores, places, rows)
        advance(len(rows))
        yield found


def _fill(job: Job, queries: NDArray[Any], scores: NDArray[Any], height: int) -> None:
    """Write the scores of padded queries with the whole gallery in tree order, however it is read."""
    similarity = job.similarity
    for places, items in loaded(similarity.items, similarity.parts()):
        if places[-1] - places[0] < len(places):
            similarity.fill(queries, items, scores[:, places[0] : places[-1] + 1], height)
        else:
            part = np.empty((len(queries), len(places)), scores.dtype)
            similarity.fill(queries, items, part, height)
            scores[:, places] = part


def _values(job: Job, scores: NDArray[Any], places: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.float64]:
    found = np.empty((len(rows), len(job.plan.metrics)))

    def work(part: slice) -> None:
        job.leave_out(scores[part], places, rows[part])
        if job.mask.place is None:
            found[part] = _ranked_values(job, scores[part], places, rows[part])
        else:
            found[part] = _values_without_placed(job, scores[part], rows[part])

    for_row_ranges(work, len(rows), row_bytes=4 * row_bytes(max(job.most_positives(rows), 1)))
    return found


def _ranked_values(
    job: Job, scores: NDArray[Any], places: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[np.float64]:
    ranked = whole_lists(scores, job.tree.low[rows], job.tree.high[rows], ties=job.plan.ties)
    if ranked is not None:
        return job.measure_ranked(ranked, rows)
    placed = job.room(rows)
    job.gather(scores, places, rows, placed)
    sort(placed)
    job.count(scores, places, rows, placed)
    return job.measure(placed, rows)


def _values_without_placed(job: Job, scores: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Where the first or last item of a list goes, for which every item must be looked at."""
    from ..ranking.masks import drop_placed
    from ..ranking.ranked import placed_matrix
    from ..ranking.tree_order import fill_levels

    levels, place = np.empty(scores.shape, np.uint8), job.tree.place
    fill_levels(job.tree.low[rows], job.tree.high[rows], levels)
    excluded, totals = job.mask.excluded(rows, place), job.totals[rows]
    if job.mask.place is not None:
        totals = drop_placed(job.mask.place, scores, levels, excluded, job.tree.order, totals)
    if job.by_index:  # equal scores in the order the user gave the gallery
        scores, levels, excluded = scores[:, place], levels[:, place], excluded[:, place]
    return job.measure(placed_matrix(scores, levels, excluded, ties=job.plan.ties), rows, totals=totals)
