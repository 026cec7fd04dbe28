"""Compute the metric values of a retrieval of embeddings, one block of queries at a time.

*In memory*: all scores of a block against the gallery exist at once. *Tiled*: only those of one product with one part
of the gallery exist. A first pass over the parts that hold positives gathers their scores; a second pass over all
parts counts the other items among them. The choice depends only on sizes, not on the block size.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

import hiertree
from hiertree.io.locks import locked_folder
from hiertree.io.parts import PartStore, digest
from hiertree.io.progress import Advance, show_progress
from hiertree.jit import Array, Floats, Ints

from ..ranking.full_sort import WORTHWHILE, rank_by_full_sort
from ..ranking.ranked import Ranked, ranked_positives
from ..ranking.sorted_positives import SortedPositives, sort
from .blocks import BUDGET, Layout, Memory, Way, block_pool, for_each, loaded, ranges, row_ranges, single_threaded_blas
from .retrieval import Retrieval
from .similarity import Similarity

if TYPE_CHECKING:
    from .processes import Share

_Block: TypeAlias = tuple[Ints, Array, SortedPositives, int]  # rows, padded vectors, positives, height
_Step: TypeAlias = Callable[[Array, Ints, Ints, SortedPositives], None]
PRODUCT_ROWS = 256
_LEAST_PRODUCT_ROWS = 8
_MOST_ROWS = 1024  # of a block in memory
_MOST_ROWS_TILED = 2**14  # of a tiled block; for each, the gallery is read once or twice
_DEVICE_BYTES_OF_A_POSITIVE = 96  # with its intervals on the device


def values_of_embeddings(
    retrieval: Retrieval[Similarity],
    *,
    block_size: int | None,
    share: Share | None,
    resume: str | os.PathLike[str] | None,
    progress: bool,
) -> Floats:
    """(Q, M) values of the metrics, with options as :func:`hiertree.metrics.evaluate` takes them."""
    blocks_shared = retrieval.source.share is not None  # all processes work on every block
    first, step = (0, 1) if share is None or blocks_shared else share
    layout = choose_layout(retrieval, block_size, sharers=step)
    if share is not None:
        layout = share.agreed(layout)
    queries = retrieval.source.gallery.tree.queries
    values = np.zeros((len(queries), len(retrieval.request.metrics)))
    stored_values, done, store = values.copy(), np.zeros(len(queries), np.uint8), None
    with ExitStack() as until_done:
        if resume is not None:
            fingerprint = _fingerprint(retrieval, layout)
            with nullcontext() if share is None else share.agreeing():
                if share is None or share.rank == 0:
                    until_done.enter_context(locked_folder(resume))
                store = PartStore(resume, fingerprint, rows="queries")
                for part, block_values in store.parts():
                    stored_values[part], done[part] = block_values, 1
            if share is not None and blocks_shared:
                done = share.reduced(done, "smallest")
        missing = []
        for block in ranges(len(queries), layout.rows)[first::step]:
            if done[block].all():
                values[queries[block]] = stored_values[block]
            else:
                missing.append(block)
        rows, enabled = [queries[block] for block in missing], progress and first == 0
        until_done.enter_context(single_threaded_blas())
        advance = until_done.enter_context(
            show_progress(description="queries", total=sum(map(len, rows)), enabled=enabled)
        )
        for block, block_values in zip(missing, _blocks(layout.way)(retrieval, layout, rows, advance), strict=True):
            values[queries[block]] = block_values
            if store is not None and not (blocks_shared and share is not None and share.rank):
                store.save(block, block_values)
    return values if share is None or blocks_shared else share.reduced(values)


def _blocks(way: Way) -> Callable[[Retrieval[Similarity], Layout, list[Ints], Advance], Iterator[Floats]]:
    """The function that computes blocks in a way."""
    if way == "on a device":
        from .on_device import values_on_device  # needs torch

        return values_on_device
    return values_in_memory if way == "in memory" else values_tiled


def choose_layout(retrieval: Retrieval[Similarity], block_size: int | None, *, sharers: int = 1) -> Layout:
    """Choose the way that fits more queries into the memory budget, with at least a block for each sharer."""
    similarity, num_queries = retrieval.source, len(retrieval)
    way, budget_rows = _roomiest(similarity)
    block_rows = budget_rows
    height = min(PRODUCT_ROWS, budget_rows, max(num_queries, _LEAST_PRODUCT_ROWS))
    if way == "tiled":
        height = min(height, BUDGET // (similarity.longest_part * similarity.dtype.itemsize))
    height = 1 << (max(height, _LEAST_PRODUCT_ROWS).bit_length() - 1)
    if similarity.share is not None and way == "in memory":  # the height stays that of one process
        way, block_rows = "tiled", _most_tiled(similarity)
    if block_size is not None:
        return Layout(way, height, -(-min(block_size, max(num_queries, 1)) // height) * height)
    longest_blocks: dict[Way, int] = {
        "in memory": height if len(similarity.tiles) == 1 else _MOST_ROWS,
        "tiled": _MOST_ROWS_TILED,
        "on a device": _MOST_ROWS if similarity.held and similarity.share is None else _MOST_ROWS_TILED,
    }
    sharer_rows = -(-num_queries // (height * sharers)) * height
    return Layout(way, height, max(min(block_rows, longest_blocks[way], sharer_rows) // height, 1) * height)


def _roomiest(similarity: Similarity) -> tuple[Way, int]:
    """The preferred way, and how many queries it fits at once."""
    positives, item_bytes = similarity.gallery.most_positives(), similarity.dtype.itemsize
    in_memory = BUDGET // (len(similarity.gallery) * item_bytes)
    if similarity.gallery.mask.place is not None:
        return "in memory", in_memory
    tiled = _most_tiled(similarity)
    if similarity.device is not None:
        row_there = max(positives, 1) * _DEVICE_BYTES_OF_A_POSITIVE
        return "on a device", min(tiled, similarity.device.block_bytes // row_there)
    if len(similarity.tiles) == 1 or in_memory >= tiled:
        return "in memory", in_memory
    return "tiled", tiled


def _most_tiled(similarity: Similarity) -> int:
    row_bytes = similarity.gallery.row_bytes() + similarity.dimensions * similarity.dtype.itemsize
    return 2 * BUDGET // row_bytes


def _fingerprint(retrieval: Retrieval[Similarity], layout: Layout) -> dict[str, str]:
    """SHA-256 of everything that values depend on, by name. They do not depend on the block size."""
    request, similarity = retrieval.request, retrieval.source
    tree, mask = similarity.gallery.tree, similarity.gallery.mask
    products = f"{layout.height} {similarity.tiles[0].stop} {similarity.held} {similarity.dtype}"
    products += f" {similarity.device}"
    parts: dict[str, list[Any]] = {
        "embeddings": [similarity.item_hashes, similarity.query_hashes],
        "labels": [tree.order, tree.low, tree.high, tree.queries],
        "mask": [mask.start, mask.item, str(mask.place)],
        "metrics": [str(request.names), request.ties, repr(request.rules), *retrieval.relevances()],
        "products": [products, np.__version__],
        "version of hiertree": [hiertree.__version__],
    }
    return {name: digest(values) for name, values in parts.items()}


def values_in_memory(
    retrieval: Retrieval[Similarity], layout: Layout, blocks: list[Ints], advance: Advance
) -> Iterator[Floats]:
    """Yield the values of each block."""
    similarity, gallery = retrieval.source, retrieval.source.gallery
    places = np.arange(len(gallery))
    _ = similarity.parts  # computed before threads need them
    memory = Memory(layout.rows * len(gallery), similarity.dtype)

    def compute(rows: Ints, threads: int) -> Floats:
        queries = similarity.queries(rows, layout.height)
        values = np.empty((len(rows), len(retrieval.request.metrics)))

        def work(part: slice) -> None:
            gallery.leave_out(scores[part], places, rows[part])
            rank, totals = _rank(retrieval, scores[part], places, rows[part])
            values[part] = retrieval.values(rank, rows[part], totals=totals)

        with memory.lent(len(queries), len(gallery)) as scores:
            _fill(similarity, queries, scores, layout.height, threads)
            for_each(work, *row_ranges(len(rows), row_bytes=4 * gallery.row_bytes(rows), threads=threads))
        return values

    block_bytes = layout.rows * len(gallery) * similarity.dtype.itemsize
    with block_pool(len(blocks), block_bytes=block_bytes) as (pool, threads):
        for rows, values in zip(blocks, pool.map(partial(compute, threads=threads), blocks), strict=True):
            advance(len(rows))
            yield values


def _fill(similarity: Similarity, queries: Array, scores: Array, height: int, threads: int) -> None:
    for places, items in loaded(similarity.items, similarity.parts):
        if places[-1] - places[0] < len(places):
            similarity.fill(queries, items, places, scores[:, places[0] : places[-1] + 1], height, threads=threads)
        else:
            part = np.empty((len(queries), len(places)), scores.dtype)
            similarity.fill(queries, items, places, part, height, threads=threads)
            scores[:, places] = part


def _rank(
    retrieval: Retrieval[Similarity], scores: Array, places: Ints, rows: Ints
) -> tuple[Callable[..., Ranked], Ints | None]:
    """The ``rank`` function for :meth:`Retrieval.values`, and new totals if lists lost an item."""
    gallery, ties = retrieval.source.gallery, retrieval.request.ties
    if gallery.mask.place is not None:
        positives, totals = gallery.sort_lists(scores, rows, ties=ties)
        return partial(ranked_positives, positives), totals
    if gallery.most_positives(rows) * WORTHWHILE >= len(gallery):
        ranked = rank_by_full_sort(scores, gallery.tree.low[rows], gallery.tree.high[rows], ties=ties)
        if ranked is not None:
            return lambda *_: ranked, None
    positives = gallery.empty_positives(rows, scores.dtype, by_index=ties == "index")
    gallery.gather(scores, places, rows, positives)
    sort(positives)
    gallery.count(scores, places, rows, positives)
    return partial(ranked_positives, positives), None


def values_tiled(
    retrieval: Retrieval[Similarity], layout: Layout, blocks: list[Ints], advance: Advance
) -> Iterator[Floats]:
    """Yield the values of each block."""
    similarity, gallery, share = retrieval.source, retrieval.source.gallery, retrieval.source.share
    memory = Memory(layout.height * similarity.longest_part, similarity.dtype)
    for rows in blocks:
        products = ranges(len(rows), layout.height)
        positives = gallery.empty_positives(rows, similarity.dtype, by_index=retrieval.request.ties == "index")
        if share is not None:
            positives.score.fill(-np.inf)
        block = rows, similarity.queries(rows, layout.height), positives, layout.height
        parts = similarity.parts_with_positives(rows, products)
        for (places, part_products), items in loaded(lambda part: similarity.items(part[0]), parts):
            gather = gallery.gather if share is None else gallery.put
            _apply(similarity, memory, block, gather, part_products, places, items)
        if share is not None:
            share.reduced(positives.score, "largest")
            gallery.close_up(rows, positives)
        row_parts, threads = row_ranges(len(rows), row_bytes=gallery.row_bytes(rows))
        for_each(sort, [positives.rows(part) for part in row_parts], threads)
        done, num_items_seen, total = 0, 0, sum(map(len, similarity.parts))
        for places, items in loaded(similarity.items, similarity.parts):
            _apply(similarity, memory, block, gallery.count, products, places, items)
            num_items_seen += len(places)
            done_before, done = done, len(rows) * num_items_seen // total
            advance(done - done_before)  # as many queries' worth of work as the part was
        if share is None:
            yield retrieval.values_of_positives(rows, positives)
        else:
            share.reduced(positives.negatives)
            values, share_part = np.zeros((len(rows), len(retrieval.request.metrics))), share.part(len(rows))
            values[share_part] = retrieval.values_of_positives(rows[share_part], positives.rows(share_part))
            yield share.reduced(values)


def _apply(
    similarity: Similarity, memory: Memory, block: _Block, step: _Step, products: list[slice], places: Ints, items: Any
) -> None:
    """Apply a step to the scores of some products of a block with a part of the gallery."""
    rows, queries, positives, height = block

    def apply(product: slice, threads: int) -> None:
        product_rows, product_positives = rows[product], positives.rows(product)

        def work(part: slice) -> None:
            similarity.gallery.leave_out(scores[part], places, product_rows[part])
            step(scores[part], places, product_rows[part], product_positives.rows(part))

        with memory.lent(height, len(places)) as scores:
            padded = queries[product.start : product.start + height]
            similarity.fill(padded, items, places, scores, height, threads=threads)
            for_each(work, *row_ranges(len(product_rows), row_bytes=scores.shape[1], threads=threads))

    block_bytes = height * len(places) * similarity.dtype.itemsize
    with block_pool(len(products), block_bytes=block_bytes) as (pool, threads):
        list(pool.map(partial(apply, threads=threads), products))
