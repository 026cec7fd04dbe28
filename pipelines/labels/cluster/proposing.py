"""From distinct labels to proposed supercategories: embed, cluster, settle the kinds, name. No files here.

A label is natural if its margin reaches ``LIKELY``, and human-made otherwise: most landmarks are, so that is the better
guess where nothing is known; people are asked to look at uncertain ones. A cluster takes the sign of the sum of its
labels' margins, and labels of the other kind move to the nearest cluster of their own, so that every supercategory has
exactly one kind and the result is a tree. Where the encoder knows only letters, the labels of which neither list nor
graph knows anything stand in a cluster of their own, *unknown*, for people.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hiertree.errors import OptionError

from ..encode.hypernyms import Hypernyms
from ..encode.place_nouns import HUMAN_MADE, NATURAL, NO_LANDMARK
from ..encode.text_encoders import TextEncoder
from .certainty import (
    are_catch_alls,
    are_outside_core,
    are_vouched,
    bears_names,
    cluster_cores,
    likelier_cluster,
    nearest_clusters,
    specific_classes,
    vouching_fractions,
)
from .clustering import RESTARTS, Floats, Integers, Vectors, choose_k, silhouettes, spherical_kmeans, unit_centers
from .embedding import CERTAIN_MARGIN, LIKELY, PLACES_OF_ANY_LOOK, Embedding, embed, kind_of
from .naming import groups_above, propose_names

UNKNOWN = "unknown"
_NEAR = 0.2  # of the median silhouette: below, another cluster is near
_FEW = 3  # labels of one sense in a cluster: they do not vouch for each other
_GUESSES, _ALIKE = 3, 0.02  # clusters named for an unknown label, and from which cosine
_GENERAL_CLUSTER = "general cluster"  # the doubt of labels of which only the cluster is known, and that holds anything


@dataclass(frozen=True)
class LabelPlace:
    """A label in its cluster.

    Attributes:
        label: its text.
        landmarks: how many landmarks carry it.
        similarity: cosine to the cluster's center.
        silhouette: in [−1, 1]; negative when another cluster is nearer.
        margin: positive for natural, negative for human-made.
        doubt: what people should look at, or an empty string.
        hypernyms: what stands above it in the source, from the nearest on, if that is known.
        target: the cluster that is proposed to people instead, that of the label above it or the likeliest of an
            unknown one; an empty string where none is likelier than its own.
        either: whether it is natural as well as human-made.
        vouched: the fraction of its cluster's other labels that share a specific class with it; 0 where its classes
            are not known.
    """

    label: str
    landmarks: int
    similarity: float
    silhouette: float
    margin: float
    doubt: str
    hypernyms: tuple[str, ...] = ()
    target: str = ""
    either: bool = False
    vouched: float = 0.0


@dataclass(frozen=True)
class Cluster:
    """A proposed supercategory, its labels from the commonest to the rarest.

    Attributes:
        name: its name, unlike every other cluster's.
        kind: ``natural`` or ``human-made``.
        margin: the mean of its labels' margins.
        labels: its labels.
        doubt: what people should look at, or an empty string.
        above: names of the groups between kind and cluster, coarse → fine; as many for every cluster.
    """

    name: str
    kind: str
    margin: float
    labels: tuple[LabelPlace, ...]
    doubt: str
    above: tuple[str, ...] = ()

    @property
    def landmarks(self) -> int:
        """Landmarks that carry one of its labels (counted once a label)."""
        return sum(member.landmarks for member in self.labels)


@dataclass(frozen=True)
class Proposal:
    """The clusters, those of most landmarks first, and the silhouettes by which k was chosen (none if it was given)."""

    clusters: tuple[Cluster, ...]
    silhouettes: dict[int, float]

    def cluster_of(self) -> dict[str, Cluster]:
        """Label → its cluster."""
        return {member.label: cluster for cluster in self.clusters for member in cluster.labels}


def propose(
    counts: Mapping[str, int],
    encoder: TextEncoder,
    *,
    clusters: int | Literal["auto"] = "auto",
    seed: int = 0,
    restarts: int = RESTARTS,
    levels: int = 0,
    hypernyms: Hypernyms | None = None,
    reader: TextEncoder | None = None,
    second: TextEncoder | None = None,
) -> Proposal:
    """Propose supercategories for labels; the order in which they are given does not matter.

    Args:
        counts: label → number of landmarks.
        encoder: what embeds the labels.
        clusters: k, or ``"auto"`` to choose it by silhouette (:func:`choose_k`). Labels that move to one of their kind
            or to the label above them may empty a cluster; a kind of its own and *unknown* labels may add one each.
        seed: of k-means.
        restarts: runs of k-means, which are joined.
        levels: of groups between kinds and clusters.
        hypernyms: what stands above labels; default: what is known without a table.
        reader: reads labels of which nothing is known as the place noun nearest to them, in other languages too.
        second: another encoder, which says what certainly belongs to its cluster where no class above a label does.

    Raises:
        OptionError: more clusters than labels, or no label.

    >>> from hiertree.pipelines.labels import PlaceNounEncoder
    >>> labels = {"lake": 3, "pond": 1, "road bridge": 1, "railway bridge": 2}
    >>> [(cluster.name, cluster.kind) for cluster in propose(labels, PlaceNounEncoder(), clusters=2).clusters]
    [('lake', 'natural'), ('railway bridge', 'human-made')]
    """
    if not counts:
        raise OptionError("no label", expected="at least 1 to cluster")
    embedding = embed(counts, encoder, hypernyms=hypernyms, reader=reader, second=second)
    return propose_for(embedding, counts, clusters=clusters, seed=seed, restarts=restarts, levels=levels)


def propose_for(
    embedding: Embedding, counts: Mapping[str, int], *, clusters: int | Literal["auto"], levels: int, **runs: int
) -> Proposal:
    """The same for labels that are embedded already; ``runs`` are the seed and the restarts."""
    weights = 1 + np.log([counts[label] for label in embedding.labels])
    is_known, scores = embedding.known, dict[int, float]()
    assignment, cluster_margins = np.zeros(len(weights), dtype=np.int64), np.zeros(0)
    if is_known.any():
        vectors, known_weights = embedding.vectors[is_known], weights[is_known]
        k, scores = choose_k(vectors, weights=known_weights, **runs) if clusters == "auto" else (clusters, scores)
        assignment[is_known] = spherical_kmeans(vectors, k, weights=known_weights, **runs)
        if clusters == "auto":
            assignment[is_known] = settle_senses(vectors, assignment[is_known], embedding.senses[is_known])
        merged_clusters = join_parents(assignment, embedding.parents, embedding.senses)[is_known]
        merged_clusters = np.unique(merged_clusters, return_inverse=True)[1]
        centers, margins = unit_centers(vectors, merged_clusters, known_weights), embedding.margins[is_known]
        assignment[is_known], cluster_margins = settle_kinds(vectors, merged_clusters, centers, margins)
    assignment[~is_known] = len(cluster_margins)
    clusters_to_name = [AssignedCluster()] * len(cluster_margins)
    return _described(embedding, counts, assignment, clusters_to_name, cluster_margins, levels, scores)


@dataclass(frozen=True)
class AssignedCluster:
    """A cluster that comes from elsewhere; what is empty is proposed."""

    name: str = ""
    kind: str = ""
    above: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    either: frozenset[str] = frozenset()  # the labels that are natural as well as human-made
    rows: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # of labels, the cells of a table


def propose_assigned(
    embedding: Embedding, counts: Mapping[str, int], clusters: Sequence[AssignedCluster], *, levels: int
) -> Proposal:
    """The proposal that clusters from elsewhere make: none is changed; labels that are in none stand in *unknown*."""
    row_of = {label: row for row, label in enumerate(embedding.labels)}
    assignment, margins = np.full(len(row_of), len(clusters)), np.zeros(len(clusters))
    for index, cluster in enumerate(clusters):
        rows = [row_of[label] for label in cluster.labels]
        assignment[rows] = index
        margins[index] = {NATURAL: CERTAIN_MARGIN, HUMAN_MADE: -CERTAIN_MARGIN}.get(
            cluster.kind, float(_votes(embedding.margins[rows]).mean())
        )
    either = np.isin(embedding.labels, sorted(frozenset[str]().union(*(cluster.either for cluster in clusters))))
    assigned_embedding = replace(embedding, known=assignment < len(clusters), either=embedding.either | either)
    return _described(assigned_embedding, counts, assignment, clusters, margins, levels, {})


def _described(
    embedding: Embedding,
    counts: Mapping[str, int],
    assignment: Integers,
    clusters: Sequence[AssignedCluster],
    margins: Floats,
    levels: int,
    scores: dict[int, float],
) -> Proposal:
    """Names, groups and doubts for an assignment; labels that are not known have the last number."""
    weights = 1 + np.log([counts[label] for label in embedding.labels])
    centers = unit_centers(embedding.vectors, assignment, weights)
    rows_of = [np.flatnonzero(assignment == index) for index in range(len(clusters))]
    cluster_counts = [{embedding.labels[row]: counts[embedding.labels[row]] for row in rows} for rows in rows_of]
    chains = dict(zip(embedding.labels, embedding.chains, strict=True))
    texts = dict(zip(embedding.labels, embedding.texts, strict=True))
    proposed_names = propose_names(cluster_counts, chains=chains, texts=texts)
    names = _free_names([cluster.name for cluster in clusters], proposed_names)
    kinds = [kind_of(margin) for margin in margins]
    if any(cluster.above for cluster in clusters):
        paths = [cluster.above or (name,) for cluster, name in zip(clusters, names, strict=True)]
    else:
        known_centers, known_as = centers[: len(names)], (kinds, names, cluster_counts)
        paths = groups_above(known_centers, *known_as, levels=levels, chains=chains, texts=texts)
    placing = _Placing(embedding, assignment, names, margins, centers)
    rows = {label: row for cluster in clusters for label, row in cluster.rows.items()}
    descriptions = [*zip(names, margins.tolist(), paths, strict=True)]
    descriptions += [] if embedding.known.all() else [(UNKNOWN, 0.0, (UNKNOWN,) * len(paths[0] if paths else ()))]
    members: list[list[LabelPlace]] = [[] for _ in descriptions]
    for row, index in enumerate(assignment):
        label = placing.place(row, counts[embedding.labels[row]])
        members[index].append(replace(label, doubt=rows.get(label.label, {}).get("doubt", label.doubt)))
    proposed_clusters = [_cluster(*head, labels) for head, labels in zip(descriptions, members, strict=True)]
    return Proposal(tuple(sorted(proposed_clusters, key=lambda cluster: (-cluster.landmarks, cluster.name))), scores)


def _free_names(given_names: Sequence[str], proposed_names: Sequence[str]) -> list[str]:
    """The names given, and for a cluster without one that proposed, if need be with a number."""
    names = list(given_names)
    for index, proposed in enumerate(proposed_names):
        if not names[index]:
            suffixed = (f"{proposed} {suffix}" for suffix in count(2))
            names[index] = next(name for name in (proposed, *islice(suffixed, len(names) + 1)) if name not in names)
    return names


class _Placing:
    """Whether labels belong in their clusters, by the classes above them, or a second encoder, or the first.

    Rows are those of the embedding.
    """

    def __init__(
        self, embedding: Embedding, assignment: Integers, names: Sequence[str], margins: Floats, centers: Vectors
    ) -> None:
        self.embedding, self.assignment, self.names, self.margins = embedding, assignment, names, margins
        self.centers, self.silhouettes, is_known = centers, np.zeros(len(assignment)), embedding.known
        if is_known.any():
            self.silhouettes[is_known] = silhouettes(embedding.vectors[is_known], assignment[is_known])
        has_chain = np.array([bool(lineage) for lineage in embedding.lineages])
        classes = specific_classes(embedding.lineages)
        self.fractions = vouching_fractions(classes, has_chain, assignment)
        bears = bears_names(embedding.lineages, embedding.texts, names)
        self.catch_alls = are_catch_alls(names, bears, assignment)
        self.vouched = has_chain & are_vouched(self.fractions, bears, self.catch_alls, assignment)
        self.vouched &= ~are_outside_core(classes, has_chain, assignment)
        self.classes, self.cores = classes, cluster_cores(classes, has_chain, assignment, self.catch_alls)
        self.targets = ["" if is_catch_all else name for name, is_catch_all in zip(names, self.catch_alls, strict=True)]
        self.nearest = None if embedding.second is None else nearest_clusters(embedding.second, assignment, len(names))
        self.is_near = are_near(self.silhouettes, assignment) & is_known
        is_read = np.array([bool(reading) for reading in embedding.readings])  # what is read vouches for nobody
        self.sizes = np.bincount(assignment)
        self.senses = Counter(zip(assignment[~is_read].tolist(), embedding.senses[~is_read].tolist(), strict=True))

    def place(self, row: int, landmarks: int) -> LabelPlace:
        """A label, with what is in doubt about it."""
        embedding, own_index, margin = self.embedding, self.assignment[row], float(self.embedding.margins[row])
        doubt, target = self.doubt_of(row)
        is_inherited = self.vouched[row] and _agree(margin, self.margins[own_index])
        doubts = [f"{NO_LANDMARK}: {reason}"] if (reason := embedding.unfit[row]) else []
        doubts += [f"any look: {sense}"] if (sense := embedding.senses[row]) in PLACES_OF_ANY_LOOK else []
        doubts += [] if abs(margin) >= 1 or embedding.either[row] or is_inherited else ["kind"]
        doubts += [f"read as {reading}"] if (reading := embedding.readings[row]) else []
        return LabelPlace(
            embedding.labels[row],
            landmarks,
            similarity=round(float(embedding.vectors[row] @ self.centers[own_index]), 4),
            silhouette=round(float(self.silhouettes[row]), 4),
            margin=round(margin, 4),
            doubt=", ".join([*doubts, *filter(None, [doubt])]),
            hypernyms=embedding.chains[row],
            target=target,
            either=bool(embedding.either[row]),
            vouched=round(float(self.fractions[row]), 4),
        )

    def doubt_of(self, row: int) -> tuple[str, str]:
        """Why a label may not belong to its cluster, and the cluster proposed instead; empty where it does, or none."""
        embedding, own_index = self.embedding, self.assignment[row]
        if not embedding.known[row]:
            guesses = self._guesses(row)
            return (f"unknown: {' or '.join(guesses)}?" if guesses else UNKNOWN), next(iter(guesses), "")
        if embedding.lineages[row]:
            return ("", "") if self.vouched[row] else self._doubt_by_chain(row)
        if self.catch_alls[own_index]:
            return _GENERAL_CLUSTER, UNKNOWN if UNKNOWN not in self.names and len(self.sizes) > len(self.names) else ""
        if self.nearest is not None:
            nearest = self.nearest[row]
            return ("", "") if nearest in (own_index, -1) else (f"nearer: {self.names[nearest]}", self.names[nearest])
        is_rare = self.sizes[own_index] > 1 and self.senses[own_index, embedding.senses[row]] <= _FEW
        doubts = ["near another cluster"] if self.is_near[row] else []
        doubts += ["few alike"] if is_rare else []
        return ", ".join(doubts), ""

    def _doubt_by_chain(self, row: int) -> tuple[str, str]:
        chain, own_index = self.embedding.chains[row], int(self.assignment[row])
        own_classes = self.classes[row].indices.tolist()
        widths = {cluster: width for cluster, (width, core) in self.cores.items() if not core.isdisjoint(own_classes)}
        target = likelier_cluster(widths, chain, self.targets, own_index)
        unknown = UNKNOWN if self.catch_alls[own_index] and len(self.sizes) > len(self.names) else ""
        reason = f"above it: {chain[0]}" if chain else "few alike"
        return reason, unknown if target is None else self.names[target]

    def _guesses(self, row: int) -> list[str]:
        cosines = self.centers[: len(self.names)] @ self.embedding.vectors[row]
        nearest = np.argsort(-cosines, kind="stable")[:_GUESSES]
        return [self.names[cluster] for cluster in nearest if cosines[cluster] >= _ALIKE]


def _agree(margin: float, cluster_margin: float) -> bool:
    """Whether a label may take its kind from a cluster of which the kind is certain: its margin says nothing else."""
    return abs(cluster_margin) >= 1 and (margin >= LIKELY if cluster_margin > 0 else margin < LIKELY)


def _cluster(name: str, margin: float, group_names: tuple[str, ...], label_places: list[LabelPlace]) -> Cluster:
    doubtful = sum(member.landmarks for member in label_places if member.doubt)
    doubts = ["kind"] if abs(margin) < 1 else []
    doubts += ["labels"] if 3 * doubtful > sum(member.landmarks for member in label_places) else []
    members = tuple(sorted(label_places, key=lambda member: (-member.landmarks, member.label)))
    return Cluster(name, kind_of(margin), round(margin, 4), members, ", ".join(doubts), group_names)


def are_near(row_silhouettes: Floats, assignment: Integers) -> NDArray[np.bool_]:
    """(n,) booleans: another cluster is almost as near as the row's own, by silhouette."""
    return (np.bincount(assignment)[assignment] > 1) & (row_silhouettes < _NEAR * np.median(row_silhouettes))


