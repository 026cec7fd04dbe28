"""Splits that leave something to be computed: which labels 2-means takes, what the new cluster is called."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from itertools import chain, count
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from hiertree.errors import OptionError, ReviewError

from ..cluster.clustering import spherical_kmeans
from ..cluster.naming import propose_names
from ..encode.text_encoders import TextEncoder
from ..label_texts import visible
from .actions import LONGEST_NAME, Labels, Name, Number, StrictModel
from .history import ClusterAction, LabelAction, LogAction, Redo, Undo
from .label_actions import Split
from .state import ReviewCluster, State


class SplitRequest(StrictModel):
    """Split labels off a cluster: without labels, those that 2-means takes; without a name, one is proposed."""

    do: Literal["split"] = "split"
    cluster: Number
    labels: Labels | None = None
    name: Name | None = None

    def resolved(self, state: State, counts: Mapping[str, int], encoder: TextEncoder) -> Split:
        """The action that it comes to.

        Args:
            state: the clusters now.
            counts: landmarks of each label.
            encoder: what embeds the labels of a cluster for 2-means.

        Raises:
            ReviewError: a cluster that cannot be split.
        """
        labels = self.labels or two_means(state.cluster(self.cluster), counts, encoder)
        name = self.name or new_name(labels, state, counts)
        return Split(cluster=self.cluster, labels=labels, name=name, method="selection" if self.labels else "two-means")


PostedRequest: TypeAlias = Annotated[
    ClusterAction | LabelAction | SplitRequest | Undo | Redo, Field(discriminator="do")
]
AnyRequest: TypeAlias = LogAction | SplitRequest


def two_means(cluster: ReviewCluster, counts: Mapping[str, int], encoder: TextEncoder) -> tuple[str, ...]:
    """The labels of the half with fewer landmarks, when 2-means on the sphere splits a cluster.

    Raises:
        ReviewError: its labels are fewer than two, or alike to the encoder.
    """
    import numpy as np

    labels = sorted(cluster.labels)
    if len(labels) < 2:
        raise ReviewError(f"{cluster.name!r} has one label", expected="two or more to split")
    weights = 1 + np.log([max(counts[label], 1) for label in labels])
    alike = ReviewError(
        f"2-means sees no two groups in {cluster.name!r}", expected="labels that differ", remedy="select some and split"
    )
    try:
        with np.errstate(divide="ignore", invalid="ignore"):  # labels without any variance
            assignment = spherical_kmeans(encoder.encode(labels), 2, weights=weights).assignment
    except OptionError:
        raise alike from None
    halves = [tuple(label for label, half in zip(labels, assignment, strict=True) if half == side) for side in (0, 1)]
    if not all(halves):
        raise alike
    return min(halves, key=lambda half: (sum(counts[label] for label in half), len(half), half))


def load_two_means() -> None:
    """Load the packages that 2-means takes, which lasts a second or two, before anybody waits for it."""
    import_module("faiss")
    import_module("sklearn.feature_extraction.text")
    import_module("sklearn.decomposition")


def new_name(labels: Labels, state: State, counts: Mapping[str, int]) -> str:
    """A name for labels that become a cluster, unlike that of any other.

    Raises:
        ReviewError: a label that no cluster holds.
    """
    state.homes(labels)
    taken = {cluster.name for cluster in state.clusters.values()}
    names = (
        propose_names([{label: counts[label] for label in labels}])[0],
        max(sorted(labels), key=lambda label: counts[label]),
    )
    proposed, commonest = (visible(name)[:LONGEST_NAME].strip() or "cluster" for name in names)
    numbered = (f"{proposed} {number}" for number in count(2))
    return next(name for name in chain([proposed, commonest], numbered) if name not in taken)
