"""Compute the metric values of a retrieval of embeddings, one block of queries at a time.

Of a gallery of one tile, all scores of some queries exist at once and are ranked while they are in the cache. Of
several, a first pass over those that hold positives gathers their scores, and a second pass over all counts the other
items among them. Whole lists are needed where they lose an item or most of the gallery is positive; then the tiles fill
them. The choice depends only on sizes, not on the block size.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from hiertree.errors import ShapeError
from hiertree.io.progress import Advance, show_progress
from hiertree.jit import Array, Floats, Ints

from ..ranking.full_sort import WORTHWHILE, rank_by_full_sort
from ..ranking.ranked import Ranked, ranked_positives
from ..ranking.sorted_positives import SortedPositives, sort
from .blocks import (
    BUDGET,
    Layout,
    Memory,
    ProcessGroup,
    Ranking,
    block_pool,
    for_each,
    loaded,
    ranges,
    row_ranges,
    single_threaded_blas,
)
from .retrieval import Retrieval
from .similarity import Similarity

PRODUCT_ROWS = 256
_LEAST_PRODUCT_ROWS = 8
_MOST_ROWS = 1024  # of whole lists that several tiles fill
_MOST_ROWS_TILED = 2**14  # of a block; for each, the gallery is read once or twice
_DEVICE_BYTES_OF_A_POSITIVE = 96  # with its intervals on the device
_ROWS_COMPARED = 64


def values_of_embeddings(
    retrieval: Retrieval[Similarity], *, block_size: int | None, group: ProcessGroup | None, progress: bool
) -> Floats:
    """(Q, M) values of the metrics, with options as :func:`hiertree.metrics.evaluate` takes them."""
    rank, num_processes = (0, 1) if group is None else group
    layout = choose_layout(retrieval, block_size, num_processes=num_processes)
    if group is not None:
        _check_alike(retrieval, group)
        layout = group.agree(layout)
    queries = retrieval.source.gallery.tree.queries
    blocks = [queries[rows] for rows in ranges(len(queries), layout.rows)[rank::num_processes]]
    values = np.zeros((len(queries), len(retrieval.request.metrics)))
    with (
        single_threaded_blas(),
        show_progress(description="queries", total=sum(map(len, blocks)), enabled=progress and rank == 0) as advance,
    ):
        for rows, block_values in zip(blocks, _values_of_blocks(retrieval, layout, blocks, advance), strict=True):
            values[rows] = block_values
    return values if group is None else group.reduce(values)


def _check_alike(retrieval: Retrieval[Similarity], group: ProcessGroup) -> None:
    """Refuse processes that were given different labels, options or embeddings."""
    request, gallery = retrieval.request, retrieval.source.gallery
    tree, mask = gallery.tree, gallery.mask
    digest = zlib.crc32(f"{request.names} {request.ties} {request.rules} {mask.dropped}".encode())
    labels = tree.order, tree.low, tree.high, mask.start, mask.item
    for values in (*labels, *retrieval.relevances(), *retrieval.source.embeddings):
        step = 1 if values.dtype == np.int64 else max(len(values) // _ROWS_COMPARED, 1)
        digest = zlib.crc32(np.ascontiguousarray(values[::step]).data, zlib.crc32(str(values.shape).encode(), digest))
    low, high = group.reduce(np.array([digest, -digest]), "max").tolist()
    if low + high != 0:
        expected = "all of them in every process, which takes a part of the queries itself"
        remedy = "gather the embeddings first, for instance with Fabric.all_gather"
        raise ShapeError("processes with different embeddings, labels or options", expected=expected, remedy=remedy)


def choose_layout(retrieval: Retrieval[Similarity], block_size: int | None, *, num_processes: int = 1) -> Layout:
    """Choose the ranking that fits more queries into the memory budget, with at least a block for each process."""
    similarity, num_queries = retrieval.source, len(retrieval)
    ranking, budget_rows = _roomiest(similarity, needs_lists=similarity.gallery.needs_lists(retrieval.request.ties))
    height = min(PRODUCT_ROWS, budget_rows, max(num_queries, _LEAST_PRODUCT_ROWS))
    if ranking == "tile by tile":
        height = min(height, BUDGET // (similarity.longest_tile * similarity.dtype.itemsize))
    height = 1 << (max(height, _LEAST_PRODUCT_ROWS).bit_length() - 1)
    if block_size is not None:
        return Layout(ranking, height, -(-min(block_size, max(num_queries, 1)) // height) * height)
    longest_blocks: dict[Ranking, int] = {
        "whole lists": height if len(similarity.tile_ranges) == 1 else _MOST_ROWS,
        "tile by tile": _MOST_ROWS_TILED,
        "on a device": _MOST_ROWS if similarity.held else _MOST_ROWS_TILED,
    }
    process_rows = -(-num_queries // (height * num_processes)) * height
    return Layout(ranking, height, max(min(budget_rows, longest_blocks[ranking], process_rows) // height, 1) * height)


def _roomiest(similarity: Similarity, *, needs_lists: bool) -> tuple[Ranking, int]:
    """The preferred ranking, and how many queries it fits at once."""
    gallery, item_bytes = similarity.gallery, similarity.dtype.itemsize
    whole_rows = BUDGET // (len(gallery) * item_bytes)
    if needs_lists:
        return "whole lists", whole_rows
    tiled_rows = 2 * BUDGET // (gallery.row_bytes() + similarity.dimensions * item_bytes)
    if similarity.device is not None:
        row_bytes = max(gallery.most_positives(), 1) * _DEVICE_BYTES_OF_A_POSITIVE
        return "on a device", min(tiled_rows, similarity.device.block_bytes // row_bytes)
    if len(similarity.tile_ranges) == 1 or whole_rows >= tiled_rows:
        return "whole lists", whole_rows
    return "tile by tile", tiled_rows


def _values_of_blocks(
    retrieval: Retrieval[Similarity], layout: Layout, blocks: list[Ints], advance: Advance
) -> Iterator[Floats]:
    """The values of each block."""
    if layout.ranking == "on a device":
        from .on_device import values_on_device  # needs torch

        return values_on_device(retrieval, layout, blocks, advance)
    return _Host(retrieval, layout, advance).values(blocks)


class _Host:
    """Products, rankings and values on the processor."""

    def __init__(self, retrieval: Retrieval[Similarity], layout: Layout, advance: Advance) -> None:
        self._retrieval, self._height, self._advance = retrieval, layout.height, advance
        self._similarity, self._gallery = retrieval.source, retrieval.source.gallery
        self._of_lists = layout.ranking == "whole lists"
        width = self._similarity.longest_tile  # which finds all tiles, before threads need them
        cells = layout.rows * len(self._gallery) if self._of_lists else layout.height * width
        self._bytes, self._memory = cells * self._similarity.dtype.itemsize, Memory(cells, self._similarity.dtype)

    def values(self, blocks: list[Ints]) -> Iterator[Floats]:
        """Yield the values of each block; a thread takes a block, or a product of one with a tile."""
        if not self._of_lists:
            yield from map(self._rank_tiles, blocks)
            return
        with block_pool(len(blocks), block_bytes=self._bytes) as (pool, threads):
            for values in pool.map(partial(self._rank_lists, threads=threads), blocks):
                self._advance(len(values))
                yield values

    def _rank_lists(self, rows: Ints, threads: int) -> Floats:
        """The values of queries by whole lists of scores, which all tiles fill."""
        values = np.empty((len(rows), len(self._retrieval.request.metrics)))

        def work(scores: Array, positions: Ints, block: slice) -> None:
            rank, totals = _rank(self._retrieval, scores, positions, rows[block])
            values[block] = self._retrieval.values(rank, rows[block], totals=totals)

        queries, positions = self._similarity.queries(rows, self._height), np.arange(len(self._gallery))
        tiles = loaded(self._similarity.items, self._similarity.tiles)
        row_bytes = 4 * self._gallery.row_bytes(rows)
        self._with_scores(work, rows, queries, positions, tiles, row_bytes=row_bytes, threads=threads)
        return values

    def _rank_tiles(self, rows: Ints) -> Floats:
        """The values of queries by their positives, sorted once all are gathered, and the counts of other items."""
        similarity, gallery = self._similarity, self._gallery
        products, queries = ranges(len(rows), self._height), similarity.queries(rows, self._height)
        positives = gallery.empty_positives(rows, similarity.dtype)
        block = rows, queries, positives
        with_positives = similarity.tiles_with_positives(rows, products)
        for (positions, relevant_products), items in loaded(lambda tile: similarity.items(tile[0]), with_positives):
            self._apply(gallery.gather, block, relevant_products, positions, items)
        row_blocks, threads = row_ranges(len(rows), row_bytes=gallery.row_bytes(rows))
        for_each(sort, map(positives.rows, row_blocks), threads)
        rows_done = items_done = 0
        for positions, items in loaded(similarity.items, similarity.tiles):
            self._apply(gallery.count, block, products, positions, items)
            items_done += len(positions)
            rows_before, rows_done = rows_done, len(rows) * items_done // len(gallery)
            self._advance(rows_done - rows_before)  # as many queries' worth of work as the tile was
        return self._retrieval.values_of_positives(rows, positives)

    def _apply(
        self,
        step: Callable[[Array, Ints, Ints, SortedPositives], None],
        block: tuple[Ints, Array, SortedPositives],
        products: list[slice],
        positions: Ints,
        items: Any,
    ) -> None:
        """Apply a step to the scores of some products of a block with a tile."""
        rows, queries, positives = block

        def compute(product: slice, threads: int) -> None:
            product_rows, product_positives = rows[product], positives.rows(product)

            def work(scores: Array, positions: Ints, block: slice) -> None:
                step(scores, positions, product_rows[block], product_positives.rows(block))

            padded, tiles = queries[product.start : product.start + self._height], [(positions, items)]
            row_bytes = len(positions)
            self._with_scores(work, product_rows, padded, positions, tiles, row_bytes=row_bytes, threads=threads)

        with block_pool(len(products), block_bytes=self._bytes) as (pool, threads):
            list(pool.map(partial(compute, threads=threads), products))

    def _with_scores(
        self,
        work: Callable[[Array, Ints, slice], None],
        rows: Ints,
        queries: Array,
        positions: Ints,
        tiles: Iterable[tuple[Ints, Any]],
        *,
        row_bytes: int,
        threads: int,
    ) -> None:
        """Let threads work on the scores of some queries at these positions, which the tiles fill."""

        def work_on(block: slice) -> None:
            self._gallery.leave_out(scores[block], positions, rows[block])
            work(scores[block], positions, block)

        with self._memory.lent(len(queries), len(positions)) as scores:
            for tile, items in tiles:
                self._fill(scores, queries, tile, items, threads)
            for_each(work_on, *row_ranges(len(rows), row_bytes=row_bytes, threads=threads))

    def _fill(self, scores: Array, queries: Array, tile: Ints, items: Any, threads: int) -> None:
        """Write the scores of a tile in its columns, which are all of them, or its positions."""
        fill = partial(self._similarity.fill, queries, items, tile, height=self._height, threads=threads)
        if len(tile) == scores.shape[1]:
            fill(scores)
        elif tile[-1] - tile[0] < len(tile):
            fill(scores[:, tile[0] : tile[-1] + 1])
        else:
            tile_scores = np.empty((len(queries), len(tile)), scores.dtype)
            fill(tile_scores)
            scores[:, tile] = tile_scores


def _rank(
    retrieval: Retrieval[Similarity], scores: Array, positions: Ints, rows: Ints
) -> tuple[Callable[..., Ranked], Ints | None]:
    """The ``rank`` function for :meth:`Retrieval.values`, and new totals if lists lost an item."""
    gallery, ties = retrieval.source.gallery, retrieval.request.ties
    if gallery.needs_lists(ties):
        return gallery.rank_lists(scores, rows, ties=ties)
    if gallery.most_positives(rows) * WORTHWHILE >= len(gallery):
        ranked = rank_by_full_sort(scores, gallery.tree.low[rows], gallery.tree.high[rows], ties=ties)
        if ranked is not None:
            return lambda *_: ranked, None
    positives = gallery.empty_positives(rows, scores.dtype)
    gallery.gather(scores, positions, rows, positives)
    sort(positives)
    gallery.count(scores, positions, rows, positives)
    return partial(ranked_positives, positives), None
