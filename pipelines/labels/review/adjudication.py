"""What two annotators' logs agree on, and a third log that decides where they differ.

The third log begins with a full copy of the first annotator's clusters and the digests of both reviews: it is replayed
without the two logs, and refuses to go on when they have changed. A difference over a label is settled by placing it as
one of the two did, or otherwise; one over a cluster's name, kind or groups by approving the cluster.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hiertree.errors import ReviewError
from hiertree.io.files import write_json
from hiertree.io.provenance import manifest

from ..cluster.proposal_file import PROPOSAL, read_proposal
from ..folders import AnyPath
from .agreement import Comparison, compare
from .history import Adopt, AdoptedCluster, History, LogVersion
from .reviewing import replayed
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
    """The two reviews that are adjudicated, and how they compare."""

    first: History
    second: History
    comparison: Comparison

    @classmethod
    def of(cls, first: History, second: History) -> Adjudication:
        """Compare two reviews.

        Raises:
            ReviewError: they are of different labels, or by the same annotator.
        """
        if first.annotator == second.annotator:
            raise ReviewError(f"two logs of {first.annotator}", expected="logs of two annotators")
        return cls(first, second, compare(first.state, second.state))

    def begin(self, session: Session) -> None:
        """Adopt the first annotator's clusters in a new log; go on with one that did.

        Raises:
            ReviewError: the log is something else, or one of the two reviews has changed since.
        """
        history = session.news(0).history
        sources = (_source(self.first), _source(self.second))
        if history.seq == 0:
            clusters = tuple(map(_adopted, self.first.state.clusters.values()))
            session.act(Adopt(sources=sources, groups=clusters), seq=0)
        elif history.sources != sources:
            raise ReviewError(
                f"{session.log.path} began from {_describe(history.sources)}, not from {_describe(sources)}",
                expected="the two logs as they were then",
                remedy="name another --log to begin anew",
            )

    def as_json(self) -> dict[str, Any]:
        """What the page shows: who, how far they agree, and each difference with both sides."""
        compared = self.comparison
        there = {other: one for one, other in compared.matches.items()}  # the second's clusters in the third log

        def sides(one: int | None, other: int | None) -> dict[str, Any]:
            mine = None if one is None else _side(self.first.state.cluster(one), one)
            theirs = None if other is None else _side(self.second.state.cluster(other), there.get(other))
            return {"first": mine, "second": theirs}

        return {
            "annotators": [self.first.annotator, self.second.annotator],
            "agreement": asdict(compared.agreement),
            "labels": [{"label": label, **sides(one, other)} for label, one, other in compared.labels],
            "clusters": [sides(one, other) for one, other in compared.clusters],
        }


def agreement_report(
    clustered: AnyPath,
    log_a: AnyPath,
    log_b: AnyPath,
    *,
    out: AnyPath | None = None,
) -> dict[str, Any]:
    """Compare two reviews of one proposal.

    Args:
        clustered: a folder that ``hiertree labels cluster`` made, or its ``proposal.json``.
        log_a: the log of an annotator.
        log_b: the log of another.
        out: a JSON file for the report and its provenance.

    Returns:
        ``annotators``, ``agreement`` (see :class:`hiertree.pipelines.labels.review.Agreement`), and the differences of
        ``labels`` and ``clusters``, each with both sides; None stands for a label left out.

    Raises:
        TableError: no proposal there.
        ReviewError: a log that is damaged, of another proposal, or by the same annotator as the other.
    """
    proposal = read_proposal(clustered)
    compared = Adjudication.of(replayed(proposal, log_a), replayed(proposal, log_b)).as_json()
    if out is not None:
        read = Path(clustered) / PROPOSAL if Path(clustered).is_dir() else Path(clustered)
        record = manifest(command=COMMAND, parameters={}, inputs=[read, log_a, log_b])
        write_json(out, {**compared, "manifest": record})
    return compared


def describe_agreement(report: dict[str, Any]) -> str:
    """The numbers as lines, and how many differences there are."""
    numbers, (first, second) = report["agreement"], report["annotators"]
    kept = f"{numbers['labels']} labels, {numbers['relevant']} kept by both"
    clusters = "{} and {} clusters, {} matched".format(*numbers["clusters"], numbers["matched"])
    lines = [f"{first} and {second}: {kept}; {clusters}"]
    for name, text in _NAMES.items():
        value = numbers[name]
        lines.append(f"{text:31s} {'no value' if value is None else format(value, '.3f'):>8s}")
    lines.append(f"{len(report['labels'])} labels and {len(report['clusters'])} clusters to decide")
    return "\n".join(lines)


def _side(cluster: ReviewCluster, number: int | None) -> dict[str, Any]:
    """A cluster as one annotator left it, with its number in the third log, if that has it."""
    return {"cluster": number, "name": cluster.name, "kind": cluster.kind, "above": cluster.above}


def _adopted(cluster: ReviewCluster) -> AdoptedCluster:
    content = cluster.as_json()
    return AdoptedCluster.model_validate({name: content[name] for name in AdoptedCluster.model_fields}, strict=False)


def _source(history: History) -> LogVersion:
    return LogVersion(annotator=history.annotator, events=history.seq, digest=history.state.digest)


def _describe(sources: tuple[LogVersion, ...]) -> str:
    return " and ".join(f"{source.annotator}'s {source.events} events" for source in sources) or "the proposal"
