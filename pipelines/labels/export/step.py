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
from hiertree.io.files import write_json, write_text
from hiertree.io.tables import read_columns, write_table

from ..cleaning import Cleaned, describe_cleaning, landmark_counts, read_report
from ..cluster.proposal_files import CLUSTERS, PROPOSAL, read_proposal, write_clusters, write_labels
from ..cluster.proposing import Proposal
from ..cluster.step import COMMAND as CLUSTER_COMMAND
from ..cluster.step import describe_proposal
from ..encode.phrases import KINDS
from ..landmarks import (
    DROPPED,
    LANDMARKS,
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
    Exported,
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
    image_table: Path | None = option(None, "CSV of image ids and landmark_id, whose images the data card counts.")


DEFAULTS = ExportSettings()


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
    return ExportStep(clustered, review, settings).run(out)._replace(folder=Path(out))


@dataclass(frozen=True)
class ExportStep(LabelStep[Exported]):
    """The step as the runner knows it."""

    source: AnyPath
    review: AnyPath | None
    settings: ExportSettings
    made_by = CLUSTER_COMMAND
    reads = (PROPOSAL, LANDMARKS, DROPPED, REPORT, HISTORY)

    def record(self) -> StepRecord:
        """The proposal, and the log of its review."""
        reviews = () if self.review is None else (self.review,)
        tables = () if self.settings.image_table is None else (self.settings.image_table,)
        read = (*self.read_files, *hypernyms_of(self.source), *reviews, *tables)
        return StepRecord(COMMAND, self.settings.model_dump(include={"split"}), read)

    def _compute(self) -> Exported:
        proposed = read_proposal(self.source)
        final, irrelevant, counts = _reviewed(self.source, proposed, self.review)
        kept, dropped = relevant(read_kept(self.source), irrelevant)
        dropped = [*read_dropped(self.source), *dropped]
        _check_labels(kept, final, self.source)
        rows = hierarchical_rows(kept, final)
        earlier, from_images = read_report(self.source), sum(landmark.confidence is not None for landmark in kept)
        now = landmark_counts(Cleaned(kept, dropped, {})) | {"because": earlier["because"]}
        report = earlier | now | {"labeled_from_images": from_images} | _proposal_report(final, rows)
        report |= {"review": counts} if counts else {}
        return Exported(final, proposed, label_tree(rows, final), report, rows, kept, dropped)

    def _write(self, result: Exported, folder: Path) -> None:
        final, _, tree, report, rows, kept, dropped, _ = result
        split = self.settings.split
        hierarchical = f"{split}_label_to_{HIERARCHICAL}" if split else HIERARCHICAL
        write_table(folder / hierarchical, HierarchicalRow._fields, rows)
        tree.to_json(folder / TREE)
        tree.to_csv(folder / "tree.csv")
        tree.to_graphml(folder / "tree.graphml")
        write_provenance(folder / PROVENANCE, provenance_rows(result))
        write_clusters(folder / CLUSTERS, final, kept)
        write_labels(folder / LABELS, final)
        write_dropped(folder / DROPPED, dropped)
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
    of_image = read_columns(table, {"landmark_id": "integer"})["landmark_id"].to_numpy()
    return {"table": table.name, "read": len(of_image), "kept": int(np.isin(of_image, landmarks).sum())}


def _card(facts: Mapping[str, Any]) -> str:
    """The data card, in Markdown: ``card.md`` filled in."""
    from jinja2 import Environment, StrictUndefined

    source = files(__package__).joinpath("card.md").read_text(encoding="utf-8")
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)  # noqa: S701  (Markdown)
    text: str = environment.from_string(source).render(facts)
    return text.rstrip() + "\n"


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
        problem = f"no cluster holds the label {missing[0]!r}" if missing else "no landmark is left"
        raise TableError(f"{source}: {problem}", expected=f"{PROPOSAL} and {LANDMARKS} of one run")


def _proposal_report(proposal: Proposal, rows: Sequence[HierarchicalRow]) -> dict[str, Any]:
    """Clusters, doubts, and clusters and landmarks of each kind."""
    clusters = proposal.clusters
    of_kind = Counter(cluster.kind for cluster in clusters), Counter(row.natural_or_human_made for row in rows)
    return {
        "clusters": len(clusters),
        "clusters_in_doubt": sum(bool(cluster.doubt) for cluster in clusters),
        "labels_in_doubt": sum(bool(place.doubt) for cluster in clusters for place in cluster.labels),
        "kinds": {kind: {"clusters": of_kind[0][kind], "landmarks": of_kind[1][kind]} for kind in KINDS},
        "silhouette_by_k": {str(k): round(score, 4) for k, score in proposal.silhouettes.items()},
    }
