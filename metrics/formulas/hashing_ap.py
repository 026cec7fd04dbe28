r"""AP@k as hashing divides it: precisions at the positives in the top k, by how many positives these are.

Both sums depend on the order of tied items, so the expectation is no quotient of expectations. Of the tie group that
straddles the cut, n items with c positives behind N items with C of them, u = k − N places lie within the cut. Given
that x of the positives do, these stand at x of the u places, every choice being as likely. So by the argument of Eq. 6
of He et al., *Hashing as Tie-Aware Learning to Rank*, CVPR 2018, their precisions add, with ΔH = Σ_{t ≤ u} 1/(N+t),

    (x/u)·[(C+1)·ΔH + (x−1)/(u−1)·(u − (N+1)·ΔH)]

on average; x is hypergeometric, and the sum is divided by C + x for each x. Groups within the cut are the case u = n.
The worst and best orders put the x positives last and first, and take the x for which the quotient is smallest or
largest. A query that finds none in its top k scores 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hiertree.jit import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..conventions.names import Metric
    from ..ranking.ranked import Ranked
    from ..ranking.ranked_lists import RankedLists

_AVERAGE, _WORST, _BEST, _PAPER = range(4)
_POLICIES = {"average": _AVERAGE, "index": _AVERAGE, "worst": _WORST, "best": _BEST, "paper": _PAPER}


def compute(lists: RankedLists, metric: Metric) -> NDArray[np.float64]:
    """AP@k of the positives at a level or deeper; 0 where the top k holds none."""
    values, cutoff = np.empty(len(lists)), min(metric.cutoff or lists.num_ranks, lists.num_ranks)
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, cutoff + 1))])
    _found_precisions(lists.grouped, metric.level, cutoff, _POLICIES[lists.request.ties], harmonic, values)
    return np.where(lists.num_positives(metric.level) > 0, values, np.nan)


@jit
def _found_precisions(
    ranked: Ranked,
    wanted: int,
    cutoff: int,
    policy: int,
    harmonic: NDArray[np.float64],
    values: NDArray[np.float64],
) -> None:
    for row in range(len(values)):
        number = ranked.number[row]
        level, before, size = ranked.level[row], ranked.before[row], ranked.size[row]
        value, total, hits, item = 0.0, 0.0, 0, 0
        while item < number and before[item] < cutoff:
            start, n, members = before[item], size[item], 0
            while item < number and before[item] == start:
                members += level[item] >= wanted
                item += 1
            if start + n > cutoff:
                value = _straddling(total, hits, start, n, members, cutoff - start, policy, harmonic)
                break
            total += _precisions(hits, start, n, members, policy, harmonic)
            hits += members
            value = total / max(hits, 1)
        values[row] = value


@jit
def _precisions(hits: int, start: int, places: int, members: int, policy: int, harmonic: NDArray[np.float64]) -> float:
    """Precisions at ``members`` positives among ``places`` behind ``start`` items, ``hits`` of them positive."""
    if policy == _PAPER:
        return members * (hits + members) / (start + places)
    if policy == _AVERAGE:
        step: float = harmonic[start + places] - harmonic[start]
        ahead = (members - 1) / max(places - 1, 1)
        return members / places * ((hits + 1) * step + ahead * (places - (start + 1) * step))
    first = start + places - members if policy == _WORST else start  # (hits + i) / (first + i), summed over i
    span: float = harmonic[first + members] - harmonic[first]
    return (hits - first) * span + members


@jit
def _straddling(
    total: float,
    hits: int,
    start: int,
    n: int,
    members: int,
    places: int,
    policy: int,
    harmonic: NDArray[np.float64],
) -> float:
    """AP@k once the group that the cut divides, ``places`` of its ``n`` within, is shared out."""
    if policy == _PAPER:  # every member stands at the last place of the group, beyond the cut
        return total / max(hits, 1)
    fewest, most = max(members - (n - places), 0), min(members, places)
    mode = min(max((members + 1) * (places + 1) // (n + 2), fewest), most)
    value = (total + _precisions(hits, start, places, mode, policy, harmonic)) / max(hits + mode, 1)
    weights = 1.0  # relative to that of the likeliest x, so that none is too small for a float
    for step in (1, -1):
        weight, x = 1.0, mode
        while weight > 0.0 and (x < most if step == 1 else x > fewest):
            if step == 1:
                weight *= (members - x) * (places - x) / ((x + 1.0) * (n - members - places + x + 1))
            else:
                weight *= x * (n - members - places + x) / ((members - x + 1.0) * (places - x + 1))
            x += step
            quotient = (total + _precisions(hits, start, places, x, policy, harmonic)) / max(hits + x, 1)
            if policy == _AVERAGE:
                value, weights = value + weight * quotient, weights + weight
            else:
                value = min(value, quotient) if policy == _WORST else max(value, quotient)
    return value / weights
