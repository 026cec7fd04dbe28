"""The hierarchical table in GLDv2's published columns, the label tree that it describes, and ``provenance.parquet``.

The provenance has one row per landmark, kept or dropped: how its label came about, from the page asked to what people
decided. ``review`` says what they made of the proposal: ``as proposed``, one or more of ``cluster renamed``, ``label
moved`` and ``kind changed``, or ``irrelevant``; it is empty where nobody reviewed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hiertree.errors import TableError
from hiertree.io.files import AnyPath, replacing
from hiertree.tree import H_GLDV2_LEVELS, LabelTree
from hiertree.tree.formats import as_integers
from hiertree.tree.label_rows import Numbered, check_rows, number_nodes

from ..cluster.proposal_files import cluster_of_most
from ..cluster.proposing import Cluster, Proposal
from ..landmarks import SEPARATOR, DroppedLandmark, KeptLandmark, Origin

HIERARCHICAL, TREE, EXPORTED = "hierarchical.csv", "tree.json", "exported"
PROVENANCE = "provenance.parquet"
_ROWS_AT_ONCE = 20_000
_LISTS = ("labels", "label_ids", "above")
_TEXTS = ("category", "status", "reason", "scraped", "hierarchical_label", "natural_or_human_made", "label_source")
_PROPOSED = ("proposed_label", "proposed_kind", "review")
_ORIGIN = ("wikidata_item", *Origin._fields[1:-1], "scrape_reason")


class HierarchicalRow(NamedTuple):
    """A row of GLDv2's ``*_label_to_hierarchical.csv``; ``supercategory`` is the "instance of" label."""

    landmark_id: str
    category: str
    supercategory: str
    hierarchical_label: str
    natural_or_human_made: str


class Exported(NamedTuple):
    """What was exported."""

    proposal: Proposal  # the clusters, as people left them
    proposed: Proposal  # as they were before
    tree: LabelTree  # kind → groups above, if any → supercategory → landmark
    report: dict[str, Any]  # the counts
    kept: list[KeptLandmark]  # without the labels that people marked irrelevant
    clusters: list[Cluster]  # theirs
    dropped: list[DroppedLandmark]  # as before, and those that had no other label
    either: frozenset[str]  # the labels that people found natural as well as human-made
    folder: Path = Path()  # where the files are


def label_tree(landmarks: Sequence[str], clusters: Sequence[Cluster]) -> LabelTree:
    """Kind → groups above, if any → supercategory → landmark; ``clusters`` are those of the landmarks.

    Without groups, the same as ``LabelTree.from_csv`` reads from the published columns.
    """
    import pandas as pd

    coarsest, *finer_levels = H_GLDV2_LEVELS
    groups = (f"group_{depth}" for depth in range(1, len(clusters[0].above) + 1))
    place, _ = pd.factorize(np.array([cluster.name for cluster in clusters], dtype=object))
    distinct_clusters = {cluster.name: cluster for cluster in clusters}.values()
    rows = [(cluster.kind, *cluster.above, cluster.name) for cluster in distinct_clusters]
    upper_levels = number_nodes(*check_rows(rows, repeats="error", leaf="path", row_name=lambda row: f"cluster {row}"))
    leaves = list(as_integers(landmarks))
    paths = np.column_stack([upper_levels.paths[place], np.arange(len(leaves), dtype=np.int32)])
    return LabelTree(Numbered(leaves, paths, [*upper_levels.labels, leaves]), [coarsest, *groups, *finer_levels])


def export_folder(path: AnyPath) -> Path:
    """The folder of an export: the folder itself, or ``exported`` in a folder made by ``labels build``."""
    subfolder = Path(path) / EXPORTED
    return subfolder if subfolder.is_dir() else Path(path)


def hierarchical_table(path: AnyPath) -> Path:
    """The file itself, or the one hierarchical table of an export."""
    if not Path(path).is_dir():
        return Path(path)
    folder = export_folder(path)
    tables = sorted(folder.glob(f"*{HIERARCHICAL}"))
    if len(tables) != 1:
        expected = "one, as in a folder made by 'hiertree labels export'"
        raise TableError(f"{folder} holds {len(tables)} files *{HIERARCHICAL}", expected=expected)
    return tables[0]


def provenance_rows(exported: Exported) -> Iterator[dict[str, Any]]:
    """One row per landmark: those kept in their order, then those dropped."""
    final, proposed_cluster_of = exported.proposal, exported.proposed.cluster_of()
    cluster_of, number_of = final.cluster_of(), {cluster.name: number for number, cluster in enumerate(final.clusters)}

    @cache  # most landmarks share their labels
    def placed(labels: tuple[str, ...]) -> dict[str, Any]:
        cluster = cluster_of_most(labels, cluster_of)
        first = proposed_cluster_of[next(label for label in labels if cluster_of[label] is cluster)]
        return {
            "cluster": number_of[cluster.name],
            "hierarchical_label": cluster.name,
            "natural_or_human_made": cluster.kind,
            "above": list(cluster.above),
            "proposed_label": first.name,
            "proposed_kind": first.kind,
            "review": _action(cluster, first) if "review" in exported.report else None,
        }

    for landmark in exported.kept:
        yield {
            "status": "kept",
            **_about(landmark),
            "labels": list(landmark.labels),
            "scraped": landmark.scraped or None,
            "label_ids": list(landmark.item_ids),
            "label_source": "scraped" if landmark.confidence is None else "images",
            "confidence": landmark.confidence,
            **placed(landmark.labels),
        }
    for drop in exported.dropped:
        fields = {"status": "dropped", "reason": drop.reason, "labels": list(drop.values)}
        yield {**_about(drop), **fields, "review": "irrelevant" if drop.reason == "irrelevant label" else None}


def write_provenance(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write rows as Parquet, in parts, whole or not at all; what a row does not say is null."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts, lists = pa.string(), pa.list_(pa.string())
    fields = [("landmark_id", texts), *((name, texts) for name in _TEXTS), *((name, lists) for name in _LISTS)]
    fields += [("cluster", pa.int32()), ("confidence", pa.float64())]
    fields += [(name, texts) for name in (*_PROPOSED, *_ORIGIN)]
    schema, left = pa.schema(fields), iter(rows)
    with (
        replacing(path) as temporary,
        temporary.open("wb") as file,  # pyarrow takes no names that are not UTF-8
        pq.ParquetWriter(file, schema, compression="zstd") as writer,
    ):
        while part := list(islice(left, _ROWS_AT_ONCE)):
            writer.write_table(pa.Table.from_pylist(part, schema=schema))


def hierarchical_rows(exported: Exported) -> Iterator[HierarchicalRow]:
    """One row per landmark that was kept, in their order; several labels are joined by ``|``."""
    for landmark, cluster in zip(exported.kept, exported.clusters, strict=True):
        labels = SEPARATOR.join(landmark.labels)
        yield HierarchicalRow(landmark.landmark_id, landmark.category, labels, cluster.name, cluster.kind)


def _about(landmark: KeptLandmark | DroppedLandmark) -> dict[str, Any]:
    origin = {name: text or None for name, text in zip(_ORIGIN, landmark.origin, strict=True)}
    return {"landmark_id": landmark.landmark_id, "category": landmark.category, **origin}


def _action(final: Cluster, proposed: Cluster) -> str:
    same_labels = {place.label for place in final.labels} == {place.label for place in proposed.labels}
    name_change = "cluster renamed" if same_labels else "label moved"
    actions = [name_change] if final.name != proposed.name else []
    actions += ["kind changed"] if final.kind != proposed.kind else []
    return ", ".join(actions) or "as proposed"
