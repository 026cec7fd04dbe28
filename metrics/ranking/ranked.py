"""From scores and levels to the ranked positives of each query, the only input of every metric.

Negatives, the bulk of a gallery, appear only in the ranks of the positives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from hiertree.evaluation_options import Ties
from hiertree.jit import Array, Bools, Bytes, Floats, Int32s, Ints, jit

from ..conventions import MetricRequest
from .sorted_positives import SortedPositives, count_negatives, empty_positives, sort, split

_GLANCE = 64  # positives that are searched for ties at once
_SIGN, _BELOW_SIGN = np.uint32(2**31), np.uint32(2**31 - 1)  # of a float32
_CELLS_AT_ONCE = 2**20  # of a matrix whose lists are sorted by score and column; each takes some 30 bytes
_COLUMN, _COLUMN_BITS = np.uint64(2**32 - 1), np.uint64(32)
Value = TypeVar("Value")


class Ranked(NamedTuple):
    """The positives of r queries in ranked order; row i holds ``num_positives[i]`` of them."""

    level: Bytes  # (r, P)
    offset: Int32s  # (r, P) items ahead of the tie group
    size: Int32s  # (r, P) items of the tie group, irrelevant ones included
    num_positives: Ints  # (r,)


class TieGroups(NamedTuple):
    """Tie groups of more than one item that hold a positive; a sentinel after the last one begins at the row's end."""

    first: Int32s  # (r, G+1) the first positive of each
    stop: Int32s  # (r, G) one past its last
    members: Ints  # (r, G, L+1) its positives of each level


@dataclass(eq=False)
class RankedLists:
    """The lists of r queries, the input of every formula."""

    _rank: Callable[[Ties, Floats], Ranked]  # ranked_positives or a replacement
    request: MetricRequest
    _rows: slice | Ints  # the queries of the request
    totals: Ints  # (r, L+1) items of each level that exist, ranked or not
    _counts: Ints  # (r, L+1) those that the relevance of H-AP counts
    num_ranks: int
    _shared: dict[Callable[[RankedLists], Any], Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.totals)

    @property
    def paper(self) -> bool:
        """Whether every item of equal score counts as ahead."""
        return self.request.ties == "paper"

    def relevance(self, alpha: float | None) -> Floats:
        """(r, L+1) the relevance of each level for each query: the requested one, or that of an alpha."""
        return self.request.table(self._counts, self._rows, alpha=alpha)

    @cached_property
    def ranked(self) -> Ranked:
        """The positives under the requested policy; "best" ranks deeper levels first, "worst" last."""
        return self.ranked_by(np.tile(np.arange(self.totals.shape[1], dtype=np.float64), (len(self), 1)))

    def ranked_by(self, preference: Floats) -> Ranked:
        """:attr:`ranked`, where "best" ranks levels of higher preference (r, L+1) first and "worst" last."""
        return self._rank(self.request.ties, preference)

    @cached_property
    def grouped(self) -> Ranked:
        """The positives with their tie groups under any policy, unless indices break ties."""
        return self._rank("index" if self.request.ties == "index" else "average", np.zeros(self.totals.shape))

    @cached_property
    def tie_groups(self) -> TieGroups:
        """The tie groups of ``ranked``."""
        return tie_groups(self.ranked, self.request.num_levels)

    def num_positives(self, level: int) -> Ints:
        """(r,) the number of items of a level or deeper."""
        positives: Ints = self.totals[:, level:].sum(axis=1)
        return positives

    def shared(self, compute: Callable[[RankedLists], Value]) -> Value:
        """A value that several formulas need, computed once for these lists."""
        if compute not in self._shared:
            self._shared[compute] = compute(self)
        value: Value = self._shared[compute]
        return value


def ratio(sums: Floats, divisors: Array) -> Floats:
    """Divide; NaN where a divisor is 0."""
    return np.where(divisors > 0, sums / np.where(divisors > 0, divisors, 1), np.nan)


