"""Rankings of binary codes: from the number of items of each level at each distance, or item by item."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..ranking.hamming import count_distances, count_positives, distances, leave_out, rank_counts
from ..ranking.masks import drop_ranked
from ..ranking.ranked import Ranked, sort_matrix
from ..ranking.tree_order import fill_levels
from .blocks import for_row_ranges, ranges

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..conventions.ties import Ties
    from ..ranking.gallery import Gallery
    from .retrieval import Retrieval

_CACHED = 2**19  # positives that are ranked at once


class Codes(NamedTuple):
    """Codes of uint64 words.

    Attributes:
        queries: (Q, W).
        items: (W, N), in tree order.
        num_bits: the longest distance.
        gallery: the order of the items, and what each list leaves out.
    """

    queries: NDArray[np.uint64]
    items: NDArray[np.uint64]
    num_bits: int
    gallery: Gallery


def values_of_codes(retrieval: Retrieval[Codes]) -> NDArray[np.float64]:
    """(Q, M) values of the metrics."""
    codes, num_levels = retrieval.source, retrieval.request.num_levels
    item_by_item = retrieval.request.ties == "index" or codes.gallery.mask.place is not None
    values = np.empty((len(retrieval), len(retrieval.request.metrics)))

    def work(rows: slice) -> None:
        values[rows] = (_sorted_values if item_by_item else _counted_values)(retrieval, rows)

    if item_by_item:
        row_bytes = 32 * len(codes.gallery)
    else:
        row_bytes = 32 * int(retrieval.totals[:, 1:].sum(axis=1).max(initial=0)) + 8 * (codes.num_bits + 1) * num_levels
    for_row_ranges(work, len(values), row_bytes=max(row_bytes, 1))
    return values


def _counted_values(retrieval: Retrieval[Codes], rows: slice) -> NDArray[np.float64]:
    """Values from the number of items of each level at each distance."""
    codes, positives = retrieval.source, retrieval.totals[rows, 1:].sum(axis=1)
    counts = np.empty((rows.stop - rows.start, codes.num_bits + 1), np.int64)
    count_distances(codes.queries[rows], codes.items, counts)
    at_once = max(_CACHED // (int(positives.max(initial=0)) + 1), 1)
    parts = ranges(len(counts), at_once)
    found = [
        _values_of_counts(retrieval, slice(rows.start + part.start, rows.start + part.stop), counts[part])
        for part in parts
    ]
    return np.concatenate(found)


def _values_of_counts(retrieval: Retrieval[Codes], rows: slice, counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Values of a few queries; ``counts`` (r, B+1) still holds what their lists leave out."""
    codes, tree, mask = retrieval.source, retrieval.source.gallery.tree, retrieval.source.gallery.mask
    queries, num_levels = codes.queries[rows], retrieval.request.num_levels
    positives = np.empty((len(counts), num_levels + 1, codes.num_bits + 1), np.int64)
    count_positives(queries, codes.items, tree.low[rows], tree.high[rows], positives)
    pair_rows, items = mask.pairs(rows)
    places = tree.place[items]
    inside = (tree.low[rows][pair_rows] <= places[:, None]) & (places[:, None] < tree.high[rows][pair_rows])
    leave_out(queries, codes.items, pair_rows, places, inside.sum(axis=1), counts, positives)

    def rank(ties: Ties, preference: NDArray[np.float64]) -> Ranked:
        order = np.argsort(preference, axis=1, kind="stable")
        order = np.ascontiguousarray(order[:, ::-1]) if ties == "best" else order
        return _ranked(counts, positives, order, keep_groups=ties in ("average", "paper"))

    return retrieval.values(rank, len(codes.gallery), rows)


def _ranked(
    counts: NDArray[np.int64], positives: NDArray[np.int64], order: NDArray[np.int64], *, keep_groups: bool
) -> Ranked:
    number = positives.sum(axis=(1, 2))
    shape = (len(counts), int(number.max(initial=0)))
    ranked = Ranked(np.empty(shape, np.uint8), np.empty(shape, np.int32), np.empty(shape, np.int32), number)
    rank_counts(counts, positives, order, keep_groups, ranked)
    return ranked


def _sorted_values(retrieval: Retrieval[Codes], rows: slice) -> NDArray[np.float64]:
    """Values item by item, where the smaller index comes first, or the first or last item of a list goes."""
    codes, tree, mask = retrieval.source, retrieval.source.gallery.tree, retrieval.source.gallery.mask
    found = np.empty((rows.stop - rows.start, len(codes.gallery)), np.uint16)
    levels = np.empty(found.shape, np.uint8)
    distances(codes.queries[rows], codes.items, found)
    fill_levels(tree.low[rows], tree.high[rows], levels)
    place = tree.place  # back to the order the user gave the gallery
    excluded = mask.excluded(rows, place)[:, place]
    scores, levels, totals = -found[:, place].astype(np.float32), levels[:, place], retrieval.totals[rows]
    if mask.place is not None:
        totals = drop_ranked(mask.place, scores, levels, excluded, np.arange(len(place)), totals)
    return retrieval.values_of(sort_matrix(scores, levels, excluded, ties=retrieval.request.ties), rows, totals=totals)
