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

from hiertree.errors import ReviewError

from ..cluster.agreement_measures import agreement as partition_agreement
from .state import ReviewCluster, State


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
class Comparison:
    """Two states compared.

    Attributes:
        agreement: how far they agree.
        matches: which clusters are matched, first → second.
        labels: those placed differently, with the numbers of their two clusters, None where they were left out.
        clusters: matched ones, by number, of different name, kind or groups above.
    """

    agreement: Agreement
    matches: dict[int, int]
    labels: tuple[tuple[str, int | None, int | None], ...]
    clusters: tuple[tuple[int, int], ...]


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
    everything = sorted(first.labels)
    homes = [{label: own for own in state.clusters.values() for label in own.relevant} for state in (first, second)]
    both = [label for label in everything if all(label in home for home in homes)]
    placed = [{label: own.number for label, own in home.items()} for home in homes]
    numbers = [[place[label] for label in both] for place in placed]
    kinds = [[home[label].kind for label in both] for home in homes]
    matches = match_clusters(list(zip(*numbers, strict=True)))
    pairs = [(first.clusters[one], second.clusters[other]) for one, other in sorted(matches.items())]
    # in the second's numbers; a cluster of the first that has no match keeps one that the second cannot have
    places = [[matches.get(number, -1 - number) for number in numbers[0]], numbers[1]]
    scores = partition_agreement(*numbers) if both else {}
    agreement = Agreement(
        labels=len(everything),
        relevant=len(both),
        relevance_kappa=cohen_kappa(*([label in home for label in everything] for home in homes)),
        kind_share=_share(*kinds),
        kind_kappa=cohen_kappa(*kinds),
        place_share=_share(*places),
        place_kappa=cohen_kappa(*places),
        ari=scores.get("ari"),
        nmi=scores.get("nmi"),
        clusters=(_count(first), _count(second)),
        matched=len(matches),
        name_share=_share([one.name for one, _ in pairs], [other.name for _, other in pairs]),
    )
    sides = ((label, placed[0].get(label), placed[1].get(label)) for label in everything)
    alike: dict[int | None, int | None] = dict([*matches.items(), (None, None)])  # None: left out on both sides
    labels = ((label, one, other) for label, one, other in sides if alike.get(one, "no match") != other)
    clusters = ((one.number, other.number) for one, other in pairs if _seen(one) != _seen(other))
    return Comparison(agreement, matches, tuple(labels), tuple(clusters))


def match_clusters(pairs: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Match clusters one to one so that as many labels as possible lie in matched ones.

    Args:
        pairs: for each label the numbers of its two clusters.

    Returns:
        first → second, only clusters that share a label.

    >>> match_clusters([(0, 5), (0, 5), (0, 6), (1, 6)])
    {0: 5, 1: 6}
    """
    import pandas as pd
    from scipy.optimize import linear_sum_assignment

    shared = pd.Series(Counter(pairs), dtype="int64").unstack(fill_value=0) if pairs else pd.DataFrame()
    chosen = zip(*linear_sum_assignment(shared.to_numpy(), maximize=True), strict=True)
    return {int(shared.index[row]): int(shared.columns[column]) for row, column in chosen if shared.iloc[row, column]}


def _seen(cluster: ReviewCluster) -> tuple[str, str, tuple[str, ...]]:
    return cluster.name, cluster.kind, cluster.above


def _count(state: State) -> int:
    return sum(bool(cluster.relevant) for cluster in state.clusters.values())


def _share(first: Sequence[Hashable], second: Sequence[Hashable]) -> float | None:
    """The part that is equal, or None of nothing."""
    return sum(one == other for one, other in zip(first, second, strict=True)) / len(first) if first else None
