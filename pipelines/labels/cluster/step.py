"""``hiertree labels cluster``: cleaned landmarks → proposed supercategories, in a folder for people to review.

The folder holds ``proposal.json``, ``clusters.csv``, ``labels.csv``, ``quality.json``, ``manifest.json``, and what the
next steps need of the earlier ones: ``landmarks.csv``, ``dropped.csv``, ``report.json``, ``history.json`` and, if
hypernyms are known, ``hypernyms.csv``.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from hiertree.errors import TableError
from hiertree.io.files import write_json

from ..clean.landmark_file import DROPPED, LANDMARKS, read_kept
from ..clean.rules import KeptLandmark, label_counts, label_items
from ..clean.step import COMMAND as CLEAN_COMMAND
from ..encode.encoders import EncoderSettings
from ..encode.hypernyms import Hypernyms, copy_hypernyms, read_hypernyms
from ..encode.text_encoders import TextEncoder
from ..folders import HISTORY, HYPERNYMS, LABELS, REPORT, AnyPath, StepRecord, history_of, hypernyms_of, made_by
from ..settings import Count, Seed
from .agreement_measures import read_reference, split_reference
from .cluster_tables import CLUSTERS, write_clusters, write_labels
from .clustering import RESTARTS
from .proposal_file import PROPOSAL, write_proposal
from .proposing import Cluster, Proposal, embed, propose_for
from .quality import measure_quality

COMMAND = "hiertree labels cluster"
QUALITY = "quality.json"
PASSED_ON = (LANDMARKS, DROPPED, REPORT)
_LABELS_SHOWN = 4


class ClusterSettings(EncoderSettings):
    """How labels are embedded and clustered."""

    clusters: Annotated[
        Count | Literal["auto"], Field(description="Number of supercategories, or auto: by silhouette, at most 100.")
    ] = "auto"
    seed: Annotated[Seed, Field(description="Seed of k-means.")] = 0
    restarts: Annotated[Count, Field(description="Runs of k-means, which are joined.")] = RESTARTS
    levels: Annotated[int, Field(ge=0, description="Levels of groups above the clusters.")] = 0
    hypernyms: Annotated[
        Path | None,
        Field(
            description="Table of 'subclass of' edges (child_qid, child_label, parent_qid, parent_label); default: "
            "those scraped with the labels, if any."
        ),
    ] = None
    references: Annotated[
        tuple[Path, ...],
        Field(
            description="TABLE:COLUMN, classes of labels to compare the clusters with.",
            json_schema_extra={"option": "reference"},
        ),
    ] = ()

    @field_validator("references")
    @classmethod
    def _name_a_column(cls, references: tuple[Path, ...]) -> tuple[Path, ...]:
        for reference in references:
            split_reference(reference)
        return references


DEFAULTS = ClusterSettings()


@dataclass(frozen=True)
class Clustered:
    """The proposed clusters, and their quality as in ``quality.json``."""

    proposal: Proposal
    quality: dict[str, Any]


def cluster_step(
    cleaned: AnyPath, *, out: AnyPath, settings: ClusterSettings = DEFAULTS, encoder: TextEncoder | None = None
) -> Clustered:
    """Embed the distinct labels, cluster them, settle kinds, name, measure; write the folder.

    Args:
        cleaned: a folder made by ``labels clean`` or ``labels fill``.
        out: the folder to make.
        settings: how labels are embedded and clustered.
        encoder: your own; default: that of the settings.

    Raises:
        TableError: ``cleaned`` is no such folder or holds no label; a reference cannot be read or knows no label.
        OptionError: more clusters than labels, or ``out`` holds other files.
        MissingResourceError: the encoder's weights are out of reach.
    """
    encode = encoder or settings.build()
    source = made_by(cleaned, command=CLEAN_COMMAND, files=PASSED_ON)
    record = cluster_record(source, settings=settings, encoder=encode)
    record.check(out)
    references = dict(map(read_reference, settings.references))
    kept = read_kept(source)
    counts = label_counts(kept)
    if not counts:
        raise TableError(f"{source / LANDMARKS} holds no landmark", expected="labels to cluster")
    hypernyms = _hypernyms(source, settings, kept)
    embedding = embed(counts, encode, hypernyms=hypernyms)
    proposal = propose_for(
        embedding,
        counts,
        clusters=settings.clusters,
        seed=settings.seed,
        restarts=settings.restarts,
        levels=settings.levels,
    )
    report = measure_quality(proposal, embedding, references=references)
    with record.writing(out) as folder:
        write_proposal(folder / PROPOSAL, proposal)
        write_clusters(folder / CLUSTERS, proposal, kept)
        write_labels(folder / LABELS, proposal)
        write_json(folder / QUALITY, report)
        write_json(folder / HISTORY, history_of(source))
        for edges in _edges(source, settings):
            copy_hypernyms(edges, folder / HYPERNYMS, children=hypernyms.above(counts) if hypernyms else frozenset())
        for name in PASSED_ON:
            shutil.copyfile(source / name, folder / name)
    return Clustered(proposal, report)


def cluster_record(cleaned: AnyPath, *, settings: ClusterSettings, encoder: TextEncoder) -> StepRecord:
    """What :func:`cluster_step` makes its folder from."""
    own = {name: getattr(settings, name) for name in ("clusters", "restarts", "levels")}
    compared = {"references": [path.name for path in settings.references]}
    read = [Path(cleaned) / name for name in PASSED_ON]
    tables = [split_reference(path)[0] for path in settings.references]
    edges = _edges(cleaned, settings)
    above = {"hypernyms": [path.name for path in edges]} if edges else {}
    return StepRecord(
        COMMAND, {**encoder.settings(), **own, **compared, **above}, (*read, *tables, *edges), settings.seed
    )


def _edges(cleaned: AnyPath, settings: ClusterSettings) -> tuple[Path, ...]:
    """The table of hypernyms that counts, if there is one."""
    return hypernyms_of(cleaned) if settings.hypernyms is None else (settings.hypernyms,)


def _hypernyms(cleaned: Path, settings: ClusterSettings, kept: Iterable[KeptLandmark]) -> Hypernyms | None:
    for edges in _edges(cleaned, settings):
        return read_hypernyms(edges, items=label_items(kept))
    return None


def describe_clustered(found: Clustered) -> str:
    """The clusters, then their quality, and how they agree with each reference."""
    numbers = found.quality
    lines = [
        describe_proposal(found.proposal),
        f"silhouette {numbers['silhouette']:.3f}, inertia {numbers['inertia']:.1f}",
    ]
    for name, values in numbers["references"].items():
        measures = ", ".join(f"{measure} {values[measure]:.3f}" for measure in ("ari", "nmi", "v_measure", "purity"))
        lines.append(f"{name}: {values['labels']} labels in {values['classes']} classes: {measures}")
    return "\n".join(lines)


def describe_proposal(proposal: Proposal) -> str:
    """One line per cluster: landmarks, kind, name, its commonest labels, and a ``?`` where people should look."""
    doubtful = sum(bool(cluster.doubt) for cluster in proposal.clusters)
    labels = [place for cluster in proposal.clusters for place in cluster.labels]
    doubts = f"{doubtful} clusters and {sum(bool(place.doubt) for place in labels)} labels in doubt"
    return "\n".join(
        [f"{len(labels)} labels in {len(proposal.clusters)} clusters; {doubts}", *map(_line, proposal.clusters)]
    )


def _line(cluster: Cluster) -> str:
    labels = [place.label for place in cluster.labels]
    more = f", … {len(labels) - _LABELS_SHOWN} more" if len(labels) > _LABELS_SHOWN else ""
    mark = "?" if cluster.doubt else " "
    return f"{cluster.landmarks:6d} {mark} {cluster.kind:10s} {cluster.name}: {', '.join(labels[:_LABELS_SHOWN])}{more}"
