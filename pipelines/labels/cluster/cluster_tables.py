"""``clusters.csv`` and ``labels.csv``: the clusters and their labels as tables, with what people should look at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hiertree.io.tables import write_table

from ..clean.landmark_file import SEPARATOR
from ..clean.rules import KeptLandmark
from ..encode.hypernyms import ARROW
from .proposing import Cluster, LabelPlace, Proposal

CLUSTERS = "clusters.csv"


def clusters_of(kept: Iterable[KeptLandmark], proposal: Proposal) -> Iterator[Cluster]:
    """The cluster of each landmark: the one that holds most of its labels, on a tie the first label's."""
    cluster_of = proposal.cluster_of()
    for landmark in kept:
        votes = Counter(cluster_of[label].name for label in landmark.labels)
        winner = votes.most_common(1)[0][0]
        yield next(cluster_of[label] for label in landmark.labels if cluster_of[label].name == winner)


def write_clusters(path: Path, proposal: Proposal, kept: Iterable[KeptLandmark]) -> None:
    """Write one row per cluster.

    Args:
        path: the file.
        proposal: the clusters.
        kept: the landmarks, which are counted by cluster.
    """
    landmarks = Counter(cluster.name for cluster in clusters_of(kept, proposal))
    header = ("cluster", "name", "kind", "kind_margin", "landmarks", "distinct_labels", "labels", "uncertain", "doubt")
    rows = (_cluster_row(number, cluster, landmarks) for number, cluster in enumerate(proposal.clusters))
    write_table(path, (*header, "above", "hypernyms"), rows)


def write_labels(path: Path, proposal: Proposal) -> None:
    """Write one row per label."""
    header = (
        "label",
        "landmarks",
        "cluster",
        "kind",
        "similarity",
        "silhouette",
        "kind_margin",
        "doubt",
        "natural_probability",
        "hypernyms",
    )
    rows = (
        (
            p.label,
            p.landmarks,
            cluster.name,
            cluster.kind,
            p.similarity,
            p.silhouette,
            p.margin,
            p.doubt,
            p.natural,
            _chain(p),
        )
        for cluster in proposal.clusters
        for p in cluster.labels
    )
    write_table(path, header, rows)


def _cluster_row(number: int, cluster: Cluster, landmarks: Mapping[str, int]) -> tuple[Any, ...]:
    labels = SEPARATOR.join(place.label for place in cluster.labels)
    flag = "yes" if cluster.doubt else "no"
    sizes = (landmarks[cluster.name], len(cluster.labels))
    about = (number, cluster.name, cluster.kind, cluster.margin)
    chain = next(filter(None, map(_chain, cluster.labels)), "")
    return (*about, *sizes, labels, flag, cluster.doubt, SEPARATOR.join(cluster.above), chain)


def _chain(place: LabelPlace) -> str:
    return ARROW.join([place.label, *place.hypernyms]) if place.hypernyms else ""
