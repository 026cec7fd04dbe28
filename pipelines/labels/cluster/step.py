"""``hiertree labels cluster``: cleaned landmarks → proposed supercategories, in a folder for people to review.

The folder holds ``proposal.json``, ``clusters.csv``, ``labels.csv``, ``quality.json``, drawings (``sizes`` and, where
numbers of clusters were compared, ``scan``, as SVG and PNG), ``manifest.json``, and what the next steps need of the
earlier ones: ``landmarks.csv``, ``dropped.csv``, ``report.json`` and ``history.json``.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from hiertree.errors import TableError
from hiertree.io.files import write_json

from ..clean import step as cleaning
from ..clean.counting import label_counts
from ..clean.landmark_file import DROPPED, LANDMARKS, read_kept
from ..encode.text_encoders import TextEncoder
from ..encode.tfidf_encoder import TfidfEncoder
from ..export.tables import CLUSTERS, LABELS, REPORT, hierarchical_rows, write_clusters, write_labels
from ..folders import HISTORY, AnyPath, Making, history_of, made_by
from .agreement import read_reference
from .clustering import RESTARTS
from .plots import draw_scan, draw_sizes
from .proposal_file import PROPOSAL, write_proposal
from .proposing import Embedding, Proposal, embed, label_weights, propose_for
from .quality import quality
from .scanning import ScanPoint, scan

COMMAND = "hiertree labels cluster"
QUALITY = "quality.json"
PASSED_ON = (LANDMARKS, DROPPED, REPORT)


@dataclass(frozen=True)
class ClusterSettings:
    """How labels are clustered.

    Attributes:
        clusters: their number, or ``"auto"``: by silhouette.
        seed: of k-means.
        restarts: of k-means.
        levels: of groups between kinds and clusters.
        scan: whether numbers of clusters are compared by silhouette and stability.
    """

    clusters: int | Literal["auto"] = "auto"
    seed: int = 0
    restarts: int = RESTARTS
    levels: int = 0
    scan: bool = False


@dataclass(frozen=True)
class Clustered:
    """What came of it."""

    proposal: Proposal
    quality: dict[str, Any]


def cluster_step(
    cleaned: AnyPath,
    *,
    out: AnyPath,
    encoder: TextEncoder | None = None,
    settings: ClusterSettings = ClusterSettings(),
    references: Sequence[str] = (),
) -> Clustered:
    """Embed the distinct labels, cluster, settle kinds, name, measure; write the folder.

    Args:
        cleaned: a folder made by ``labels clean`` or ``labels fill``.
        out: the folder to make.
        encoder: default :class:`TfidfEncoder`, which needs no download.
        settings: how labels are clustered.
        references: ``TABLE:column``, classes of labels to compare the clusters with.

    Raises:
        TableError: ``cleaned`` is no such folder or holds no label; a reference cannot be read or knows no label.
        OptionError: an option outside its range, or ``out`` holds other files.
        MissingResourceError: the encoder's weights are out of reach.
    """
    encode = encoder or TfidfEncoder()
    source = made_by(cleaned, command=cleaning.COMMAND, files=PASSED_ON)
    making = cluster_making(source, encoder=encode, settings=settings, references=references)
    making.check(out)
    known = dict(map(read_reference, references))
    kept = read_kept(source)
    counts = label_counts(kept)
    if not counts:
        raise TableError(f"{source / LANDMARKS} holds no landmark", expected="labels to cluster")
    embedding = embed(counts, encode)
    proposal = propose_for(
        embedding,
        counts,
        clusters=settings.clusters,
        seed=settings.seed,
        restarts=settings.restarts,
        levels=settings.levels,
    )
    points = _points(proposal, embedding, counts, settings)
    report = {**quality(proposal, embedding, references=known), "scan": [point._asdict() for point in points]}
    landmarks = Counter(row.hierarchical_label for row in hierarchical_rows(kept, proposal))
    with making.into(out) as folder:
        write_proposal(folder / PROPOSAL, proposal)
        write_clusters(folder / CLUSTERS, proposal, landmarks)
        write_labels(folder / LABELS, proposal)
        write_json(folder / QUALITY, report)
        draw_sizes(folder / "sizes", proposal)
        if points:
            draw_scan(folder / "scan", points, proposed=len(proposal.clusters))
        write_json(folder / HISTORY, history_of(source))
        for name in PASSED_ON:
            shutil.copyfile(source / name, folder / name)
    return Clustered(proposal, report)


def cluster_making(
    cleaned: AnyPath, *, encoder: TextEncoder, settings: ClusterSettings, references: Sequence[str] = ()
) -> Making:
    """What the folder of :func:`cluster_step` is made of."""
    own = {name: value for name, value in asdict(settings).items() if name != "seed"}
    compared = {"references": [Path(spec).name for spec in references]}
    read = [Path(cleaned) / name for name in PASSED_ON]
    tables = [Path(spec.rpartition(":")[0]) for spec in references]
    return Making(COMMAND, {**encoder.settings(), **own, **compared}, (*read, *tables), settings.seed)


def _points(
    proposal: Proposal, embedding: Embedding, counts: Counter[str], settings: ClusterSettings
) -> list[ScanPoint]:
    if settings.scan:
        weights = label_weights(embedding.labels, counts)
        return scan(embedding.vectors, weights=weights, seed=settings.seed, restarts=settings.restarts)
    return [ScanPoint(k, round(score, 4)) for k, score in proposal.silhouettes.items()]
