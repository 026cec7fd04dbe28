"""``hiertree labels export``: a proposal, as it is or as people left it → a data set ready to publish.

The folder holds the hierarchical table in GLDv2's published columns, the tree (JSON, CSV, GraphML), the provenance of
every landmark (Parquet), ``clusters.csv``, ``labels.csv``, ``hypernyms.csv`` where they are known, ``dropped.csv``,
``report.json``, ``history.json``, a data card (``README.md``) and ``manifest.json``. The same folder and review log
give the same bytes, the manifest's time apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import hiertree
from hiertree.errors import TableError
from hiertree.io.files import write_json, write_text
from hiertree.io.tables import write_table
from hiertree.tree import LabelTree

from ..cleaning import describe_cleaning, read_report
from ..cluster.proposal_files import CLUSTERS, PROPOSAL, read_proposal, write_clusters, write_labels
from ..cluster.proposing import Proposal
from ..cluster.step import COMMAND as CLUSTER_COMMAND
from ..cluster.step import describe_proposal
from ..encode.phrases import KINDS
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
from ..review import reviewed
from ..steps import HISTORY, LABELS, REPORT, AnyPath, LabelStep, Settings, StepRecord, history_of, hypernyms_of, option
from .tables import (
    HIERARCHICAL,
    PROVENANCE,
    TREE,
    HierarchicalRow,
    hierarchical_rows,
    label_tree,
    provenance_rows,
    write_provenance,
)

COMMAND, CARD = "hiertree labels export", "README.md"


class ExportSettings(Settings):
    """How the export is called."""

    split: str = option(
        "", "Call the table SPLIT_label_to_hierarchical.csv, as GLDv2 does.", pattern=r"^[A-Za-z0-9_-]*$"
    )


DEFAULTS = ExportSettings()


@dataclass(frozen=True)
class Exported:
    """What was exported."""

    folder: Path  # where the files are
    proposal: Proposal  # the clusters, as people left them
    tree: LabelTree  # kind → groups above, if any → supercategory → landmark
    report: dict[str, Any]  # the counts


def export_step(
    clustered: AnyPath, *, out: AnyPath, review: AnyPath | None = None, settings: ExportSettings = DEFAULTS
) -> Exported:
    """Write the folder.

    Args:
        clustered: a folder made by ``labels cluster``.
        out: the folder to make.
        review: the log of a review or of an adjudication.
        settings: how the export is called.
    """
    made = ExportStep(clustered, review, settings).run(out)
    return Exported(Path(out), made.proposal, made.tree, made.report)


class ExportContent(NamedTuple):
    """What the files say: the clusters as people left them and as proposed, the tree, the counts, the landmarks."""

    proposal: Proposal
    proposed: Proposal
    tree: LabelTree
    report: dict[str, Any]
    rows: list[HierarchicalRow]
    kept: list[KeptLandmark]
    dropped: list[DroppedLandmark]


@dataclass(frozen=True)
class ExportStep(LabelStep[ExportContent]):
    """The step as the runner knows it."""

    source: AnyPath
    review: AnyPath | None
    settings: ExportSettings
    made_by = CLUSTER_COMMAND
    reads = (PROPOSAL, LANDMARKS, DROPPED, REPORT, HISTORY)

    def record(self) -> StepRecord:
        """The proposal, and the log of its review."""
        reviews = () if self.review is None else (self.review,)
        return StepRecord(COMMAND, self.settings.model_dump(), (*self.read_files, *hypernyms_of(self.source), *reviews))

    def _compute(self) -> ExportContent:
        proposed = read_proposal(self.source)
        final, irrelevant, counts = _reviewed(self.source, proposed, self.review)
        kept, dropped = relevant(read_kept(self.source), irrelevant)
        dropped = [*read_dropped(self.source), *dropped]
        _check_labels(kept, final, self.source)
        rows = hierarchical_rows(kept, final)
        report = _report(self.source, kept, dropped, final, rows) | ({"review": counts} if counts else {})
        return ExportContent(final, proposed, label_tree(rows, final), report, rows, kept, dropped)

    def _write(self, result: ExportContent, folder: Path) -> None:
        final, proposed, tree, report, rows, kept, dropped = result
        split = self.settings.split
        hierarchical = f"{split}_label_to_{HIERARCHICAL}" if split else HIERARCHICAL
        write_table(folder / hierarchical, HierarchicalRow._fields, rows)
        tree.to_json(folder / TREE)
        tree.to_csv(folder / "tree.csv")
        tree.to_graphml(folder / "tree.graphml")
        origins = provenance_rows(rows, kept, dropped, final=final, proposed=proposed, is_reviewed="review" in report)
        write_provenance(folder / PROVENANCE, origins)
        write_clusters(folder / CLUSTERS, final, kept)
        write_labels(folder / LABELS, final)
        write_dropped(folder / DROPPED, dropped)
        write_json(folder / REPORT, report)
        facts = {
            "hierarchical": hierarchical,
            "columns": HierarchicalRow._fields,
            "level_names": tree.level_names,
            "split": split,
            "report": report,
            "history": history_of(self.source),
            "review": report.get("review", {}),
            "version": hiertree.__version__,
            "has_hypernyms": bool(hypernyms_of(self.source)),
        }
        write_text(folder / CARD, _card(facts))


def _card(facts: Mapping[str, Any]) -> str:
    """The data card, in Markdown: ``card.md`` filled in."""
    from jinja2 import Environment, StrictUndefined

    source = files(__package__).joinpath("card.md").read_text(encoding="utf-8")
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)  # noqa: S701  (Markdown)
    text: str = environment.from_string(source).render(facts)
    return text.rstrip() + "\n"


def describe_exported(exported: Exported | ExportContent, *, clusters: bool = False) -> str:
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


def _reviewed(
    source: AnyPath, proposed: Proposal, log: AnyPath | None
) -> tuple[Proposal, frozenset[str], dict[str, Any]]:
    """The clusters as people left them, the labels they marked irrelevant, and the counts of the review."""
    if log is None:
        return proposed, frozenset(), {}
    found = reviewed(source, log)
    counts = {"events": found.events, "approved": found.approved, "irrelevant": len(found.irrelevant)}
    counts |= {"torn_bytes": found.torn} if found.torn else {}
    return found.proposal, found.irrelevant, counts


def _check_labels(kept: Sequence[KeptLandmark], final: Proposal, source: AnyPath) -> None:
    """Every landmark's labels have a place."""
    missing = sorted(label_counts(kept).keys() - final.cluster_of().keys())
    if missing or not kept:
        raise TableError(
            f"{source}: {f'no cluster holds the label {missing[0]!r}' if missing else 'no landmark is left'}",
            expected=f"{PROPOSAL} and {LANDMARKS} of one run",
        )


def _report(
    source: AnyPath,
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
