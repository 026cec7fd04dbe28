"""``hiertree labels build``: every stage in one call, from two tables to a folder of results."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hiertree.errors import TableError
from hiertree.io.files import write_json
from hiertree.io.tables import write_table
from hiertree.tree import LabelTree

from .clean.counting import cleaning_report, label_counts, proposal_report
from .clean.landmark_file import DROPPED, write_dropped
from .clean.rules import Cleaned, Multi, clean
from .cluster.proposing import Proposal, propose
from .encode.text_encoders import TextEncoder
from .encode.tfidf_encoder import TfidfEncoder
from .export.tables import (
    CLUSTERS,
    HIERARCHICAL,
    LABELS,
    REPORT,
    TREE,
    Row,
    hierarchical_rows,
    label_tree,
    write_clusters,
    write_labels,
)
from .folders import Making
from .landmarks import ColumnNames, read_landmarks

COMMAND = "hiertree labels build"


@dataclass(frozen=True)
class BuildResult:
    """What was built.

    Attributes:
        folder: where the files are.
        proposal: the clusters, those of most landmarks first.
        tree: kind → supercategory → landmark.
        report: the counts, as in ``report.json``.
    """

    folder: Path
    proposal: Proposal
    tree: LabelTree
    report: dict[str, Any]


def build(
    landmarks: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    instances: str | os.PathLike[str] | None = None,
    encoder: TextEncoder | None = None,
    clusters: int | Literal["auto"] = "auto",
    seed: int = 0,
    multi: Multi = "drop",
    separator: str = "|",
    columns: ColumnNames | None = None,
) -> BuildResult:
    """Build hierarchical labels from landmark ids and what they are instances of.

    The folder ``out`` appears whole or not at all. It holds ``hierarchical.csv`` in GLDv2's published columns,
    ``tree.json``, ``clusters.csv``, ``labels.csv``, ``dropped.csv``, ``report.json`` and ``manifest.json``. The same
    inputs, options and seed give the same bytes, the manifest's time apart.

    Args:
        landmarks: CSV or Parquet of landmark ids and Commons categories (GLDv2's ``train_label_to_category.csv``).
        out: the folder to make; an earlier build there is replaced, anything else is not.
        instances: CSV or Parquet of landmark ids and "instance of" values; default: the same file.
        encoder: default :class:`TfidfEncoder`, which needs no download.
        clusters: number of clusters, or ``"auto"``: by silhouette (:func:`choose_k`).
        seed: of k-means.
        multi: what becomes of landmarks with several labels: ``"drop"``, ``"first"`` or ``"all"``.
        separator: what stands between several values.
        columns: what the columns are called; default GLDv2's names and ``instance_of``.

    Raises:
        TableError: a table that cannot be read as asked, or no landmark left after cleaning.
        OptionError: an option outside its range, or ``out`` is something else than an earlier build.
        MissingResourceError: the encoder's weights are out of reach.
    """
    folder, names, embed = Path(out), columns or ColumnNames(), encoder or TfidfEncoder()
    choices = {"clusters": clusters, "multi": multi, "separator": separator, "columns": names.model_dump()}
    inputs = (landmarks,) if instances is None else (landmarks, instances)
    making = Making(COMMAND, {**embed.settings(), **choices}, inputs, seed)
    making.check(folder)  # now, not after the work
    read, strangers = read_landmarks(landmarks, instances, columns=names, separator=separator)
    cleaned = clean(read, multi=multi)
    proposal = propose(_label_counts(cleaned, landmarks), embed, clusters=clusters, seed=seed)
    rows = hierarchical_rows(cleaned.kept, proposal, separator=separator)
    counts = cleaning_report(cleaned, strangers=strangers) | proposal_report(proposal, rows)
    with making.into(folder) as temporary:
        _write(temporary, cleaned, proposal, rows, counts)
    return BuildResult(folder, proposal, label_tree(rows, proposal), counts)


def _write(folder: Path, cleaned: Cleaned, proposal: Proposal, rows: Sequence[Row], counts: Mapping[str, Any]) -> None:
    write_table(folder / HIERARCHICAL, Row._fields, rows)
    label_tree(rows, proposal).to_json(folder / TREE)
    write_clusters(folder / CLUSTERS, proposal, Counter(row.hierarchical_label for row in rows))
    write_labels(folder / LABELS, proposal)
    write_dropped(folder / DROPPED, cleaned.dropped)
    write_json(folder / REPORT, counts)


def _label_counts(cleaned: Cleaned, source: str | os.PathLike[str]) -> Counter[str]:
    counts = label_counts(cleaned.kept)
    if not counts:
        reasons = Counter(drop.reason for drop in cleaned.dropped)
        raise TableError(
            f"no landmark of {source} is left after cleaning ({dict(reasons)})", expected="labels to cluster"
        )
    return counts
