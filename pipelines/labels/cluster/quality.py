"""How good a clustering is, in numbers: sizes, inertia, silhouette, clusters that lie close, labels that lie apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .agreement_measures import against
from .clustering import silhouette, unit_centers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .proposing import Embedding, Proposal

_MOST_PAIRS, _MOST_OUTLIERS = 20, 50


def measure_quality(
    proposal: Proposal, embedding: Embedding, *, references: Mapping[str, Mapping[str, str]] | None = None
) -> dict[str, Any]:
    """A report, JSON-able.

    ``inertia`` is the sum over labels of 1 − cosine to their cluster's center. ``nearest_pairs`` are the 20 pairs of
    clusters whose centers are nearest. ``outliers`` are labels whose cosine lies below the first quartile by more than
    1.5 interquartile ranges (Tukey), the farthest first, at most 50.

    Args:
        proposal: the clusters.
        embedding: of the labels.
        references: class of each label, by the name of the reference.

    Raises:
        TableError: a reference knows none of the labels.
    """
    number_of = {place.label: number for number, cluster in enumerate(proposal.clusters) for place in cluster.labels}
    assignment = np.array([number_of[label] for label in embedding.labels])
    centers = unit_centers(embedding.vectors, assignment, np.ones(len(assignment)))
    similarity = (embedding.vectors * centers[assignment]).sum(axis=1).astype(np.float64)
    names = [cluster.name for cluster in proposal.clusters]
    return {
        "labels": len(assignment),
        "clusters": len(names),
        "landmarks": sum(cluster.landmarks for cluster in proposal.clusters),
        "labels_a_cluster": _spread([len(cluster.labels) for cluster in proposal.clusters]),
        "landmarks_a_cluster": _spread([cluster.landmarks for cluster in proposal.clusters]),
        "inertia": round(float((1 - similarity).sum()), 4),
        "silhouette": round(silhouette(embedding.vectors, assignment), 4),
        "nearest_pairs": _nearest_pairs(centers, names),
        "outliers": _outliers(embedding.labels, similarity, [names[number] for number in assignment]),
        "references": {name: against(classes, number_of) for name, classes in (references or {}).items()},
    }


def _spread(sizes: list[int]) -> dict[str, float]:
    return {"least": min(sizes), "median": float(np.median(sizes)), "most": max(sizes)}


def _nearest_pairs(centers: NDArray[np.float32], names: list[str]) -> list[dict[str, Any]]:
    one, other = np.triu_indices(len(centers), k=1)
    cosines = (centers @ centers.T)[one, other].astype(np.float64)
    nearest = np.argsort(-cosines, kind="stable")[:_MOST_PAIRS]
    return [
        {"clusters": [names[one[pair]], names[other[pair]]], "cosine": round(float(cosines[pair]), 4)}
        for pair in nearest
    ]


def _outliers(labels: tuple[str, ...], similarity: NDArray[np.float64], clusters: list[str]) -> list[dict[str, Any]]:
    low, high = np.quantile(similarity, [0.25, 0.75])
    far = np.flatnonzero(similarity < low - 1.5 * (high - low))
    farthest = far[np.argsort(similarity[far], kind="stable")][:_MOST_OUTLIERS]
    return [
        {"label": labels[place], "cluster": clusters[place], "cosine": round(float(similarity[place]), 4)}
        for place in farthest
    ]