def rank_matrix(
    scores: Array, levels: Bytes, excluded: Bools, *, ties: Ties, position: Ints | None = None
) -> Callable[[Ties, Floats], Ranked]:
    """What ranks the positives of a score matrix (r, N), float32 or float64 without NaN, for :class:`RankedLists`.

    ``position`` has the columns in the order that breaks ties by index; without it they stand in it.
    """
    if ties == "index":
        ranked = _rank_by_index(scores, levels, excluded, slice(None) if position is None else position)
        return lambda *_: ranked
    num_positives = int(((levels > 0) & ~excluded).sum(axis=1).max(initial=0))
    positives = empty_positives(len(scores), num_positives, scores.dtype)
    negatives, stop, none = np.empty_like(scores), np.empty(len(scores), np.int64), np.zeros(len(scores), np.int64)
    split(scores, levels, excluded, positives, negatives, stop)
    sort(positives)
    count_negatives(negatives, none, none, stop, positives)
    return partial(ranked_positives, positives)


def _rank_by_index(scores: Array, levels: Bytes, excluded: Bools, columns: Ints | slice) -> Ranked:
    """The ranking in which of equal scores the one of the earlier column is first."""
    ordered_levels = np.empty(levels.shape, np.uint8)
    step = max(_CELLS_AT_ONCE // max(scores.shape[1], 1), 1)
    for rows in (slice(start, start + step) for start in range(0, len(scores), step)):
        block = scores[rows][:, columns], levels[rows][:, columns], excluded[rows][:, columns]
        ordered_levels[rows] = _ordered_levels(*block)
    row, offset = np.nonzero(ordered_levels)
    num_positives = np.bincount(row, minlength=len(scores))
    shape = len(scores), int(num_positives.max(initial=0))
    ranked = Ranked(np.zeros(shape, np.uint8), np.zeros(shape, np.int32), np.ones(shape, np.int32), num_positives)
    cells = np.arange(shape[1]) < num_positives[:, None]
    ranked.level[cells], ranked.offset[cells] = ordered_levels[row, offset], offset
    return ranked


def _ordered_levels(scores: Array, levels: Bytes, excluded: Bools) -> Bytes:
    """The levels (r, N) by falling score, then by column; excluded items, of level 0, come last."""
    if scores.dtype == np.float32:  # numpy sorts such keys with vector instructions
        bits = (scores + np.float32(0)).view(np.uint32)  # −0 becomes 0
        keys = np.where(bits & _SIGN, bits, bits ^ _BELOW_SIGN).astype(np.uint64)  # they fall as scores rise
        keys[excluded] = _COLUMN
        keys = keys << _COLUMN_BITS | np.arange(scores.shape[1], dtype=np.uint64)
        keys.sort(axis=1)
        order = (keys & _COLUMN).astype(np.int64)
    else:
        order = np.lexsort((-scores, excluded))
    return np.take_along_axis(np.where(excluded, 0, levels), order, axis=1)


def ranked_positives(positives: SortedPositives, ties: Ties, preference: Floats) -> Ranked:
    """The ranking that sorted positives and the counts of other items give.

    ``"average"`` and ``"paper"`` keep tie groups. ``"best"`` places levels of high ``preference`` (r, L+1) first,
    ``"worst"`` last; of equal ones the deeper level counts as higher.
    """
    shape = positives.score.shape
    ranked = Ranked(positives.level, np.empty(shape, np.int32), np.empty(shape, np.int32), positives.num_positives)
    if ties in ("average", "paper"):
        _rank_groups(positives, ranked)
    else:
        ranked = ranked._replace(level=np.empty_like(positives.level))
        order = np.argsort(preference, axis=1, kind="stable")
        _rank_in_order(positives, order[:, ::-1].copy() if ties == "best" else order, ranked)
    return ranked


@jit
def count_within(ranked: Ranked, cutoffs: Ints) -> Ints:
    """The number of positives of each row with fewer than ``cutoffs[row]`` items ahead of their tie group."""
    num_positives = np.empty(len(cutoffs), np.int64)
    for row in range(len(cutoffs)):
        low, high = 0, ranked.num_positives[row]
        while low < high:
            middle = (low + high) // 2
            if ranked.offset[row, middle] < cutoffs[row]:
                low = middle + 1
            else:
                high = middle
        num_positives[row] = low
    return num_positives


@jit
def _rank_groups(positives: SortedPositives, ranked: Ranked) -> None:
    """Rank positives with others of equal score in a group."""
    for row in range(len(positives.num_positives)):
        num_positives, score, negatives = positives.num_positives[row], positives.score[row], positives.negatives[row]
        offset, size = ranked.offset[row], ranked.size[row]
        num_ahead, first = 0, 0
        while first < num_positives:
            num_ahead += negatives[first, 0]
            stop = first + 1
            while stop < num_positives and score[stop] == score[first]:
                stop += 1
            members = stop - first + negatives[first, 1]
            for item in range(first, stop):
                offset[item], size[item] = num_ahead, members
            num_ahead += members
            first = stop


@jit
def _rank_in_order(positives: SortedPositives, order: Ints, ranked: Ranked) -> None:
    """Order the members of each tie group by level, as the row of ``order`` lists them."""
    members = np.zeros(order.shape[1], np.int64)
    for row in range(len(positives.num_positives)):
        num_positives, score, negatives = positives.num_positives[row], positives.score[row], positives.negatives[row]
        position, first = 0, 0
        while first < num_positives:
            position += negatives[first, 0]
            members[:] = 0
            members[0] = negatives[first, 1]
            stop = first
            while stop < num_positives and score[stop] == score[first]:
                members[positives.level[row, stop]] += 1
                stop += 1
            for level in order[row]:
                for _ in range(members[level]):
                    if level > 0:
                        ranked.level[row, first] = level
                        ranked.offset[row, first], ranked.size[row, first] = position, 1
                        first += 1
                    position += 1


@jit
def tie_groups(ranked: Ranked, num_levels: int) -> TieGroups:
    """The tie groups of each row; levels are 0 … L."""
    num_rows, num_groups = len(ranked.num_positives), 0
    first_ties = np.empty(num_rows, np.int64)
    for row in range(num_rows):
        num_positives, offset, size = ranked.num_positives[row], ranked.offset[row], ranked.size[row]
        item, group = _next_group(size, 0, num_positives), 0
        first_ties[row] = item
        while item < num_positives:
            group += 1
            item = _next_group(size, _end(offset, item, num_positives), num_positives)
        num_groups = max(num_groups, group)
    first, stop = np.empty((num_rows, num_groups + 1), np.int32), np.empty((num_rows, num_groups), np.int32)
    members = np.zeros((num_rows, num_groups, num_levels + 1), np.int64)
    for row in range(num_rows):
        num_positives, offset, size = ranked.num_positives[row], ranked.offset[row], ranked.size[row]
        item, group = first_ties[row], 0
        while item < num_positives:
            first[row, group], stop[row, group] = item, _end(offset, item, num_positives)
            for positive in range(item, stop[row, group]):
                members[row, group, ranked.level[row, positive]] += 1
            item = _next_group(size, stop[row, group], num_positives)
            group += 1
        first[row, group] = num_positives
    return TieGroups(first, stop, members)


@jit
def _next_group(size: Int32s, item: int, num_positives: int) -> int:
    """The first tied positive from ``item`` on, or the number of positives; ahead of ties many are added up at once."""
    while item + _GLANCE <= num_positives and not _has_ties(size[item : item + _GLANCE]):
        item += _GLANCE
    while item < num_positives and size[item] == 1:
        item += 1
    return item


@jit
def _has_ties(size: Int32s) -> bool:
    ties = np.int32(0)
    for item in range(len(size)):
        ties |= size[item] ^ np.int32(1)
    return bool(ties != 0)


@jit
def _end(offset: Int32s, item: int, num_positives: int) -> int:
    """One past the last positive tied with a given one."""
    start = offset[item]
    while item < num_positives and offset[item] == start:
        item += 1
    return item
