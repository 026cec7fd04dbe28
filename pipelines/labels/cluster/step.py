"""``hiertree labels cluster``: cleaned landmarks → proposed supercategories, in a folder for people to review.

The folder also holds what the next steps need of the earlier ones; docs/labels.md lists its files.

>>> agreement([0, 0, 1, 1], ["lake", "lake", "church", "lake"])["purity"]
0.75
"""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hiertree.errors import ShapeError, TableError
from hiertree.io.files import AnyPath, write_json
from hiertree.io.tables import read_table

from ..cleaning import COMMAND as CLEAN_COMMAND
from ..encode import text_encoder
from ..encode.hypernyms import Hypernyms, read_hypernyms, write_hypernyms
from ..encode.text_encoders import TextEncoder
from ..landmarks import DROPPED, LANDMARKS, KeptLandmark, label_counts, label_items, read_kept
from ..scrape.outcomes import stored_hypernyms
from ..scrape.store import is_store
from ..settings import ClusterSettings, split_reference
from ..steps import HYPERNYMS, LABELS, REPORT, LabelStep, StepRecord, hypernyms_of
from ..texts import normalize_label
from .clustering import silhouettes, unit_centers
from .embedding import Embedding, embed
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
    def other_encoders(self) -> dict[str, TextEncoder]:
        """What reads labels of which nothing is known, and what else says which labels belong together."""
        names = {"reader": self.settings.reader, "second": self.settings.second}
        return {name: text_encoder(self.settings, encoder) for name, encoder in names.items() if encoder}

    def record(self) -> StepRecord:
        """The cleaned landmarks, the references and the hypernyms; the encoder as it describes itself."""
        settings = self.settings
        parameters = {name: getattr(settings, name) for name in ("clusters", "restarts", "levels")}
        parameters |= {name: encoder.settings() for name, encoder in self.other_encoders.items()}
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
        embedding = embed(counts, self.encoder, hypernyms=self.hypernyms, **self.other_encoders)
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


def agreement(groups: Sequence[Hashable], reference: Sequence[Hashable]) -> dict[str, float]:
    """Measures of agreement between a grouping and a reference, rounded to 4 digits.

    Returns:
        ``ari``, the adjusted Rand index (0 by chance, 1 at best; Hubert & Arabie 1985); ``nmi``, mutual information
        over the mean of the entropies; ``homogeneity``, ``completeness`` and ``v_measure``, their harmonic mean, which
        equals ``nmi`` (Rosenberg & Hirschberg 2007); ``purity``, the share of things that are of their group's
        commonest class.
    """
    import pandas as pd
    from sklearn.metrics import adjusted_rand_score, homogeneity_completeness_v_measure, normalized_mutual_info_score
    from sklearn.metrics.cluster import contingency_matrix

    if len(groups) != len(reference) or not groups:
        raise ShapeError(f"{len(groups)} groups for {len(reference)} classes", expected="as many groups as classes")
    group_codes, class_codes = (pd.Series(list(codes), dtype=object).factorize()[0] for codes in (groups, reference))
    homogeneity, completeness, v_measure = homogeneity_completeness_v_measure(class_codes, group_codes)
    values = {
        "ari": adjusted_rand_score(class_codes, group_codes),
        "nmi": normalized_mutual_info_score(class_codes, group_codes),
        "homogeneity": homogeneity,
        "completeness": completeness,
        "v_measure": v_measure,
        "purity": contingency_matrix(class_codes, group_codes).max(axis=0).sum() / len(group_codes),
    }
    return {name: round(float(value), 4) for name, value in values.items()}


def read_reference(spec: str | Path) -> tuple[str, dict[str, str]]:
    """A column of a table that says the class of labels, for comparison.

    Returns:
        ``TABLE:column`` with the table's bare name, and the class of each label (normalized, case folded).
    """
    path, column = split_reference(spec)
    table = read_table(path, required=["label", column])
    votes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for label, answer in zip(table["label"], table[column], strict=True):
        if label.strip() and answer.strip():
            votes[normalize_label(label).casefold()][answer.strip()] += 1
    if not votes:
        raise TableError(f"{path}: no label with a {column}", expected="at least one")
    class_of = {label: min(counts, key=lambda name: (-counts[name], name)) for label, counts in votes.items()}
    return f"{path.name}:{column}", class_of


def measure_agreement(reference: Mapping[str, str], cluster_of: Mapping[str, Hashable]) -> dict[str, float]:
    """Agreement of clusters with a reference, over the labels that both know, and how many these are."""
    shared_labels = [label for label in cluster_of if label.casefold() in reference]
    if not shared_labels:
        raise TableError("a reference that knows none of the labels", expected="labels in common")
    classes = [reference[label.casefold()] for label in shared_labels]
    measures = agreement([cluster_of[label] for label in shared_labels], classes)
    return {"labels": len(shared_labels), "classes": len(set(classes)), **measures}


def measure_quality(
    proposal: Proposal, embedding: Embedding, *, references: Mapping[str, Mapping[str, str]] | None = None
) -> dict[str, Any]:
    """A report, JSON-able.

    ``silhouette`` is the mean over labels by cosine; None for one cluster, or one for each label. ``inertia`` is the
    sum over labels of 1 − cosine to their cluster's center.
    """
    index_of = {member.label: index for index, cluster in enumerate(proposal.clusters) for member in cluster.labels}
    assignment = np.array([index_of[label] for label in embedding.labels])
    centers = unit_centers(embedding.vectors, assignment, np.ones(len(assignment)))
    similarity = (embedding.vectors * centers[assignment]).sum(axis=1).astype(np.float64)
    has_silhouette = 2 <= len(proposal.clusters) < len(assignment)
    return {
        "labels": len(assignment),
        "clusters": len(proposal.clusters),
        "landmarks": sum(cluster.landmarks for cluster in proposal.clusters),
        "labels_a_cluster": _spread([len(cluster.labels) for cluster in proposal.clusters]),
        "landmarks_a_cluster": _spread([cluster.landmarks for cluster in proposal.clusters]),
        "inertia": round(float((1 - similarity).sum()), 4),
        "silhouette": round(float(silhouettes(embedding.vectors, assignment).mean()), 4) if has_silhouette else None,
        "references": {name: measure_agreement(classes, index_of) for name, classes in (references or {}).items()},
    }


def _spread(sizes: list[int]) -> dict[str, float]:
    return {"least": min(sizes), "median": float(np.median(sizes)), "most": max(sizes)}


def describe_clustered(result: Clustered) -> str:
    """The clusters, then their quality, and how they agree with each reference."""
    quality = result.quality
    silhouette = quality["silhouette"]
    # one cluster, or one for each label, has none
    silhouette_text = "" if silhouette is None else f"silhouette {silhouette:.3f}, "
    lines = [describe_proposal(result.proposal), f"{silhouette_text}inertia {quality['inertia']:.1f}"]
    for name, values in quality["references"].items():
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
