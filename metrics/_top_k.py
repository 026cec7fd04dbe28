"""What stands in the top k: the number of positives, and whether there is any, in expectation over tied orders.

Of a tie group that straddles the cut, with n members, c of them positive, u of them within it, the number of positives
within is hypergeometric: its mean is u·c/n, and it is 0 with probability Π_{t<u} (n−c−t)/(n−t).
Under ``paper`` every member stands at the last place of its group, so such a group lies beyond the cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hiertree.metrics._jit import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.metrics._ranked import Ranked


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
