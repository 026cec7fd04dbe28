"""From distinct labels to proposed supercategories: embed, cluster, settle the kinds, name. No files here.

A label's *margin* is positive for natural. It is 1 or −1 where the list of place nouns or hypernyms say its kind. Else
it is the label's cosine to the nearest natural noun less that to the nearest human-made one. It is *certain* when its
size reaches the encoder's ``kind_margin``. A label is natural if it certainly is, and human-made otherwise: most
landmarks are, so that is the better guess where nothing is known; people are asked to look at uncertain ones. A cluster
takes the sign of the sum of its certain margins, and labels of the other kind move to the nearest cluster of their own,
so that every supercategory has exactly one kind and the result is a tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from hiertree.errors import OptionError

from ..encode.hypernyms import Hypernyms
from ..encode.phrases import HUMAN_MADE, NATURAL, parse, thesaurus
from ..encode.text_encoders import TextEncoder
from .clustering import RESTARTS, Floats, Integers, Vectors, choose_k, silhouettes, spherical_kmeans, unit_centers
from .naming import groups_above, propose_names

_MARGIN = {NATURAL: 1.0, HUMAN_MADE: -1.0}
_NATURAL = (-1, 0, 1, 4), (0.02, 0.07, 0.5, 0.94)  # margins in units of the certain one, shares of natural labels


def known_margin(label: str, hypernyms: Hypernyms | None = None) -> float | None:
    """The margin by what is known of a label; None where nothing is.

    It is 1 or −1 where the list has its head noun, or else the source has what stands above its class, or above that of
    its head noun; and half as much where the list has another noun of the label.
    """
    phrase = parse(label)
    listed = None if phrase.sense is None else _MARGIN[thesaurus().kind_of[phrase.sense]]
    if listed is not None and phrase.certain:
        return listed
    kind = None if hypernyms is None else hypernyms.kind(hypernyms.classes(label))
    if kind is not None:
        return _MARGIN[kind]
    return None if listed is None else listed / 2


def kind_margins(vectors: Vectors, natural: Vectors, human_made: Vectors) -> Floats:
    """(n,) cosines to the nearest natural anchor less those to the nearest human-made one, positive for natural."""
    return np.asarray((vectors @ natural.T).max(axis=1) - (vectors @ human_made.T).max(axis=1), dtype=np.float64)


def kind_of(margin: float) -> str:
    """The kind that a margin indicates; zero is human-made."""
    return NATURAL if margin > 0 else HUMAN_MADE


def natural_probability(margin: float, certain: float) -> float:
    """How probable it is that a label of this margin is natural: a half where the margin becomes certain.

    Shares of natural labels among those whose kind is known from elsewhere, interpolated; docs/label_quality.md
    shows how often they come true on others.
    """
    return float(np.interp(margin / certain, *_NATURAL))


def settle_kinds(
    vectors: Vectors, assignment: Integers, centers: Vectors, margins: Floats, certain: float
) -> tuple[Integers, Floats]:
    """Give every cluster one kind, and move the labels of the other.

    Returns:
        The new assignment (clusters from 0 in the same order, none empty), and the (k,) mean margin of each cluster,
        where uncertain labels count as 0; it is positive for the clusters of natural labels alone.
    """
    settled = assignment.copy()
    label_is_natural = margins >= certain
    votes = np.where(np.abs(margins) >= certain, margins, 0.0)
    is_natural = np.bincount(assignment, weights=votes) > 0
    for natural in (True, False):
        homes = np.flatnonzero(is_natural == natural)
        movers = np.flatnonzero((label_is_natural == natural) & (is_natural[assignment] != natural))
        if len(movers) and len(homes):
            settled[movers] = homes[np.argmax(vectors[movers] @ centers[homes].T, axis=1)]
        elif len(movers):
            settled[movers] = len(centers)  # no cluster of that kind: these labels make one
    settled = np.unique(settled, return_inverse=True)[1].astype(np.int64)
    return settled, np.bincount(settled, weights=votes) / np.bincount(settled)


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
        natural: how probable it is that it is natural, or None in a proposal of an earlier version.
        hypernyms: what stands above it in the source, from the nearest on, if that is known.
    """

    label: str
    landmarks: int
    similarity: float
    silhouette: float
    margin: float
    doubt: str
    natural: float | None = None
    hypernyms: tuple[str, ...] = ()


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


@dataclass(frozen=True)
class Embedding:
    """Distinct labels as vectors."""

    labels: tuple[str, ...]  # n texts, sorted
    vectors: Vectors  # (n, d) float32 of unit norm
    margins: Floats  # (n,) positive for natural, negative for human-made (:func:`known_margin`)
    certain: float  # the size from which a margin decides
    # what stands above labels in the source, for those where that is known
    chains: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def embed(labels: Iterable[str], encoder: TextEncoder, *, hypernyms: Hypernyms | None = None) -> Embedding:
    """Encode labels, and find how near each is to either kind."""
    texts = sorted(labels)
    if len(texts) < 2:
        raise OptionError(f"{len(texts)} distinct labels", expected="at least 2 to cluster")
    vectors, margins = encoder.encode(texts), _margins(texts, encoder, hypernyms)
    if hypernyms is None:
        return Embedding(tuple(texts), vectors, margins, encoder.kind_margin)
    chains = {text: chain for text in texts if (chain := hypernyms.chain(text))}
    return Embedding(tuple(texts), hypernyms.join(texts, vectors), margins, encoder.kind_margin, chains)


