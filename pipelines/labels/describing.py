"""A build in words, for the terminal."""

from __future__ import annotations

from hiertree.pipelines.labels.building import BuildResult
from hiertree.pipelines.labels.proposing import Cluster

_SHOWN_LABELS = 4


def describe(result: BuildResult) -> str:
    """The counts, then one line a cluster: landmarks, kind, name, its commonest labels, and a ``?`` for people."""
    report = result.report
    dropped = ", ".join(f"{number} {reason}" for reason, number in report["dropped"].items()) or "none"
    clusters = f"{report['distinct_labels']} distinct labels in {report['clusters']} clusters"
    doubts = f"{report['clusters_in_doubt']} clusters and {report['labels_in_doubt']} labels in doubt"
    lines = [
        f"{report['landmarks']} landmarks, {report['with_label']} with a label; dropped: {dropped}",
        f"{report['kept']} kept, {clusters}; {doubts}",
        *map(_line, result.proposal.clusters),
        f"written to {result.folder}",
    ]
    return "\n".join(lines)


def _line(cluster: Cluster) -> str:
    labels = [place.label for place in cluster.labels]
    more = f", … {len(labels) - _SHOWN_LABELS} more" if len(labels) > _SHOWN_LABELS else ""
    mark = "?" if cluster.doubt else " "
    return f"{cluster.landmarks:6d} {mark} {cluster.kind:10s} {cluster.name}: {', '.join(labels[:_SHOWN_LABELS])}{more}"
