"""What came of a step in words, for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .building import BuildResult
from .cluster.proposing import Cluster, Proposal

if TYPE_CHECKING:
    from .steps import Clustered, Exported

_SHOWN_LABELS = 4


def describe_cleaning(report: Mapping[str, Any]) -> str:
    """The counts of the paper's Sec. VI-A, a line each.

    >>> counts = {"landmarks": 5, "scraped": 5, "with_label": 3, "kept": 2, "distinct_labels": 2,
    ...           "dropped": {"no label": 2, "several labels": 1}, "no_label_because": {"missing page": 1}}
    >>> print(describe_cleaning(counts))
           5 landmarks
           5 scraped
           3 with a label
           2 dropped: no label (1 missing page)
           1 dropped: several labels
           2 kept, with 2 distinct labels
    """
    because = ", ".join(f"{number} {reason}" for reason, number in report["no_label_because"].items())
    said = {"no label": f" ({because})"} if because else {}
    dropped = [(number, f"dropped: {reason}{said.get(reason, '')}") for reason, number in report["dropped"].items()]
    lines = [
        (report["landmarks"], "landmarks"),
        (report["scraped"], "scraped"),
        (report["with_label"], "with a label"),
        *dropped,
        (report["kept"], f"kept, with {report['distinct_labels']} distinct labels"),
    ]
    return "\n".join(f"{number:8d} {text}" for number, text in lines)


def describe(result: BuildResult) -> str:
    """The counts, then one line a cluster."""
    return "\n".join(
        [
            describe_cleaning(result.report),
            describe_proposal(result.proposal),
            f"written to {result.folder}",
        ]
    )


def describe_clustered(found: Clustered) -> str:
    """The clusters, then their quality, and how they agree with each reference."""
    numbers = found.quality
    lines = [
        describe_proposal(found.proposal),
        f"silhouette {numbers['silhouette']:.3f}, inertia {numbers['inertia']:.1f}",
    ]
    for name, values in numbers["references"].items():
        measures = ", ".join(f"{measure} {values[measure]:.3f}" for measure in ("ari", "nmi", "v_measure", "purity"))
        lines.append(f"{name}: {values['labels']} labels in {values['classes']} classes: {measures}")
    return "\n".join(lines)


def describe_exported(exported: Exported) -> str:
    """The counts, the clusters, and where the files are."""
    report = exported.report
    lines = [describe_cleaning(report), describe_proposal(exported.proposal)]
    if "review" in report:
        told = report["review"]
        lines.append(f"reviewed: {told['events']} actions, {told['irrelevant']} labels irrelevant")
        if "torn_bytes" in told:
            lines.append(f"the log ends within an action: {told['torn_bytes']} bytes, never acknowledged, do not count")
    return "\n".join([*lines, f"written to {exported.folder}"])


def describe_filling(report: Mapping[str, Any]) -> str:
    """The counts, and how many labels images gave."""
    given = f"{report['labelled_from_images']} of {report['unlabelled_with_images']} landmarks without a label"
    return f"{describe_cleaning(report)}\n{given} got one from their {report['images']} images"


def describe_proposal(proposal: Proposal) -> str:
    """One line a cluster: landmarks, kind, name, its commonest labels, and a ``?`` for people."""
    doubtful = sum(bool(cluster.doubt) for cluster in proposal.clusters)
    labels = [place for cluster in proposal.clusters for place in cluster.labels]
    doubts = f"{doubtful} clusters and {sum(bool(place.doubt) for place in labels)} labels in doubt"
    return "\n".join(
        [f"{len(labels)} labels in {len(proposal.clusters)} clusters; {doubts}", *map(_line, proposal.clusters)]
    )


def _line(cluster: Cluster) -> str:
    labels = [place.label for place in cluster.labels]
    more = f", … {len(labels) - _SHOWN_LABELS} more" if len(labels) > _SHOWN_LABELS else ""
    mark = "?" if cluster.doubt else " "
    return f"{cluster.landmarks:6d} {mark} {cluster.kind:10s} {cluster.name}: {', '.join(labels[:_SHOWN_LABELS])}{more}"
