"""Every metric as its paper writes it, one query at a time, in plain loops over plain lists.

[S] Ramzi et al., TPAMI 2025; [F] Fagin, Kumar, Sivakumar 2003. A query is a list of scores and a list of levels, one
entry a gallery item. rank(k) = 1 + #{j ahead of k}; j is ahead of k if it scores higher or, at equal scores, has the
smaller index; with ``paper=True`` every item of equal score is ahead (H(0) = 1, [S] Eq. 3). ``None`` means: no value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations

Scores = Sequence[float]
Levels = Sequence[int]


def ahead(scores, j, k, paper):
    if j == k:
        return False
    if scores[j] == scores[k]:
        return paper or j < k
    return scores[j] > scores[k]


def rank(scores, k, paper):
    return 1 + sum(ahead(scores, j, k, paper) for j in range(len(scores)))


def hap_relevance(levels, num_levels, alpha=1.0, itself=0):
    """[S] Eq. 20, one value per level; ``itself=1`` counts the query inside Ω^(L)."""
    values = [0.0]
    for level in range(1, num_levels + 1):
        size = sum(item_level == level for item_level in levels) + (itself if level == num_levels else 0)
        values.append((level / num_levels) ** alpha / size if size else 0.0)
    return values


def hierarchical_rank(scores, levels, relevance, k, paper=False):
    """H-rank⁺, [S] Eq. 18."""
    value = relevance[levels[k]]
    for j in range(len(scores)):
        if levels[j] >= 1 and ahead(scores, j, k, paper):
            value += min(relevance[levels[k]], relevance[levels[j]])
    return value


def h_ap(scores, levels, relevance, paper=False):
    """[S] Eq. 19."""
    total, normalizer = 0.0, 0.0
    for k in range(len(scores)):
        if levels[k] >= 1:
            normalizer += relevance[levels[k]]
            total += hierarchical_rank(scores, levels, relevance, k, paper) / rank(scores, k, paper)
    return total / normalizer if normalizer > 0 else None


def h_ap_part(scores, levels, relevance, level, paper):
    """What the items at one level add to H-AP."""
    total = 0.0
    for k in range(len(scores)):
        if levels[k] == level:
            total += hierarchical_rank(scores, levels, relevance, k, paper) / rank(scores, k, paper)
    normalizer = sum(relevance[item_level] for item_level in levels)
    return total / normalizer if normalizer > 0 else None


def first_error(scores, levels, level, num_levels):
    """1 if the first item below level L among the |Ω^(L)| best places is at this level; level L: there is none."""
    finest = sum(item_level == num_levels for item_level in levels)
    if not finest:
        return None
    ranked = sorted(range(len(scores)), key=lambda j: rank(scores, j, False))
    wrong = [levels[j] for j in ranked[:finest] if levels[j] < num_levels]
    return float((wrong[0] if wrong else num_levels) == level)


def hierarchical_recall(scores, levels, relevance, k):
    """H-R@k, [S] Eq. 30."""
    total = 0.0
    for j in range(len(scores)):
        if rank(scores, j, False) <= k:
            total += relevance[levels[j]]
    return total / sum(relevance[item_level] for item_level in levels)


def hierarchical_precision(scores, levels, relevance, k):
    """H-P@k, [S] Eq. 31; 0 where the k-th item is irrelevant."""
    kth = next(j for j in range(len(scores)) if rank(scores, j, False) == k)
    if relevance[levels[kth]] == 0:
        return 0.0
    total = 0.0
    for j in range(len(scores)):
        if rank(scores, j, False) <= k:
            total += min(relevance[levels[j]], relevance[levels[kth]])
    return total / (k * relevance[levels[kth]])


def precision_terms(scores, levels, level, cutoff, paper):
    """Σ P(rank(k)) over the positives k with rank(k) ≤ cutoff."""
    total = 0.0
    for k in range(len(scores)):
        rank_index = rank(scores, k, paper)
        if levels[k] >= level and rank_index <= cutoff:
            hits = 1
            for j in range(len(scores)):
                if levels[j] >= level and ahead(scores, j, k, paper):
                    hits += 1
            total += hits / rank_index
    return total


def num_positives(levels, level):
    return sum(item_level >= level for item_level in levels)


def average_precision(scores, levels, level, paper=False):
    """AP^(l), [S] Eq. 2."""
    positives = num_positives(levels, level)
    return precision_terms(scores, levels, level, math.inf, paper) / positives if positives else None


def map_at_r(scores, levels, level, paper=False):
    positives = num_positives(levels, level)
    return precision_terms(scores, levels, level, positives, paper) / positives if positives else None


def map_at_k(scores, levels, level, k, paper=False):
    """GLDv2's, with the min rule."""
    positives = num_positives(levels, level)
    return precision_terms(scores, levels, level, k, paper) / min(k, positives) if positives else None