def settle_senses(vectors: Vectors, assignment: Integers, senses: NDArray[Any]) -> Integers:
    """Labels at the edge of a cluster of another sense move to one of their own, or make one together."""
    common = [Counter(senses[assignment == index]).most_common(1)[0][0] for index in range(assignment.max() + 1)]
    cluster_of_sense = {sense: index for index, sense in reversed(list(enumerate(common)))}
    new_assignment = assignment.copy()
    for row in np.flatnonzero(are_near(silhouettes(vectors, assignment), assignment)):
        if senses[row] not in ("", common[assignment[row]]):
            new_assignment[row] = cluster_of_sense.setdefault(senses[row], len(cluster_of_sense) + len(common))
    return np.unique(new_assignment, return_inverse=True)[1].astype(np.int64)


def join_parents(assignment: Integers, parents: Integers, senses: NDArray[Any]) -> Integers:
    """Each label goes to the cluster of the one above it, up to where two senses are known to differ."""
    differ = (senses != senses[parents]) & (senses != "") & (senses[parents] != "")
    upper = np.where(differ, np.arange(len(parents)), parents)
    for _ in range(len(upper).bit_length()):
        upper = upper[upper]
    return assignment[upper]


def settle_kinds(vectors: Vectors, assignment: Integers, centers: Vectors, margins: Floats) -> tuple[Integers, Floats]:
    """Give every cluster one kind, and move the labels of the other.

    Returns:
        The new assignment (clusters from 0 in the same order, none empty), and the (k,) mean margin of each cluster,
        where uncertain labels count as 0; it is positive for the clusters of natural labels alone.
    """
    new_assignment = assignment.copy()
    label_is_natural = margins >= LIKELY
    votes = _votes(margins)
    is_natural = np.bincount(assignment, weights=votes) > 0
    for natural in (True, False):
        targets = np.flatnonzero(is_natural == natural)
        movers = np.flatnonzero((label_is_natural == natural) & (is_natural[assignment] != natural))
        if len(movers) and len(targets):
            new_assignment[movers] = targets[np.argmax(vectors[movers] @ centers[targets].T, axis=1)]
        elif len(movers):
            new_assignment[movers] = len(centers)  # no cluster of that kind: these labels make one
    new_assignment = np.unique(new_assignment, return_inverse=True)[1].astype(np.int64)
    return new_assignment, np.bincount(new_assignment, weights=votes) / np.bincount(new_assignment)


def _votes(margins: Floats) -> Floats:
    """Margins, of which those of uncertain labels count as 0."""
    return np.where((margins >= LIKELY) | (margins <= -1), margins, 0.0)
