"""``hiertree labels export``: a proposal, as it is or as people left it → a data set ready to publish.

The folder holds the hierarchical table in GLDv2's published columns, the tree (JSON, CSV, GraphML), the provenance of
every landmark (Parquet), ``clusters.csv``, ``labels.csv``, ``dropped.csv``, ``report.json``, ``history.json``, a data
card (``README.md``) and ``manifest.json``. The same folder and review log give the same bytes, the manifest's time
apart.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hiertree
from hiertree.errors import OptionError, TableError
from hiertree.io.files import write_json, write_text
from hiertree.io.tables import write_table
from hiertree.tree import LabelTree

from ..clean.counting import label_counts, proposal_report
from ..clean.landmark_file import DROPPED, LANDMARKS, SEPARATOR, read_dropped, read_kept, write_dropped
from ..clean.rules import DroppedLandmark, KeptLandmark, relevant
from ..clean.step import read_report
from ..cluster import step as clustering
from ..cluster.proposal_file import PROPOSAL, read_proposal
from ..cluster.proposing import Proposal
from ..folders import HISTORY, AnyPath, Making, history_of, made_by
from .data_card import CARD, data_card
from .provenance_table import PROVENANCE, provenance_rows, write_provenance
from .tables import (
    CLUSTERS,
    HIERARCHICAL,
    LABELS,
    REPORT,
    Row,
    hierarchical_rows,
    label_tree,
    write_clusters,
    write_labels,
)
from .tree_files import write_tree

COMMAND = "hiertree labels export"
READ = (PROPOSAL, LANDMARKS, DROPPED, REPORT, HISTORY)
_SPLIT = re.compile(r"[A-Za-z0-9_-]*")


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


def export_step(clustered: AnyPath, *, out: AnyPath, review: AnyPath | None = None, split: str = "") -> Exported:
    """Write the folder.

    Args:
        clustered: a folder made by ``labels cluster``.
        out: the folder to make.
        review: the log of a review or of an adjudication.
        split: the hierarchical table is called ``<split>_label_to_hierarchical.csv``; without, ``hierarchical.csv``.

    Raises:
        TableError: ``clustered`` is no such folder, or its files do not fit together.
        ReviewError: the log is damaged, of another proposal, or leaves no label.
        OptionError: ``split`` is no part of a file name, or ``out`` holds other files.
    """
    source = made_by(clustered, command=clustering.COMMAND, files=READ)
    making = export_making(source, review=review, split=split)
    making.check(out)
    proposed = read_proposal(source)
    final, irrelevant, told = _reviewed(source, proposed, review)
    kept, dropped = relevant(read_kept(source), irrelevant)
    dropped = [*read_dropped(source), *dropped]
    _check_labels(kept, final, source)
    rows = hierarchical_rows(kept, final, separator=SEPARATOR)
    report = _report(source, kept, dropped, final, rows) | ({"review": told} if told else {})
    tree = label_tree(rows, final)
    history = history_of(source)
    hierarchical = f"{split}_label_to_{HIERARCHICAL}" if split else HIERARCHICAL
    with making.into(out) as folder:
        write_table(folder / hierarchical, Row._fields, rows)
        write_tree(folder, tree)
        origins = provenance_rows(rows, kept, dropped, final=final, proposed=proposed, is_reviewed=bool(told))
        write_provenance(folder / PROVENANCE, origins)
        write_clusters(folder / CLUSTERS, final, Counter(row.hierarchical_label for row in rows))
        write_labels(folder / LABELS, final)
        write_dropped(folder / DROPPED, dropped)
        write_json(folder / REPORT, report)
        write_json(folder / HISTORY, history)
        facts = {"hierarchical": hierarchical, "columns": Row._fields, "level_names": tree.level_names, "split": split}
        told_too = {"report": report, "history": history, "review": told, "version": hiertree.__version__}
        write_text(folder / CARD, data_card(facts | told_too))
    return Exported(Path(out), final, tree, report)


def export_making(clustered: AnyPath, *, review: AnyPath | None, split: str) -> Making:
    """What the folder of :func:`export_step` is made of.

    Raises:
        OptionError: ``split`` is no part of a file name.
    """
    if not _SPLIT.fullmatch(split):
        raise OptionError(f"split={split!r}", expected="letters, digits, - and _")
    read = tuple(Path(clustered) / name for name in READ)
    return Making(COMMAND, {"split": split}, read if review is None else (*read, review))


def _reviewed(source: Path, proposed: Proposal, log: AnyPath | None) -> tuple[Proposal, frozenset[str], dict[str, Any]]:
    """The clusters as people left them, the labels they marked irrelevant, and what there is to tell of the review."""
    if log is None:
        return proposed, frozenset(), {}
    from ..review import reviewed

    found = reviewed(source, log)
    told = {"events": found.events, "approved": found.approved, "irrelevant": len(found.irrelevant)}
    told |= {"torn_bytes": found.torn} if found.torn else {}
    return found.proposal, found.irrelevant, told


def _check_labels(kept: Sequence[KeptLandmark], final: Proposal, source: Path) -> None:
    """Every landmark's labels have a place."""
    missing = sorted(label_counts(kept).keys() - final.cluster_of().keys())
    if missing or not kept:
        raise TableError(
            f"{source}: {f'no cluster holds the label {missing[0]!r}' if missing else 'no landmark is left'}",
            expected=f"{PROPOSAL} and {LANDMARKS} of one run",
        )


def _report(
    source: Path, kept: Sequence[KeptLandmark], dropped: Sequence[DroppedLandmark], final: Proposal, rows: Sequence[Row]
) -> dict[str, Any]:
    """The counts of cleaning, brought up to date, and those of the clusters."""
    now = {
        "dropped": dict(sorted(Counter(drop.reason for drop in dropped).items())),
        "labelled_from_images": sum(landmark.confidence is not None for landmark in kept),
        "kept": len(kept),
        "distinct_labels": len(label_counts(kept)),
    }
    return read_report(source) | now | proposal_report(final, rows)
