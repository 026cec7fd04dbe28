"""From distinct labels to proposed supercategories: embed, cluster, settle the kinds, name. No files here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from hiertree.errors import OptionError
from hiertree.pipelines.labels.clustering import choose_k, spherical_kmeans, unit_centres
from hiertree.pipelines.labels.kinds import kind_margins, kind_of, settle_kinds
from hiertree.pipelines.labels.naming import propose_names
from hiertree.pipelines.labels.phrases import HUMAN_MADE, NATURAL, thesaurus
from hiertree.pipelines.labels.text_encoders import TextEncoder

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class LabelPlace:
    """A label in its cluster.

    Attributes:
        label: its text.
        landmarks: how many landmarks carry it.
        similarity: cosine to the cluster's centre.
        silhouette: in [−1, 1]; negative when another cluster is nearer.
        margin: positive for natural, negative for human-made.
        doubt: what people should look at, or an empty string.
    """

    label: str
    landmarks: int
    similarity: float
    silhouette: float
    margin: float
    doubt: str


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
    counts: Mapping[str, int], encoder: TextEncoder, *, clusters: int | Literal["auto"] = "auto", seed: int = 0
) -> Proposal:
    """Propose supercategories for labels; the order in which they are given does not matter.

    Args:
        counts: label → number of landmarks.
        encoder: what embeds the labels, together with the place nouns that anchor the two kinds.
        clusters: k, or ``"auto"`` to choose it by silhouette (:func:`choose_k`). Settling the kinds may empty a cluster
            or, when all have one kind, add one.
        seed: of k-means.

    Raises:
        OptionError: more clusters than labels, or fewer than two labels.

    >>> from hiertree.pipelines.labels import TfidfEncoder
    >>> labels = {"lake": 3, "pond": 1, "road bridge": 1, "railway bridge": 2}
    >>> [(cluster.name, cluster.kind) for cluster in propose(labels, TfidfEncoder(), clusters=2).clusters]
    [('lake', 'natural'), ('bridge', 'human-made')]
    """
    labels = sorted(counts)
    if len(labels) < 2:
        raise OptionError(f"{len(labels)} distinct labels", expected="at least 2 to cluster")
    nouns = {kind: thesaurus().anchors(kind) for kind in (NATURAL, HUMAN_MADE)}
    encoded = encoder.encode([*labels, *nouns[NATURAL], *nouns[HUMAN_MADE]])
    vectors, natural, human_made = np.split(encoded, np.cumsum([len(labels), len(nouns[NATURAL])]))
    weights = 1 + np.log([counts[label] for label in labels])
    k, silhouettes = choose_k(vectors, weights=weights, seed=seed) if clusters == "auto" else (clusters, {})
    clustering = spherical_kmeans(vectors, k, weights=weights, seed=seed)
    margins = kind_margins(vectors, natural, human_made)
    assignment, cluster_margins = settle_kinds(
        vectors, clustering.assignment, clustering.centres, margins, encoder.kind_margin
    )
    similarity = (vectors * unit_centres(vectors, assignment, weights)[assignment]).sum(axis=1)
    silhouette = _silhouettes(vectors, assignment)
    numbers = np.stack([similarity, silhouette, margins], axis=1)
    places = [
        _place(label, counts[label], row, encoder.kind_margin) for label, row in zip(labels, numbers, strict=True)
    ]
    members = [
        [place for place, own in zip(places, assignment, strict=True) if own == c] for c in np.unique(assignment)
    ]
    names = propose_names([{place.label: place.landmarks for place in cluster} for cluster in members])
    made = [
        _cluster(name, float(margin), cluster, encoder.kind_margin)
        for name, margin, cluster in zip(names, cluster_margins, members, strict=True)
    ]
    return Proposal(tuple(sorted(made, key=lambda cluster: (-cluster.landmarks, cluster.name))), silhouettes)


def _place(label: str, landmarks: int, numbers: NDArray[np.float64], certain: float) -> LabelPlace:
    similarity, silhouette, margin = (round(float(number), 4) for number in numbers)
    doubts = ["kind"] if abs(margin) < certain else []
    doubts += ["nearer to another cluster"] if silhouette < 0 else []
    return LabelPlace(label, landmarks, similarity, silhouette, margin, ", ".join(doubts))


def _silhouettes(vectors: NDArray[np.float32], assignment: NDArray[np.int64]) -> NDArray[np.float64]:
    from sklearn.metrics import silhouette_samples

    if not 2 <= len(np.unique(assignment)) < len(vectors):
        return np.zeros(len(vectors))
    return np.asarray(silhouette_samples(vectors, assignment, metric="cosine"), dtype=np.float64)


def _cluster(name: str, margin: float, places: list[LabelPlace], certain: float) -> Cluster:
    doubtful = sum(place.landmarks for place in places if place.doubt)
    doubts = ["kind"] if abs(margin) < certain else []
    doubts += ["labels"] if 3 * doubtful > sum(place.landmarks for place in places) else []
    ordered = tuple(sorted(places, key=lambda place: (-place.landmarks, place.label)))
    return Cluster(name, kind_of(margin), round(margin, 4), ordered, ", ".join(doubts))
