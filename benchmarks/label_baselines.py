"""The plainest ways to group labels, which a proposal must beat to be worth its code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from hiertree.pipelines.labels.encode.hypernyms import Hypernyms
from hiertree.pipelines.labels.encode.place_nouns import parse


def lookup(labels: Sequence[str], hypernyms: Hypernyms) -> list[str]:
    """The sense of a label in the list, or else that of the nearest class above it that has one."""
    return [parse(hypernyms.text(label)).sense or "unknown" for label in labels]


def ancestors_by_ward(labels: Sequence[str], hypernyms: Hypernyms, k: int) -> list[int]:
    """K clusters of Ward's tree over the TF-IDF of all classes above each label."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    ancestors = [sorted(hypernyms.above([label])) for label in labels]
    return ward(TfidfVectorizer(analyzer=list).fit_transform(ancestors).toarray(), k)


def ward(rows: Any, k: int) -> list[int]:
    """K clusters of Ward's tree over rows."""
    from scipy.cluster.hierarchy import fcluster, linkage

    clusters: list[int] = fcluster(linkage(rows, "ward"), k, "maxclust").tolist()
    return clusters


def greedy_ancestors(labels: Sequence[str], hypernyms: Hypernyms, k: int) -> list[str]:
    """K − 1 classes, one after another, each with the labels left below it; what no class takes stays together.

    The next class is that of the greatest product of labels below it and its information, −log of the share of the
    graph's classes that stand below it.
    """
    import networkx as nx

    graph = nx.DiGraph(list(hypernyms.edges))
    left = {label: hypernyms.above([label]) for label in labels}
    items = frozenset[str]().union(*left.values())
    information = {item: np.log(len(graph) / (1 + len(nx.ancestors(graph, item)))) for item in items}
    class_of = dict.fromkeys(labels, "")
    for _ in range(k - 1):
        counts = Counter(item for items in left.values() for item in items)
        if not counts:
            break
        best = max(sorted(counts), key=lambda item: counts[item] * information[item])
        for label in [label for label, items in left.items() if best in items]:
            class_of[label] = best
            del left[label]
    return [class_of[label] for label in labels]