def _margins(texts: Sequence[str], encoder: TextEncoder, hypernyms: Hypernyms | None) -> Floats:
    """By what is known of labels, and of others by their cosines to place nouns."""
    margins = {text: known_margin(text, hypernyms) for text in texts}
    others = [text for text, margin in margins.items() if margin is None]
    if others:
        natural, human_made = (thesaurus().anchors(kind) for kind in (NATURAL, HUMAN_MADE))
        encoded = encoder.encode([*others, *natural, *human_made])
        near = kind_margins(*np.split(encoded, np.cumsum([len(others), len(natural)])))
        margins |= dict(zip(others, near.tolist(), strict=True))
    return np.array(list(margins.values()))


def propose(
    counts: Mapping[str, int],
    encoder: TextEncoder,
    *,
    clusters: int | Literal["auto"] = "auto",
    seed: int = 0,
    restarts: int = RESTARTS,
    levels: int = 0,
    hypernyms: Hypernyms | None = None,
) -> Proposal:
    """Propose supercategories for labels; the order in which they are given does not matter.

    Args:
        counts: label → number of landmarks.
        encoder: what embeds the labels.
        clusters: k, or ``"auto"`` to choose it by silhouette (:func:`choose_k`). Settling the kinds may empty a cluster
            or, when all have one kind, add one.
        seed: of k-means.
        restarts: runs of k-means, which are joined.
        levels: of groups between kinds and clusters.
        hypernyms: what stands above labels, where that is known.

    Raises:
        OptionError: more clusters than labels, or fewer than two labels.

    >>> from hiertree.pipelines.labels import PlaceNounEncoder
    >>> labels = {"lake": 3, "pond": 1, "road bridge": 1, "railway bridge": 2}
    >>> [(cluster.name, cluster.kind) for cluster in propose(labels, PlaceNounEncoder(), clusters=2).clusters]
    [('lake', 'natural'), ('bridge', 'human-made')]
    """
    embedding = embed(counts, encoder, hypernyms=hypernyms)
    return propose_for(embedding, counts, clusters=clusters, seed=seed, restarts=restarts, levels=levels)


def propose_for(
    embedding: Embedding, counts: Mapping[str, int], *, clusters: int | Literal["auto"], levels: int, **runs: int
) -> Proposal:
    """The same for labels that are embedded already; ``runs`` are the seed and the restarts."""
    vectors = embedding.vectors
    weights = 1 + np.log([counts[label] for label in embedding.labels])
    k, scores = choose_k(vectors, weights=weights, **runs) if clusters == "auto" else (clusters, {})
    found = spherical_kmeans(vectors, k, weights=weights, **runs)
    certain = embedding.certain
    assignment, cluster_margins = settle_kinds(vectors, found.assignment, found.centers, embedding.margins, certain)
    centers = unit_centers(vectors, assignment, weights)
    members = _members(embedding, counts, assignment, centers)
    named = [{place.label: place.landmarks for place in cluster} for cluster in members]
    names = propose_names(named, chains=embedding.chains)
    kinds = [kind_of(margin) for margin in cluster_margins]
    above = groups_above(centers, kinds, names, named, levels=levels, chains=embedding.chains)
    made = [
        _cluster(name, float(margin), cluster, certain, groups)
        for name, margin, cluster, groups in zip(names, cluster_margins, members, above, strict=True)
    ]
    return Proposal(tuple(sorted(made, key=lambda cluster: (-cluster.landmarks, cluster.name))), scores)


def _members(
    embedding: Embedding, counts: Mapping[str, int], assignment: Integers, centers: Vectors
) -> list[list[LabelPlace]]:
    """The labels of each cluster, in the order of the embedding."""
    cosines = (embedding.vectors * centers[assignment]).sum(axis=1)
    numbers = np.stack([cosines, silhouettes(embedding.vectors, assignment), embedding.margins], axis=1)
    members: list[list[LabelPlace]] = [[] for _ in centers]
    for label, row, own in zip(embedding.labels, numbers, assignment, strict=True):
        similarity, silhouette, margin = (round(float(number), 4) for number in row)
        doubts = ["kind"] if abs(margin) < embedding.certain else []
        doubts += ["nearer to another cluster"] if silhouette < 0 else []
        about = (similarity, silhouette, margin, ", ".join(doubts))
        natural = round(natural_probability(margin, embedding.certain), 4)
        members[own].append(LabelPlace(label, counts[label], *about, natural, embedding.chains.get(label, ())))
    return members


def _cluster(name: str, margin: float, places: list[LabelPlace], certain: float, above: tuple[str, ...]) -> Cluster:
    doubtful = sum(place.landmarks for place in places if place.doubt)
    doubts = ["kind"] if abs(margin) < certain else []
    doubts += ["labels"] if 3 * doubtful > sum(place.landmarks for place in places) else []
    ordered = tuple(sorted(places, key=lambda place: (-place.landmarks, place.label)))
    return Cluster(name, kind_of(margin), round(margin, 4), ordered, ", ".join(doubts), above)
