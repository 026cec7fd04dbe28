"""``hiertree labels cluster``: cleaned landmarks → proposed supercategories, in a folder for people to review.

The folder also holds what the next steps need of the earlier ones; docs/labels.md lists its files.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from hiertree.errors import TableError
from hiertree.io.files import AnyPath, write_json

from ..cleaning import COMMAND as CLEAN_COMMAND
from ..encode.encoders import text_encoder
from ..encode.hypernyms import Hypernyms, read_hypernyms, write_hypernyms
from ..encode.text_encoders import TextEncoder
from ..landmarks import DROPPED, LANDMARKS, KeptLandmark, label_counts, label_items, read_kept
from ..scrape.outcomes import stored_hypernyms
from ..scrape.store import is_store
from ..settings import ClusterSettings, split_reference
from ..steps import HYPERNYMS, LABELS, REPORT, LabelStep, StepRecord, hypernyms_of
from .embedding import embed
from .proposal_files import (
    CLUSTERS,
    PROPOSAL,
    landmarks_of_clusters,
    read_assignments,
    write_clusters,
    write_labels,
    write_proposal,
)
from .proposing import Cluster, Proposal, propose_assigned, propose_for
from .quality import measure_quality, read_reference

COMMAND = "hiertree labels cluster"
QUALITY = "quality.json"
_LABELS_SHOWN = 4


DEFAULTS = ClusterSettings()


class Clustered(NamedTuple):
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
    """
    return ClusterStep(cleaned, settings, encoder or text_encoder(settings)).run(out)


@dataclass(frozen=True)
class ClusterStep(LabelStep[Clustered]):
    """The step for the runner."""

    source: AnyPath
    settings: ClusterSettings
    encoder: TextEncoder
    made_by = CLEAN_COMMAND
    reads = (LANDMARKS, DROPPED, REPORT)

    @cached_property
    def kept(self) -> list[KeptLandmark]:
        """The landmarks whose labels are clustered."""
        return read_kept(self.source)

    @property
    def edges(self) -> tuple[Path, ...]:
        """The table of hypernyms in use, if any."""
        return hypernyms_of(self.source) if self.settings.hypernyms is None else (self.settings.hypernyms,)

    @cached_property
    def hypernyms(self) -> Hypernyms:
        """The hypernyms of the labels."""
        tables = [stored_hypernyms(path) if is_store(path) else path for path in self.edges]
        return read_hypernyms(*tables, items=label_items(self.kept))

    @cached_property
    def reader(self) -> TextEncoder | None:
        """What reads labels of which nothing is known."""
        return self.settings.reader and text_encoder(self.settings, self.settings.reader)

    @cached_property
    def second(self) -> TextEncoder | None:
        """What else says which labels belong together."""
        return self.settings.second and text_encoder(self.settings, self.settings.second)

    def record(self) -> StepRecord:
        """The cleaned landmarks, the references and the hypernyms; the encoder as it describes itself."""
        settings = self.settings
        parameters = {name: getattr(settings, name) for name in ("clusters", "restarts", "levels")}
        encoders = {"reader": self.reader, "second": self.second}
        parameters |= {name: encoder.settings() for name, encoder in encoders.items() if encoder is not None}
        parameters |= {"references": [path.name for path in settings.references]}
        parameters |= {"hypernyms": [path.name for path in self.edges]} if self.edges else {}
        tables = [split_reference(path)[0] for path in settings.references]
        tables += [] if settings.assignments is None else [settings.assignments]
        inputs = (*self.read_files, *tables, *self.edges)
        return StepRecord(COMMAND, {**self.encoder.settings(), **parameters}, inputs, settings.seed)

    def _compute(self) -> Clustered:
        settings, counts = self.settings, label_counts(self.kept)
        references = dict(map(read_reference, settings.references))
        if not counts:
            raise TableError(f"{Path(self.source) / LANDMARKS} holds no landmark", expected="labels to cluster")
        embedding = embed(counts, self.encoder, hypernyms=self.hypernyms, reader=self.reader, second=self.second)
        if settings.assignments is None:
            options = settings.model_dump(include={"clusters", "seed", "restarts", "levels"})
            proposal = propose_for(embedding, counts, **options)
        else:
            clusters = read_assignments(settings.assignments, counts)
            proposal = propose_assigned(embedding, counts, clusters, levels=settings.levels)
        quality = measure_quality(proposal, embedding, references=references)
        labels_without_chain = [] if self.edges else self.hypernyms.find_unconnected()
        quality |= {"labels_without_chain": labels_without_chain} if labels_without_chain else {}
        return Clustered(proposal, quality)

    def _write(self, result: Clustered, folder: Path) -> None:
        write_proposal(folder / PROPOSAL, result.proposal)
        write_clusters(folder / CLUSTERS, result.proposal, landmarks_of_clusters(self.kept, result.proposal))
        write_labels(folder / LABELS, result.proposal)
        write_json(folder / QUALITY, result.quality)
        write_hypernyms(folder / HYPERNYMS, self.hypernyms, label_counts(self.kept))
        for file in self.read_files:
            shutil.copyfile(file, folder / file.name)


def describe_clustered(result: Clustered) -> str:
    """The clusters, then their quality, and how they agree with each reference."""
    numbers = result.quality
    silhouette = numbers["silhouette"]
    # one cluster, or one for each label, has none
    silhouette_text = "" if silhouette is None else f"silhouette {silhouette:.3f}, "
    lines = [describe_proposal(result.proposal), f"{silhouette_text}inertia {numbers['inertia']:.1f}"]
    for name, values in numbers["references"].items():
        measures = ", ".join(f"{measure} {values[measure]:.3f}" for measure in ("ari", "nmi", "v_measure", "purity"))
        lines.append(f"{name}: {values['labels']} labels in {values['classes']} classes: {measures}")
    return "\n".join([*lines, *describe_unknown_ids(result)])


def describe_unknown_ids(result: Clustered) -> list[str]:
    """How to ask what stands above labels of which nothing is known but their Wikidata ids, if there are any."""
    labels = result.quality.get("labels_without_chain", ())
    return [
        f"{len(labels)} labels, {label!r} for instance, have Wikidata ids that are not known here: ask with "
        "'hiertree labels hypernyms CLEANED --store STORE --contact YOU', and pass --hypernyms STORE"
        for label in labels[:1]
    ]


def describe_proposal(proposal: Proposal) -> str:
    """One line per cluster: landmarks, kind, name, its commonest labels, and a ``?`` where people should look."""
    doubtful = sum(bool(cluster.doubt) for cluster in proposal.clusters)
    labels = [member for cluster in proposal.clusters for member in cluster.labels]
    doubts = f"{doubtful} clusters and {sum(bool(member.doubt) for member in labels)} labels in doubt"
    first = f"{len(labels)} labels in {len(proposal.clusters)} clusters; {doubts}"
    return "\n".join([first, *map(_line, proposal.clusters)])


def _line(cluster: Cluster) -> str:
    labels = [member.label for member in cluster.labels]
    ending = f", … {len(labels) - _LABELS_SHOWN} more" if len(labels) > _LABELS_SHOWN else ""
    beginning = f"{cluster.landmarks:6d} {'?' if cluster.doubt else ' '} {cluster.kind:10s} {cluster.name}"
    return f"{beginning}: {', '.join(labels[:_LABELS_SHOWN])}{ending}"
