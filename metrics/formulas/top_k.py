"""Metrics of the top k, in expectation over the orders of ties; docs/metrics.md derives them.

Under ``paper`` every member stands at the last place of its tie group, so one that straddles the cut lies beyond it.
"""

from __future__ import annotations

import numpy as np

from hiertree.jit import Floats, Ints, jit

from ..conventions import MOST_RANKS
from ..ranking.ranked import Ranked, RankedLists, ratio

_AVERAGE, _WORST, _BEST, _PAPER = range(4)
_POLICIES = {"average": _AVERAGE, "index": _AVERAGE, "worst": _WORST, "best": _BEST, "paper": _PAPER}


def recall(lists: RankedLists, *, level: int, k: int) -> Floats:
    """R@k: the probability of any positive in the top k, or their share by the rules."""
    positives, (hits, some) = lists.num_positives(level), _hits(lists, level, np.full(len(lists), k))
    if lists.request.rules.recall == "share":
        return ratio(hits, positives)
    return np.where(positives > 0, some, np.nan)


def true_recall(lists: RankedLists, *, level: int, k: int) -> Floats:
    """TR@k: positives in the top k, / the largest number of them there could be."""
    hits, _ = _hits(lists, level, np.full(len(lists), k))
    return ratio(hits, np.minimum(k, lists.num_positives(level)))


def r_precision(lists: RankedLists, *, level: int) -> Floats:
    """P@R: positives in the top R, / R, the number of positives."""
    positives = lists.num_positives(level)
    return ratio(_hits(lists, level, positives)[0], positives)


def precision(lists: RankedLists, *, level: int, k: int) -> Floats:
    """P@k: positives in the top k, / k, or what the rules say."""
    hits, rule = _hits(lists, level, np.full(len(lists), k))[0], lists.request.rules.precision
    values: Floats = hits / k
    if rule == "list":
        values = hits / np.minimum(k, lists.totals.sum(axis=1).clip(min=1))
    elif rule == "last positive":
        gains = np.empty(len(lists))
        _gains_of_shorter_lists(lists.ranked, level, k, lists.paper, gains)
        values += gains
    return np.where(lists.num_positives(level) > 0, values, np.nan)


def _hits(lists: RankedLists, level: int, cutoffs: Ints) -> tuple[Floats, Floats]:
    """The expected number of positives in the top of each list, and the probability of at least one."""
    hits, some = np.empty(len(lists)), np.empty(len(lists))
    _top_k(lists.ranked, level, cutoffs, lists.paper, hits, some)
    return hits, some


@jit
def _top_k(ranked: Ranked, least_level: int, cutoffs: Ints, paper: bool, hits: Floats, some: Floats) -> None:
    """Expected number of positives (level ≥ least_level) in the top ``cutoffs`` of each row, and P(at least one)."""
    for row in range(len(hits)):
        num_positives, cutoff = ranked.num_positives[row], cutoffs[row]
        level, offset, size = ranked.level[row], ranked.offset[row], ranked.size[row]
        expected_hits, none, item = 0.0, 1.0, 0
        while item < num_positives and offset[item] < cutoff:
            start, n, members = offset[item], size[item], 0
            while item < num_positives and offset[item] == start:
                members += level[item] >= least_level
                item += 1
            num_ranks = min(n, cutoff - start)
            if paper and num_ranks < n:
                break
            expected_hits += members * (num_ranks / n)
            for t in range(num_ranks):
                none *= max(n - members - t, 0) / (n - t)
        hits[row] = expected_hits
        some[row] = 1.0 - none


@jit
def _gains_of_shorter_lists(ranked: Ranked, least_level: int, cutoff: int, paper: bool, sums: Floats) -> None:
    """Expected Σ over the positives of 1/m − 1/cutoff for lists whose last positive is at a rank m < cutoff."""
    for row in range(len(sums)):
        level, offset, size = ranked.level[row], ranked.offset[row], ranked.size[row]
        start, n, members, num_positives = -1, 0, 0, 0
        for item in range(ranked.num_positives[row]):
            if level[item] >= least_level:
                members = members + 1 if offset[item] == start else 1
                start, n, num_positives = offset[item], size[item], num_positives + 1
        total, chance = 0.0, members / max(n, 1)
        for rank in range(n, max(members, 1) - 1, -1):
            if start + rank < cutoff:
                total += (1.0 if paper else chance) * (1.0 / (start + rank) - 1.0 / cutoff)
            if paper:
                break
            chance *= (rank - members) / max(rank - 1, 1)
        sums[row] = num_positives * total


