"""The list that AP#l reads: the items below level l and those at it, those of a deeper level taken out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hiertree.jit import jit

if TYPE_CHECKING:
    from ..ranking.ranked import Ranked


def without_deeper(ranked: Ranked, level: int) -> Ranked:
    """The ranked positives once every item deeper than ``level`` has left the list; tie groups shrink with it."""
    kept = ranked._replace(
        level=np.empty_like(ranked.level),
        before=np.empty_like(ranked.before),
        size=np.empty_like(ranked.size),
        number=np.empty_like(ranked.number),
    )
    _close_ranks(ranked, level, kept)
    return kept


@jit
def _close_ranks(ranked: Ranked, wanted: int, kept: Ranked) -> None:
    for row in range(len(ranked.number)):
        number, level, before, size = ranked.number[row], ranked.level[row], ranked.before[row], ranked.size[row]
        found, removed, first = 0, 0, 0
        while first < number:
            last, deeper = first, 0
            while last < number and before[last] == before[first]:
                deeper += level[last] > wanted
                last += 1
            for item in range(first, last):
                if level[item] <= wanted:
                    kept.level[row, found] = level[item]
                    kept.before[row, found] = before[item] - removed
                    kept.size[row, found] = size[item] - deeper
                    found += 1
            removed += deeper
            first = last
        kept.number[row] = found
