"""From scores and levels to the ranked positives of each query: all that any metric needs.

An item is one uint64 *key*, smaller being better: tie group in the high bits, level in the lowest eight. Sorted keys
of a row are its ranking; excluded items carry the key ``END``, larger than every other.

What the metrics read is :class:`Ranked`: for each positive (level ≥ 1), in ranked order, its level, the number of items
ahead of its tie group, and the size of that group, 1 where the policy has put the members in order. So the negatives,
which are most of a gallery, appear only through the ranks of the positives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from hiertree.errors import OptionError
from hiertree.metrics._jit import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

Ties: TypeAlias = Literal["average", "worst", "best", "paper", "index"]
TIES: tuple[Ties, ...] = ("average", "worst", "best", "paper", "index")
END = np.uint64(2**64 - 1)
LEVEL_BITS = np.uint64(8)
LEVEL_MASK = np.uint64(255)
_SIGN = np.uint64(2**31)
_BELOW_SIGN = np.uint64(2**31 - 1)
_FEW = 24


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


def check_ties(ties: str) -> None:
    """Refuse a policy that does not exist."""
    if ties not in TIES:
        raise OptionError(f"ties={ties!r}", expected=f"one of {', '.join(map(repr, TIES))}")


def sorted_keys(
    scores: NDArray[Any], levels: NDArray[np.uint8], excluded: NDArray[np.bool_], *, ties: Ties
) -> NDArray[np.uint64]:
    """The rankings of r rows of scores (float32 or float64, no NaN), as sorted keys of the same shape."""
    keys = np.empty(scores.shape, np.uint64)
    if scores.dtype == np.float32 and ties != "index":
        _bucket_sort(scores, levels, excluded, keys)
    else:
        order = np.argsort(-scores, axis=1, kind="stable")
        _keys_in_order(order, scores, levels, excluded, ties == "index", keys)
    return keys


def ranked_positives(keys: NDArray[np.uint64], *, ties: Ties, preference: NDArray[np.float64]) -> Ranked:
    """The positives of sorted keys.

    Args:
        keys: (r, N) sorted keys.
        ties: ``"average"`` and ``"paper"`` keep tie groups; the others put them in order.
        preference: (r, L+1) value of each level; ``"best"`` places the highest first, ``"worst"`` the lowest,
            and of equal values the deeper level counts as higher.
    """
    number = np.empty(len(keys), np.int64)
    _count_positives(keys, number)
    shape = (len(keys), int(number.max(initial=0)))
    ranked = Ranked(np.empty(shape, np.uint8), np.empty(shape, np.int32), np.empty(shape, np.int32), number)
    order = np.argsort(preference, axis=1, kind="stable")
    _collect(keys, order[:, ::-1].copy() if ties == "best" else order, ties in ("average", "paper"), ranked)
    return ranked


@jit
def _key(score: np.float32, level: np.uint8) -> np.uint64:
    """The tie group is the score's bit pattern, made to fall as the score rises; −0 ties with 0."""
    pattern = np.uint64(np.float32(score + np.float32(0.0)).view(np.uint32))
    descending = pattern if pattern & _SIGN else pattern ^ _BELOW_SIGN
    key: np.uint64 = (descending << LEVEL_BITS) | np.uint64(level)
    return key


@jit
def _sort_few(keys: NDArray[np.uint64]) -> None:
    if len(keys) > _FEW:
        keys.sort()
        return
    for item in range(1, len(keys)):
        key, place = keys[item], item
        while place > 0 and keys[place - 1] > key:
            keys[place] = keys[place - 1]
            place -= 1
        keys[place] = key


@jit
def _bucket_sort(
    scores: NDArray[np.float32],
    levels: NDArray[np.uint8],
    excluded: NDArray[np.bool_],
    keys: NDArray[np.uint64],
) -> None:
    """Sorted keys: items go into as many equal intervals of the score as there are items, and these are sorted.

    An interval without positives is left as it is, since the order of negatives between two positives is never read.
    """
    num_items = scores.shape[1]
    bucket = np.empty(num_items, np.int32)
    start = np.empty(num_items + 2, np.int32)
    relevant = np.empty(num_items + 1, np.uint8)
    for row in range(scores.shape[0]):
        own = scores[row]
        top, low = np.float32(-np.inf), np.float32(np.inf)
        for item in range(num_items):
            if not excluded[row, item]:
                top, low = max(top, own[item]), min(low, own[item])
        width = np.float32(top - low)
        scale = np.float32(num_items - 1) / width
        if not (width > 0 and np.isfinite(width) and np.isfinite(scale)):
            top, scale = np.float32(0.0), np.float32(0.0)  # one interval
        start[:] = 0
        relevant[:] = 0
        for item in range(num_items):
            place = np.int32((top - own[item]) * scale) if scale > 0 else np.int32(0)
            place = num_items if excluded[row, item] else min(place, num_items - 1)
            bucket[item] = place
            start[place + 1] += 1
            relevant[place] |= levels[row, item]
        for place in range(num_items + 1):
            start[place + 1] += start[place]
        for item in range(num_items):
            place = bucket[item]
            keys[row, start[place]] = _key(own[item], levels[row, item])
            start[place] += 1
        first = 0
        for place in range(num_items):
            if relevant[place] and start[place] - first > 1:
                _sort_few(keys[row, first : start[place]])
            first = start[place]
        keys[row, first:] = END


@jit
def _keys_in_order(
    order: NDArray[np.int64],
    scores: NDArray[Any],
    levels: NDArray[np.uint8],
    excluded: NDArray[np.bool_],
    break_ties: bool,
    keys: NDArray[np.uint64],
) -> None:
    """Sorted keys from an order of the items; the tie group is the rank at which it starts."""
    for row in range(order.shape[0]):
        rank, group = 0, 0
        previous = np.inf
        for item in order[row]:
            if excluded[row, item]:
                continue
            if break_ties or scores[row, item] != previous:
                group = rank
            previous = scores[row, item]
            keys[row, rank] = (np.uint64(group) << LEVEL_BITS) | np.uint64(levels[row, item])
            rank += 1
        keys[row, rank:] = END


@jit
def _count_positives(keys: NDArray[np.uint64], number: NDArray[np.int64]) -> None:
    for row in range(keys.shape[0]):
        found = 0
        for key in keys[row]:
            found += key != END and (key & LEVEL_MASK) > 0
        number[row] = found


@jit
def _collect(keys: NDArray[np.uint64], order: NDArray[np.int64], keep_groups: bool, ranked: Ranked) -> None:
    """Fill ``ranked``; ``order`` lists the levels of each row as a tie group that is not kept shall place them."""
    members = np.zeros(order.shape[1], np.int64)
    for row in range(keys.shape[0]):
        level, before, size = ranked.level[row], ranked.before[row], ranked.size[row]
        found, start = 0, 0
        while found < ranked.number[row]:
            group = keys[row, start] >> LEVEL_BITS
            stop = start + 1
            while stop < keys.shape[1] and keys[row, stop] >> LEVEL_BITS == group:
                stop += 1
            if stop == start + 1:
                if keys[row, start] & LEVEL_MASK:
                    level[found] = keys[row, start] & LEVEL_MASK
                    before[found], size[found] = start, 1
                    found += 1
                start = stop
                continue
            members[:] = 0
            for item in range(start, stop):
                members[keys[row, item] & LEVEL_MASK] += 1
            position = start
            for place in order[row]:
                for _ in range(members[place]):
                    if place > 0:
                        level[found] = place
                        before[found] = start if keep_groups else position
                        size[found] = stop - start if keep_groups else 1
                        found += 1
                    position += 1
            start = stop
