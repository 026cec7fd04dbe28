"""Agreement of two annotators, their differences, and a third log that settles these.

Both began from one proposal, so they placed the same labels. Their clusters are matched one to one so that as many
labels as possible lie in matched clusters (the assignment problem); a label is *placed alike* when its two clusters are
matched. Cohen's κ = (p − e)/(1 − e), p the share of labels treated alike and e that expected if each annotator drew at
random by their own shares; it has no value when both use one and the same category throughout.

The third log begins with a full copy of the first annotator's clusters and the digests of both reviews: it is replayed
without the two logs, and refuses to go on when they have changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hiertree.errors import ReviewError
from hiertree.io.files import AnyPath, write_json
from hiertree.io.provenance import manifest

from ..cluster.proposal_files import EITHER, PROPOSAL, read_proposal
from ..cluster.quality import agreement as partition_agreement
from .history import Adopt, AdoptedCluster, History, LogVersion
from .log_file import replayed
from .session import Session
from .state import ReviewCluster

COMMAND = "hiertree labels agreement"
_NAMES = {
    "relevance_kappa": "κ, relevant or not",
    "kind_share": "labels of one kind",
    "kind_kappa": "κ of kinds",
    "place_share": "labels placed alike",
    "place_kappa": "κ of clusters, matched",
    "ari": "adjusted Rand index",
    "nmi": "normalized mutual information",
    "name_share": "matched clusters of one name",
}


@dataclass(frozen=True)
class Adjudication:
    """Two reviews of one proposal, compared."""

    first: History
    second: History
    agreement: dict[str, Any]  # how far they agree, by the names that agreement.json has
    matches: dict[int, int]  # which clusters are matched, first → second
    # those placed differently, with the numbers of their two clusters, None where they were left out
    labels: tuple[tuple[str, int | None, int | None], ...]
    clusters: tuple[tuple[int, int], ...]  # matched ones, by number, of different name, kind or groups above

    def begin(self, session: Session) -> None:
        """Adopt the first annotator's clusters in a new log; go on with one that did."""
        history = session.news(0).history
        sources = (_source(self.first), _source(self.second))
        if history.seq == 0:
            clusters = tuple(map(_adopted, self.first.state.clusters.values()))
            session.act(Adopt(sources=sources, groups=clusters), seq=0)
        elif history.sources != sources:
            problem = f"{session.log.path} began from {_describe(history.sources)}, not from {_describe(sources)}"
            remedy = "name another --log to begin anew"
            raise ReviewError(problem, expected="the same two logs", remedy=remedy)

    def as_json(self) -> dict[str, Any]:
        """What the page shows: who, how far they agree, and each difference with both sides."""
        third_log_numbers = {second: first for first, second in self.matches.items()}

        def sides(first: int | None, second: int | None) -> dict[str, Any]:
            second_number = None if second is None else third_log_numbers.get(second)
            return {"first": _side(self.first, first, first), "second": _side(self.second, second, second_number)}

        return {
            "annotators": [self.first.annotator, self.second.annotator],
            "agreement": self.agreement,
            "labels": [{"label": label, **sides(first, second)} for label, first, second in self.labels],
            "clusters": [sides(first, second) for first, second in self.clusters],
        }


def cohen_kappa(first: Sequence[Hashable], second: Sequence[Hashable]) -> float | None:
    """Cohen's κ of two annotators' categories; None where it has no value, since both use one category throughout."""
    from sklearn.metrics import cohen_kappa_score

    if len({*first, *second}) < 2:
        return None
    return float(cohen_kappa_score(list(first), list(second)))


