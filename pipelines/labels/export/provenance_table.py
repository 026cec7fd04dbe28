"""``provenance.parquet``: for every landmark how its label came about, from the page asked to what people decided.

One row per landmark, kept or dropped. ``review`` says what people made of the proposal: ``as proposed``, or one or more
of ``cluster renamed``, ``label moved`` and ``kind changed``, or ``irrelevant``; it is empty where nobody reviewed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hiertree.io.files import replacing

from ..clean.rules import DroppedLandmark, KeptLandmark
from ..cluster.proposing import Cluster, Proposal
from ..landmarks import Origin
from .tables import HierarchicalRow

PROVENANCE = "provenance.parquet"
_LISTS = ("labels", "label_ids", "above")
_TEXTS = ("category", "status", "reason", "hierarchical_label", "natural_or_human_made", "label_source")
_PROPOSED = ("proposed_label", "proposed_kind", "review")
_ORIGIN = ("wikidata_item", *Origin._fields[1:-1], "scrape_reason")


def provenance_rows(
    rows: Iterable[HierarchicalRow],
    kept: Iterable[KeptLandmark],
    dropped: Iterable[DroppedLandmark],
    *,
    final: Proposal,
    proposed: Proposal,
    is_reviewed: bool,
) -> Iterator[dict[str, Any]]:
    """One row per landmark: those kept in their order, then those dropped.

    Args:
        rows: places in the hierarchy, one a landmark kept.
        kept: the same landmarks.
        dropped: the others.
        final: the clusters of ``rows``.
        proposed: those before the review.
        is_reviewed: whether there was one.
    """
    number_of = {cluster.name: number for number, cluster in enumerate(final.clusters)}
    before = proposed.cluster_of()
    for row, landmark in zip(rows, kept, strict=True):
        number = number_of[row.hierarchical_label]
        cluster, first = final.clusters[number], before[_first_label(landmark, final.clusters[number])]
        yield {
            "status": "kept",
            **_about(landmark),
            "labels": list(landmark.labels),
            "label_ids": list(landmark.item_ids),
            "label_source": "scraped" if landmark.confidence is None else "images",
            "confidence": landmark.confidence,
            "cluster": number,
            "hierarchical_label": cluster.name,
            "natural_or_human_made": cluster.kind,
            "above": list(cluster.above),
            "proposed_label": first.name,
            "proposed_kind": first.kind,
            "review": _action(cluster, first) if is_reviewed else None,
        }
    for drop in dropped:
        review = "irrelevant" if drop.reason == "irrelevant label" else None
        yield {
            "status": "dropped",
            **_about(drop),
            "reason": drop.reason,
            "labels": list(drop.values),
            "review": review,
        }


def write_provenance(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write rows as Parquet, whole or not at all; what a row does not say is null."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts, lists = pa.string(), pa.list_(pa.string())
    fields = [("landmark_id", pa.int64()), *((name, texts) for name in _TEXTS), *((name, lists) for name in _LISTS)]
    fields += [("cluster", pa.int32()), ("confidence", pa.float64())]
    fields += [(name, texts) for name in (*_PROPOSED, *_ORIGIN)]
    table = pa.Table.from_pylist(list(rows), schema=pa.schema(fields))
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def _about(landmark: KeptLandmark | DroppedLandmark) -> dict[str, Any]:
    origin = {name: text or None for name, text in zip(_ORIGIN, landmark.origin, strict=True)}
    return {"landmark_id": landmark.landmark_id, "category": landmark.category, **origin}


def _first_label(landmark: KeptLandmark, cluster: Cluster) -> str:
    """The landmark's first label that lies in the cluster."""
    inside = {place.label for place in cluster.labels}
    return next(label for label in landmark.labels if label in inside)


def _action(final: Cluster, proposed: Cluster) -> str:
    same_labels = {place.label for place in final.labels} == {place.label for place in proposed.labels}
    moved = "cluster renamed" if same_labels else "label moved"
    actions = [moved] if final.name != proposed.name else []
    actions += ["kind changed"] if final.kind != proposed.kind else []
    return ", ".join(actions) or "as proposed"
