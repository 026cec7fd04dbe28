"""Natural or human-made: what is known of a label or which place nouns it lies nearer to, then one kind a cluster.

A label's *margin* is positive for natural. It is 1 or −1 where the list of place nouns or hypernyms say its kind. Else
it is the label's cosine to the nearest natural noun less that to the nearest human-made one. It is *certain* when its
size reaches the encoder's ``kind_margin``. A label is natural if it certainly is, and human-made otherwise: most
landmarks are, so that is the better guess where nothing is known; people are asked to look at uncertain ones. A cluster
takes the sign of the sum of its certain margins, and labels of the other kind move to the nearest cluster of their own,
so that every supercategory has exactly one kind and the result is a tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..encode.phrases import HUMAN_MADE, NATURAL, parse, thesaurus

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..encode.hypernyms import Hypernyms

_MARGIN = {NATURAL: 1.0, HUMAN_MADE: -1.0}
_NATURAL = (-1, 0, 1, 4), (0.02, 0.07, 0.5, 0.94)  # margins in units of the certain one, shares of natural labels


def known_margin(label: str, hypernyms: Hypernyms | None = None) -> float | None:
    """The margin by what is known of a label; None where nothing is.

    It is 1 or −1 where the list has its head noun, or else the source has what stands above its class, or above that of
    its head noun; and half as much where the list has another noun of the label.

    >>> known_margin("glacial lakes in Norway"), known_margin("school bus"), known_margin("studio glass")
    (1.0, -0.5, None)
    """
    phrase = parse(label)
    listed = None if phrase.sense is None else _MARGIN[thesaurus().kind_of[phrase.sense]]
    if listed is not None and phrase.certain:
        return listed
    kind = None if hypernyms is None else hypernyms.kind(hypernyms.classes(label))
    if kind is not None:
        return _MARGIN[kind]
    return None if listed is None else listed / 2


def kind_margins(
    vectors: NDArray[np.float32], natural: NDArray[np.float32], human_made: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Cosine to the nearest natural anchor less that to the nearest human-made one.

    Args:
        vectors: (n, d) unit rows, the labels.
        natural: (a, d) unit rows, nouns of natural places.
        human_made: (b, d) unit rows, nouns of human-made ones.

    Returns:
        (n,) float64 in [−2, 2], positive for natural.

    >>> axes = np.eye(2, dtype=np.float32)
    >>> kind_margins(axes, axes[:1], axes[1:])
    array([ 1., -1.])
    """
    return np.asarray((vectors @ natural.T).max(axis=1) - (vectors @ human_made.T).max(axis=1), dtype=np.float64)


def kind_of(margin: float) -> str:
    """The kind that a margin indicates; zero is human-made.

    >>> kind_of(0.3), kind_of(-0.3)
    ('natural', 'human-made')
    """
    return NATURAL if margin > 0 else HUMAN_MADE


def natural_probability(margin: float, certain: float) -> float:
    """How probable it is that a label of this margin is natural: a half where the margin becomes certain.

    Shares of natural labels among those whose kind is known from elsewhere, interpolated; docs/label_quality.md
    shows how often they come true on others.

    >>> [round(natural_probability(margin, 0.25), 3) for margin in (-1, 0, 0.25, 1)]
    [0.02, 0.07, 0.5, 0.94]
    """
    return float(np.interp(margin / certain, *_NATURAL))


def settle_kinds(
    vectors: NDArray[np.float32],
    assignment: NDArray[np.int64],
    centers: NDArray[np.float32],
    margins: NDArray[np.float64],
    certain: float,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Give every cluster one kind, and move the labels of the other.

    Args:
        vectors: (n, d) unit rows.
        assignment: (n,) clusters from 0, none empty.
        centers: (k, d) unit rows, the clusters' centers.
        margins: (n,) as from :func:`kind_margins`.
        certain: the size from which a margin is certain.

    Returns:
        The new assignment (clusters from 0 in the same order, none empty), and the (k,) mean margin of each cluster,
        where uncertain labels count as 0; it is positive for the clusters of natural labels alone.

    >>> axes = np.eye(2, dtype=np.float32)
    >>> settle_kinds(axes[[0, 0, 0, 1, 1]], np.array([0, 0, 0, 1, 1]), axes, np.array([1, 1, -1, -1, -1.0]), 0.5)
    (array([0, 0, 1, 1, 1]), array([ 1., -1.]))
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