def hits(scores, levels, level, k, paper):
    return sum(levels[j] >= level and rank(scores, j, paper) <= k for j in range(len(scores)))


def recall_at_k(scores, levels, level, k, paper=False):
    """[S] Eq. 13."""
    return float(hits(scores, levels, level, k, paper) > 0) if num_positives(levels, level) else None


def true_recall_at_k(scores, levels, level, k, paper=False):
    """[S] Eq. 14, 15."""
    positives = num_positives(levels, level)
    return hits(scores, levels, level, k, paper) / min(k, positives) if positives else None


def precision_at_k(scores, levels, level, k, paper=False):
    return hits(scores, levels, level, k, paper) / k if num_positives(levels, level) else None


def r_precision(scores, levels, level, paper=False):
    """Precision of the first R of R positives (Manning, Raghavan & Schütze, Introduction to Information Retrieval)."""
    positives = num_positives(levels, level)
    return hits(scores, levels, level, positives, paper) / positives if positives else None


def reciprocal_rank(scores, levels, level, k=math.inf, paper=False):
    """One over the rank of the first positive, 0 where that is beyond k (Voorhees, TREC-8, 1999)."""
    ranks = [rank(scores, j, paper) for j in range(len(scores)) if levels[j] >= level]
    if not ranks:
        return None
    return 1 / min(ranks) if min(ranks) <= k else 0.0


def cut_hierarchical_precision(scores, levels, num_levels, k, paper=False):
    """HP@k of Deng, Berg & Fei-Fei (CVPR 2011) and of Barz & Denzler (WACV 2019), the similarity being l / L."""
    similarities = [level / num_levels for level in levels]
    similarity_sum = sum(similarities[j] for j in range(len(scores)) if rank(scores, j, paper) <= k)
    best = sum(sorted(similarities, reverse=True)[:k])
    return similarity_sum / best if best > 0 else None


def average_hierarchical_precision(scores, levels, num_levels, k, paper=False):
    """AHP@k of Barz & Denzler (WACV 2019): the mean of HP@1 … HP@k."""
    values = [cut_hierarchical_precision(scores, levels, num_levels, cutoff, paper) for cutoff in range(1, k + 1)]
    return None if values[0] is None else sum(value or 0.0 for value in values) / len(values)


def hierarchical_distance(scores, levels, num_levels, k, paper=False):
    """The mean height L − l over the first k places, Bertinetto et al. (CVPR 2020); L where there is no item."""
    if not any(levels):
        return None
    first = [levels[j] for j in range(len(scores)) if rank(scores, j, paper) <= k]
    return sum([num_levels - level for level in first] + [num_levels] * (k - len(first))) / k


def mistake_severity(scores, levels, num_levels):
    """The height of the first item where it is wrong, Bertinetto et al. (CVPR 2020)."""
    first = min(range(len(scores)), key=lambda j: rank(scores, j, False))
    return None if levels[first] == num_levels else float(num_levels - levels[first])


def preference_order(scores, levels, k):
    """HOPS of Sani & Anand (2025) as their notebook computes it, before it is clipped at 0."""
    present = sorted(set(levels), reverse=True)
    order = sorted(range(len(scores)), key=lambda j: rank(scores, j, False))
    here = [present.index(levels[j]) for j in order]
    ideal = sorted(here)
    cut = len(ideal) if k is None else min(k, len(ideal))
    weights = []
    for block in range(len(present)):
        size, weight = ideal.count(block), 2.0**-block
        target = 0.0 if block == len(present) - 1 else 1.0 if block == 0 else weight / 2
        weights += [weight + (target - weight) * rank_index / size for rank_index in range(size)]
    turned = ideal[:cut][::-1]
    worst = sum(weights[rank_index] * abs(ideal[rank_index] - turned[rank_index]) for rank_index in range(cut))
    error = sum(weights[rank_index] * abs(ideal[rank_index] - here[rank_index]) for rank_index in range(cut))
    return None if worst == 0 else 1 - error / worst


def ndcg(scores, levels, k=math.inf, paper=False):
    """[S] Eq. 23, cut at k, the ideal over the whole gallery."""
    dcg = 0.0
    for j in range(len(scores)):
        rank_index = rank(scores, j, paper)
        if rank_index <= k:
            dcg += (2 ** levels[j] - 1) / math.log2(1 + rank_index)
    ideal = 0.0
    for rank_index, level in enumerate(sorted(levels, reverse=True), start=1):
        if rank_index <= k:
            ideal += (2**level - 1) / math.log2(1 + rank_index)
    return dcg / ideal if ideal > 0 else None


