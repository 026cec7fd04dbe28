r"""Precision summed over the positives: H-AP (Ramzi et al., TPAMI 2025, Eq. 18–20), AP, mAP@R and mAP@k.

A tie group adds an expectation, [A_l·ΔH + M_l/(n−1)·T] / n for each member of level l, which docs/metrics.md derives.
Since min(a, b) counts the steps of relevance below both, the whole of H-AP is a sum of terms with relevance 0 or 1, one
for each value that relevance takes (Property 1 of the paper, for any relevance). Under ``paper`` every member stands at
the last place of its group with all the others ahead.
"""

from __future__ import annotations

import numpy as np

from hiertree.jit import Bools, Bytes, Floats, Int32s, Ints, Words, jit, reordering_jit

from ..conventions import MOST_RANKS
from ..ranking.ranked import Ranked, RankedLists, TieGroups, ratio, tie_groups

_MANY = 256  # least places of a tie group whose T is taken as a difference
_BLOCK = 255  # most positives that a byte counts
_AT_ONCE, _BITS, _BYTE = 8, np.uint64(8), np.uint64(255)  # sets of levels counted in the bytes of one word
_FAR = 64  # from here on the next term of the series is below 1e-16


def ap(lists: RankedLists, *, level: int) -> Floats:
    """Precision summed over the positives, / their number."""
    sums = lists.shared(_sums_by_level)[:, level - 1]
    return ratio(_trapezoid_or_sum(sums, lists, lists.ranked, level), lists.num_positives(level))


def map_at_k(lists: RankedLists, *, level: int, k: int) -> Floats:
    """Precision summed over the positives of the top k, / the largest number of them there could be."""
    positives = lists.num_positives(level)
    sums = _sums_of_tops(lists, level, np.full(len(lists), k))
    return ratio(sums, positives if lists.request.rules.cut_precision == "positives" else np.minimum(positives, k))


def map_at_r(lists: RankedLists, *, level: int) -> Floats:
    """Precision summed over the positives of the top R, / R, the number of positives."""
    positives = lists.num_positives(level)
    return ratio(_sums_of_tops(lists, level, positives), positives)


def _sums_of_tops(lists: RankedLists, level: int, cutoffs: Ints) -> Floats:
    sums = np.empty(len(lists))
    _sums_within(lists.ranked, level, np.ascontiguousarray(cutoffs), lists.paper, sums)
    return sums


def h_ap(lists: RankedLists, *, level: int = 0, alpha: float | None = None) -> Floats:
    """Σ over the positives k of the relevance that k shares with itself and the items ahead / rank(k), over R."""
    table = lists.relevance(alpha)
    total = (table * lists.totals).sum(axis=1)
    table = np.where(lists.totals > 0, table, np.maximum.accumulate(table, axis=1))  # levels without items are filled
    rising = bool((np.diff(table, axis=1) >= 0).all())
    ranked = lists.ranked
    if lists.request.ties in ("worst", "best") and not rising:
        ranked = lists.ranked_by(table)  # a deeper level may have less relevance
    precisions = _sums_by_relevance(lists, ranked, table, level)
    return ratio((np.diff(np.sort(table, axis=1), axis=1) * precisions).sum(axis=1), total)


def _sums_by_relevance(lists: RankedLists, ranked: Ranked, table: Floats, level: int) -> Floats:
    """(r, L) precision, summed over the positives of the L most relevant levels, of the L − 1 most, and so on.

    With a level precision counts all of these, but is summed over the positives at that level.
    """
    order, levels = np.argsort(np.argsort(table, axis=1, kind="stable"), axis=1), np.arange(table.shape[1])
    sets, paper = order[:, :, None] >= levels[1:], lists.paper
    if ranked is not lists.ranked or level:
        return _sums_of_sets(ranked, tie_groups(ranked, table.shape[1] - 1), sets, paper, level)
    least = np.minimum.accumulate(order[:, :0:-1], axis=1)[:, ::-1]  # of a level and all deeper ones
    by_level = least >= levels[1:]  # the set is a level and all deeper ones
    sums = lists.shared(_sums_by_level)
    if by_level.all():
        return sums
    other_sums = _sums_of_sets(ranked, lists.tie_groups, sets & ~by_level[:, None], paper)
    return np.where(by_level, sums, other_sums)


def ap_of_level(lists: RankedLists, *, level: int) -> Floats:
    """AP of the items at one level, those of a deeper level taken out of the list."""
    sums = np.empty(len(lists))
    ranked = Ranked._make(map(np.empty_like, lists.ranked))
    _leave_out_deeper(lists.ranked, level, ranked)
    _sums_within(ranked, level, np.full(len(lists), MOST_RANKS), lists.paper, sums)
    return ratio(_trapezoid_or_sum(sums, lists, ranked, level), lists.totals[:, level])


def _sums_by_level(lists: RankedLists) -> Floats:
    """(r, L) expected precision, summed over the positives of each level or deeper."""
    levels = np.arange(lists.totals.shape[1])
    sets = np.tile(levels[:, None] >= levels[1:], (len(lists), 1, 1))
    return _sums_of_sets(lists.ranked, lists.tie_groups, sets, lists.paper)


