"""Rank binary codes by counting sort: from the number of items per level and distance, or item by item."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hiertree.evaluation_options import Ties
from hiertree.jit import Floats, Int32s, Ints, Words, jit

from ..ranking.gallery import Gallery
from ..ranking.ranked import Ranked
from .blocks import for_each, ranges, row_ranges
from .retrieval import Retrieval

_CACHED = 2**19  # positives that are ranked at once
_CHUNK = 4096  # items whose distances fit into the L1 cache
_PAIRS, _FOURS, _BYTES, _ONES = (np.uint64(int(byte * 8, 16)) for byte in ("55", "33", "0f", "01"))
_SHIFTS = tuple(np.uint64(bits) for bits in (1, 2, 4, 56))


class Codes(NamedTuple):
    """Binary codes of uint64 words."""

    queries: Words  # (Q, W)
    items: Words  # (W, N) in tree order, so that a run of items is contiguous
    num_bits: int  # the longest distance
    gallery: Gallery  # the order of the items, and what each list leaves out


def values_of_codes(retrieval: Retrieval[Codes]) -> Floats:
    """(Q, M) values of the metrics."""
    codes, num_levels = retrieval.source, retrieval.request.num_levels
    item_by_item = codes.gallery.needs_lists(retrieval.request.ties)
    values = np.empty((len(retrieval), len(retrieval.request.metrics)))

    def work(rows: slice) -> None:
        values[rows] = (_sorted_values if item_by_item else _counted_values)(retrieval, rows)

    if item_by_item:
        row_bytes = 32 * len(codes.gallery)
    else:
        row_bytes = 32 * int(retrieval.totals[:, 1:].sum(axis=1).max(initial=0)) + 8 * (codes.num_bits + 1) * num_levels
    for_each(work, *row_ranges(len(values), row_bytes=max(row_bytes, 1)))
    return values


def _counted_values(retrieval: Retrieval[Codes], rows: slice) -> Floats:
    codes, positives = retrieval.source, retrieval.totals[rows, 1:].sum(axis=1)
    counts = np.empty((rows.stop - rows.start, codes.num_bits + 1), np.int64)
    _count_distances(codes.queries[rows], codes.items, counts)
    values = []
    for chunk in ranges(len(counts), max(_CACHED // (int(positives.max(initial=0)) + 1), 1)):
        part_rows = slice(rows.start + chunk.start, rows.start + chunk.stop)
        values.append(_values_of_counts(retrieval, part_rows, counts[chunk]))
    return np.concatenate(values)


def _values_of_counts(retrieval: Retrieval[Codes], rows: slice, counts: Ints) -> Floats:
    """Values of a few queries; ``counts`` (r, B+1) still includes excluded items."""
    codes, tree, mask = retrieval.source, retrieval.source.gallery.tree, retrieval.source.gallery.mask
    queries, num_levels = codes.queries[rows], retrieval.request.num_levels
    positives = np.empty((len(counts), num_levels + 1, codes.num_bits + 1), np.int64)
    _count_positives(queries, codes.items, tree.low[rows], tree.high[rows], positives)
    pair_rows, items = mask.pairs(rows)
    positions = tree.position[items]
    is_positive = (tree.low[rows][pair_rows] <= positions[:, None]) & (positions[:, None] < tree.high[rows][pair_rows])
    _leave_out(queries, codes.items, pair_rows, positions, is_positive.sum(axis=1), counts, positives)

    def rank(ties: Ties, preference: Floats) -> Ranked:
        order = np.argsort(preference, axis=1, kind="stable")
        order = np.ascontiguousarray(order[:, ::-1]) if ties == "best" else order
        num_positives = positives.sum(axis=(1, 2))
        shape = len(counts), int(num_positives.max(initial=0))
        ranked = Ranked(np.empty(shape, np.uint8), np.empty(shape, np.int32), np.empty(shape, np.int32), num_positives)
        _rank_counts(counts, positives, order, ties in ("average", "paper"), ranked)
        return ranked

    return retrieval.values(rank, rows)


def _sorted_values(retrieval: Retrieval[Codes], rows: slice) -> Floats:
    """Values by sorting item by item: for ties broken by index, or lists that lose their first or last item."""
    codes = retrieval.source
    distances = np.empty((rows.stop - rows.start, len(codes.gallery)), np.uint16)
    for query, row in zip(codes.queries[rows], distances, strict=True):
        _distances(query, codes.items, 0, row)
    rank, totals = codes.gallery.rank_lists(-distances.astype(np.float32), rows, ties=retrieval.request.ties)
    return retrieval.values(rank, rows, totals=totals)


@jit
def _popcount(word: np.uint64) -> np.uint64:
    """The number of one bits; the compiler replaces this idiom by the processor's popcount instruction."""
    word = word - ((word >> _SHIFTS[0]) & _PAIRS)
    word = (word & _FOURS) + ((word >> _SHIFTS[1]) & _FOURS)
    word = (word + (word >> _SHIFTS[2])) & _BYTES
    ones: np.uint64 = (word * _ONES) >> _SHIFTS[3]
    return ones


