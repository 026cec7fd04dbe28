"""The values of blocks of queries from counts that add up over the tiles of a gallery.

The tiles that hold positives of a product's queries are multiplied first, to gather these, and then the whole gallery,
to count the other items among them. No more scores exist at once than one product's with a tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hiertree.io.progress import Advance

from ..ranking.sorted_positives import row_bytes, sort
from .blocks import for_row_ranges, loaded, products_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..evaluation.retrieval import Job
    from ..ranking.sorted_positives import Placed
    from .scoring import Layout


class Block(NamedTuple):
    """A block of queries at work.

    Attributes:
        job: what is computed.
        rows: the queries.
        queries: their vectors, padded.
        height: queries multiplied at once.
        products: the rows of each product.
        placed: their positives.
        memory: for the scores of one product.
    """

    job: Job
    rows: NDArray[np.int64]
    queries: NDArray[Any]
    height: int
    products: list[slice]
    placed: Placed
    memory: NDArray[Any]


def values_by_tiles(
    job: Job, layout: Layout, blocks: list[NDArray[np.int64]], advance: Advance
) -> Iterator[NDArray[np.float64]]:
    """Yield the values of each block."""
    similarity = job.similarity
    longest = max(part.stop - part.start for part in similarity.tiles)
    memory = np.empty(layout.height * longest, similarity.dtype)
    for rows in blocks:
        queries, products = similarity.queries(rows, layout.height), products_of(len(rows), layout.height)
        block = Block(job, rows, queries, layout.height, products, job.room(rows), memory)
        _gather(block)
        _sort(block)
        for done in _count(block):
            advance(done)
        yield _measure(block)


def holding(
    job: Job, rows: NDArray[np.int64], products: list[slice]
) -> Iterator[tuple[NDArray[np.int64], list[slice]]]:
    """The tiles that hold positives, as places, and the products whose queries have some there."""
    for tile in job.similarity.tiles:
        wanted = job.with_positives(rows, tile)
        chosen = [product for product in products if wanted[product].any()]
        if chosen:
            yield np.arange(tile.start, tile.stop), chosen


def _gather(block: Block) -> None:
    tiles = holding(block.job, block.rows, block.products)
    for (places, products), items in loaded(lambda tile: block.job.similarity.items(tile[0]), tiles):
        for product in products:
            _take(block.job.gather, block, product, places, items)


def _sort(block: Block) -> None:
    row = row_bytes(max(block.job.most_positives(block.rows), 1))
    for_row_ranges(lambda part: sort(block.placed.rows(part)), len(block.rows), row_bytes=row)


def _count(block: Block) -> Iterator[int]:
    """Yield as many queries' worth of work as each part of the gallery was."""
    similarity, done, seen = block.job.similarity, 0, 0
    for places, items in loaded(similarity.items, similarity.parts()):
        for product in block.products:
            _take(block.job.count, block, product, places, items)
        seen += len(places)
        done, before = len(block.rows) * seen // len(block.job.tree.order), done
        yield done - before


def _take(
    step: Callable[[NDArray[Any], NDArray[np.int64], NDArray[np.int64], Placed], None],
    block: Block,
    product: slice,
    places: NDArray[np.int64],
    items: Any,
) -> None:
    """Take a step of the job with the scores of a product."""
    job, rows, placed = block.job, block.rows[product], block.placed.rows(product)
    queries = block.queries[product.start : product.start + block.height]
    scores = block.memory[: block.height * len(places)].reshape(block.height, -1)
    job.similarity.fill(queries, items, scores, block.height)

    def work(part: slice) -> None:
        job.leave_out(scores[part], places, rows[part])
        step(scores[part], places, rows[part], placed.rows(part))

    for_row_ranges(work, len(rows), row_bytes=scores.shape[1])


def _measure(block: Block) -> NDArray[np.float64]:
    job = block.job
    found = np.empty((len(block.rows), len(job.plan.metrics)))

    def work(part: slice) -> None:
        found[part] = job.measure(block.placed.rows(part), block.rows[part])

    for_row_ranges(work, len(found), row_bytes=4 * row_bytes(max(job.most_positives(block.rows), 1)))
    return found
