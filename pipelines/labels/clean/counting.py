"""How many: the counts of the paper's Sec. VI-A, for reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from ..cluster.proposing import Proposal
from ..encode.phrases import KINDS
from ..export.tables import Row
from .rules import Cleaned, KeptLandmark


def label_counts(kept: Iterable[KeptLandmark]) -> Counter[str]:
    """Distinct labels, and how many landmarks carry each."""
    return Counter(label for landmark in kept for label in landmark.labels)


def cleaning_report(cleaned: Cleaned, *, strangers: int) -> dict[str, Any]:
    """Landmarks read, with a label, dropped by reason, kept; distinct labels.

    Args:
        cleaned: what cleaning made of them.
        strangers: scraped ids that are no landmark's.
    """
    reasons = Counter(drop.reason for drop in cleaned.dropped)
    landmarks = len(cleaned.kept) + len(cleaned.dropped)
    said = Counter(drop.origin.reason for drop in cleaned.dropped if drop.reason == "no label" and drop.origin.reason)
    return {
        "landmarks": landmarks,
        "scraped": landmarks - reasons["not scraped"],
        "with_label": landmarks - reasons["not scraped"] - reasons["no label"],
        "dropped": dict(sorted(reasons.items())),
        "no_label_because": dict(sorted(said.items())),
        "kept": len(cleaned.kept),
        "distinct_labels": len(label_counts(cleaned.kept)),
        "scraped_ids_without_landmark": strangers,
        "mended_labels": cleaned.mended,
    }


def proposal_report(proposal: Proposal, rows: Sequence[Row]) -> dict[str, Any]:
    """Clusters, doubts, and clusters and landmarks of each kind.

    Args:
        proposal: the clusters.
        rows: the landmarks in them.
    """
    clusters = proposal.clusters
    return {
        "clusters": len(clusters),
        "clusters_in_doubt": sum(bool(cluster.doubt) for cluster in clusters),
        "labels_in_doubt": sum(bool(place.doubt) for cluster in clusters for place in cluster.labels),
        "kinds": {
            kind: {
                "clusters": sum(cluster.kind == kind for cluster in clusters),
                "landmarks": sum(row.natural_or_human_made == kind for row in rows),
            }
            for kind in KINDS
        },
        "silhouette_by_k": {str(k): round(score, 4) for k, score in proposal.silhouettes.items()},
    }
