"""The values of blocks of queries, the scores of a block with the whole gallery held at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hiertree.io.progress import Advance

from ..ranking.full_sort import rank_by_full_sort
from ..ranking.masks import drop_ranked
from ..ranking.ranked import sort_matrix
from ..ranking.sorted_positives import row_bytes, sort
from ..ranking.tree_order import fill_levels
from .blocks import Memory, for_blocks, for_row_ranges, loaded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .layout import Layout
    from .retrieval import Retrieval
    from .similarity import Similarity


def values_in_memory(
    retrieval: Retrieval[Similarity], layout: Layout, blocks: list[NDArray[np.int64]], advance: Advance
) -> Iterator[NDArray[np.float64]]:
    """Yield the values of each block."""
    similarity = retrieval.source
    num_items = len(similarity.gallery)
    _ = similarity.parts  # once, before threads want them
    memory = Memory(layout.rows * num_items, similarity.dtype)

    def compute(rows: NDArray[np.int64], threads: int) -> NDArray[np.float64]:
        queries = similarity.queries(rows, layout.height)
        with memory.lent(len(queries), num_items) as scores:
            _fill(similarity, queries, scores, layout.height, threads)
            return _values(retrieval, scores, rows, threads)

    values = for_blocks(compute, blocks, block_bytes=layout.rows * num_items * similarity.dtype.itemsize)
    for rows, found in zip(blocks, values, strict=True):
        advance(len(rows))
        yield found


def _fill(similarity: Similarity, queries: NDArray[Any], scores: NDArray[Any], height: int, threads: int) -> None:
    """Write the scores of padded queries with the whole gallery in tree order, however it is read."""
    for places, items in loaded(similarity.items, similarity.parts):
        if places[-1] - places[0] < len(places):
            similarity.fill(queries, items, places, scores[:, places[0] : places[-1] + 1], height, threads=threads)
        else:
            part = np.empty((len(queries), len(places)), scores.dtype)
            similarity.fill(queries, items, places, part, height, threads=threads)
            scores[:, places] = part


def _values(
    retrieval: Retrieval[Similarity], scores: NDArray[Any], rows: NDArray[np.int64], threads: int
) -> NDArray[np.float64]:
    gallery = retrieval.source.gallery
    values = np.empty((len(rows), len(retrieval.request.metrics)))
    places = np.arange(len(gallery))

    def work(part: slice) -> None:
        gallery.leave_out(scores[part], places, rows[part])
        if gallery.mask.place is None:
            values[part] = _values_of_positives(retrieval, scores[part], places, rows[part])
        else:
            values[part] = _values_without_ranked(retrieval, gallery.mask.place, scores[part], rows[part])

    row = 4 * row_bytes(max(gallery.most_positives(rows), 1))
    for_row_ranges(work, len(rows), row_bytes=row, threads=threads)
    return values


def _values_of_positives(
    retrieval: Retrieval[Similarity], scores: NDArray[Any], places: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[np.float64]:
    gallery, ties = retrieval.source.gallery, retrieval.request.ties
    ranked = rank_by_full_sort(scores, gallery.tree.low[rows], gallery.tree.high[rows], ties=ties)
    if ranked is not None:
        return retrieval.values(lambda *_: ranked, len(gallery), rows)
    positives = gallery.empty_positives(rows, scores.dtype, by_index=ties == "index")
    gallery.gather(scores, places, rows, positives)
    sort(positives)
    gallery.count(scores, places, rows, positives)
    return retrieval.values_of(positives, rows)


def _values_without_ranked(
    retrieval: Retrieval[Similarity], place: Literal["first", "last"], scores: NDArray[Any], rows: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Where the first or last item of each list goes, for which every item must be looked at."""
    gallery, ties = retrieval.source.gallery, retrieval.request.ties
    tree = gallery.tree
    levels, excluded = np.empty(scores.shape, np.uint8), gallery.mask.excluded(rows, tree.place)
    fill_levels(tree.low[rows], tree.high[rows], levels)
    totals = drop_ranked(place, scores, levels, excluded, tree.order, retrieval.totals[rows])
    if ties == "index":  # equal scores in the order the user gave the gallery
        scores, levels, excluded = scores[:, tree.place], levels[:, tree.place], excluded[:, tree.place]
    return retrieval.values_of(sort_matrix(scores, levels, excluded, ties=ties), rows, totals=totals)
