"""The values of the metrics, block of queries by block.

A block's scores fill a buffer of all gallery items, or, where the gallery comes in tiles and positives are few, only a
tile at a time: the tiles that hold positives are multiplied first, to gather these, and then all of them, to count the
other items among them. Both ways see the same products and give the same numbers; the second needs no memory that
grows with the gallery and takes more queries at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hiertree.metrics._blocks import BUDGET, for_row_ranges
from hiertree.progress import progress as show_progress

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.metrics._job import Job
    from hiertree.metrics._placing import Placed
    from hiertree.metrics._resume import FinishedBlocks

_MOST_ROWS = 1024


class Layout(NamedTuple):
    """How many queries a block has, and whether only a tile of their scores is held at once."""

    rows: int
    by_tile: bool


def layout(job: Job, block_size: int | None) -> Layout:
    """The way that takes more queries at once within the memory budget; whole products either way."""
    from hiertree.metrics._placing import row_bytes

    height, tiles, item_bytes = job.similarity.height, job.similarity.tiles, job.similarity.dtype.itemsize
    buffered = BUDGET // (len(job.tree.order) * item_bytes)
    tiled = BUDGET // ((tiles[0].stop - tiles[0].start) * item_bytes + row_bytes(job.most_positives()))
    by_tile = len(tiles) > 1 and tiled > buffered and job.mask.place is None
    rows = height if len(tiles) == 1 else min(tiled if by_tile else buffered, _MOST_ROWS)
    return Layout(-(-block_size // height) * height if block_size else max(rows // height, 1) * height, by_tile)


def values(job: Job, chosen: Layout, *, progress: bool, finished: FinishedBlocks | None = None) -> NDArray[np.float64]:
    """(Q, M) values of the metrics; blocks that are ``finished`` are read, and others become so."""
    num_queries = len(job.totals)
    found = np.empty((num_queries, len(job.plan.metrics)))
    width = max(tile.stop - tile.start for tile in job.similarity.tiles) if chosen.by_tile else len(job.tree.order)
    room = np.empty(chosen.rows * width, job.similarity.dtype)  # of the scores, taken once
    with show_progress(description="queries", total=num_queries, enabled=progress) as advance:
        for start in range(0, num_queries, chosen.rows):
            rows = slice(start, min(start + chosen.rows, num_queries))
            stored = None if finished is None else finished.load(rows)
            found[rows] = (_by_tile if chosen.by_tile else _buffered)(job, rows, room) if stored is None else stored
            if finished is not None and stored is None:
                finished.save(rows, found[rows])
            advance(rows.stop - rows.start, "")
    return found


def _buffered(job: Job, rows: slice, room: NDArray[Any]) -> NDArray[np.float64]:
    """The values of a block, its scores with the whole gallery held at once."""
    from hiertree.metrics._placing import row_bytes

    queries = job.similarity.queries(rows)
    scores = room[: len(queries) * len(job.tree.order)].reshape(len(queries), -1)
    for tile in job.similarity.tiles:
        job.similarity.fill(queries, tile, scores[:, tile])
    found = np.empty((rows.stop - rows.start, len(job.plan.metrics)))

    def work(part: slice, own: slice) -> None:
        job.leave_out(scores[part], 0, own)
        found[part] = (_ranked_values if job.mask.place is None else _values_without_placed)(job, scores[part], own)

    _for_queries(rows, work, row_bytes=4 * row_bytes(job.most_positives(rows)))
    return found


def _ranked_values(job: Job, scores: NDArray[Any], rows: slice) -> NDArray[np.float64]:
    from hiertree.metrics._placing import sort

    placed = job.room(rows)
    job.gather(scores, 0, rows, placed)
    sort(placed)
    job.count(scores, 0, rows, placed)
    return job.measure(placed, rows)


def _values_without_placed(job: Job, scores: NDArray[Any], rows: slice) -> NDArray[np.float64]:
    """Where the first or last item of a list goes, for which every item must be looked at."""
    from hiertree.metrics._masks import drop_placed
    from hiertree.metrics._ranked import placed_matrix
    from hiertree.metrics._tree_order import fill_levels

    levels, place = np.empty(scores.shape, np.uint8), job.tree.place
    fill_levels(job.tree.low[rows], job.tree.high[rows], levels)
    excluded, totals = job.mask.excluded(rows, place), job.totals[rows]
    if job.mask.place is not None:
        totals = drop_placed(job.mask.place, scores, levels, excluded, job.tree.order, totals)
    if job.by_index:  # equal scores in the order the user gave the gallery
        scores, levels, excluded = scores[:, place], levels[:, place], excluded[:, place]
    return job.measure(placed_matrix(scores, levels, excluded, ties=job.plan.ties), rows, totals=totals)


def _by_tile(job: Job, rows: slice, room: NDArray[Any]) -> NDArray[np.float64]:
    """The values of a block from counts that add up over the tiles."""
    from hiertree.metrics._placing import row_bytes, sort

    placed, queries, most = job.room(rows), job.similarity.queries(rows), row_bytes(job.most_positives(rows))
    low, high = job.tree.low[rows, 0], job.tree.high[rows, 0]
    holding = [tile for tile in job.similarity.tiles if ((low < tile.stop) & (tile.start < high)).any()]
    _over_tiles(job, rows, queries, holding, job.gather, placed, room)
    _for_queries(rows, lambda part, _: sort(placed.rows(part)), row_bytes=most)
    _over_tiles(job, rows, queries, job.similarity.tiles, job.count, placed, room)
    found = np.empty((rows.stop - rows.start, len(job.plan.metrics)))

    def finish(part: slice, own: slice) -> None:
        found[part] = job.measure(placed.rows(part), own)

    _for_queries(rows, finish, row_bytes=4 * most)
    return found


def _over_tiles(
    job: Job,
    rows: slice,
    queries: NDArray[Any],
    tiles: list[slice],
    step: Callable[[NDArray[Any], int, slice, Placed], None],
    placed: Placed,
    room: NDArray[Any],
) -> None:
    """Take a step of the job with the scores of each tile."""
    for tile in tiles:
        scores = room[: len(queries) * (tile.stop - tile.start)].reshape(len(queries), -1)
        job.similarity.fill(queries, tile, scores)

        def work(part: slice, own: slice, scores: NDArray[Any] = scores, offset: int = tile.start) -> None:
            job.leave_out(scores[part], offset, own)
            step(scores[part], offset, own, placed.rows(part))

        _for_queries(rows, work, row_bytes=scores.shape[1])


def _for_queries(rows: slice, work: Callable[[slice, slice], None], *, row_bytes: int) -> None:
    """Call ``work`` from several threads with a part of a block and the queries that it holds."""

    def of_part(part: slice) -> None:
        work(part, slice(rows.start + part.start, rows.start + part.stop))

    for_row_ranges(of_part, rows.stop - rows.start, row_bytes=max(row_bytes, 1))
