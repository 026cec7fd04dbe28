"""Hamming distances by popcount, and rankings by counting sort.

Codes are uint64 words, one row a word and one column an item, so that a run of items is contiguous. A query's ranking
needs no more than how many items of each level stand at each distance; the positives are one range of a gallery in
tree order, and only their levels are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hiertree.jit import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .ranked import Ranked

_CHUNK = 4096  # items whose distances stay in the first cache
_PAIRS, _FOURS, _BYTES, _ONES = (np.uint64(int(byte * 8, 16)) for byte in ("55", "33", "0f", "01"))
_SHIFTS = tuple(np.uint64(bits) for bits in (1, 2, 4, 56))


@jit
def _popcount(word: np.uint64) -> np.uint64:
    """The number of ones; the compiler knows this idiom and puts the processor's instruction in its place."""
    word = word - ((word >> _SHIFTS[0]) & _PAIRS)
    word = (word & _FOURS) + ((word >> _SHIFTS[1]) & _FOURS)
    word = (word + (word >> _SHIFTS[2])) & _BYTES
    ones: np.uint64 = (word * _ONES) >> _SHIFTS[3]
    return ones


@jit
def _distances(query: NDArray[np.uint64], gallery: NDArray[np.uint64], first: int, found: NDArray[np.uint16]) -> None:
    """Write the distances of the items from ``first`` on."""
    found[:] = 0
    for word in range(len(query)):
        own, others = query[word], gallery[word, first : first + len(found)]
        for item in range(len(found)):
            found[item] += np.uint16(_popcount(own ^ others[item]))


@jit
def distances(queries: NDArray[np.uint64], gallery: NDArray[np.uint64], found: NDArray[np.uint16]) -> None:
    """Write the (r, N) distances of queries (r, W) and a gallery (W, N)."""
    for row in range(len(queries)):
        _distances(queries[row], gallery, 0, found[row])


@jit
def count_distances(queries: NDArray[np.uint64], gallery: NDArray[np.uint64], counts: NDArray[np.int64]) -> None:
    """Count, in ``counts`` (r, B+1), the items at each distance from each query."""
    found, tally = np.empty(_CHUNK, np.uint16), np.empty((4, counts.shape[1]), np.int32)
    counts[:] = 0
    for first in range(0, gallery.shape[1], _CHUNK):
        part = found[: min(_CHUNK, gallery.shape[1] - first)]
        for row in range(len(queries)):
            _distances(queries[row], gallery, first, part)
            _add_counts(part, tally, counts[row])


@jit
def _add_counts(found: NDArray[np.uint16], tally: NDArray[np.int32], counts: NDArray[np.int64]) -> None:
    """Add how often each distance was found.

    Four tallies take turns, since an increment waits for the one before it of the same counter. The bound is then one
    store a cycle, which the processor does not exceed: 0.3 ns an item, beside 0.1 for its distance.
    """
    whole = len(found) // 4 * 4
    tally[:] = 0
    for item in range(0, whole, 4):
        tally[0, found[item]] += 1
        tally[1, found[item + 1]] += 1
        tally[2, found[item + 2]] += 1
        tally[3, found[item + 3]] += 1
    for item in range(whole, len(found)):
        tally[0, found[item]] += 1
    for distance in range(len(counts)):
        counts[distance] += tally[0, distance] + tally[1, distance] + tally[2, distance] + tally[3, distance]


@jit
def count_positives(
    queries: NDArray[np.uint64],
    gallery: NDArray[np.uint64],
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> None:
    """Count, in ``counts`` (r, L+1, B+1), the items of each level ≥ 1 at each distance.

    Level l is what the range ``low[l − 1] : high[l − 1]`` holds beyond that of level l + 1.
    """
    num_levels = low.shape[1]
    tally = np.empty((4, counts.shape[2]), np.int32)
    counts[:] = 0
    for row in range(len(queries)):
        start, stop = low[row, 0], high[row, 0]
        found = np.empty(stop - start, np.uint16)
        _distances(queries[row], gallery, start, found)
        for level in range(1, num_levels + 1):
            left = low[row, level] if level < num_levels else high[row, level - 1]
            right = high[row, level] if level < num_levels else high[row, level - 1]
            _add_counts(found[low[row, level - 1] - start : left - start], tally, counts[row, level])
            _add_counts(found[right - start : high[row, level - 1] - start], tally, counts[row, level])


@jit
def leave_out(
    queries: NDArray[np.uint64],
    gallery: NDArray[np.uint64],
    rows: NDArray[np.int64],
    places: NDArray[np.int64],
    levels: NDArray[np.int64],
    counts: NDArray[np.int64],
    positives: NDArray[np.int64],
) -> None:
    """Take pairs of a query (row) and an item (place, level) out of both counts again."""
    found = np.empty(1, np.uint16)
    for pair in range(len(rows)):
        _distances(queries[rows[pair]], gallery, places[pair], found)
        counts[rows[pair], found[0]] -= 1
        if levels[pair] > 0:
            positives[rows[pair], levels[pair], found[0]] -= 1


@jit
def rank_counts(
    counts: NDArray[np.int64],
    positives: NDArray[np.int64],
    order: NDArray[np.int64],
    keep_groups: bool,
    ranked: Ranked,
) -> None:
    """Fill ``ranked`` from counts; unless tie groups are kept, ``order`` lists the levels as they are placed."""
    for row in range(len(counts)):
        level, before, size = ranked.level[row], ranked.before[row], ranked.size[row]
        found, start = 0, 0
        for distance in range(counts.shape[1]):
            members = positives[row, :, distance]
            group = counts[row, distance]
            position = start
            irrelevant = group - members.sum()
            for depth in order[row]:
                if depth == 0:
                    position += irrelevant
                    continue
                stop = found + members[depth]
                level[found:stop] = depth
                for item in range(found, stop):
                    before[item] = start if keep_groups else position + item - found
                    size[item] = group if keep_groups else 1
                position += members[depth]
                found = stop
            start += group
        ranked.number[row] = found