def _sums_of_sets(ranked: Ranked, ties: TieGroups, sets: Bools, paper: bool, level: int = 0) -> Floats:
    """(r, S) expected precision summed over the items of each set of levels, (r, L+1, S), level 0 being in none.

    With a level the sums are those over its items alone.
    """
    sums = np.empty((len(sets), 0))
    for first in range(0, sets.shape[2], _AT_ONCE):
        block = sets[:, :, first : first + _AT_ONCE].astype(np.uint64)
        members = (block << (_BITS * np.arange(block.shape[2], dtype=np.uint64))).sum(axis=2, dtype=np.uint64)
        summed = (np.where(np.arange(sets.shape[1]) == level, members, np.uint64(0)) if level else members) * _BYTE
        block_sums = np.empty((len(sets), block.shape[2]))
        _add_precisions(ranked, ties, members, summed, paper, block_sums)
        sums = np.column_stack([sums, block_sums])
    return sums


def _trapezoid_or_sum(sums: Floats, lists: RankedLists, ranked: Ranked, level: int) -> Floats:
    """Sums of precision over the positives, or of trapezoid heights under rules that interpolate."""
    if lists.request.rules.average_precision == "sum":
        return sums
    left = np.empty(len(sums))
    _left_sums(ranked, level, lists.paper, left)
    return (sums + left) / 2


@jit
def _harmonic(num_ahead: int, num_ranks: int) -> tuple[float, float]:
    """ΔH and T of the first places behind ``num_ahead`` items; for many places by the Euler–Maclaurin series."""
    summed = num_ranks if num_ranks <= _MANY else max(min(num_ranks, _FAR - num_ahead), 0)
    first, second = 0.0, 0.0
    for rank in range(summed):
        first += 1.0 / (num_ahead + rank + 1)
        second += rank / (num_ahead + rank + 1)
    if summed < num_ranks:
        low, high = 1.0 / (num_ahead + summed), 1.0 / (num_ahead + num_ranks)
        first += np.log1p((num_ranks - summed) * low) + (high - low) / 2 - (high**2 - low**2) / 12
        first += (high**4 - low**4) / 120 - (high**6 - low**6) / 252
        second = num_ranks - (num_ahead + 1) * first  # (t − 1)/(N + t) = 1 − (N + 1)/(N + t)
    return first, second


@jit
def _group_precisions(
    summed: float, members: float, hits: float, start: int, size: int, num_ranks: int, paper: bool
) -> float:
    """The precisions at ``summed`` of the members that a tie group has in its first places, given the hits ahead."""
    if paper:
        return summed * (hits + members) / (start + size) if num_ranks == size else 0.0
    first, second = _harmonic(start, num_ranks)
    return summed / size * ((hits + 1) * first + (members - 1) / max(size - 1, 1) * second)


@jit
def _add_precisions(
    ranked: Ranked, ties: TieGroups, memberships: Words, summed: Words, paper: bool, sums: Floats
) -> None:
    """Fill ``sums``, (r, ≤ 8); byte s of ``memberships``, (r, L+1), is 1 where a level is in set s.

    That of ``summed`` is 1 where precisions at its items are summed, too.
    """
    room = np.empty(_BLOCK, np.uint64), np.empty(_BLOCK)
    hits = np.empty(_AT_ONCE, np.int64)
    for row in range(len(sums)):
        level, offset, size = ranked.level[row], ranked.offset[row], ranked.size[row]
        sums[row], hits[:] = 0.0, 0
        item, num_positives, groups = 0, ranked.num_positives[row], 0
        while True:
            untied_stop = ties.first[row, groups]
            for start in range(item, untied_stop, _BLOCK):
                stop = min(start + _BLOCK, untied_stop)
                run = level[start:stop], offset[start:stop]
                _add_run(memberships[row], summed[row], *run, hits, sums[row], room)
            if untied_stop == num_positives:
                break
            item, start, n = ties.stop[row, groups], offset[untied_stop], size[untied_stop]
            for column in range(sums.shape[1]):
                members, num_summed = 0, 0
                for depth in range(memberships.shape[1]):
                    members += ties.members[row, groups, depth] * _byte(memberships[row, depth], column)
                    num_summed += ties.members[row, groups, depth] * (_byte(summed[row, depth], column) > 0)
                sums[row, column] += _group_precisions(num_summed, members, hits[column], start, n, n, paper)
                hits[column] += members
            groups += 1


@jit
def _add_run(
    memberships: Words,
    summed: Words,
    level: Bytes,
    offset: Int32s,
    hits: Ints,
    sums: Floats,
    room: tuple[Words, Floats],
) -> None:
    """Add untied positives, few enough for byte counters, for all sets in one addition."""
    num_hits, inverse_ranks = room
    counters = np.uint64(0)
    for item in range(len(level)):
        counters += memberships[level[item]]
        num_hits[item] = counters & summed[level[item]]
    for item in range(len(level)):
        inverse_ranks[item] = 1.0 / (offset[item] + np.int32(1))
    for column in range(len(sums)):
        if _byte(counters, column) > 0:
            sums[column] += _precisions(num_hits, inverse_ranks[: len(level)], np.uint64(_BITS * column), hits[column])
            hits[column] += _byte(counters, column)


