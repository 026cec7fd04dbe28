"""Which queries are shown, the images that each model retrieves for them, and the level that these share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from hiertree import levels
from hiertree.errors import OptionError

from ..stored_embeddings.neighbors import nearest_images

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Match = Literal["same", "near", "wrong"]


@dataclass(frozen=True)
class RankedImage:
    """One retrieved image.

    Attributes:
        index: its row in the gallery.
        level: depth of the lowest common ancestor of query and image, 0 … L.
        match: ``same`` at the finest level, ``near`` in a shared supercategory, ``wrong`` with nothing shared.
    """

    index: int
    level: int
    match: Match


def choose_queries(paths: NDArray[np.integer], *, count: int, seed: int) -> list[int]:
    """Draw queries at random from as many of the coarsest categories as possible.

    The categories and the images of each are shuffled by the seed; the categories then give one image each in turn.
    Images that are alone in their class are left out: nothing could be found for them.

    Args:
        paths: (n, L) integers, coarse → fine.
        count: queries wanted; fewer are returned where there are not so many.
        seed: of the shuffles.

    Returns:
        Indices of images, in the order of their categories.

    Raises:
        OptionError: count is below 1.

    >>> choose_queries(np.array([[0, 0], [0, 0], [1, 1], [1, 1], [1, 2]]), count=2, seed=0)
    [1, 3]
    """
    if count < 1:
        raise OptionError(f"count={count}", expected="1 or more")
    _, class_of, sizes = np.unique(paths[:, -1], return_inverse=True, return_counts=True)
    answerable = np.flatnonzero(sizes[class_of.reshape(-1)] > 1)
    shuffled = answerable[np.argsort(np.random.default_rng(seed).random(len(answerable)))]
    turns = np.zeros(len(shuffled), dtype=np.int64)
    for category in np.unique(paths[shuffled, 0]):
        members = paths[shuffled, 0] == category
        turns[members] = np.arange(members.sum())
    chosen = shuffled[np.argsort(turns, kind="stable")][:count]
    return sorted(chosen.tolist(), key=lambda index: tuple(paths[index].tolist()))


def extreme_queries(
    values: NDArray[np.float64], *, count: int, classes: NDArray[np.integer] | None = None
) -> dict[str, list[int]]:
    """The queries with the least values, those in the middle and those with the greatest, of different classes.

    Args:
        values: (Q,), NaN where a query has none and cannot be chosen.
        count: queries of each kind; fewer where there are fewer than three times as many. No query is of two kinds.
        classes: (Q,) of which a kind has one query each, as far as there are as many; None: as many as there are.

    Returns:
        Indices under ``worst``, ``median`` and ``best``; the smaller index first in a tie.

    >>> extreme_queries(np.array([0.5, 0.1, np.nan, 0.9, 0.4, 0.6]), count=1)
    {'worst': [1], 'median': [0], 'best': [3]}
    >>> extreme_queries(np.array([0.1, 0.2, 0.3, 0.5, 0.8, 0.9]), count=2, classes=np.array([0, 0, 1, 2, 3, 3]))
    {'worst': [0, 2], 'median': [1, 4], 'best': [5, 3]}
    """
    known = np.flatnonzero(~np.isnan(values))
    order = known[np.argsort(values[known], kind="stable")].tolist()
    if len(order) < 3:
        return {"worst": order[:1], "median": [], "best": order[1:]}
    each, of = min(count, len(order) // 3), np.arange(len(values)) if classes is None else classes
    worst = _of_different_classes(order, of, each)
    rest = [query for query in sorted(order, key=lambda query: (-values[query], query)) if query not in set(worst)]
    best = _of_different_classes(rest, of, each)
    left = [query for query in order if query not in {*worst, *best}]
    middle = sorted(range(len(left)), key=lambda place: abs(2 * place + 1 - len(left)))
    median = _of_different_classes([left[place] for place in middle], of, each)
    return {"worst": worst, "median": sorted(median, key=lambda query: (values[query], query)), "best": best}


def changed_queries(
    before: NDArray[np.float64], after: NDArray[np.float64], *, count: int, classes: NDArray[np.integer]
) -> dict[str, list[int]]:
    """The queries whose values rose the most and those whose values fell the most, of different classes.

    Args:
        before: (Q,), NaN where a query has none and cannot be chosen.
        after: (Q,) likewise.
        count: queries of each kind; fewer where fewer rose or fell.
        classes: (Q,) of which a kind has one query each, as far as there are as many.

    Returns:
        Indices under ``improved`` and ``damaged``, the greatest change first; the smaller index first in a tie.

    >>> changed_queries(np.zeros(4), np.array([0.1, 0.3, -0.2, 0.0]), count=2, classes=np.arange(4))
    {'improved': [1, 0], 'damaged': [2]}
    """
    gains = after - before
    rose, fell = np.flatnonzero(gains > 0), np.flatnonzero(gains < 0)
    return {
        "improved": _of_different_classes(rose[np.argsort(-gains[rose], kind="stable")].tolist(), classes, count),
        "damaged": _of_different_classes(fell[np.argsort(gains[fell], kind="stable")].tolist(), classes, count),
    }


def _of_different_classes(order: Sequence[int], classes: NDArray[np.integer], count: int) -> list[int]:
    """The first queries of an order whose classes differ, and then the first of the others, in that order."""
    first = {int(classes[query]): query for query in reversed(order)}
    ranked = sorted(range(len(order)), key=lambda place: first[int(classes[order[place]])] != order[place])
    return [order[place] for place in sorted(ranked[:count])]


def ranked_images(
    embeddings: NDArray[np.floating],
    paths: NDArray[np.integer],
    queries: Sequence[int],
    *,
    count: int,
    gallery: tuple[NDArray[np.floating], NDArray[np.integer]] | None = None,
    left_out: Sequence[NDArray[np.int64]] | None = None,
) -> list[list[RankedImage]]:
    """The nearest images of each query, with the level that each shares with it.

    Args:
        embeddings: (n, d) real vectors.
        paths: (n, L) integers, coarse → fine.
        queries: indices of images.
        count: images wanted for each.
        gallery: vectors and paths of the images to rank; ``embeddings`` and ``paths`` unless given.
        left_out: as in :func:`nearest_images`.
    """
    items, item_paths = (embeddings, paths) if gallery is None else gallery
    hidden = [np.array([query]) for query in queries] if left_out is None else left_out
    rows = nearest_images(embeddings, queries, count=count, gallery=items, left_out=hidden)
    found = [row[: len(items) - len(own)] for row, own in zip(rows, hidden, strict=True)]
    shared = [levels(paths[[query]], item_paths[row])[0] for query, row in zip(queries, found, strict=True)]
    return [
        [
            RankedImage(int(index), int(level), match_of(int(level), paths.shape[1]))
            for index, level in zip(row, depth, strict=True)
        ]
        for row, depth in zip(found, shared, strict=True)
    ]


def match_of(level: int, num_levels: int) -> Match:
    """What it means that an image shares this level with the query."""
    if level == num_levels:
        return "same"
    return "near" if level else "wrong"