def asi(scores, levels, paper=False):
    """[F]; [S] App. C-A1. The intersection is of multisets of levels."""
    relevant = num_positives(levels, 1)
    best = sorted(levels, reverse=True)
    total = 0.0
    for n in range(1, relevant + 1):
        top = [levels[j] for j in range(len(scores)) if rank(scores, j, paper) <= n]
        total += sum(min(top.count(level), best[:n].count(level)) for level in set(best)) / n
    return total / relevant if relevant else None


def tied_orders(scores):
    """Every way to break the ties, as scores without ties; each order equally often."""
    groups = [[j for j in range(len(scores)) if scores[j] == value] for value in sorted(set(scores), reverse=True)]

    def orders(remaining):
        if not remaining:
            yield []
            return
        for first in permutations(remaining[0]):
            for rest in orders(remaining[1:]):
                yield [*first, *rest]

    for order in orders(groups):
        strict = [0.0] * len(scores)
        for rank_index, item in enumerate(order):
            strict[item] = -float(rank_index)
        yield strict


def over_tied_orders(metric, scores):
    """The metric's value for every order of the tied items."""
    values = [metric(strict) for strict in tied_orders(scores)]
    return None if values[0] is None else [value for value in values if value is not None]


def exact_average_precision(scores, levels, level, paper=False):
    """AP#l, "exclude": the items deeper than l are taken out of the list, those at l are the positives."""
    items = [j for j in range(len(scores)) if levels[j] <= level]
    return average_precision([scores[j] for j in items], [levels[j] for j in items], level, paper)


def revisitop_ranks(scores, levels, level):
    """The zero-based ranks of the positives, rising, without ties."""
    return sorted(rank(scores, j, False) - 1 for j in range(len(scores)) if levels[j] >= level)


def revisitop_average_precision(scores, levels, level):
    """``compute_ap`` of revisitop: trapezoids between the precisions before and at each positive."""
    ranks = revisitop_ranks(scores, levels, level)
    area = 0.0
    for hits, rank_index in enumerate(ranks):
        precision_before = 1.0 if rank_index == 0 else hits / rank_index
        area += (precision_before + (hits + 1) / (rank_index + 1)) / len(ranks) / 2
    return area if ranks else None


def revisitop_precision_at_k(scores, levels, level, k):
    """``prs`` of revisitop's ``compute_map``: k becomes the rank of the last positive if that comes sooner."""
    ranks = [rank_index + 1 for rank_index in revisitop_ranks(scores, levels, level)]
    if not ranks:
        return None
    k = min(max(ranks), k)
    return sum(rank_index <= k for rank_index in ranks) / k


def delf_recall_at_k(scores, levels, level, k):
    """``ComputePRAtRanks`` of delf: the share of all positives."""
    ranks = revisitop_ranks(scores, levels, level)
    return sum(rank_index < k for rank_index in ranks) / len(ranks) if ranks else None


def delf_mean_average_precision(rankings, solutions, k):
    """``MeanAveragePrecision`` of delf, over lists of gallery indices; where it would divide by zero, zero."""
    mean = 0.0
    for ranking, solution in zip(rankings, solutions, strict=True):
        precision, correct = 0.0, 0
        for i, item in enumerate(ranking[:k]):
            if item in solution:
                correct += 1
                precision += correct / (i + 1)
        mean += precision / min(len(solution), k) if solution else 0.0
    return mean / len(solutions)


def official_list(scores, self_retrieval):
    """The neighbors HAPPIER's and SupRank's code keeps: N of N less the first hit, or the best N − 1 of a gallery."""
    order = sorted(range(len(scores)), key=lambda j: -scores[j])
    return order[1:] if self_retrieval else order[:-1]


def official_metrics(levels, relevance, level, k):
    """Their metrics of one ranked list of levels, given the relevance of each; 0 where theirs is 0 or NaN."""
    binary = [item_level >= level for item_level in levels]
    terms = [sum(binary[: j + 1]) / (j + 1) if binary[j] else 0.0 for j in range(len(levels))]
    gains = [2**item_level - 1 for item_level in levels]
    value = {
        "R@k": float(any(binary[:k])),
        "P@k": sum(binary[:k]) / len(binary[:k]),
        "AP": sum(terms) / max(sum(binary), 1),
        "mAP@R": sum(terms[: sum(binary)]) / max(sum(binary), 1),
    }
    for name, cut in (("NDCG", gains), ("NDCG@k", gains[:k])):
        ideal = sum(gain / math.log2(2 + j) for j, gain in enumerate(sorted(cut, reverse=True)))
        value[name] = sum(gain / math.log2(2 + j) for j, gain in enumerate(cut)) / ideal if ideal else 0.0
    scored = h_ap([-float(j) for j in range(len(levels))], levels, relevance)
    value["H-AP"] = 0.0 if scored is None else scored
    return value
