"""How far two annotators agree, and where they do not.

Both began from one proposal, so they placed the same labels. Their clusters are matched one to one so that as many
labels as possible lie in matched clusters (the assignment problem); a label is *placed alike* when its two clusters are
matched. Cohen's κ = (p − e)/(1 − e), p the share of labels treated alike and e that expected if each annotator drew at
random by their own shares; it has no value when both use one and the same category throughout.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from hiertree.errors import ReviewError

from ..cluster.agreement_measures import agreement as partition_agreement
from .state import ReviewCluster, State

Homes: TypeAlias = dict[str, ReviewCluster]  # label → the cluster that keeps it


@dataclass(frozen=True)
class Agreement:
    """How far two annotators agree; κ, ARI and NMI are 1 when they do throughout.

    Attributes:
        labels: how many there are.
        relevant: how many both kept.
        relevance_kappa: κ of keeping or leaving out, over all labels.
        kind_share: the part of the labels kept by both that have one kind.
        kind_kappa: κ of their kinds.
        place_share: the part that is placed alike.
        place_kappa: κ of their clusters, after matching.
        ari: adjusted Rand index of the two partitions.
        nmi: their normalized mutual information (arithmetic mean of the entropies).
        clusters: how many clusters each left.
        matched: how many are matched.
        name_share: the part of the matched clusters that bear one name.
    """

    labels: int
    relevant: int
    relevance_kappa: float | None
    kind_share: float | None
    kind_kappa: float | None
    place_share: float | None
    place_kappa: float | None
    ari: float | None
    nmi: float | None
    clusters: tuple[int, int]
    matched: int
    name_share: float | None


@dataclass(frozen=True)
class LabelDifference:
    """A label that two annotators placed differently: the clusters' numbers, None where it was left out."""

    label: str
    first: int | None
    second: int | None


@dataclass(frozen=True)
class ClusterDifference:
    """Matched clusters, by number, of different name, kind or groups above."""

    first: int
    second: int


@dataclass(frozen=True)
class Comparison:
    """Two states compared: how far they agree, which clusters are matched (first → second), and the differences."""

    agreement: Agreement
    matches: dict[int, int]
    labels: tuple[LabelDifference, ...]
    clusters: tuple[ClusterDifference, ...]


def cohen_kappa(first: Sequence[Hashable], second: Sequence[Hashable]) -> float | None:
    """Cohen's κ of two annotators' categories; None where it has no value, since both use one category throughout.

    >>> round(cohen_kappa("yyyyn", "yyynn"), 4)
    0.5455
    >>> cohen_kappa("yyy", "yyy") is None
    True
    """
    from sklearn.metrics import cohen_kappa_score

    if len({*first, *second}) < 2:
        return None
    return float(cohen_kappa_score(list(first), list(second)))


def compare(first: State, second: State) -> Comparison:
    """Compare what two annotators made of one proposal.

    Raises:
        ReviewError: other labels on one side.

    >>> lakes = ReviewCluster(0, "lake", "natural", frozenset({"lake", "pond"}))
    >>> compare(State.of([lakes]), State.of([lakes])).agreement.ari
    1.0
    """
    if first.labels != second.labels:
        raise ReviewError("two reviews of different labels", expected="two reviews of one proposal")
    homes = _homes(first), _homes(second)
    both = sorted(homes[0].keys() & homes[1].keys())
    matches = match_clusters([(homes[0][label].number, homes[1][label].number) for label in both])
    return Comparison(
        _agreement(first, second, homes, both, matches),
        matches,
        tuple(_label_differences(first, homes, matches)),
        tuple(_cluster_differences(first, second, matches)),
    )


def match_clusters(pairs: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Match clusters one to one so that as many labels as possible lie in matched ones.

    Args:
        pairs: for each label the numbers of its two clusters.

    Returns:
        first → second, only clusters that share a label.

    >>> match_clusters([(0, 5), (0, 5), (0, 6), (1, 6)])
    {0: 5, 1: 6}
    """
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    rows, columns = (sorted({pair[side] for pair in pairs}) for side in (0, 1))
    shared = np.zeros((len(rows), len(columns)), dtype=np.int64)
    for (one, other), count in Counter(pairs).items():
        shared[rows.index(one), columns.index(other)] = count
    chosen = zip(*linear_sum_assignment(shared, maximize=True), strict=True)
    return {rows[row]: columns[column] for row, column in chosen if shared[row, column]}


def _homes(state: State) -> Homes:
    return {label: cluster for cluster in state.clusters.values() for label in cluster.relevant}


def _agreement(
    first: State,
    second: State,
    homes: tuple[Homes, Homes],
    both: list[str],
    matches: dict[int, int],
) -> Agreement:
    everything = sorted(first.labels)
    kinds = [[home[label].kind for label in both] for home in homes]
    # the second's numbers; a cluster of the first that has no match keeps a number that the second cannot have
    places = [[matches.get(homes[0][label].number, -1 - homes[0][label].number) for label in both]]
    places.append([homes[1][label].number for label in both])
    named = [first.clusters[one].name == second.clusters[other].name for one, other in matches.items()]
    partitions = [[home[label].number for label in both] for home in homes]
    scores = partition_agreement(*partitions) if both else {}
    return Agreement(
        labels=len(everything),
        relevant=len(both),
        relevance_kappa=cohen_kappa(*([label in home for label in everything] for home in homes)),
        kind_share=_share(kinds[0], kinds[1]),
        kind_kappa=cohen_kappa(*kinds),
        place_share=_share(places[0], places[1]),
        place_kappa=cohen_kappa(*places),
        ari=scores.get("ari"),
        nmi=scores.get("nmi"),
        clusters=(_clusters(first), _clusters(second)),
        matched=len(matches),
        name_share=sum(named) / len(named) if named else None,
    )


def _share(first: Sequence[Any], second: Sequence[Any]) -> float | None:
    alike = [one == other for one, other in zip(first, second, strict=True)]
    return sum(alike) / len(alike) if alike else None


def _clusters(state: State) -> int:
    return sum(bool(cluster.relevant) for cluster in state.clusters.values())


def _label_differences(first: State, homes: tuple[Homes, Homes], matches: dict[int, int]) -> list[LabelDifference]:
    found = []
    for label in sorted(first.labels):
        one, other = (home[label].number if label in home else None for home in homes)
        if (matches.get(one) if one is not None else None) != other or (one is None) != (other is None):
            found.append(LabelDifference(label, one, other))
    return found


def _cluster_differences(first: State, second: State, matches: dict[int, int]) -> list[ClusterDifference]:
    def seen(cluster: ReviewCluster) -> tuple[str, str, tuple[str, ...]]:
        return cluster.name, cluster.kind, cluster.above

    pairs = sorted(matches.items())
    return [
        ClusterDifference(one, other)
        for one, other in pairs
        if seen(first.clusters[one]) != seen(second.clusters[other])
    ]
