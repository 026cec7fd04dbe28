"""From scores and levels to the ranked positives of each query, which are all that a metric needs.

Metrics read :class:`Ranked`: for each positive (level ≥ 1), in ranked order, its level, the number of items ahead of
its tie group, and the size of that group, which is 1 where the policy has put the members in order. Negatives, most of
a gallery, appear only through the ranks of the positives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hiertree.jit import jit

from .sorted_positives import SortedPositives, count_others, count_others_by_index, empty_positives, sort, split

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..conventions.ties import Ties

_GLANCE = 64  # positives that are searched for ties at once


class Ranked(NamedTuple):
    """The positives of r queries in ranked order; row i holds ``number[i]`` of them.

    Attributes:
        level: (r, P) uint8.
        before: (r, P) int32, items ahead of the tie group.
        size: (r, P) int32, items of the tie group, irrelevant ones included.
        number: (r,) int64.
    """

    level: NDArray[np.uint8]
    before: NDArray[np.int32]
    size: NDArray[np.int32]
    number: NDArray[np.int64]


def sort_matrix(
    scores: NDArray[Any], levels: NDArray[np.uint8], excluded: NDArray[np.bool_], *, ties: Ties
) -> SortedPositives:
    """The positives of a score matrix (r, N), float32 or float64 without NaN, the others counted among them."""
    by_index = ties == "index"
    num_positives = ((levels > 0) & ~excluded).sum(axis=1)
    positives = empty_positives(
        len(scores), int(num_positives.max(initial=0)), scores.shape[1], scores.dtype, by_index=by_index
    )
    others = np.empty_like(scores)
    other_index = np.empty(scores.shape if by_index else (len(scores), 0), np.int64)
    stop, none = np.empty(len(scores), np.int64), np.zeros(len(scores), np.int64)
    split(scores, levels, excluded, positives, others, other_index, stop)
    sort(positives)
    if by_index:
        count_others_by_index(others, other_index, none, none, stop, positives)
    else:
        count_others(others, none, none, stop, positives)
    return positives


def ranked_positives(positives: SortedPositives, *, ties: Ties, preference: NDArray[np.float64]) -> Ranked:
    """The ranking of the positives.

    Args:
        positives: the positives in the order of their scores, the other items counted among them.
        ties: ``"average"`` and ``"paper"`` keep tie groups; the others put them in order.
        preference: (r, L+1) value of each level; ``"best"`` places the highest first, ``"worst"`` the lowest,
            and of equal values the deeper level counts as higher.
    """
    shape = positives.score.shape
    ranked = Ranked(positives.level, np.empty(shape, np.int32), np.empty(shape, np.int32), positives.number)
    if ties == "index":
        _rank_by_index(positives, ranked)
    elif ties in ("average", "paper"):
        _rank_groups(positives, ranked)
    else:
        ranked = ranked._replace(level=np.empty_like(positives.level))
        order = np.argsort(preference, axis=1, kind="stable")
        _rank_in_order(positives, order[:, ::-1].copy() if ties == "best" else order, ranked)
    return ranked


@jit
def number_within(ranked: Ranked, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many positives of each row have fewer than ``places[row]`` items ahead of their tie group."""
    number = np.empty(len(places), np.int64)
    for row in range(len(places)):
        low, high = 0, ranked.number[row]
        while low < high:
            middle = (low + high) // 2
            if ranked.before[row, middle] < places[row]:
                low = middle + 1
            else:
                high = middle
        number[row] = low
    return number


@jit
def _rank_groups(positives: SortedPositives, ranked: Ranked) -> None:
    for row in range(len(positives.number)):
        number, score, others = positives.number[row], positives.score[row], positives.others[row]
        before, size = ranked.before[row], ranked.size[row]
        ahead, first = 0, 0
        while first < number:
            stop, reached = min(first + _GLANCE, number), -1
            if not _has_ties(score[first : min(stop + 1, number)]):
                reached = _rank_alone(others[first:stop], ahead, before[first:stop], size[first:stop])
            if reached >= 0:
                ahead, first = reached, stop
            while first < stop:
                ahead += others[first, 0]
                end = first + 1
                while end < number and score[end] == score[first]:
                    end += 1
                members = end - first + others[first, 1]
                for item in range(first, end):
                    before[item], size[item] = ahead, members
                ahead += members
                first = end


@jit
def _has_ties(score: NDArray[Any]) -> bool:
    found = np.int32(0)
    for item in range(len(score) - 1):
        found |= np.int32(score[item] == score[item + 1])
    return bool(found != 0)


@jit
def _rank_alone(others: NDArray[np.int32], ahead: int, before: NDArray[np.int32], size: NDArray[np.int32]) -> int:
    """Rank positives of different scores; how many items are ahead of the next one, or −1 if others are tied."""
    tied = np.int32(0)
    for item in range(len(others)):
        ahead += others[item, 0] + 1
        before[item], size[item] = ahead - 1, 1
        tied |= others[item, 1]
    return -1 if tied else ahead


@jit
def _rank_by_index(positives: SortedPositives, ranked: Ranked) -> None:
    for row in range(len(positives.number)):
        ahead = 0
        for item in range(positives.number[row]):
            ahead += positives.others[row, item, 0]
            ranked.before[row, item], ranked.size[row, item] = ahead, 1
            ahead += 1


@jit
def _rank_in_order(positives: SortedPositives, order: NDArray[np.int64], ranked: Ranked) -> None:
    """Put the members of each tie group in the order of levels that each row of ``order`` lists."""
    members = np.zeros(order.shape[1], np.int64)
    for row in range(len(positives.number)):
        number, score, others = positives.number[row], positives.score[row], positives.others[row]
        position, first = 0, 0
        while first < number:
            position += others[first, 0]
            members[:] = 0
            members[0] = others[first, 1]
            stop = first
            while stop < number and score[stop] == score[first]:
                members[positives.level[row, stop]] += 1
                stop += 1
            for level in order[row]:
                for _ in range(members[level]):
                    if level > 0:
                        ranked.level[row, first] = level
                        ranked.before[row, first], ranked.size[row, first] = position, 1
                        first += 1
                    position += 1
