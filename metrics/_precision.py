r"""Sums of precision over the positives: H-AP, AP, mAP@R and mAP@k, exact under ties.

For a tie group of n items with N ahead of it, let u be the number of its places within the cut-off,
ΔH = Σ_{t≤u} 1/(N+t) and T = Σ_{t≤u} (t−1)/(N+t). A member of level l stands at each place with probability 1/n, and
each other member is among the t−1 ahead of it with probability (t−1)/(n−1). So its expected term is

.. math:: \frac1n \left[ A_l \, \Delta H + \frac{M_l}{n-1} \, T \right]

with A_l = rel_l + Σ_{j ahead of the group} min(rel_l, rel_j) and M_l = Σ_{other members j} min(rel_l, rel_j).
With rel = 1 for positives and 0 else this is Eq. 6 of He et al., *Hashing as Tie-Aware Learning to Rank* (CVPR 2018).
Under ``paper`` every member stands at the last place of its group with all the others ahead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hiertree.metrics._jit import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.metrics._ranked import Ranked

_MANY = 256  # places in a tie group, from where on T may be had as a difference
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
                if not paper:
                    first, second = _harmonic(start, min(n, cutoff - start))
                    total += members / n * ((hits + 1) * first + (members - 1) / (n - 1) * second)
                elif start + n <= cutoff:
                    total += members * (hits + members) / (start + n)
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
