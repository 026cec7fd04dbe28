r"""Sums of precision over the positives: H-AP, AP, mAP@R and mAP@k, exact under ties.

For a tie group of n items with N ahead of it, let u be the number of its places within the cut-off,
ΔH = Σ_{t≤u} 1/(N+t) and T = Σ_{t≤u} (t−1)/(N+t). A member of level l stands at each place with probability 1/n, and
each other member is among the t−1 ahead of it with probability (t−1)/(n−1). So its expected term is

.. math:: \frac1n \left[ A_l \, \Delta H + \frac{M_l}{n-1} \, T \right]

with A_l = rel_l + Σ_{j ahead of the group} min(rel_l, rel_j) and M_l = Σ_{other members j} min(rel_l, rel_j).
With rel = 1 for positives and 0 else this is Eq. 6 of He et al., *Hashing as Tie-Aware Learning to Rank* (CVPR 2018).
Since min(a, b) counts the steps of relevance below both, the whole of H-AP is a sum of such binary terms, one for each
value that relevance takes (Property 1 of the paper, for any relevance).
Under ``paper`` every member stands at the last place of its group with all the others ahead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hiertree.jit import jit, reordering_jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..ranking.ranked import Ranked
    from ..ranking.ranked_lists import RankedLists
    from ..ranking.ties import TieGroups

_MANY = 256  # places in a tie group, from where on T may be had as a difference
_BLOCK = 512  # positives that stay in the first cache
_FAR = 64  # from where on the series' next term is below 1e-16


@jit
def _harmonic(ahead: int, places: int) -> tuple[float, float]:
    """ΔH and T of the first places behind ``ahead`` items; of many places by Euler and Maclaurin's series."""
    summed = places if places <= _MANY else max(min(places, _FAR - ahead), 0)
    first, second = 0.0, 0.0
    for place in range(summed):
        first += 1.0 / (ahead + place + 1)
        second += place / (ahead + place + 1)
    if summed < places:
        low, high = 1.0 / (ahead + summed), 1.0 / (ahead + places)
        first += np.log1p((places - summed) * low) + (high - low) / 2 - (high**2 - low**2) / 12
        first += (high**4 - low**4) / 120 - (high**6 - low**6) / 252
        second = places - (ahead + 1) * first  # (t − 1)/(N + t) = 1 − (N + 1)/(N + t)
    return first, second


@jit
def _group_precisions(members: float, hits: float, start: int, size: int, places: int, paper: bool) -> float:
    """What the positives of a tie group add to the sum, of its first places, with so many positives ahead."""
    if paper:
        return members * (hits + members) / (start + size) if places == size else 0.0
    first, second = _harmonic(start, places)
    return members / size * ((hits + 1) * first + (members - 1) / max(size - 1, 1) * second)


def precision_sums_by_level(lists: RankedLists) -> NDArray[np.float64]:
    """(r, L+1) expected precision, summed over the positives of each level or deeper."""
    sums = np.empty(lists.totals.shape)
    levels = np.tile(np.arange(lists.totals.shape[1], dtype=np.uint8), (len(lists), 1))
    wanted = np.ones(sums.shape, np.bool_)
    precision_sums_by_step(lists.ranked, lists.tie_groups, levels, wanted, lists.counts_ties_ahead, sums)
    return sums


def trapezoid_or_sum(sums: NDArray[np.float64], lists: RankedLists, ranked: Ranked, level: int) -> NDArray[np.float64]:
    """Sums of precision over the positives, or of the trapezoids' heights where the rules ask for these."""
    if lists.request.rules.average_precision == "sum":
        return sums
    left = np.empty(len(sums))
    left_precision_sums(ranked, level, lists.counts_ties_ahead, left)
    return (sums + left) / 2


@jit
def precision_sums_by_step(
    ranked: Ranked,
    ties: TieGroups,
    step: NDArray[np.uint8],
    wanted: NDArray[np.bool_],
    paper: bool,
    sums: NDArray[np.float64],
) -> None:
    """Expected Σ_j P_t(j)·1[step_j ≥ t] of each row over the whole list, P_t being the precision of items of step ≥ t.

    ``step`` is (r, L+1), the step of each level: 0 for level 0 and 1 … L in some order; ``wanted`` is (r, L+1), the
    steps t ≥ 1 whose sums are written to ``sums``, (r, L+1).
    """
    room = np.empty((2, _BLOCK + 1), np.uint8), np.empty((2, _BLOCK + 1))
    hits, members = np.empty(sums.shape[1], np.int64), np.empty(sums.shape[1], np.int64)
    for row in range(len(sums)):
        level, before, size = ranked.level[row], ranked.before[row], ranked.size[row]
        least = np.flatnonzero(wanted[row, 1:]) + 1
        sums[row, least], hits[:] = 0.0, 0
        item, number, groups = 0, ranked.number[row], 0
        while len(least) > 0:
            alone = ties.first[row, groups]
            for start in range(item, alone, _BLOCK):
                stop = min(start + _BLOCK, alone)
                _add_run(step[row], least, level[start:stop], before[start:stop], hits, sums[row], room)
            if alone == number:
                break
            item, start, n = ties.stop[row, groups], before[alone], size[alone]
            members[:] = 0
            for own_level in range(1, sums.shape[1]):
                members[step[row, own_level]] += ties.members[row, groups, own_level]
            for lower in range(sums.shape[1] - 2, 0, -1):  # those of a step reach the earlier ones
                members[lower] += members[lower + 1]
            for own in least:
                sums[row, own] += _group_precisions(members[own], hits[own], start, n, n, paper)
            hits += members
            groups += 1


