"""What stands in the top k: the number of positives, and whether there is any, in expectation over tied orders.

Of a tie group that straddles the cut, with n members, c of them positive, u of them within it, the number of positives
within is hypergeometric: its mean is u·c/n, and it is 0 with probability Π_{t<u} (n−c−t)/(n−t).
The last of c positives stands at place t of the last such group with probability C(t−1, c−1) / C(n, c).
Under ``paper`` every member stands at the last place of its group, so such a group lies beyond the cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hiertree.jit import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..ranking.ranked import Ranked


@jit
def top_k(
    ranked: Ranked, wanted: int, cutoff: int, paper: bool, hits: NDArray[np.float64], some: NDArray[np.float64]
) -> None:
    """Expected number of positives (level ≥ wanted) in the top ``cutoff`` of each row, and P(at least one)."""
    for row in range(len(hits)):
        number = ranked.number[row]
        level, before, size = ranked.level[row], ranked.before[row], ranked.size[row]
        found, none, item = 0.0, 1.0, 0
        while item < number and before[item] < cutoff:
            start, n, members = before[item], size[item], 0
            while item < number and before[item] == start:
                members += level[item] >= wanted
                item += 1
            places = min(n, cutoff - start)
            if paper and places < n:
                break
            found += members * (places / n)
            for t in range(places):
                none *= max(n - members - t, 0) / (n - t)
        hits[row] = found
        some[row] = 1.0 - none


@jit
def levels_within(ranked: Ranked, cutoff: int, counts: NDArray[np.int64]) -> None:
    """Count the items of each level ≥ 1 in the top ``cutoff`` of rows without tie groups; ``counts`` comes zeroed."""
    for row in range(len(counts)):
        for item in range(ranked.number[row]):
            counts[row, ranked.level[row, item]] += ranked.before[row, item] < cutoff


@jit
def shorter_lists(ranked: Ranked, wanted: int, cutoff: int, paper: bool, sums: NDArray[np.float64]) -> None:
    """Expected Σ over the positives of 1/m − 1/cutoff where the last of them stands at a rank m < cutoff."""
    for row in range(len(sums)):
        level, before, size = ranked.level[row], ranked.before[row], ranked.size[row]
        start, n, members, found = -1, 0, 0, 0
        for item in range(ranked.number[row]):
            if level[item] >= wanted:
                members = members + 1 if before[item] == start else 1
                start, n, found = before[item], size[item], found + 1
        total, chance = 0.0, members / max(n, 1)
        for place in range(n, max(members, 1) - 1, -1):
            if start + place < cutoff:
                total += (1.0 if paper else chance) * (1.0 / (start + place) - 1.0 / cutoff)
            if paper:
                break
            chance *= (place - members) / max(place - 1, 1)
        sums[row] = found * total
