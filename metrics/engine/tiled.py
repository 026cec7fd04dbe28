"""The values of blocks of queries from counts that add up over the tiles of a gallery.

The parts of the gallery that hold positives of a product's queries are multiplied first, to gather these, and then all
parts, to count the other items among them. No more scores exist at once than those of one product with one part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hiertree.io.progress import Advance

from ..ranking.sorted_positives import row_bytes, sort
from .blocks import Memory, for_blocks, for_row_ranges, loaded, ranges

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..ranking.sorted_positives import SortedPositives
    from .layout import Layout
    from .retrieval import Retrieval
    from .similarity import Similarity


class _Block(NamedTuple):
    """A block of queries while it is computed.

    Attributes:
        retrieval: what is computed.
        rows: the queries.
        queries: their vectors, padded.
        height: queries multiplied at once.
        products: the rows of each product.
        positives: their positives.
        memory: for the scores of one product.
    """

    retrieval: Retrieval[Similarity]
    rows: NDArray[np.int64]
    queries: NDArray[Any]
    height: int
    products: list[slice]
    positives: SortedPositives
    memory: Memory


def values_tiled(
    retrieval: Retrieval[Similarity], layout: Layout, blocks: list[NDArray[np.int64]], advance: Advance
) -> Iterator[NDArray[np.float64]]:
    """Yield the values of each block."""
    similarity, by_index = retrieval.source, retrieval.request.ties == "index"
    memory = Memory(layout.height * similarity.longest_part, similarity.dtype)
    for rows in blocks:
        queries, products = similarity.queries(rows, layout.height), ranges(len(rows), layout.height)
        positives = similarity.gallery.empty_positives(rows, similarity.dtype, by_index=by_index)
        block = _Block(retrieval, rows, queries, layout.height, products, positives, memory)
        _gather(block)
        _sort(block)
        for done in _count(block):
            advance(done)
        yield _values(block)


def parts_with_positives(
    similarity: Similarity, rows: NDArray[np.int64], products: list[slice]
) -> Iterator[tuple[NDArray[np.int64], list[slice]]]:
    """The parts of the gallery that hold positives, as places, and the products whose queries have some there."""
    for places in similarity.parts:
        low, high = similarity.gallery.positive_columns(places, rows)
        chosen = [product for product in products if (low[product] < high[product]).any()]
        if chosen:
            yield places, chosen


def _gather(block: _Block) -> None:
    similarity = block.retrieval.source
    parts = parts_with_positives(similarity, block.rows, block.products)
    for (places, products), items in loaded(lambda part: similarity.items(part[0]), parts):
        _apply(similarity.gallery.gather, block, products, places, items)


def _sort(block: _Block) -> None:
    row = row_bytes(max(block.retrieval.source.gallery.most_positives(block.rows), 1))
    for_row_ranges(lambda part: sort(block.positives.rows(part)), len(block.rows), row_bytes=row)


def _count(block: _Block) -> Iterator[int]:
    """Yield as many queries' worth of work as each part of the gallery was."""
    similarity, done, seen = block.retrieval.source, 0, 0
    for places, items in loaded(similarity.items, similarity.parts):
        _apply(similarity.gallery.count, block, block.products, places, items)
        seen += len(places)
        done, before = len(block.rows) * seen // len(similarity.gallery), done
        yield done - before


def _apply(
    step: Callable[[NDArray[Any], NDArray[np.int64], NDArray[np.int64], SortedPositives], None],
    block: _Block,
    products: list[slice],
    places: NDArray[np.int64],
    items: Any,
) -> None:
    """Apply a step to the scores of some products with a part of the gallery."""
    similarity = block.retrieval.source

    def apply(product: slice, threads: int) -> None:
        rows, positives = block.rows[product], block.positives.rows(product)
        queries = block.queries[product.start : product.start + block.height]
        with block.memory.lent(block.height, len(places)) as scores:
            similarity.fill(queries, items, places, scores, block.height, threads=threads)

            def work(part: slice) -> None:
                similarity.gallery.leave_out(scores[part], places, rows[part])
                step(scores[part], places, rows[part], positives.rows(part))

            for_row_ranges(work, len(rows), row_bytes=scores.shape[1], threads=threads)

    scores_bytes = block.height * len(places) * similarity.dtype.itemsize
    for _ in for_blocks(apply, products, block_bytes=scores_bytes):
        pass


def _values(block: _Block) -> NDArray[np.float64]:
    values = np.empty((len(block.rows), len(block.retrieval.request.metrics)))

    def work(part: slice) -> None:
        values[part] = block.retrieval.values_of(block.positives.rows(part), block.rows[part])

    most = block.retrieval.source.gallery.most_positives(block.rows)
    for_row_ranges(work, len(values), row_bytes=4 * row_bytes(max(most, 1)))
    return values