@jit
def _distances(query: Words, gallery: Words, first: int, distances: NDArray[np.uint16]) -> None:
    distances[:] = 0
    for word in range(len(query)):
        query_word, item_words = query[word], gallery[word, first : first + len(distances)]
        for item in range(len(distances)):
            distances[item] += np.uint16(_popcount(query_word ^ item_words[item]))


@jit
def _count_distances(queries: Words, gallery: Words, counts: Ints) -> None:
    """Count, in ``counts`` (r, B+1), the items at each distance from each query."""
    distances, tally = np.empty(_CHUNK, np.uint16), np.empty((4, counts.shape[1]), np.int32)
    counts[:] = 0
    for first in range(0, gallery.shape[1], _CHUNK):
        chunk = distances[: min(_CHUNK, gallery.shape[1] - first)]
        for row in range(len(queries)):
            _distances(queries[row], gallery, first, chunk)
            _add_counts(chunk, tally, counts[row])


@jit
def _add_counts(distances: NDArray[np.uint16], tally: Int32s, counts: Ints) -> None:
    """Count with four alternating tallies, since an increment waits for the previous one of the same counter."""
    unrolled_stop = len(distances) // 4 * 4
    tally[:] = 0
    for item in range(0, unrolled_stop, 4):
        tally[0, distances[item]] += 1
        tally[1, distances[item + 1]] += 1
        tally[2, distances[item + 2]] += 1
        tally[3, distances[item + 3]] += 1
    for item in range(unrolled_stop, len(distances)):
        tally[0, distances[item]] += 1
    for distance in range(len(counts)):
        counts[distance] += tally[0, distance] + tally[1, distance] + tally[2, distance] + tally[3, distance]


@jit
def _count_positives(queries: Words, gallery: Words, low: Ints, high: Ints, counts: Ints) -> None:
    """Count, in ``counts`` (r, L+1, B+1), the items of each level ≥ 1 at each distance.

    Level l is what the range ``low[l − 1] : high[l − 1]`` holds beyond that of level l + 1.
    """
    num_levels = low.shape[1]
    tally = np.empty((4, counts.shape[2]), np.int32)
    counts[:] = 0
    for row in range(len(queries)):
        start, stop = low[row, 0], high[row, 0]
        distances = np.empty(stop - start, np.uint16)
        _distances(queries[row], gallery, start, distances)
        for level in range(1, num_levels + 1):
            left = low[row, level] if level < num_levels else high[row, level - 1]
            right = high[row, level] if level < num_levels else high[row, level - 1]
            _add_counts(distances[low[row, level - 1] - start : left - start], tally, counts[row, level])
            _add_counts(distances[right - start : high[row, level - 1] - start], tally, counts[row, level])


@jit
def _leave_out(
    queries: Words, gallery: Words, rows: Ints, positions: Ints, levels: Ints, counts: Ints, positives: Ints
) -> None:
    """Subtract excluded pairs of a query (row) and an item (place, level) from both counts."""
    distance = np.empty(1, np.uint16)
    for pair in range(len(rows)):
        _distances(queries[rows[pair]], gallery, positions[pair], distance)
        counts[rows[pair], distance[0]] -= 1
        if levels[pair] > 0:
            positives[rows[pair], levels[pair], distance[0]] -= 1


@jit
def _rank_counts(counts: Ints, positives: Ints, order: Ints, keep_groups: bool, ranked: Ranked) -> None:
    """Fill ``ranked`` from counts; unless tie groups are kept, ``order`` lists the levels in the order of placement."""
    for row in range(len(counts)):
        level, offset, size = ranked.level[row], ranked.offset[row], ranked.size[row]
        begin, start = 0, 0
        for distance in range(counts.shape[1]):
            members = positives[row, :, distance]
            group = counts[row, distance]
            position = start
            irrelevant = group - members.sum()
            for depth in order[row]:
                if depth == 0:
                    position += irrelevant
                    continue
                stop = begin + members[depth]
                level[begin:stop] = depth
                for item in range(begin, stop):
                    offset[item] = start if keep_groups else position + item - begin
                    size[item] = group if keep_groups else 1
                position += members[depth]
                begin = stop
            start += group
        ranked.num_positives[row] = begin