def reciprocal_rank(lists: RankedLists, *, level: int, k: int | None = None) -> Floats:
    """1 / rank of the first positive, or 0 where it is not in the top k."""
    values = np.empty(len(lists))
    _reciprocal_ranks(lists.ranked, level, k or MOST_RANKS, lists.paper, values)
    return np.where(lists.num_positives(level) > 0, values, np.nan)


@jit
def _reciprocal_ranks(ranked: Ranked, least_level: int, cutoff: int, paper: bool, values: Floats) -> None:
    """Expected reciprocal rank of the first positive (level ≥ least_level) of each row."""
    for row in range(len(values)):
        num_positives, first, members = ranked.num_positives[row], 0, 0
        level, offset, size = ranked.level[row], ranked.offset[row], ranked.size[row]
        while first < num_positives and level[first] < least_level:
            first += 1
        for item in range(first, num_positives):
            if offset[item] != offset[first]:
                break
            members += level[item] >= least_level
        value = 0.0
        if members:
            start, n, none = offset[first], size[first], 1.0
            if paper:
                value = 1.0 / (start + n) if start + n <= cutoff else 0.0
            for rank in range(0 if paper else min(n - members + 1, cutoff - start)):
                value += none * members / (n - rank) / (start + rank + 1)
                none *= (n - rank - members) / (n - rank)
        values[row] = value


def hashing_ap(lists: RankedLists, *, level: int, k: int) -> Floats:
    """AP@k of the positives at a level or deeper; 0 where the top k holds none."""
    values, cutoff = np.empty(len(lists)), min(k, lists.num_ranks)
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, cutoff + 1))])
    _found_precisions(lists.grouped, level, cutoff, _POLICIES[lists.request.ties], harmonic, values)
    return np.where(lists.num_positives(level) > 0, values, np.nan)


@jit
def _found_precisions(
    ranked: Ranked, least_level: int, cutoff: int, policy: int, harmonic: Floats, values: Floats
) -> None:
    for row in range(len(values)):
        num_positives = ranked.num_positives[row]
        level, offset, size = ranked.level[row], ranked.offset[row], ranked.size[row]
        value, total, hits, item = 0.0, 0.0, 0, 0
        while item < num_positives and offset[item] < cutoff:
            start, n, members = offset[item], size[item], 0
            while item < num_positives and offset[item] == start:
                members += level[item] >= least_level
                item += 1
            if start + n > cutoff:
                value = _straddling(total, hits, start, n, members, cutoff - start, policy, harmonic)
                break
            total += _precisions(hits, start, n, members, policy, harmonic)
            hits += members
            value = total / max(hits, 1)
        values[row] = value


@jit
def _precisions(hits: int, start: int, num_ranks: int, members: int, policy: int, harmonic: Floats) -> float:
    """Precisions at ``members`` positives among ``num_ranks`` behind ``start`` items, ``hits`` of them positive."""
    if policy == _PAPER:
        return members * (hits + members) / (start + num_ranks)
    if policy == _AVERAGE:
        step: float = harmonic[start + num_ranks] - harmonic[start]
        hits_ahead = (members - 1) / max(num_ranks - 1, 1)
        return members / num_ranks * ((hits + 1) * step + hits_ahead * (num_ranks - (start + 1) * step))
    first = start + num_ranks - members if policy == _WORST else start  # (hits + i) / (first + i), summed over i
    span: float = harmonic[first + members] - harmonic[first]
    return (hits - first) * span + members


@jit
def _straddling(
    total: float, hits: int, start: int, n: int, members: int, num_ranks: int, policy: int, harmonic: Floats
) -> float:
    """Expected AP@k when the cut leaves ``num_ranks`` of the ``n`` members of a tie group within the top k."""
    if policy == _PAPER:  # every member takes the last place of the group, beyond the cut
        return total / max(hits, 1)
    fewest, largest = max(members - (n - num_ranks), 0), min(members, num_ranks)
    mode = min(max((members + 1) * (num_ranks + 1) // (n + 2), fewest), largest)
    value = (total + _precisions(hits, start, num_ranks, mode, policy, harmonic)) / max(hits + mode, 1)
    weights = 1.0  # relative to the likeliest x, so that none underflows
    for step in (1, -1):
        weight, x = 1.0, mode
        while weight > 0.0 and (x < largest if step == 1 else x > fewest):
            if step == 1:
                weight *= (members - x) * (num_ranks - x) / ((x + 1.0) * (n - members - num_ranks + x + 1))
            else:
                weight *= x * (n - members - num_ranks + x) / ((members - x + 1.0) * (num_ranks - x + 1))
            x += step
            quotient = (total + _precisions(hits, start, num_ranks, x, policy, harmonic)) / max(hits + x, 1)
            if policy == _AVERAGE:
                value, weights = value + weight * quotient, weights + weight
            else:
                value = min(value, quotient) if policy == _WORST else max(value, quotient)
    return value / weights
