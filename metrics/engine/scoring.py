"""The values of the metrics, block of queries by block.

Blocks are taken in tree order, where the positives of neighbours are the same few items. There are three ways, each in
a room of its own: with all scores of a block (:mod:`hiertree.metrics.engine.in_memory`), with a tile of them at a
time, whose memory does not grow with the gallery (:mod:`hiertree.metrics.engine.tiled`), or on a device of torch
(:mod:`hiertree.metrics.engine.on_device`). Which one it is depends on sizes alone, not on that of the blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from hiertree.io.progress import show_progress

from .blocks import BUDGET
from .processes import ALONE, Share

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..evaluation.retrieval import Job
    from .resume import FinishedBlocks

PRODUCT_ROWS = 256
_LEAST_PRODUCT_ROWS = 8
_MOST_ROWS = 1024  # of a block whose scores are all held
_MOST_ROWS_BY_TILES = 2**14  # of one for which the gallery is read once or twice


class Layout(NamedTuple):
    """How the work is cut.

    Attributes:
        way: how the scores of a block are held.
        height: queries multiplied at once, a power of two.
        rows: queries in a block, a multiple of it.
    """

    way: Literal["rows", "tiles", "device"]
    height: int
    rows: int


def layout(job: Job, block_size: int | None, *, sharers: int = 1) -> Layout:
    """The way that takes more queries at once within the memory budget; whole products, and a block a sharer."""
    way, most = _roomiest(job)
    height = min(PRODUCT_ROWS, most, max(len(job.totals), _LEAST_PRODUCT_ROWS))
    height = 1 << (max(height, _LEAST_PRODUCT_ROWS).bit_length() - 1)
    if block_size is not None:
        return Layout(way, height, -(-block_size // height) * height)
    longest = {
        "rows": height if len(job.similarity.tiles) == 1 else _MOST_ROWS,
        "tiles": _MOST_ROWS_BY_TILES,
        "device": _MOST_ROWS if job.similarity.held else _MOST_ROWS_BY_TILES,
    }
    fair = -(-len(job.totals) // (height * sharers)) * height
    return Layout(way, height, max(min(most, longest[way], fair) // height, 1) * height)


def _roomiest(job: Job) -> tuple[Literal["rows", "tiles", "device"], int]:
    """A way, and how many queries it can take at once."""
    from ..ranking.sorted_positives import row_bytes

    similarity, positives = job.similarity, job.most_positives()
    by_rows = BUDGET // (len(job.tree.order) * similarity.dtype.itemsize)
    if job.mask.place is not None:
        return "rows", by_rows
    by_tiles = 2 * BUDGET // (row_bytes(positives) + similarity.dimensions * similarity.dtype.itemsize)
    if similarity.device is not None:
        from .on_device import row_bytes as device_row_bytes

        return "device", min(by_tiles, similarity.device.block_bytes // device_row_bytes(positives))
    if len(similarity.tiles) == 1 or by_rows >= by_tiles:
        return "rows", by_rows
    return "tiles", by_tiles


def values(
    job: Job, chosen: Layout, *, progress: bool, finished: FinishedBlocks | None = None, share: Share = ALONE
) -> NDArray[np.float64]:
    """(Q, M) values of the metrics; blocks that are ``finished`` are read, and others become so.

    Where the work is shared, this process computes its ``share`` and all get the values of all.
    """
    queries = job.tree.queries
    found = np.zeros((len(queries), len(job.plan.metrics)))
    starts = range(0, len(queries), chosen.rows)[share.blocks]
    blocks = [slice(start, min(start + chosen.rows, len(queries))) for start in starts]
    missing = []
    for block in blocks:
        stored = None if finished is None else finished.load(block)
        if stored is None:
            missing.append(block)
        else:
            found[queries[block]] = stored
    total = sum(block.stop - block.start for block in missing)
    with show_progress(description="queries", total=total, enabled=progress) as advance:
        computed = _way(chosen)(job, chosen, [queries[block] for block in missing], advance)
        for block, values in zip(missing, computed, strict=True):
            found[queries[block]] = values
            if finished is not None:
                finished.save(block, values)
    return share.gathered(found)


def _way(chosen: Layout) -> Callable[..., Iterator[NDArray[np.float64]]]:
    if chosen.way == "rows":
        from .in_memory import values_by_rows

        return values_by_rows
    if chosen.way == "tiles":
        from .tiled import values_by_tiles

        return values_by_tiles
    from .on_device import values_on_device

    return values_on_device
