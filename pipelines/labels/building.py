"""``hiertree labels build``: every stage in one call, from two tables to a folder of results."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from hiertree.errors import OptionError, TableError
from hiertree.files import replacing_folder, write_json
from hiertree.pipelines.labels import export
from hiertree.pipelines.labels.cleaning import Cleaned, Multi, clean
from hiertree.pipelines.labels.proposing import Proposal, propose
from hiertree.pipelines.labels.reading import Columns, read_landmarks
from hiertree.pipelines.labels.text_encoders import TextEncoder
from hiertree.pipelines.labels.tfidf_encoder import TfidfEncoder
from hiertree.provenance import manifest
from hiertree.tree import LabelTree

COMMAND = "hiertree labels build"
MANIFEST = "manifest.json"


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
    columns: Columns | None = None,
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
    folder, names, embed = Path(out), columns or Columns(), encoder or TfidfEncoder()
    _check_replaceable(folder)
    read, strangers = read_landmarks(landmarks, instances, columns=names, separator=separator)
    cleaned = clean(read, multi=multi)
    proposal = propose(_label_counts(cleaned, landmarks), embed, clusters=clusters, seed=seed)
    rows = export.hierarchical_rows(cleaned.kept, proposal, separator=separator)
    counts = export.report(cleaned, proposal, rows, strangers=strangers)
    choices = {"clusters": clusters, "multi": multi, "separator": separator, "columns": asdict(names)}
    with replacing_folder(folder) as temporary:
        export.write_all(temporary, cleaned, proposal, rows, counts, separator=separator)
        record = manifest(
            command=COMMAND,
            parameters={**embed.settings(), **choices},
            inputs=[landmarks] if instances is None else [landmarks, instances],
            outputs=[temporary / name for name in export.FILES],
            seed=seed,
        )
        write_json(temporary / MANIFEST, record)
    return BuildResult(folder, proposal, export.label_tree(rows), counts)


def _check_replaceable(folder: Path) -> None:
    """An earlier build or an empty folder may give way; other people's files may not."""
    built = {*export.FILES, MANIFEST}
    if folder.exists() and not (folder.is_dir() and {entry.name for entry in folder.iterdir()} <= built):
        raise OptionError(
            f"out={str(folder)!r} holds other files", expected="a new folder or an earlier build", remedy="name another"
        )


def _label_counts(cleaned: Cleaned, source: str | os.PathLike[str]) -> Counter[str]:
    counts = Counter(label for landmark in cleaned.kept for label in landmark.labels)
    if not counts:
        reasons = Counter(drop.reason for drop in cleaned.dropped)
        raise TableError(
            f"no landmark of {source} is left after cleaning ({dict(reasons)})", expected="labels to cluster"
        )
    return counts
