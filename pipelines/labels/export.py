"""What comes out: GLDv2's hierarchical table, the tree, and what people need to review the proposal.

Everything but the manifest depends on the inputs, options and seed alone, byte for byte.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hiertree.files import open_replacing, write_json
from hiertree.labels import H_GLDV2_LEVELS
from hiertree.pipelines.labels.cleaning import Cleaned, Kept
from hiertree.pipelines.labels.phrases import KINDS
from hiertree.pipelines.labels.proposing import Cluster, Proposal
from hiertree.tree import LabelTree

HIERARCHICAL, TREE, CLUSTERS, LABELS, DROPPED, REPORT = FILES = (
    "hierarchical.csv",
    "tree.json",
    "clusters.csv",
    "labels.csv",
    "dropped.csv",
    "report.json",
)


class Row(NamedTuple):
    """A row of GLDv2's ``*_label_to_hierarchical.csv``; ``supercategory`` is the "instance of" label."""

    landmark_id: int
    category: str
    supercategory: str
    hierarchical_label: str
    natural_or_human_made: str


def hierarchical_rows(kept: Iterable[Kept], proposal: Proposal, *, separator: str = "|") -> list[Row]:
    """One row a landmark, in the order given.

    A landmark with several labels goes to the cluster that holds most of them (the first label's on a tie), and its
    labels are joined by ``separator``.
    """
    cluster_of = proposal.cluster_of()
    rows = []
    for landmark in kept:
        votes = Counter(cluster_of[label].name for label in landmark.labels)
        name = votes.most_common(1)[0][0]
        cluster = next(cluster_of[label] for label in landmark.labels if cluster_of[label].name == name)
        joined = separator.join(landmark.labels)
        rows.append(Row(landmark.landmark_id, landmark.category, joined, name, cluster.kind))
    return rows


def label_tree(rows: Sequence[Row]) -> LabelTree:
    """Kind → supercategory → landmark, as H-GLDv2 is read back by ``LabelTree.from_csv``."""
    return LabelTree.from_paths(
        [[getattr(row, name) for name in H_GLDV2_LEVELS] for row in rows], level_names=H_GLDV2_LEVELS
    )


def report(cleaned: Cleaned, proposal: Proposal, rows: Sequence[Row], *, strangers: int) -> dict[str, Any]:
    """The counts of the paper's Sec. VI: read, labelled, dropped by reason, kept, labels, clusters, kinds."""
    reasons = Counter(drop.reason for drop in cleaned.dropped)
    unlabelled = reasons["not scraped"] + reasons["no label"]
    landmarks = len(cleaned.kept) + len(cleaned.dropped)
    scores = proposal.silhouettes
    return {
        "landmarks": landmarks,
        "with_label": landmarks - unlabelled,
        "dropped": dict(sorted(reasons.items())),
        "kept": len(cleaned.kept),
        "distinct_labels": sum(len(cluster.labels) for cluster in proposal.clusters),
        "clusters": len(proposal.clusters),
        "clusters_in_doubt": sum(bool(cluster.doubt) for cluster in proposal.clusters),
        "labels_in_doubt": sum(bool(place.doubt) for cluster in proposal.clusters for place in cluster.labels),
        "kinds": {
            kind: {
                "clusters": sum(cluster.kind == kind for cluster in proposal.clusters),
                "landmarks": sum(row.natural_or_human_made == kind for row in rows),
            }
            for kind in KINDS
        },
        "scraped_ids_without_landmark": strangers,
        "mended_labels": cleaned.mended,
        "silhouette_by_k": {str(k): round(score, 4) for k, score in scores.items()},
    }


def write_all(
    folder: Path, cleaned: Cleaned, proposal: Proposal, rows: Sequence[Row], counts: dict[str, Any], *, separator: str
) -> None:
    """Write every file of ``FILES`` into a folder."""
    _write_csv(folder / HIERARCHICAL, Row._fields, rows)
    label_tree(rows).to_json(folder / TREE)
    in_cluster = Counter(row.hierarchical_label for row in rows)
    _write_csv(
        folder / CLUSTERS,
        ("cluster", "name", "kind", "kind_margin", "landmarks", "distinct_labels", "labels", "uncertain", "doubt"),
        (_cluster_row(number, cluster, in_cluster, separator) for number, cluster in enumerate(proposal.clusters)),
    )
    _write_csv(
        folder / LABELS,
        ("label", "landmarks", "cluster", "kind", "similarity", "silhouette", "kind_margin", "doubt"),
        (
            (p.label, p.landmarks, cluster.name, cluster.kind, p.similarity, p.silhouette, p.margin, p.doubt)
            for cluster in proposal.clusters
            for p in cluster.labels
        ),
    )
    _write_csv(
        folder / DROPPED,
        ("landmark_id", "category", "instance_of", "reason"),
        ((drop.landmark_id, drop.category, separator.join(drop.values), drop.reason) for drop in cleaned.dropped),
    )
    write_json(folder / REPORT, counts)


def _cluster_row(number: int, cluster: Cluster, in_cluster: Counter[str], separator: str) -> tuple[Any, ...]:
    labels = separator.join(place.label for place in cluster.labels)
    flag = "yes" if cluster.doubt else "no"
    sizes = (in_cluster[cluster.name], len(cluster.labels))
    return (number, cluster.name, cluster.kind, cluster.margin, *sizes, labels, flag, cluster.doubt)


def _write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with open_replacing(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
