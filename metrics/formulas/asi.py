r"""ASI, the average set intersection, exact under ties.

I_l(p) = clamp(p − s_l, 0, \|Ω^(l)\|) is the number of level-l items among the p best possible, s_l = \|Ω^{+,l+1}\|;
C_l(p) is the number among the first p of the ranking. ASI is the mean over p ≤ \|Ω⁺\| of Σ_l min(C_l(p), I_l(p)) / p.

min(C_l(p), I_l(p)) reaches m where the m-th item of level l has been met and p ≥ s_l + m, and stays there. So the sum
is one of harmonic numbers' differences, a term for each positive. With ties this counts a group at its last place, to
which is added what its earlier places may hold, by the recurrences that docs/metrics.md derives.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from hiertree.jit import Floats, Ints, jit

from ..ranking.ranked import Ranked, RankedLists, TieGroups, count_within, ratio, tie_groups

_MANY = 256  # least places of a tie group whose sum is taken as a difference
_TINY = 2.0**-600  # P(Y = d − 1) may fall below the smallest float, so it is kept as mantissa · _TINY**shift


def compute(lists: RankedLists, *, level: int = 0) -> Floats:
    """The mean overlap with the ideal list over its first |Ω⁺| places; with a level, all positives are equal."""
    ranked, ties, totals = lists.ranked, lists.tie_groups, lists.totals
    if level:
        ranked = ranked._replace(level=(ranked.level >= level).astype(np.uint8))
        ties = tie_groups(ranked, 1)
        totals = np.stack([totals[:, :level].sum(axis=1), totals[:, level:].sum(axis=1)], axis=1)
    sums, positives = np.empty(len(totals)), totals[:, 1:].sum(axis=1)
    harmonic = _harmonic_numbers(1 << int(positives.max(initial=0)).bit_length())
    num_counted = count_within(ranked, positives)
    _overlap_sums(ranked, num_counted, ties, totals, harmonic, lists.paper, sums)
    return ratio(sums, positives)


@jit
def _tied_excess(
    num_ahead: int, size: int, stop: int, num_before: int, members: int, num_deeper: int, total: int, harmonic: Floats
) -> float:
    """Σ of (E[min(C_l(p), I_l(p))] − what the group's last place alone would give) / p over p = ahead + 1 … stop."""
    bound = (
        min(num_deeper + total, stop) if num_deeper > 0 else 0
    )  # places up to which the ideal list may limit the overlap
    spare, num_other_levels = num_deeper + num_before - num_ahead, size - members  # d, and the members of other levels
    excess, reached = float(max(-spare, 0)), 1.0 if spare <= 0 else 0.0  # E(Y − d)₊ and P(Y ≥ d)
    mantissa, shift = 1.0, 0  # P(Y = d − 1)
    overlap = 0.0
    for draw in range(bound - num_ahead):
        left = size - draw
        excess += ((num_other_levels - spare) * reached - excess) / left
        if spare > 0:
            if draw >= spare - 1:
                level_drawn = draw - (spare - 1)
                reached += (mantissa if shift == 0 else 0.0) * (num_other_levels - spare + 1) / left
                mantissa *= (members - level_drawn) / (level_drawn + 1) * (draw + 1) / left
            else:
                mantissa *= max(num_other_levels - draw, 0) / left
            if 0.0 < mantissa < _TINY:
                mantissa, shift = mantissa / _TINY, shift + 1
            elif mantissa > 1.0 and shift > 0:
                mantissa, shift = mantissa * _TINY, shift - 1
        rank = num_ahead + draw + 1
        ideal = rank - num_deeper
        if ideal > 0:
            overlap += (ideal - excess - min(num_before + (members if draw + 1 == size else 0), ideal)) / rank
    first, last = max(num_ahead, bound), min(stop, num_ahead + size - 1)
    return overlap + members / size * _mean_places(num_ahead, first, last, harmonic)


@jit
def _mean_places(num_ahead: int, first: int, last: int, harmonic: Floats) -> float:
    """Σ (p − ahead) / p over p = first + 1 … last; for many places as a difference of harmonic numbers."""
    summed: float = last - first - num_ahead * (harmonic[last] - harmonic[first])
    if last - first <= _MANY:
        summed = 0.0
        for rank in range(first + 1, last + 1):
            summed += (rank - num_ahead) / rank
    return summed


@lru_cache(maxsize=1)
def _harmonic_numbers(num_items: int) -> Floats:
    """Σ_{p ≤ n} 1/p for n = 0 … num_items, read-only."""
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, num_items + 1))])
    harmonic.flags.writeable = False
    return harmonic


@jit
def _overlap_sums(
    ranked: Ranked, num_counted: Ints, ties: TieGroups, totals: Ints, harmonic: Floats, paper: bool, sums: Floats
) -> None:
    """Expected Σ_{p ≤ |Ω⁺|} Σ_l min(C_l(p), I_l(p)) / p of each row, to which ``num_counted`` positives add."""
    num_levels = totals.shape[1] - 1
    num_deeper = np.zeros(num_levels + 1, np.int64)  # s_l
    num_so_far = np.empty(num_levels + 1, np.int32)  # s_l and the items of the level so far
    for row in range(len(sums)):
        level, offset, size = ranked.level[row], ranked.offset[row], ranked.size[row]
        for depth in range(num_levels - 1, -1, -1):
            num_deeper[depth] = num_deeper[depth + 1] + totals[row, depth + 1]
        for depth in range(num_levels + 1):  # copied one by one, which compiles two seconds faster than a slice
            num_so_far[depth] = num_deeper[depth]
        limit = np.int32(num_deeper[0])
        total_weight = harmonic[limit]
        num_in_top, summed, item, groups = num_counted[row], 0.0, 0, 0
        while True:
            untied_stop = min(ties.first[row, groups], num_in_top)
            for member in range(item, untied_stop):
                depth = level[member]
                summed += total_weight - harmonic[np.uint32(min(max(offset[member], num_so_far[depth]), limit))]
                num_so_far[depth] += np.int32(1)
            if untied_stop == num_in_top:
                break
            item, start, n = ties.stop[row, groups], offset[untied_stop], size[untied_stop]
            members = ties.members[row, groups]
            stop = min(start + n, limit)
            for depth in range(1, num_levels + 1):
                if not paper:
                    num_before, total = num_so_far[depth] - num_deeper[depth], totals[row, depth]
                    summed += _tied_excess(
                        start, n, stop, num_before, members[depth], num_deeper[depth], total, harmonic
                    )
                for _ in range(members[depth]):
                    summed += harmonic[limit] - harmonic[min(max(start + n - 1, num_so_far[depth]), limit)]
                    num_so_far[depth] += 1
            groups += 1
        sums[row] = summed
