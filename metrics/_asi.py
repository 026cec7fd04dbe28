r"""ASI, the average set intersection, exact under ties.

I_l(p) = clamp(p − s_l, 0, \|Ω^(l)\|) is the number of level-l items among the p best possible, s_l = \|Ω^{+,l+1}\|;
C_l(p) is the number among the first p of the ranking. ASI is the mean over p ≤ \|Ω⁺\| of Σ_l min(C_l(p), I_l(p)) / p.

In a tie group of n items with N ahead, c of them of level l, C_l at its place u is C + X with X hypergeometric. While
the ideal list is busy with level l, I_l = N + u − s_l, so that min(C_l, I_l) = I_l − (Y − d)₊ with Y = u − X the other
members drawn and d = s_l + C − N. E(Y − d)₊, P(Y ≥ d) and P(Y = d − 1) have recurrences in u, one step a place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hiertree.metrics._jit import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.metrics._ranked import Ranked

_TINY = (
    2.0**-600
)  # P(Y = d − 1) may pass through values below the smallest float; it is kept as mantissa · _TINY**shift


@jit
def _tied_overlap(ahead: int, size: int, stop: int, counted: int, members: int, above: int, total: int) -> float:
    """Σ of E[min(C_l(p), I_l(p))] / p over the places p = ahead + 1 … stop of a tie group, for one level."""
    spare, others = above + counted - ahead, size - members  # d, and the members of other levels
    excess, reached = float(max(-spare, 0)), 1.0 if spare <= 0 else 0.0  # E(Y − d)₊ and P(Y ≥ d)
    mantissa, shift = 1.0, 0  # P(Y = d − 1)
    overlap = 0.0
    for drawn in range(stop - ahead):
        left = size - drawn
        excess += ((others - spare) * reached - excess) / left
        if spare > 0:
            if drawn >= spare - 1:
                level_drawn = drawn - (spare - 1)
                reached += (mantissa if shift == 0 else 0.0) * (others - spare + 1) / left
                mantissa *= (members - level_drawn) / (level_drawn + 1) * (drawn + 1) / left
            else:
                mantissa *= max(others - drawn, 0) / left
            if 0.0 < mantissa < _TINY:
                mantissa, shift = mantissa / _TINY, shift + 1
            elif mantissa > 1.0 and shift > 0:
                mantissa, shift = mantissa * _TINY, shift - 1
        place = ahead + drawn + 1
        ideal = place - above
        if ideal >= total:
            overlap += (counted + (drawn + 1) * members / size) / place
        elif ideal > 0:
            overlap += (ideal - excess) / place
    return overlap


@jit
def overlap_sums(ranked: Ranked, totals: NDArray[np.int64], paper: bool, sums: NDArray[np.float64]) -> None:
    """Expected Σ_{p ≤ |Ω⁺|} Σ_l min(C_l(p), I_l(p)) / p of each row; ``totals`` counts its items by level."""
    num_levels = totals.shape[1] - 1
    above = np.zeros(num_levels + 1, np.int64)  # s_l
    count = np.empty(num_levels + 1, np.int64)
    members = np.empty(num_levels + 1, np.int64)
    for row in range(len(sums)):
        number, total = ranked.number[row], totals[row]
        level, before, size = ranked.level[row], ranked.before[row], ranked.size[row]
        for depth in range(num_levels - 1, -1, -1):
            above[depth] = above[depth + 1] + total[depth + 1]
        limit, top = above[0], num_levels  # top: the level of the ideal list at the current place
        count[:] = 0
        inside, summed, place, item = 0, 0.0, 0, 0
        while place < limit:
            tied = item < number and before[item] == place and size[item] > 1
            if tied and not paper:
                start, n = place, size[item]
                members[:] = 0
                while item < number and before[item] == start:
                    members[level[item]] += 1
                    item += 1
                place = min(start + n, limit)
                inside = 0
                for depth in range(1, num_levels + 1):
                    summed += _tied_overlap(start, n, place, count[depth], members[depth], above[depth], total[depth])
                    count[depth] += members[depth]
                    inside += min(count[depth], max(min(place - above[depth], total[depth]), 0))
                continue
            place += 1
            while place > above[top] + total[top]:
                top -= 1
            inside += count[top] >= place - above[top]
            while item < number and before[item] + size[item] == place:
                depth = level[item]
                count[depth] += 1
                inside += count[depth] <= min(place - above[depth], total[depth])
                item += 1
            summed += inside / place
        sums[row] = summed
