"""Measures of a clustering's quality, and of the agreement of two groupings of the same things.

>>> agreement([0, 0, 1, 1], ["lake", "lake", "church", "lake"])["purity"]
0.75
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiertree.errors import ShapeError, TableError
from hiertree.io.tables import read_table

from ..settings import split_reference
from ..texts import normalize_label
from .clustering import silhouettes, unit_centers
from .embedding import Embedding
from .proposing import Proposal

_MOST_PAIRS, _MOST_OUTLIERS = 20, 50


def agreement(groups: Sequence[Hashable], reference: Sequence[Hashable]) -> dict[str, float]:
    """Measures of agreement between a grouping and a reference, rounded to 4 digits.

    Returns:
        ``ari``, the adjusted Rand index (0 by chance, 1 at best; Hubert & Arabie 1985); ``nmi``, mutual information
        over the mean of the entropies; ``homogeneity``, ``completeness`` and ``v_measure``, their harmonic mean, which
        equals ``nmi`` (Rosenberg & Hirschberg 2007); ``purity``, the share of things that are of their group's
        commonest class.
    """
    import pandas as pd
    from sklearn.metrics import adjusted_rand_score, homogeneity_completeness_v_measure, normalized_mutual_info_score
    from sklearn.metrics.cluster import contingency_matrix

    if len(groups) != len(reference) or not groups:
        raise ShapeError(f"{len(groups)} groups for {len(reference)} classes", expected="as many groups as classes")
    sides: tuple[Any, Any] = groups, reference
    group_codes, class_codes = (pd.Series(side, dtype=object).factorize()[0] for side in sides)
    homogeneity, completeness, v_measure = homogeneity_completeness_v_measure(class_codes, group_codes)
    values = {
        "ari": adjusted_rand_score(class_codes, group_codes),
        "nmi": normalized_mutual_info_score(class_codes, group_codes),
        "homogeneity": homogeneity,
        "completeness": completeness,
        "v_measure": v_measure,
        "purity": contingency_matrix(class_codes, group_codes).max(axis=0).sum() / len(group_codes),
    }
    return {name: round(float(value), 4) for name, value in values.items()}


def read_reference(spec: str | Path) -> tuple[str, dict[str, str]]:
    """A column of a table that says the class of labels, for comparison.

    Returns:
        ``TABLE:column`` with the table's bare name, and the class of each label (normalized, case folded).
    """
    path, column = split_reference(spec)
    table = read_table(path, required=["label", column])
    votes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for label, answer in zip(table["label"], table[column], strict=True):
        if label.strip() and answer.strip():
            votes[normalize_label(label).casefold()][answer.strip()] += 1
    if not votes:
        raise TableError(f"{path}: no label with a {column}", expected="at least one")
    class_of = {label: min(counts, key=lambda name: (-counts[name], name)) for label, counts in votes.items()}
    return f"{path.name}:{column}", class_of


def measure_agreement(reference: Mapping[str, str], cluster_of: Mapping[str, Hashable]) -> dict[str, float]:
    """Agreement of clusters with a reference, over the labels that both know, and how many these are."""
    shared_labels = [label for label in cluster_of if label.casefold() in reference]
    if not shared_labels:
        raise TableError("a reference that knows none of the labels", expected="labels in common")
    classes = [reference[label.casefold()] for label in shared_labels]
    measures = agreement([cluster_of[label] for label in shared_labels], classes)
    return {"labels": len(shared_labels), "classes": len(set(classes)), **measures}


def measure_quality(
    proposal: Proposal, embedding: Embedding, *, references: Mapping[str, Mapping[str, str]] | None = None
) -> dict[str, Any]:
    """A report, JSON-able.

    ``silhouette`` is the mean over labels by cosine; None for one cluster, or one for each label. ``inertia`` is the
    sum over labels of 1 − cosine to their cluster's center. ``nearest_pairs`` are the 20 pairs of clusters whose
    centers are nearest. ``outliers`` are labels whose cosine lies below the first quartile by more than 1.5
    interquartile ranges (Tukey), the farthest first, at most 50.
    """
    number_of = {place.label: number for number, cluster in enumerate(proposal.clusters) for place in cluster.labels}
    assignment = np.array([number_of[label] for label in embedding.labels])
    centers = unit_centers(embedding.vectors, assignment, np.ones(len(assignment)))
    similarity = (embedding.vectors * centers[assignment]).sum(axis=1).astype(np.float64)
    names = [cluster.name for cluster in proposal.clusters]
    has_silhouette = 2 <= len(names) < len(assignment)
    return {
        "labels": len(assignment),
        "clusters": len(names),
        "landmarks": sum(cluster.landmarks for cluster in proposal.clusters),
        "labels_a_cluster": _spread([len(cluster.labels) for cluster in proposal.clusters]),
        "landmarks_a_cluster": _spread([cluster.landmarks for cluster in proposal.clusters]),
        "inertia": round(float((1 - similarity).sum()), 4),
        "silhouette": round(float(silhouettes(embedding.vectors, assignment).mean()), 4) if has_silhouette else None,
        "nearest_pairs": _nearest_pairs(centers, names),
        "outliers": _outliers(embedding.labels, similarity, [names[number] for number in assignment]),
        "references": {name: measure_agreement(classes, number_of) for name, classes in (references or {}).items()},
    }


def _spread(sizes: list[int]) -> dict[str, float]:
    return {"least": min(sizes), "median": float(np.median(sizes)), "most": max(sizes)}


def _nearest_pairs(centers: NDArray[np.float32], names: list[str]) -> list[dict[str, Any]]:
    rows, columns = np.triu_indices(len(centers), k=1)
    cosines = (centers @ centers.T)[rows, columns].astype(np.float64)
    nearest = np.argsort(-cosines, kind="stable")[:_MOST_PAIRS]
    pairs = zip(rows[nearest], columns[nearest], cosines[nearest].tolist(), strict=True)
    return [{"clusters": [names[a], names[b]], "cosine": round(cosine, 4)} for a, b, cosine in pairs]


def _outliers(labels: tuple[str, ...], similarity: NDArray[np.float64], clusters: list[str]) -> list[dict[str, Any]]:
    low, high = np.quantile(similarity, [0.25, 0.75])
    outlier_rows = np.flatnonzero(similarity < low - 1.5 * (high - low))
    farthest = outlier_rows[np.argsort(similarity[outlier_rows], kind="stable")][:_MOST_OUTLIERS]
    entries = ((labels[row], clusters[row], round(float(similarity[row]), 4)) for row in farthest)
    return [{"label": label, "cluster": cluster, "cosine": cosine} for label, cluster, cosine in entries]
