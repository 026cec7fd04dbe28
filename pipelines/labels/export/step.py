"""``hiertree labels export``: a proposal, as it is or as people left it → a data set ready to publish.

docs/labels.md lists the files of the folder. The same folder and review log give the same bytes, the manifest's time
apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

import hiertree
from hiertree.errors import TableError
from hiertree.io.files import AnyPath, write_json, write_text
from hiertree.io.tables import read_columns, read_table_parts, write_table

from ...pages import markdown_code
from ..cleaning import describe_cleaning, read_report
from ..cluster.proposal_files import (
    CLUSTERS,
    PROPOSAL,
    cluster_of_most,
    read_proposal,
    write_clusters,
    write_labels,
)
from ..cluster.proposing import Cluster, Proposal
from ..cluster.step import COMMAND as CLUSTER_COMMAND
from ..cluster.step import describe_proposal
from ..encode.place_nouns import KINDS
from ..landmark_images import image_column
from ..landmarks import (
    DROPPED,
    LANDMARKS,
    DroppedLandmark,
    KeptLandmark,
    label_counts,
    read_dropped,
    read_kept,
    relevant,
    write_dropped,
)
from ..review.results import Reviewed, reviewed
from ..steps import HISTORY, LABELS, REPORT, LabelStep, Settings, StepRecord, history_of, hypernyms_of, option
from .tables import (
    HIERARCHICAL,
    PROVENANCE,
    TREE,
    Exported,
    HierarchicalRow,
    hierarchical_rows,
    label_tree,
    provenance_rows,
    write_provenance,
)

COMMAND, CARD = "hiertree labels export", "README.md"
_ONE_RUN = f"{PROPOSAL} and {LANDMARKS} of one run"


class ExportSettings(Settings):
    """The name of the exported table, and the images that the data card counts."""

    split: str = option(
        "", "Call the table SPLIT_label_to_hierarchical.csv, as GLDv2 does.", pattern=r"^[A-Za-z0-9_-]*$"
    )
    image_table: Path | None = option(None, "CSV of image ids and landmark_id, whose images the data card counts.")


DEFAULTS = ExportSettings()


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
        return StepRecord(COMMAND, self.settings.model_dump(include={"split"}), inputs)

    def _compute(self) -> Exported:
        proposed = read_proposal(self.source)
        review = Reviewed(proposed, frozenset()) if self.review is None else reviewed(self.source, self.review)
        final, landmarks = review.proposal, [relevant(row, review.irrelevant) for row in read_kept(self.source)]
        kept = [landmark for landmark in landmarks if isinstance(landmark, KeptLandmark)]
        dropped = read_dropped(self.source)
        dropped += [landmark for landmark in landmarks if isinstance(landmark, DroppedLandmark)]
        cluster_of, labels = final.cluster_of(), label_counts(kept)
        if homeless_labels := [label for label in labels if label not in cluster_of]:
            raise TableError(f"{self.source}: no cluster holds the label {homeless_labels[0]!r}", expected=_ONE_RUN)
        if not kept:
            raise TableError(f"{self.source}: no landmark is left", expected=_ONE_RUN)
        clusters = [cluster_of_most(landmark.labels, cluster_of) for landmark in kept]
        reasons = Counter(drop.reason for drop in dropped)
        report = read_report(self.source) | {"dropped": dict(sorted(reasons.items())), "kept": len(kept)}
        from_images = sum(landmark.confidence is not None for landmark in kept)
        report |= {"distinct_labels": len(labels), "labeled_from_images": from_images}
        report |= _proposal_report(final, clusters) | ({} if self.review is None else {"review": _counted(review)})
        tree = label_tree([landmark.landmark_id for landmark in kept], clusters)
        return Exported(final, proposed, tree, report, kept, clusters, dropped, review.either)

    def _write(self, result: Exported, folder: Path) -> None:
        final, tree, report, split = result.proposal, result.tree, result.report, self.settings.split
        hierarchical = f"{split}_label_to_{HIERARCHICAL}" if split else HIERARCHICAL
        write_provenance(folder / PROVENANCE, provenance_rows(result))
        write_table(folder / hierarchical, HierarchicalRow._fields, hierarchical_rows(result))
        tree.to_json(folder / TREE)
        tree.to_csv(folder / "tree.csv")
        tree.to_graphml(folder / "tree.graphml")
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
        write_text(folder / CARD, _card(facts))


def _counted_images(table: Path | None, landmarks: Sequence[Any]) -> dict[str, Any]:
    """The images of a table, and how many of them are of these landmarks."""
    if table is None:
        return {}
    import pyarrow as pa
    import pyarrow.compute as pc

    column = image_column(next(read_table_parts(table)).columns, table)
    rows = read_columns(table, {"landmark_id": "text", column: "text"})
    is_kept = pc.is_in(rows["landmark_id"], value_set=pa.array(map(str, landmarks), pa.string()))
    if column == "images":
        counts = pc.count_substring_regex(rows[column], r"\S+")
    else:
        counts = pa.array(np.ones(len(rows), dtype=np.int64))
    all_images, kept_images = (pc.sum(numbers).as_py() or 0 for numbers in (counts, pc.filter(counts, is_kept)))
    return {"table": table.name, "read": all_images, "kept": kept_images}


def _card(facts: Mapping[str, Any]) -> str:
    """The data card, in Markdown: ``card.md`` filled in."""
    from jinja2 import Environment, StrictUndefined

    source = files(__package__).joinpath("card.md").read_text(encoding="utf-8")
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)  # noqa: S701  (Markdown)
    environment.filters["code"] = markdown_code
    text: str = environment.from_string(source).render(facts)
    return text.rstrip() + "\n"


def describe_exported(exported: Exported, *, clusters: bool = False) -> str:
    """The counts, and on request the clusters."""
    report = exported.report
    summary, *cluster_lines = describe_proposal(exported.proposal).splitlines()
    lines = [describe_cleaning(report), summary, *(cluster_lines if clusters else [])]
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
        sample = {"sample": {**facts, "at_most": round(review.sample.bound, 4), "text": str(review.sample)}}
    return counts | ({"torn_bytes": review.torn} if review.torn else {}) | sample


def _proposal_report(proposal: Proposal, clusters_of_landmarks: Sequence[Cluster]) -> dict[str, Any]:
    """Clusters, doubts, and clusters and landmarks of each kind."""
    clusters = proposal.clusters
    cluster_counts = Counter(cluster.kind for cluster in clusters)
    landmark_counts = Counter(cluster.kind for cluster in clusters_of_landmarks)
    return {
        "clusters": len(clusters),
        "clusters_in_doubt": sum(bool(cluster.doubt) for cluster in clusters),
        "labels_in_doubt": sum(bool(place.doubt) for cluster in clusters for place in cluster.labels),
        "kinds": {kind: {"clusters": cluster_counts[kind], "landmarks": landmark_counts[kind]} for kind in KINDS},
        "silhouette_by_k": {str(k): round(score, 4) for k, score in proposal.silhouettes.items()},
    }
