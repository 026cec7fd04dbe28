"""What comes out: GLDv2's hierarchical table, the tree, and what people need to review the proposal.

They depend on the inputs, options and seed alone, byte for byte.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hiertree.io.tables import write_table
from hiertree.tree import H_GLDV2_LEVELS, LabelTree

from ..clean.landmark_file import SEPARATOR
from ..clean.rules import KeptLandmark
from ..cluster.proposing import Cluster, Proposal

HIERARCHICAL, TREE, CLUSTERS, LABELS, REPORT = (
    "hierarchical.csv",
    "tree.json",
    "clusters.csv",
    "labels.csv",
    "report.json",
)


class Row(NamedTuple):
    """A row of GLDv2's ``*_label_to_hierarchical.csv``; ``supercategory`` is the "instance of" label."""

    landmark_id: int
    category: str
    supercategory: str
    hierarchical_label: str
    natural_or_human_made: str


def hierarchical_rows(kept: Iterable[KeptLandmark], proposal: Proposal, *, separator: str = "|") -> list[Row]:
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


def label_tree(rows: Sequence[Row], proposal: Proposal) -> LabelTree:
    """Kind → groups above, if any → supercategory → landmark.

    Without groups, the same as ``LabelTree.from_csv`` reads from the published columns.
    """
    above = {cluster.name: cluster.above for cluster in proposal.clusters}
    kind, cluster, landmark = H_GLDV2_LEVELS
    groups = [f"group_{depth}" for depth in range(1, len(proposal.clusters[0].above) + 1)]
    return LabelTree.from_paths(
        [
            (row.natural_or_human_made, *above[row.hierarchical_label], row.hierarchical_label, row.landmark_id)
            for row in rows
        ],
        level_names=[kind, *groups, cluster, landmark],
    )


def write_clusters(path: Path, proposal: Proposal, landmarks: Mapping[str, int]) -> None:
    """Write one row a cluster.

    Args:
        path: the file.
        proposal: the clusters.
        landmarks: how many are in the cluster of each name.
    """
    header = ("cluster", "name", "kind", "kind_margin", "landmarks", "distinct_labels", "labels", "uncertain", "doubt")
    rows = (_cluster_row(number, cluster, landmarks) for number, cluster in enumerate(proposal.clusters))
    write_table(path, (*header, "above"), rows)


def write_labels(path: Path, proposal: Proposal) -> None:
    """Write one row a label."""
    header = ("label", "landmarks", "cluster", "kind", "similarity", "silhouette", "kind_margin", "doubt")
    rows = (
        (p.label, p.landmarks, cluster.name, cluster.kind, p.similarity, p.silhouette, p.margin, p.doubt)
        for cluster in proposal.clusters
        for p in cluster.labels
    )
    write_table(path, header, rows)


def _cluster_row(number: int, cluster: Cluster, landmarks: Mapping[str, int]) -> tuple[Any, ...]:
    labels = SEPARATOR.join(place.label for place in cluster.labels)
    flag = "yes" if cluster.doubt else "no"
    sizes = (landmarks[cluster.name], len(cluster.labels))
    about = (number, cluster.name, cluster.kind, cluster.margin)
    return (*about, *sizes, labels, flag, cluster.doubt, SEPARATOR.join(cluster.above))
