"""Corrections after k-means: senses, labels above labels, kinds.

A label is natural if its margin reaches ``LIKELY``, and human-made otherwise: most landmarks are, so that is the better
guess where nothing is known; people are asked to look at uncertain ones. A cluster takes the sign of the sum of its
labels' margins, and labels of the other kind move to the nearest cluster of their own, so that every supercategory has
exactly one kind and the result is a tree.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .clustering import Floats, Integers, Vectors, silhouettes
from .embedding import LIKELY

_NEAR = 0.2  # of the median silhouette: below, another cluster is near


def are_near(inside: Floats, assignment: Integers) -> NDArray[np.bool_]:
    """(n,) booleans: another cluster is almost as near as the row's own, by silhouette."""
    return (np.bincount(assignment)[assignment] > 1) & (inside < _NEAR * np.median(inside))


def settle_senses(vectors: Vectors, assignment: Integers, senses: NDArray[Any]) -> Integers:
    """Labels at the edge of a cluster of another sense move to one of their own, or make one together."""
    common = [Counter(senses[assignment == own]).most_common(1)[0][0] for own in range(assignment.max() + 1)]
    home = {sense: own for own, sense in reversed(list(enumerate(common)))}
    settled = assignment.copy()
    for row in np.flatnonzero(are_near(silhouettes(vectors, assignment), assignment)):
        if senses[row] not in ("", common[assignment[row]]):
            settled[row] = home.setdefault(senses[row], len(home) + len(common))
    return np.unique(settled, return_inverse=True)[1].astype(np.int64)


def with_parents(assignment: Integers, parents: Integers, senses: NDArray[Any]) -> Integers:
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
    settled = assignment.copy()
    label_is_natural = margins >= LIKELY
    votes = np.where(label_is_natural | (margins <= -1), margins, 0.0)
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
