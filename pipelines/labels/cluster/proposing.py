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
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hiertree.errors import OptionError

from ..encode.hypernyms import Hypernyms
from ..encode.phrases import NO_LANDMARK, thesaurus
from ..encode.text_encoders import TextEncoder
from .clustering import RESTARTS, Floats, Integers, Vectors, choose_k, silhouettes, spherical_kmeans, unit_centers
from .embedding import LIKELY, Embedding, embed, kind_of
from .naming import GENERAL, groups_above, propose_names

UNKNOWN = "unknown"
_NEAR = 0.2  # of the median silhouette: below, another cluster is near
_FEW = 3  # labels of one sense in a cluster: they do not vouch for each other
_GUESSES, _ALIKE = 3, 0.02  # clusters named for an unknown label, and from which cosine


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
    """

    label: str
    landmarks: int
    similarity: float
    silhouette: float
    margin: float
    doubt: str
    hypernyms: tuple[str, ...] = ()
    target: str = ""


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
        return sum(place.landmarks for place in self.labels)


@dataclass(frozen=True)
class Proposal:
    """The clusters, those of most landmarks first, and the silhouettes by which k was chosen (none if it was given)."""

    clusters: tuple[Cluster, ...]
    silhouettes: dict[int, float]

    def cluster_of(self) -> dict[str, Cluster]:
        """Label → its cluster."""
        return {place.label: cluster for cluster in self.clusters for place in cluster.labels}


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

    Raises:
        OptionError: more clusters than labels, or no label.

    >>> from hiertree.pipelines.labels import PlaceNounEncoder
    >>> labels = {"lake": 3, "pond": 1, "road bridge": 1, "railway bridge": 2}
    >>> [(cluster.name, cluster.kind) for cluster in propose(labels, PlaceNounEncoder(), clusters=2).clusters]
    [('lake', 'natural'), ('railway bridge', 'human-made')]
    """
    if not counts:
        raise OptionError("no label", expected="at least 1 to cluster")
    embedding = embed(counts, encoder, hypernyms=hypernyms, reader=reader)
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
    centers = unit_centers(embedding.vectors, assignment, weights)
    cluster_counts = [_counts(embedding, counts, assignment == number) for number in range(len(cluster_margins))]
    chains = dict(zip(embedding.texts, embedding.chains, strict=True))
    names = propose_names(cluster_counts, chains=chains)
    kinds = [kind_of(margin) for margin in cluster_margins]
    known_centers = centers[: len(cluster_counts)]
    group_names = groups_above(known_centers, kinds, names, cluster_counts, levels=levels, chains=chains)
    places = _places(embedding, counts, assignment, centers, names)
    descriptions = [*zip(names, cluster_margins.tolist(), group_names, strict=True)]
    descriptions += [] if is_known.all() else [(UNKNOWN, 0.0, (UNKNOWN,) * levels)]
    members: list[list[LabelPlace]] = [[] for _ in descriptions]
    for place, number in zip(places, assignment, strict=True):
        members[number].append(place)
    proposed_clusters = [_cluster(*part, labels) for part, labels in zip(descriptions, members, strict=True)]
    return Proposal(tuple(sorted(proposed_clusters, key=lambda cluster: (-cluster.landmarks, cluster.name))), scores)


def _counts(embedding: Embedding, counts: Mapping[str, int], members: NDArray[np.bool_]) -> Counter[str]:
    """The texts of a cluster's labels, and their numbers of landmarks."""
    landmark_counts: Counter[str] = Counter()
    for place in np.flatnonzero(members):
        landmark_counts[embedding.texts[place]] += counts[embedding.labels[place]]
    return landmark_counts


def _places(
    embedding: Embedding, counts: Mapping[str, int], assignment: Integers, centers: Vectors, names: Sequence[str]
) -> list[LabelPlace]:
    """Each label, in the order of the embedding."""
    is_known, cosines = embedding.known, (embedding.vectors * centers[assignment]).sum(axis=1)
    row_silhouettes = np.zeros(len(is_known))
    row_silhouettes[is_known] = silhouettes(embedding.vectors[is_known], assignment[is_known]) if is_known.any() else 0
    is_near, senses = are_near(row_silhouettes, assignment) & is_known, embedding.senses
    sizes, sense_counts, places = np.bincount(assignment), Counter(zip(assignment, senses, strict=True)), []
    for row, label in enumerate(embedding.labels):
        margin = float(embedding.margins[row])
        doubts = [f"{NO_LANDMARK}: {senses[row]}"] if thesaurus().theme_of.get(senses[row]) == NO_LANDMARK else []
        doubts += ["kind"] if abs(margin) < 1 else []
        doubts += [f"read as {reading}"] if (reading := embedding.readings[row]) else []
        doubts += ["near another cluster"] if is_near[row] else []
        parent, targets = embedding.parents[row], list[str]()
        if assignment[parent] != assignment[row] and senses[parent] not in GENERAL:
            doubts.append(f"above it: {embedding.labels[parent]}")
            targets += names[assignment[parent] :][:1]  # none if that one is unknown itself
        elif is_known[row] and sense_counts[assignment[row], senses[row]] <= _FEW and sizes[assignment[row]] > 1:
            noun = embedding.others[row]
            doubts.append(f"above it: {noun}" if noun else "few alike")
        if not is_known[row]:
            targets = _guesses(embedding.vectors[row], centers, names)
            doubts.append(f"unknown: {' or '.join(targets)}?" if targets else UNKNOWN)
        numbers, doubt = (cosines[row], row_silhouettes[row], margin), ", ".join(doubts)
        cosine, silhouette, margin = (round(float(number), 4) for number in numbers)
        chain, target = embedding.chains[row], next(iter(targets), "")
        places.append(LabelPlace(label, counts[label], cosine, silhouette, margin, doubt, chain, target))
    return places


def _guesses(vector: Vectors, centers: Vectors, names: Sequence[str]) -> list[str]:
    cosines = centers[: len(names)] @ vector
    return [names[place] for place in np.argsort(-cosines, kind="stable")[:_GUESSES] if cosines[place] >= _ALIKE]


def _cluster(name: str, margin: float, group_names: tuple[str, ...], places: list[LabelPlace]) -> Cluster:
    doubtful = sum(place.landmarks for place in places if place.doubt)
    doubts = ["kind"] if abs(margin) < 1 else []
    doubts += ["labels"] if 3 * doubtful > sum(place.landmarks for place in places) else []
    sorted_places = tuple(sorted(places, key=lambda place: (-place.landmarks, place.label)))
    return Cluster(name, kind_of(margin), round(margin, 4), sorted_places, ", ".join(doubts), group_names)


def are_near(row_silhouettes: Floats, assignment: Integers) -> NDArray[np.bool_]:
    """(n,) booleans: another cluster is almost as near as the row's own, by silhouette."""
    return (np.bincount(assignment)[assignment] > 1) & (row_silhouettes < _NEAR * np.median(row_silhouettes))


def settle_senses(vectors: Vectors, assignment: Integers, senses: NDArray[Any]) -> Integers:
    """Labels at the edge of a cluster of another sense move to one of their own, or make one together."""
    common = [Counter(senses[assignment == number]).most_common(1)[0][0] for number in range(assignment.max() + 1)]
    cluster_of_sense = {sense: number for number, sense in reversed(list(enumerate(common)))}
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
    votes = np.where(label_is_natural | (margins <= -1), margins, 0.0)
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