@jit
def _byte(word: np.uint64, index: int) -> int:
    return int((word >> np.uint64(_BITS * index)) & _BYTE)


@reordering_jit
def _precisions(num_hits: Words, inverse_ranks: Floats, shift: np.uint64, num_ahead: int) -> float:
    """Σ of the precision at each item of the set whose byte begins at ``shift``; the byte of others is 0."""
    total, first = 0.0, float(num_ahead)
    for item in range(len(inverse_ranks)):
        hits = np.float64((num_hits[item] >> shift) & _BYTE)
        total += inverse_ranks[item] * (first + hits) if hits > 0 else 0.0
    return total


@jit
def _sums_within(ranked: Ranked, least_level: int, cutoffs: Ints, paper: bool, sums: Floats) -> None:
    """Expected Σ_{j ≤ cutoff} P(j)·1[level_j ≥ wanted] of each row, P(j) being the precision at j."""
    for row in range(len(sums)):
        num_positives, cutoff = ranked.num_positives[row], cutoffs[row]
        level, offset, size = ranked.level[row], ranked.offset[row], ranked.size[row]
        hits, total, item = 0, 0.0, 0
        while item < num_positives and offset[item] < cutoff:
            start, n, members = offset[item], size[item], 0
            if n == 1:
                members = np.int64(level[item] >= least_level)
                total += members * (hits + 1) / (start + 1)
                item += 1
            else:
                while item < num_positives and offset[item] == start:
                    members += level[item] >= least_level
                    item += 1
                total += _group_precisions(members, members, hits, start, n, min(n, cutoff - start), paper)
            hits += members
        sums[row] = total


@jit
def _left_sums(ranked: Ranked, least_level: int, paper: bool, sums: Floats) -> None:
    """Expected Σ over the positives of the precision one place ahead of each, which is 1 at the first place."""
    for row in range(len(sums)):
        num_positives = ranked.num_positives[row]
        level, offset, size = ranked.level[row], ranked.offset[row], ranked.size[row]
        hits, total, item = 0, 0.0, 0
        while item < num_positives:
            start, n, members = offset[item], size[item], 0
            while item < num_positives and offset[item] == start:
                members += level[item] >= least_level
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
def hierarchical_curves(ranked: Ranked, tables: Floats, precision: Floats, recall: Floats) -> None:
    """Write H-P@k and, before division by R, H-R@k for k = 1 … N of each row; both come zeroed."""
    num_levels = tables.shape[1] - 1
    relevance_ahead = np.empty(num_levels + 1)  # Σ_{j ahead} min(rel(k), rel(j)) for a k of each level
    relevance_tied = np.empty(num_levels + 1)  # the same over the members of one tie group
    members = np.empty(num_levels + 1)
    for row in range(len(precision)):
        num_positives, table = ranked.num_positives[row], tables[row]
        level, offset, size = ranked.level[row], ranked.offset[row], ranked.size[row]
        relevance_ahead[:] = 0.0
        item = 0
        while item < num_positives:
            start, n = offset[item], size[item]
            members[:] = 0.0
            relevance_tied[:] = 0.0
            while item < num_positives and offset[item] == start:
                members[level[item]] += 1.0
                relevance_tied += np.minimum(table, table[level[item]])
                item += 1
            for rank in range(n):
                for depth in range(1, num_levels + 1):
                    recall[row, start + rank] += members[depth] * table[depth] / n
                    if members[depth] > 0 and table[depth] > 0:
                        among = rank / (n - 1) * (relevance_tied[depth] - table[depth]) if n > 1 else 0.0
                        gain = (table[depth] + relevance_ahead[depth] + among) / table[depth]
                        precision[row, start + rank] += members[depth] / n * gain / (start + rank + 1)
            relevance_ahead += relevance_tied
        recall[row] = np.cumsum(recall[row])


@jit
def _leave_out_deeper(ranked: Ranked, deepest: int, shallow: Ranked) -> None:
    """Write the positives not deeper than a level; tie groups shrink accordingly."""
    for row in range(len(ranked.num_positives)):
        num_positives, level = ranked.num_positives[row], ranked.level[row]
        offset, size = ranked.offset[row], ranked.size[row]
        column, removed, first = 0, 0, 0
        while first < num_positives:
            last, deeper = first, 0
            while last < num_positives and offset[last] == offset[first]:
                deeper += level[last] > deepest
                last += 1
            for item in range(first, last):
                if level[item] <= deepest:
                    shallow.level[row, column] = level[item]
                    shallow.offset[row, column] = offset[item] - removed
                    shallow.size[row, column] = size[item] - deeper
                    column += 1
            removed += deeper
            first = last
        shallow.num_positives[row] = column
