"""``hiertree labels export``: a proposal, as it is or as people left it → a data set ready to publish.

The folder holds the hierarchical table in GLDv2's published columns, the tree (JSON, CSV, GraphML), the provenance of
every landmark (Parquet), ``clusters.csv``, ``labels.csv``, ``hypernyms.csv`` where they are known, ``dropped.csv``,
``report.json``, ``history.json``, a data card (``README.md``) and ``manifest.json``. The same folder and review log
give the same bytes, the manifest's time apart.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

import hiertree
from hiertree.errors import TableError
from hiertree.io.files import write_json, write_text
from hiertree.io.tables import write_table
from hiertree.tree import LabelTree

from ..clean.landmark_file import DROPPED, LANDMARKS, read_dropped, read_kept, write_dropped
from ..clean.rules import DroppedLandmark, KeptLandmark, label_counts, relevant
from ..clean.step import describe_cleaning, read_report
from ..cluster.cluster_tables import CLUSTERS, write_clusters, write_labels
from ..cluster.proposal_file import PROPOSAL, read_proposal
from ..cluster.proposing import Proposal
from ..cluster.step import COMMAND as CLUSTER_COMMAND
from ..cluster.step import describe_proposal
from ..encode.phrases import KINDS
from ..folders import HISTORY, LABELS, REPORT, AnyPath, StepRecord, history_of, hypernyms_of, made_by
from ..review import reviewed
from ..settings import Settings
from .data_card import CARD, fill_card
from .provenance_table import PROVENANCE, provenance_rows, write_provenance
from .tables import HIERARCHICAL, TREE, HierarchicalRow, hierarchical_rows, label_tree

COMMAND = "hiertree labels export"
READ = (PROPOSAL, LANDMARKS, DROPPED, REPORT, HISTORY)


class ExportSettings(Settings):
    """How the export is called."""

    split: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9_-]*$", description="Call the table SPLIT_label_to_hierarchical.csv, as GLDv2 does."
        ),
    ] = ""


DEFAULTS = ExportSettings()


@dataclass(frozen=True)
class Exported:
    """What was exported.

    Attributes:
        folder: where the files are.
        proposal: the clusters, as people left them.
        tree: kind → groups above, if any → supercategory → landmark.
        report: the counts.
    """

    folder: Path
    proposal: Proposal
    tree: LabelTree
    report: dict[str, Any]


def export_step(
    clustered: AnyPath, *, out: AnyPath, review: AnyPath | None = None, settings: ExportSettings = DEFAULTS
) -> Exported:
    """Write the folder.

    Args:
        clustered: a folder made by ``labels cluster``.
        out: the folder to make.
        review: the log of a review or of an adjudication.
        settings: how the export is called.

    Raises:
        TableError: ``clustered`` is no such folder, or its files do not fit together.
        ReviewError: the log is damaged, of another proposal, or leaves no label.
        OptionError: ``out`` holds other files.
    """
    source = made_by(clustered, command=CLUSTER_COMMAND, files=READ)
    record = export_record(source, review=review, settings=settings)
    record.check(out)
    proposed = read_proposal(source)
    final, irrelevant, review_counts = _reviewed(source, proposed, review)
    kept, dropped = relevant(read_kept(source), irrelevant)
    dropped = [*read_dropped(source), *dropped]
    _check_labels(kept, final, source)
    rows = hierarchical_rows(kept, final)
    report = _report(source, kept, dropped, final, rows) | ({"review": review_counts} if review_counts else {})
    tree = label_tree(rows, final)
    history = history_of(source)
    split = settings.split
    hierarchical = f"{split}_label_to_{HIERARCHICAL}" if split else HIERARCHICAL
    with record.writing(out) as folder:
        write_table(folder / hierarchical, HierarchicalRow._fields, rows)
        tree.to_json(folder / TREE)
        tree.to_csv(folder / "tree.csv")
        tree.to_graphml(folder / "tree.graphml")
        origins = provenance_rows(rows, kept, dropped, final=final, proposed=proposed, is_reviewed=bool(review_counts))
        write_provenance(folder / PROVENANCE, origins)
        write_clusters(folder / CLUSTERS, final, kept)
        write_labels(folder / LABELS, final)
        write_dropped(folder / DROPPED, dropped)
        write_json(folder / REPORT, report)
        write_json(folder / HISTORY, history)
        facts = {
            "hierarchical": hierarchical,
            "columns": HierarchicalRow._fields,
            "level_names": tree.level_names,
            "split": split,
            "report": report,
            "history": history,
            "review": review_counts,
            "version": hiertree.__version__,
            "has_hypernyms": bool(hypernyms_of(source)),
        }
        write_text(folder / CARD, fill_card(facts))
        for file in hypernyms_of(source):
            shutil.copy(file, folder)
    return Exported(Path(out), final, tree, report)


def export_record(clustered: AnyPath, *, review: AnyPath | None, settings: ExportSettings) -> StepRecord:
    """What :func:`export_step` makes its folder from."""
    read = (*(Path(clustered) / name for name in READ), *hypernyms_of(clustered))
    return StepRecord(COMMAND, settings.model_dump(), read if review is None else (*read, review))


def describe_exported(exported: Exported, *, clusters: bool = False) -> str:
    """The counts, and on request the clusters."""
    report = exported.report
    summary, *listed = describe_proposal(exported.proposal).splitlines()
    lines = [describe_cleaning(report), summary, *(listed if clusters else [])]
    if "review" in report:
        counts = report["review"]
        lines.append(f"reviewed: {counts['events']} actions, {counts['irrelevant']} labels irrelevant")
        if "torn_bytes" in counts:
            lines.append(f"the log ends within an action: its last {counts['torn_bytes']} bytes do not count")
    return "\n".join(lines)


def _reviewed(source: Path, proposed: Proposal, log: AnyPath | None) -> tuple[Proposal, frozenset[str], dict[str, Any]]:
    """The clusters as people left them, the labels they marked irrelevant, and the counts of the review."""
    if log is None:
        return proposed, frozenset(), {}
    found = reviewed(source, log)
    counts = {"events": found.events, "approved": found.approved, "irrelevant": len(found.irrelevant)}
    counts |= {"torn_bytes": found.torn} if found.torn else {}
    return found.proposal, found.irrelevant, counts


def _check_labels(kept: Sequence[KeptLandmark], final: Proposal, source: Path) -> None:
    """Every landmark's labels have a place."""
    missing = sorted(label_counts(kept).keys() - final.cluster_of().keys())
    if missing or not kept:
        raise TableError(
            f"{source}: {f'no cluster holds the label {missing[0]!r}' if missing else 'no landmark is left'}",
            expected=f"{PROPOSAL} and {LANDMARKS} of one run",
        )


def _report(
    source: Path,
    kept: Sequence[KeptLandmark],
    dropped: Sequence[DroppedLandmark],
    final: Proposal,
    rows: Sequence[HierarchicalRow],
) -> dict[str, Any]:
    """The counts of cleaning, brought up to date, and those of the clusters."""
    now = {
        "dropped": dict(sorted(Counter(drop.reason for drop in dropped).items())),
        "labeled_from_images": sum(landmark.confidence is not None for landmark in kept),
        "kept": len(kept),
        "distinct_labels": len(label_counts(kept)),
    }
    return read_report(source) | now | _proposal_report(final, rows)


def _proposal_report(proposal: Proposal, rows: Sequence[HierarchicalRow]) -> dict[str, Any]:
    """Clusters, doubts, and clusters and landmarks of each kind."""
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
