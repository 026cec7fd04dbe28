"""The losses of one query, transcribed in plain loops and float64 from the definitions.

``scores`` and ``levels`` list the query's candidates, ``table`` the relevance of levels 0 … L. Each objective takes the
two step functions: ``equal`` for candidates at the positive's level or finer, ``lower`` for those below it.
With ``heaviside`` for both, the value is 1 − metric, ties counting as ahead.
"""

from __future__ import annotations

import math
from collections.abc import Callable

StepFunction = Callable[[float], float]


def heaviside(t):
    return 1.0 if t >= 0 else 0.0


def logistic(t):
    return 1.0 / (1.0 + math.exp(-t)) if t >= 0 else math.exp(t) / (1.0 + math.exp(t))


def sigmoid(tau=0.01):
    return lambda t: logistic(t / tau)


def h_minus(tau=0.01, rho=100.0, delta=None, start=0.5, offset=None):
    d = tau * math.log((1 - 0.01) / 0.01) if delta is None else delta
    beyond_excess = logistic(d / tau) + start if offset is None else offset

    def step(t):
        if t < 0:
            return logistic(t / tau)
        if t <= d:
            return logistic(t / tau) + start
        return rho * (t - d) + beyond_excess

    return step


def rank(k, scores, levels, equal, lower):
    value = 1.0
    for j in range(len(scores)):
        if j != k:
            value += (equal if levels[j] >= levels[k] else lower)(scores[j] - scores[k])
    return value


def hierarchical_rank(k, scores, levels, table, equal):
    value = table[levels[k]]
    for j in range(len(scores)):
        if j != k and levels[j] >= 1:
            value += min(table[levels[k]], table[levels[j]]) * equal(scores[j] - scores[k])
    return value


def one_minus_h_ap(scores, levels, table, *, equal, lower, by_relevance=False):
    grades = [table[level] for level in levels] if by_relevance else levels
    total, best = 0.0, 0.0
    for k in range(len(scores)):
        if levels[k] >= 1:
            best += table[levels[k]]
            total += hierarchical_rank(k, scores, levels, table, equal) / rank(k, scores, grades, equal, lower)
    return 1 - total / best if best > 0 else None


def one_minus_ap(scores, levels, level, *, equal, lower):
    positives = [k for k in range(len(scores)) if levels[k] >= level]
    if not positives:
        return None
    total = 0.0
    for k in positives:
        positive_rank, negative_rank = 1.0, 0.0
        for j in range(len(scores)):
            if j == k:
                continue
            if levels[j] >= level:
                positive_rank += equal(scores[j] - scores[k])
            else:
                negative_rank += lower(scores[j] - scores[k])
        total += positive_rank / (positive_rank + negative_rank)
    return 1 - total / len(positives)


def one_minus_ndcg(scores, levels, table, *, equal, lower, by_relevance=False):
    grades = [table[level] for level in levels] if by_relevance else levels
    gains = [table[level] if level >= 1 else 0.0 for level in levels]
    ideal = sum(gain / math.log2(1 + place) for place, gain in enumerate(sorted(gains, reverse=True), start=1))
    if ideal == 0:
        return None
    reached = 0.0
    for k in range(len(scores)):
        if levels[k] >= 1:
            reached += gains[k] / math.log2(1 + rank(k, scores, grades, equal, lower))
    return 1 - reached / ideal


def pair_decomposability(scores, levels, level, *, alpha=0.9, beta=0.6):
    pulled = [max(alpha - s, 0.0) for s, pair_level in zip(scores, levels, strict=True) if pair_level >= level]
    pushed = [max(s - beta, 0.0) for s, pair_level in zip(scores, levels, strict=True) if pair_level < level]
    if not pulled:
        return None
    return sum(pulled) / len(pulled) + (sum(pushed) / len(pushed) if pushed else 0.0)


def proxy_decomposability(scores, class_index, *, eta=0.05):
    largest = max(scores)
    log_sum = math.log(sum(math.exp((s - largest) / eta) for s in scores)) + largest / eta
    return log_sum - scores[class_index] / eta


def cosines(query, items):
    def dot(a, b):
        return sum(x * y for x, y in zip(a, b, strict=True))

    return [dot(query, item) / math.sqrt(dot(query, query) * dot(item, item)) for item in items]


def level_of(a, b):
    depth = 0
    for x, y in zip(a, b, strict=True):
        if x != y or x == -1:  # unknown
            break
        depth += 1
    return depth


def hap_table(levels, num_levels, alpha=1.0):
    table = [0.0]
    for level in range(1, num_levels + 1):
        count = sum(1 for item_level in levels if item_level == level)
        table.append((level / num_levels) ** alpha / count if count else 0.0)
    return table