@jit
def _add_run(
    step: NDArray[np.uint8],
    least: NDArray[np.int64],
    level: NDArray[np.uint8],
    before: NDArray[np.int32],
    hits: NDArray[np.int64],
    sums: NDArray[np.float64],
    room: tuple[NDArray[np.uint8], NDArray[np.float64]],
) -> None:
    """Add positives that are not tied, at most a block of them. From step to step the list only shrinks."""
    steps, shares = room
    own, share, reached = steps[0, : len(level)], shares[0, : len(level)], 1
    for item in range(len(level)):
        own[item], share[item] = step[level[item]], 1.0 / (before[item] + np.int32(1))
    for turn in range(len(least)):
        wanted, into = least[turn], (turn + 1) & 1
        if wanted > reached:
            kept = _keep(own, share, wanted, steps[into], shares[into])
            own, share, reached = steps[into, :kept], shares[into, :kept], wanted
        if len(share) == 0:
            break
        sums[wanted] += _numbered_sum(share, hits[wanted])
        hits[wanted] += len(share)


@jit
def _keep(
    own: NDArray[np.uint8],
    share: NDArray[np.float64],
    wanted: int,
    kept_own: NDArray[np.uint8],
    kept_share: NDArray[np.float64],
) -> int:
    """Copy the items that reach a step; one place more than these is written."""
    kept, least = np.uint64(0), np.uint8(wanted)
    for item in range(len(own)):
        kept_own[kept], kept_share[kept] = own[item], share[item]
        kept += np.uint64(own[item] >= least)
    return int(kept)


@reordering_jit
def _numbered_sum(share: NDArray[np.float64], ahead: int) -> float:
    """Σ of each share × its number, from ``ahead`` + 1."""
    total, first = 0.0, float(ahead + 1)
    for item in range(len(share)):
        total += share[item] * (item + first)
    return total


@jit
def precision_sums(
    ranked: Ranked, wanted: int, cutoffs: NDArray[np.int64], paper: bool, sums: NDArray[np.float64]
) -> None:
    """Expected Σ_{j ≤ cutoff} P(j)·1[level_j ≥ wanted] of each row, P(j) being the precision at j."""
    for row in range(len(sums)):
        number, cutoff = ranked.number[row], cutoffs[row]
        level, before, size = ranked.level[row], ranked.before[row], ranked.size[row]
        hits, total, item = 0, 0.0, 0
        while item < number and before[item] < cutoff:
            start, n, members = before[item], size[item], 0
            if n == 1:
                members = np.int64(level[item] >= wanted)
                total += members * (hits + 1) / (start + 1)
                item += 1
            else:
                while item < number and before[item] == start:
                    members += level[item] >= wanted
                    item += 1
                total += _group_precisions(members, hits, start, n, min(n, cutoff - start), paper)
            hits += members
        sums[row] = total


@jit
def left_precision_sums(ranked: Ranked, wanted: int, paper: bool, sums: NDArray[np.float64]) -> None:
    """Expected Σ over the positives of the precision one place ahead of each, which is 1 at the first place.

    The mean of this and of the precisions is the area by trapezoids under precision over recall.
    """
    for row in range(len(sums)):
        number = ranked.number[row]
        level, before, size = ranked.level[row], ranked.before[row], ranked.size[row]
        hits, total, item = 0, 0.0, 0
        while item < number:
            start, n, members = before[item], size[item], 0
            while item < number and before[item] == start:
                members += level[item] >= wanted
                item += 1
            if paper:
                total += members * (hits + members - 1) / (start + n - 1) if start + n > 1 else members
            elif start == 0:
                total += members * members / n  # 1 at the first place, (c − 1)/(n − 1) at each of the others
            else:
                first, second = _harmonic(start - 1, n)
                total += members / n * (hits * first + (members - 1) / max(n - 1, 1) * second)
            hits += members
        sums[row] = total


@jit
def hierarchical_sums(ranked: Ranked, tables: NDArray[np.float64], paper: bool, sums: NDArray[np.float64]) -> None:
    """Expected Σ_{k ∈ Ω^(l)} [rel(k) + Σ_{j ahead} min(rel(k), rel(j))] / rank(k), (r, L+1): over l, R · H-AP."""
    num_levels = tables.shape[1] - 1
    shared = np.empty((num_levels + 1, num_levels + 1))
    ahead = np.empty(num_levels + 1)  # Σ_{j ahead} min(rel(k), rel(j)) for a k of each level
    inside = np.empty(num_levels + 1)  # the same over the members of one tie group
    members = np.empty(num_levels + 1)
    for row in range(len(sums)):
        number, table = ranked.number[row], tables[row]
        level, before, size = ranked.level[row], ranked.before[row], ranked.size[row]
        for depth in range(num_levels + 1):
            for other in range(num_levels + 1):
                shared[depth, other] = min(table[depth], table[other])
        ahead[:] = 0.0
        sums[row] = 0.0
        item = 0
        while item < number:
            start, n = before[item], size[item]
            if n == 1:
                sums[row, level[item]] += (table[level[item]] + ahead[level[item]]) / (start + 1)
                for depth in range(1, num_levels + 1):
                    ahead[depth] += shared[level[item], depth]
                item += 1
                continue
            members[:] = 0.0
            inside[:] = 0.0
            while item < number and before[item] == start:
                members[level[item]] += 1.0
                inside += shared[level[item]]
                item += 1
            first, second = _harmonic(start, n)
            for depth in range(1, num_levels + 1):
                if paper:
                    sums[row, depth] += members[depth] * (ahead[depth] + inside[depth]) / (start + n)
                else:
                    others = (inside[depth] - table[depth]) / (n - 1)
                    sums[row, depth] += members[depth] / n * ((table[depth] + ahead[depth]) * first + others * second)
            ahead += inside