def compare(first: History, second: History) -> Adjudication:
    """Compare what two annotators made of one proposal."""
    if first.annotator == second.annotator:
        raise ReviewError(f"two logs of {first.annotator}", expected="logs of two annotators")
    if first.state.labels != second.state.labels:
        raise ReviewError("two reviews of different labels", expected="two reviews of one proposal")
    all_labels, states = sorted(first.state.labels), (first.state, second.state)
    placements = [{label: group for group in state.clusters.values() for label in group.relevant} for state in states]
    common_labels = [label for label in all_labels if all(label in placement for placement in placements)]
    numbers_by_label = [{label: cluster.number for label, cluster in placement.items()} for placement in placements]
    numbers = [[place[label] for label in common_labels] for place in numbers_by_label]
    kinds = [[_kind_of(label, groups[label]) for label in common_labels] for groups in placements]
    matches = match_clusters(list(zip(*numbers, strict=True)))
    first_numbers = sorted(matches)
    matched_clusters = (
        [first.state.cluster(number) for number in first_numbers],
        [second.state.cluster(matches[number]) for number in first_numbers],
    )
    # in the second's numbers; a cluster of the first that has no match keeps one that the second cannot have
    places = [[matches.get(number, -1 - number) for number in numbers[0]], numbers[1]]
    scores = partition_agreement(*numbers) if common_labels else {}
    agreement = {  # κ, ARI and NMI are 1 where they agree throughout, and None where they have no value
        "labels": len(all_labels),
        "relevant": len(common_labels),  # labels that both kept; what follows is over these
        # over all labels
        "relevance_kappa": cohen_kappa(*([label in placement for label in all_labels] for placement in placements)),
        "kind_share": _share(*kinds),
        "kind_kappa": cohen_kappa(*kinds),
        "place_share": _share(*places),
        "place_kappa": cohen_kappa(*places),
        "ari": scores.get("ari"),
        "nmi": scores.get("nmi"),
        "clusters": tuple(sum(bool(cluster.relevant) for cluster in state.clusters.values()) for state in states),
        "matched": len(matches),
        "name_share": _share(*([cluster.name for cluster in side] for side in matched_clusters)),
    }
    sides = ((label, numbers_by_label[0].get(label), numbers_by_label[1].get(label)) for label in all_labels)
    counterparts: dict[int | None, int | None] = dict([*matches.items(), (None, None)])  # None: left out on both sides
    labels = tuple(
        (label, first_number, second_number)
        for label, first_number, second_number in sides
        if counterparts.get(first_number, "no match") != second_number
    )
    clusters = tuple(
        (first_cluster.number, second_cluster.number)
        for first_cluster, second_cluster in zip(*matched_clusters, strict=True)
        if _description(first_cluster) != _description(second_cluster)
    )
    return Adjudication(first, second, agreement, matches, labels, clusters)


def match_clusters(pairs: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Match clusters, first → second, so that as many labels as possible lie in matched ones; all share a label."""
    import pandas as pd
    from scipy.optimize import linear_sum_assignment

    shared_counts = pd.Series(Counter(pairs), dtype="int64").unstack(fill_value=0) if pairs else pd.DataFrame()
    matched_cells = zip(*linear_sum_assignment(shared_counts.to_numpy(), maximize=True), strict=True)
    cells = [(row, column) for row, column in matched_cells if shared_counts.iloc[row, column]]
    return {int(shared_counts.index[row]): int(shared_counts.columns[column]) for row, column in cells}


def _description(cluster: ReviewCluster) -> tuple[str, str, tuple[str, ...]]:
    return cluster.name, cluster.kind, cluster.above


def _kind_of(label: str, cluster: ReviewCluster) -> str:
    return EITHER if label in cluster.either else cluster.kind


def _share(first: Sequence[Hashable], second: Sequence[Hashable]) -> float | None:
    """The share of equal items, or None without items."""
    return sum(a == b for a, b in zip(first, second, strict=True)) / len(first) if first else None


def agreement_report(
    clusters_path: AnyPath, log_a: AnyPath, log_b: AnyPath, *, out: AnyPath | None = None
) -> dict[str, Any]:
    """Compare two reviews of one proposal: :meth:`Adjudication.as_json`, written to ``out`` with its provenance."""
    proposal = read_proposal(clusters_path)
    report = compare(*(replayed(proposal, log)[0] for log in (log_a, log_b))).as_json()
    if out is not None:
        proposal_file = Path(clusters_path) / PROPOSAL if Path(clusters_path).is_dir() else Path(clusters_path)
        record = manifest(command=COMMAND, parameters={}, inputs=[proposal_file, log_a, log_b])
        write_json(out, {**report, "manifest": record})
    return report


def describe_agreement(report: dict[str, Any]) -> str:
    """The numbers as lines, and how many differences there are."""
    numbers, (first, second) = report["agreement"], report["annotators"]
    label_counts = f"{numbers['labels']} labels, {numbers['relevant']} kept by both"
    clusters = "{} and {} clusters, {} matched".format(*numbers["clusters"], numbers["matched"])
    lines = [f"{first} and {second}: {label_counts}; {clusters}"]
    for name, text in _NAMES.items():
        value = numbers[name]
        lines.append(f"{text:31s} {'no value' if value is None else format(value, '.3f'):>8s}")
    lines.append(f"{len(report['labels'])} labels and {len(report['clusters'])} clusters to decide")
    return "\n".join(lines)


def _side(history: History, number: int | None, third_log_number: int | None) -> dict[str, Any] | None:
    """A cluster as one annotator left it, with its number in the third log, if that has it."""
    if number is None:
        return None
    cluster = history.state.cluster(number)
    return {"cluster": third_log_number, "name": cluster.name, "kind": cluster.kind, "above": cluster.above}


def _adopted(cluster: ReviewCluster) -> AdoptedCluster:
    content = cluster.as_json()
    return AdoptedCluster.model_validate({name: content[name] for name in AdoptedCluster.model_fields}, strict=False)


def _source(history: History) -> LogVersion:
    return LogVersion(annotator=history.annotator, events=history.seq, digest=history.state.digest)


def _describe(sources: tuple[LogVersion, ...]) -> str:
    return " and ".join(f"{source.annotator}'s {source.events} events" for source in sources) or "the proposal"
