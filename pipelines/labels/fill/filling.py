"""Labels for landmarks that have none, from their images: each image votes, the landmark takes what most say.

Two ways to a probability of each label c for an image x, with the temperature t (100, as in the paper's code):

* *zero-shot*: softmax over labels of t·cos(x, text of c);
* *neighbors*: the k most similar images of labeled landmarks have weights softmax(t·cos); a label's probability is
  the weight of its neighbors.

An image votes for its most probable label. A landmark takes the label of most votes (of several, the one that is more
probable on average), whatever split its images are in; its *confidence* is the mean probability of that label over all
of its images.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hiertree.errors import OptionError, ShapeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEIGHBORS, TEMPERATURE, THRESHOLD = 5, 100.0, 0.5


class Filled(NamedTuple):
    """What the images of a landmark say.

    Attributes:
        landmark_id: its id.
        images: how many there are.
        label: of most votes.
        votes: the share of images that voted for it.
        confidence: its mean probability.
    """

    landmark_id: int
    images: int
    label: str
    votes: float
    confidence: float


Images = Iterable[tuple[int, "NDArray[np.float32]"]]


def fill_by_texts(
    images: Images, texts: NDArray[np.float32], labels: Sequence[str], *, temperature: float = TEMPERATURE
) -> Iterator[Filled]:
    """Label landmarks by the texts that their images are most similar to.

    Args:
        images: landmarks, each with (m, d) unit rows.
        texts: (c, d) unit rows, in the same space.
        labels: c texts.
        temperature: t > 0.

    Raises:
        OptionError: a temperature that is not positive.
        ShapeError: images of another dimension than the texts.

    >>> axes = np.eye(2, dtype=np.float32)
    >>> [(found.label, found.votes) for found in fill_by_texts([(7, axes[[0, 0, 1]])], axes, ["lake", "church"])]
    [('lake', 0.6666666666666666)]
    """
    _check(temperature)
    for landmark, vectors in images:
        if vectors.shape[1] != texts.shape[1]:
            raise ShapeError(
                f"images of {vectors.shape[1]} dimensions", expected=f"{texts.shape[1]}, as the texts have"
            )
        yield _vote(landmark, _softmax(temperature * (vectors @ texts.T).astype(np.float64)), labels)


def fill_by_neighbors(
    images: Images,
    known: Images,
    label_of: Mapping[int, str],
    *,
    neighbors: int = NEIGHBORS,
    temperature: float = TEMPERATURE,
) -> Iterator[Filled]:
    """Label landmarks by the labeled landmarks whose images are most similar to theirs.

    Args:
        images: landmarks, each with (m, d) unit rows.
        known: labeled landmarks, likewise.
        label_of: label of each landmark of ``known``.
        neighbors: k, at least 1.
        temperature: t > 0.

    Raises:
        OptionError: no neighbor, no image of a labeled landmark, or a temperature that is not positive.
        ShapeError: images of different dimensions.
    """
    import faiss

    _check(temperature)
    owners, blocks = [], []
    for landmark, vectors in known:
        owners += [landmark] * len(vectors)
        blocks.append(vectors)
    if neighbors < 1 or not blocks:
        raise OptionError(f"{neighbors} neighbors among {len(owners)} images", expected="at least one of each")
    labels = sorted({label_of[owner] for owner in owners})
    place = {label: number for number, label in enumerate(labels)}
    label_at = np.array([place[label_of[owner]] for owner in owners])
    index = faiss.IndexFlatIP(blocks[0].shape[1])
    index.add(np.concatenate(blocks))
    for landmark, vectors in images:
        if vectors.shape[1] != index.d:
            raise ShapeError(
                f"images of {vectors.shape[1]} dimensions", expected=f"{index.d}, as the labeled ones have"
            )
        cosines, nearest = index.search(vectors, min(neighbors, len(owners)))
        probabilities = np.zeros((len(vectors), len(labels)))
        rows = np.arange(len(vectors))[:, None]
        np.add.at(probabilities, (rows, label_at[nearest]), _softmax(temperature * cosines.astype(np.float64)))
        yield _vote(landmark, probabilities, labels)


def _vote(landmark: int, probabilities: NDArray[np.float64], labels: Sequence[str]) -> Filled:
    votes = np.bincount(probabilities.argmax(axis=1), minlength=len(labels)) / len(probabilities)
    mean = probabilities.mean(axis=0)
    winner = int(np.lexsort((-mean, -votes))[0])
    return Filled(landmark, len(probabilities), labels[winner], float(votes[winner]), float(mean[winner]))


def _softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _check(temperature: float) -> None:
    if not 0 < temperature < np.inf:
        raise OptionError(f"temperature={temperature}", expected="a positive number")
