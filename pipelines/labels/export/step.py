"""``hiertree labels export``: a proposal, as it is or as people left it → a data set ready to publish.

docs/labels.md lists the files of the folder. The same folder and review log give the same bytes, the manifest's time
apart.

``provenance.parquet`` has one row per landmark, kept or dropped: how its label came about, from the page asked to what
people decided. ``review`` says what they made of the proposal: ``as proposed``, one or more of ``cluster renamed``,
``label moved`` and ``kind changed``, or ``irrelevant``; it is empty where nobody reviewed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import hiertree
from hiertree.errors import TableError
from hiertree.io.files import AnyPath, replacing, write_json, write_text
from hiertree.io.tables import read_columns, read_table_parts, write_table
from hiertree.tree import H_GLDV2_LEVELS, LabelTree
from hiertree.tree.formats import as_integers
from hiertree.tree.label_rows import Numbered, check_rows, number_nodes

from ...pages import fill_card
from ..cleaning import describe_cleaning, read_report
from ..cluster.proposal_files import (
    CLUSTERS,
    PROPOSAL,
    cluster_of_most,
    read_proposal,
    write_clusters,
    write_labels,
)
from ..cluster.proposing import UNKNOWN, Cluster, Proposal
from ..cluster.step import COMMAND as CLUSTER_COMMAND
from ..cluster.step import describe_proposal
from ..encode.place_nouns import KINDS, NO_LANDMARK
from ..landmark_images import image_column
from ..landmarks import (
    DROPPED,
    LANDMARKS,
    SEPARATOR,
    DroppedLandmark,
    KeptLandmark,
    Origin,
    label_counts,
    note_unmatched,
    read_dropped,
    read_kept,
    relevant,
    write_dropped,
)
from ..review.results import Reviewed, reviewed
from ..settings import ExportSettings
from ..steps import HISTORY, LABELS, REPORT, LabelStep, StepRecord, history_of, hypernyms_of

COMMAND, CARD = "hiertree labels export", "README.md"
_ONE_RUN = f"{PROPOSAL} and {LANDMARKS} of one run"
HIERARCHICAL, TREE, EXPORTED = "hierarchical.csv", "tree.json", "exported"
PROVENANCE = "provenance.parquet"
_ROWS_AT_ONCE = 20_000
_LISTS = ("labels", "label_ids", "above")
_TEXTS = ("category", "status", "reason", "scraped", "hierarchical_label", "natural_or_human_made", "label_source")
_PROPOSED = ("proposed_label", "proposed_kind", "review")
_ORIGIN = ("wikidata_item", *Origin._fields[1:-1], "scrape_reason")
DEFAULTS = ExportSettings()


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
    cluster_indices, _ = pd.factorize(np.array([cluster.name for cluster in clusters], dtype=object))
    distinct_clusters = {cluster.name: cluster for cluster in clusters}.values()
    rows = [(cluster.kind, *cluster.above, cluster.name) for cluster in distinct_clusters]
    upper_levels = number_nodes(*check_rows(rows, repeats="error", leaf="path", row_name=lambda row: f"cluster {row}"))
    leaves = list(as_integers(landmarks))
    paths = np.column_stack([upper_levels.paths[cluster_indices], np.arange(len(leaves), dtype=np.int32)])
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
    cluster_of, index_of = final.cluster_of(), {cluster.name: index for index, cluster in enumerate(final.clusters)}

    @cache  # most landmarks share their labels
    def cluster_fields(labels: tuple[str, ...]) -> dict[str, Any]:
        cluster = cluster_of_most(labels, cluster_of)
        first = proposed_cluster_of[next(label for label in labels if cluster_of[label] is cluster)]
        return {
            "cluster": index_of[cluster.name],
            "hierarchical_label": cluster.name,
            "natural_or_human_made": cluster.kind,
            "above": list(cluster.above),
            "proposed_label": first.name,
            "proposed_kind": first.kind,
            "review": _action(cluster, first, cluster_of.keys()) if "review" in exported.report else None,
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
            **cluster_fields(landmark.labels),
        }
    for drop in exported.dropped:
        fields = {"status": "dropped", "reason": drop.reason, "labels": list(drop.values)}
        yield {**_about(drop), **fields, "review": "irrelevant" if drop.reason == "irrelevant label" else None}


def write_provenance(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write rows as Parquet, in parts, whole or not at all; what a row does not say is null."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    text, texts = pa.string(), pa.list_(pa.string())
    fields = [("landmark_id", text), *((name, text) for name in _TEXTS), *((name, texts) for name in _LISTS)]
    fields += [("cluster", pa.int32()), ("confidence", pa.float64())]
    fields += [(name, text) for name in (*_PROPOSED, *_ORIGIN)]
    schema, remaining_rows = pa.schema(fields), iter(rows)
    with (
        replacing(path) as temporary,
        temporary.open("wb") as file,  # pyarrow takes no names that are not UTF-8
        pq.ParquetWriter(file, schema, compression="zstd") as writer,
    ):
        while batch := list(islice(remaining_rows, _ROWS_AT_ONCE)):
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))


def hierarchical_rows(exported: Exported) -> Iterator[HierarchicalRow]:
    """One row per landmark that was kept, in their order; several labels are joined by ``|``."""
    for landmark, cluster in zip(exported.kept, exported.clusters, strict=True):
        labels = SEPARATOR.join(landmark.labels)
        yield HierarchicalRow(landmark.landmark_id, landmark.category, labels, cluster.name, cluster.kind)


def _about(landmark: KeptLandmark | DroppedLandmark) -> dict[str, Any]:
    origin = {name: text or None for name, text in zip(_ORIGIN, landmark.origin, strict=True)}
    return {"landmark_id": landmark.landmark_id, "category": landmark.category, **origin}


def _action(final: Cluster, proposed: Cluster, labels: Set[str]) -> str:
    """What people did; labels that are left out do not count."""
    same_labels = {member.label for member in final.labels} == {row.label for row in proposed.labels} & labels
    name_change = "cluster renamed" if same_labels else "label moved"
    actions = [name_change] if final.name != proposed.name else []
    actions += ["kind changed"] if final.kind != proposed.kind else []
    return ", ".join(actions) or "as proposed"


def export_step(
    clustered: AnyPath, *, out: AnyPath, review: AnyPath | None = None, settings: ExportSettings = DEFAULTS
) -> Exported:
    """Write the folder.

    Args:
        clustered: a folder made by ``labels cluster``.
        out: the folder to make.
        review: the log of a review.
        settings: how the export is called.
    """
    return ExportStep(clustered, review, settings).run(out)._replace(folder=Path(out))


@dataclass(frozen=True)
class ExportStep(LabelStep[Exported]):
    """The step for the runner."""

    source: AnyPath
    review: AnyPath | None
    settings: ExportSettings
    made_by = CLUSTER_COMMAND
    reads = (PROPOSAL, LANDMARKS, DROPPED, REPORT, HISTORY)

    def record(self) -> StepRecord:
        """The proposal, and the log of its review."""
        reviews = () if self.review is None else (self.review,)
        tables = () if self.settings.image_table is None else (self.settings.image_table,)
        inputs = (*self.read_files, *hypernyms_of(self.source), *reviews, *tables)
        return StepRecord(COMMAND, self.settings.model_dump(include={"split", "keep_unfit"}), inputs)

    def _compute(self) -> Exported:
        proposed = read_proposal(self.source)
        review = Reviewed(proposed, frozenset()) if self.review is None else reviewed(self.source, self.review)
        unfit = {} if self.settings.keep_unfit else _unfit_labels(review.proposal)
        final = _without(review.proposal, unfit.keys())
        landmarks = [relevant(row, review.irrelevant, unfit) for row in read_kept(self.source)]
        kept_landmarks = [landmark for landmark in landmarks if isinstance(landmark, KeptLandmark)]
        dropped = read_dropped(self.source)
        dropped += [landmark for landmark in landmarks if isinstance(landmark, DroppedLandmark)]
        cluster_of, labels = final.cluster_of(), label_counts(kept_landmarks)
        if homeless_labels := [label for label in labels if label not in cluster_of]:
            raise TableError(f"{self.source}: no cluster holds the label {homeless_labels[0]!r}", expected=_ONE_RUN)
        if not kept_landmarks:
            remedy = "--keep-unfit keeps what is marked as no landmark" if unfit else None
            raise TableError(f"{self.source}: no landmark is left", expected=_ONE_RUN, remedy=remedy)
        clusters = [cluster_of_most(landmark.labels, cluster_of) for landmark in kept_landmarks]
        reasons = Counter(drop.reason for drop in dropped)
        report = read_report(self.source) | {"dropped": dict(sorted(reasons.items())), "kept": len(kept_landmarks)}
        from_images = sum(landmark.confidence is not None for landmark in kept_landmarks)
        report |= {"distinct_labels": len(labels), "labeled_from_images": from_images}
        report |= _proposal_report(final, clusters) | ({} if self.review is None else {"review": _counted(review)})
        tree = label_tree([landmark.landmark_id for landmark in kept_landmarks], clusters)
        return Exported(final, proposed, tree, report, kept_landmarks, clusters, dropped, review.either)

    def _write(self, result: Exported, folder: Path) -> None:
        final, tree, report, split = result.proposal, result.tree, result.report, self.settings.split
        hierarchical = f"{split}_label_to_{HIERARCHICAL}" if split else HIERARCHICAL
        write_provenance(folder / PROVENANCE, provenance_rows(result))
        write_table(folder / hierarchical, HierarchicalRow._fields, hierarchical_rows(result))
        tree.to_json(folder / TREE)
        tree.to_csv(folder / "tree.csv")
        write_clusters(folder / CLUSTERS, final, Counter(cluster.name for cluster in result.clusters))
        write_labels(folder / LABELS, final)
        write_dropped(folder / DROPPED, result.dropped)
        write_json(folder / REPORT, report)
        facts = {
            "hierarchical": hierarchical,
            "columns": HierarchicalRow._fields,
            "level_names": tree.level_names,
            "split": split,
            "images": _counted_images(self.settings.image_table, tree.leaves),
            "report": report,
            "history": history_of(self.source),
            "review": report.get("review", {}),
            "version": hiertree.__version__,
            "has_hypernyms": bool(hypernyms_of(self.source)),
        }
        write_text(folder / CARD, fill_card(__package__, facts))


def _unfit_labels(proposal: Proposal) -> dict[str, str]:
    """The labels that are marked as no landmark, each with what it is."""
    members = (member for cluster in proposal.clusters for member in cluster.labels)
    doubts = ((member.label, member.doubt.partition(",")[0].partition(f"{NO_LANDMARK}: ")) for member in members)
    return {label: kind for label, (_, mark, kind) in doubts if mark}


def _without(proposal: Proposal, labels: Set[str]) -> Proposal:
    """The proposal without some labels, and without the clusters that have no others."""
    members = (
        (cluster, tuple(row for row in cluster.labels if row.label not in labels)) for cluster in proposal.clusters
    )
    return replace(proposal, clusters=tuple(replace(cluster, labels=rows) for cluster, rows in members if rows))


def _counted_images(table: Path | None, landmarks: Sequence[Any]) -> dict[str, Any]:
    """The images of a table, and how many of them are of these landmarks."""
    if table is None:
        return {}
    import pyarrow as pa
    import pyarrow.compute as pc

    column = image_column(next(read_table_parts(table)).columns, table)
    rows, kept_ids = read_columns(table, {"landmark_id": "text", column: "text"}), list(map(str, landmarks))
    note_unmatched(pc.unique(rows["landmark_id"]).to_pylist(), kept_ids, source=table.name, target="the landmarks")
    images = pc.split_pattern_regex(pc.utf8_trim_whitespace(rows[column]), r"\s+")
    landmark_ids = rows["landmark_id"].take(pc.list_parent_indices(images))
    pairs = pa.table({"landmark_id": landmark_ids, "image": pc.list_flatten(images)})
    pairs = pairs.filter(pc.not_equal(pairs["image"], "")).group_by(["landmark_id", "image"]).aggregate([])
    num_kept = pc.sum(pc.is_in(pairs["landmark_id"], value_set=pa.array(kept_ids, pa.string()))).as_py() or 0
    return {"table": table.name, "read": len(pairs), "kept": num_kept}


def describe_exported(exported: Exported, *, clusters: bool = False) -> str:
    """The counts, and on request the clusters."""
    report = exported.report
    summary, *cluster_lines = describe_proposal(exported.proposal).splitlines()
    lines = [describe_cleaning(report), summary, *(cluster_lines if clusters else [])]
    if guesses := report["kinds_guessed"]:
        remedy = "--reader reads other languages, a review settles them"
        lines.append(f"labels of unknown words, whose kind is a guess: {guesses} ('unknown' in {LABELS}); {remedy}")
    if "review" in report:
        counts = report["review"]
        marks = f"; of either kind: {counts['either']}" if counts["either"] else ""
        lines.append(f"reviewed: {counts['events']} actions; irrelevant labels: {counts['irrelevant']}{marks}")
        lines += [counts["sample"]["text"]] if "sample" in counts else []
        if "torn_bytes" in counts:
            lines.append(f"the log's last line is incomplete: its {counts['torn_bytes']} bytes do not count")
    return "\n".join(lines)


def _counted(review: Reviewed) -> dict[str, Any]:
    """The counts of a review."""
    counts: dict[str, Any] = {
        "events": review.events,
        "approved": review.approved,
        "irrelevant": len(review.irrelevant),
    }
    counts["either"] = len(review.either)
    sample: dict[str, Any] = {}
    if review.sample is not None:
        facts = {"checked": review.sample.checked, "wrong": review.sample.wrong, "certain": review.sample.certain}
        at_most = {"at_most": round(review.sample.bound, 4)} if review.sample.is_complete else {}
        sample = {"sample": {**facts, **at_most, "text": str(review.sample)}}
    return counts | ({"torn_bytes": review.torn} if review.torn else {}) | sample


def _proposal_report(proposal: Proposal, clusters_of_landmarks: Sequence[Cluster]) -> dict[str, Any]:
    """Clusters, doubts, and clusters and landmarks of each kind."""
    clusters = proposal.clusters
    cluster_counts = Counter(cluster.kind for cluster in clusters)
    landmark_counts = Counter(cluster.kind for cluster in clusters_of_landmarks)
    doubts = [member.doubt.split(", ") for cluster in clusters for member in cluster.labels if member.doubt]
    return {
        "clusters": len(clusters),
        "clusters_in_doubt": sum(bool(cluster.doubt) for cluster in clusters),
        "labels_in_doubt": len(doubts),
        "kinds_guessed": sum(reasons[-1].startswith(UNKNOWN) for reasons in doubts),
        "kinds": {kind: {"clusters": cluster_counts[kind], "landmarks": landmark_counts[kind]} for kind in KINDS},
        "silhouette_by_k": {str(k): round(score, 4) for k, score in proposal.silhouettes.items()},
    }
