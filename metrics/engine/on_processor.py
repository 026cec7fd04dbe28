"""The values of blocks of queries, multiplied here or on a device, and ranked by the processor.

*In memory*, the scores of a block with the whole gallery are held at once. *Tiled*, no more scores exist than those of
one product with one part of the gallery: first the parts that hold positives of its queries are multiplied, to gather
these, and then all parts, to count the other items among them. These counts add up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from hiertree.io.progress import Advance

from ..ranking.full_sort import rank_by_full_sort
from ..ranking.gallery import fill_levels
from ..ranking.masks import drop_ranked
from ..ranking.ranked import Ranked, ranked_positives, sort_matrix
from ..ranking.sorted_positives import row_bytes, sort
from .blocks import Memory, for_blocks, for_each, loaded, ranges, row_ranges

if TYPE_CHECKING:
    from hiertree.jit import Array, Floats, Ints

    from ..ranking.sorted_positives import SortedPositives
    from .blocks import Layout
    from .retrieval import Retrieval
    from .similarity import Similarity


def values_in_memory(
    retrieval: Retrieval[Similarity], layout: Layout, blocks: list[Ints], advance: Advance
) -> Iterator[Floats]:
    """Yield the values of each block."""
    similarity, gallery = retrieval.source, retrieval.source.gallery
    places = np.arange(len(gallery))
    _ = similarity.parts  # once, before threads want them
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
            row = 4 * row_bytes(max(gallery.most_positives(rows), 1))
            for_each(work, *row_ranges(len(rows), row_bytes=row, threads=threads))
        return values

    computed = for_blocks(compute, blocks, block_bytes=layout.rows * len(gallery) * similarity.dtype.itemsize)
    for rows, values in zip(blocks, computed, strict=True):
        advance(len(rows))
        yield values


def _fill(similarity: Similarity, queries: Array, scores: Array, height: int, threads: int) -> None:
    """Write the scores of padded queries with the whole gallery in tree order, however it is read."""
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
    """What ranks the positives of some queries, as :meth:`Retrieval.values` takes it, and their totals if they fell."""
    gallery, ties = retrieval.source.gallery, retrieval.request.ties
    if gallery.mask.place is not None:
        return _rank_without(gallery.mask.place, retrieval, scores, rows)
    ranked = rank_by_full_sort(scores, gallery.tree.low[rows], gallery.tree.high[rows], ties=ties)
    if ranked is not None:
        return lambda *_: ranked, None
    positives = gallery.empty_positives(rows, scores.dtype, by_index=ties == "index")
    gallery.gather(scores, places, rows, positives)
    sort(positives)
    gallery.count(scores, places, rows, positives)
    return partial(ranked_positives, positives), None


def _rank_without(
    place: Literal["first", "last"], retrieval: Retrieval[Similarity], scores: Array, rows: Ints
) -> tuple[Callable[..., Ranked], Ints]:
    """The same where the first or last item of each list goes, for which every item must be looked at."""
    gallery, ties = retrieval.source.gallery, retrieval.request.ties
    tree = gallery.tree
    levels, excluded = np.empty(scores.shape, np.uint8), gallery.mask.excluded(rows, tree.place)
    fill_levels(tree.low[rows], tree.high[rows], levels)
    totals = drop_ranked(place, scores, levels, excluded, tree.order, retrieval.totals[rows])
    if ties == "index":  # equal scores in the order the user gave the gallery
        scores, levels, excluded = scores[:, tree.place], levels[:, tree.place], excluded[:, tree.place]
    return partial(ranked_positives, sort_matrix(scores, levels, excluded, ties=ties)), totals


class _Block(NamedTuple):
    """A block of queries while it is computed: its rows, its padded vectors, and the rows of each product."""

    retrieval: Retrieval[Similarity]
    rows: Ints
    queries: Array
    height: int
    products: list[slice]
    positives: SortedPositives
    memory: Memory


def values_tiled(
    retrieval: Retrieval[Similarity], layout: Layout, blocks: list[Ints], advance: Advance
) -> Iterator[Floats]:
    """Yield the values of each block."""
    similarity, by_index = retrieval.source, retrieval.request.ties == "index"
    gallery = similarity.gallery
    memory = Memory(layout.height * similarity.longest_part, similarity.dtype)
    for rows in blocks:
        queries, products = similarity.queries(rows, layout.height), ranges(len(rows), layout.height)
        positives = gallery.empty_positives(rows, similarity.dtype, by_index=by_index)
        block = _Block(retrieval, rows, queries, layout.height, products, positives, memory)
        parts = parts_with_positives(similarity, rows, products)
        for (places, chosen), items in loaded(lambda part: similarity.items(part[0]), parts):
            _apply(gallery.gather, block, chosen, places, items)
        _sort(block)
        for done in _count(block):
            advance(done)
        yield values_of_positives(retrieval, rows, positives)


def parts_with_positives(
    similarity: Similarity, rows: Ints, products: list[slice]
) -> Iterator[tuple[Ints, list[slice]]]:
    """The parts of the gallery that hold positives, as places, and the products whose queries have some there."""
    for places in similarity.parts:
        low, high = similarity.gallery.positive_columns(places, rows)
        chosen = [product for product in products if (low[product] < high[product]).any()]
        if chosen:
            yield places, chosen


def values_of_positives(retrieval: Retrieval[Any], rows: Ints, positives: SortedPositives) -> Floats:
    """The values of queries whose positives are sorted, the other items counted among them."""
    values = np.empty((len(rows), len(retrieval.request.metrics)))

    def work(part: slice) -> None:
        values[part] = retrieval.values(partial(ranked_positives, positives.rows(part)), rows[part])

    for_each(work, *row_ranges(len(rows), row_bytes=4 * row_bytes(max(positives.score.shape[1], 1))))
    return values


def _sort(block: _Block) -> None:
    row = row_bytes(max(block.positives.score.shape[1], 1))
    for_each(lambda part: sort(block.positives.rows(part)), *row_ranges(len(block.rows), row_bytes=row))


def _count(block: _Block) -> Iterator[int]:
    """Yield as many queries' worth of work as each part of the gallery was."""
    similarity, done, seen = block.retrieval.source, 0, 0
    for places, items in loaded(similarity.items, similarity.parts):
        _apply(similarity.gallery.count, block, block.products, places, items)
        seen += len(places)
        done, before = len(block.rows) * seen // len(similarity.gallery), done
        yield done - before


def _apply(
    step: Callable[[Array, Ints, Ints, SortedPositives], None],
    block: _Block,
    products: list[slice],
    places: Ints,
    items: Any,
) -> None:
    """Apply a step to the scores of some products with a part of the gallery."""
    similarity = block.retrieval.source

    def apply(product: slice, threads: int) -> None:
        rows, positives = block.rows[product], block.positives.rows(product)
        queries = block.queries[product.start : product.start + block.height]

        def work(part: slice) -> None:
            similarity.gallery.leave_out(scores[part], places, rows[part])
            step(scores[part], places, rows[part], positives.rows(part))

        with block.memory.lent(block.height, len(places)) as scores:
            similarity.fill(queries, items, places, scores, block.height, threads=threads)
            for_each(work, *row_ranges(len(rows), row_bytes=scores.shape[1], threads=threads))

    scores_bytes = block.height * len(places) * similarity.dtype.itemsize
    for _ in for_blocks(apply, products, block_bytes=scores_bytes):
        pass
