"""Levels above the clusters: within each kind, clusters are merged two by two by Ward's method (Ward 1963).

Of all pairs it merges the one whose merging adds least to the sum of squares within groups. So it grows groups of
similar size, where average linkage would let one of them take most clusters. Clusters of labels that share no word and
no sense are all equally far apart, so half of a cluster's square norm says which themes of ``place_nouns.yaml`` its
landmarks' labels belong to, where that is known. Each level is a cut of the same tree of
merges, so the levels nest: a group of one level lies within one of the next coarser. With m clusters of a kind and N
levels, level j of them (coarsest first) has from m^(j/(N+1)) groups to twice as many: it is cut where the next merge
costs most above the last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hiertree.errors import OptionError

from .naming import Counts, name_groups, themes

if TYPE_CHECKING:
    from numpy.typing import NDArray


def groups_above(
    centers: NDArray[np.float32],
    kinds: Sequence[str],
    names: Sequence[str],
    clusters: Sequence[Counts],
    *,
    levels: int,
    chains: Mapping[str, Sequence[str]] | None = None,
) -> list[tuple[str, ...]]:
    """Names of the groups above each cluster, coarse → fine; no two groups of a level are called alike.

    Args:
        centers: (k, d) unit rows, the clusters' mean directions.
        kinds: k kinds; groups never hold clusters of two.
        names: k names of clusters, no two alike.
        clusters: k clusters, the landmarks of each of their labels.
        levels: how many levels, from 0.
        chains: what stands above labels, where that is known.

    Raises:
        OptionError: fewer than none.

    >>> centers = np.array([[1, 0], [0.8, 0.6], [0, 1]], dtype=np.float32)
    >>> clusters = [{"lake": 1}, {"river": 2}, {"cave": 3}]
    >>> groups_above(centers, ["natural"] * 3, ["lake", "river", "cave"], clusters, levels=1)
    [('water',), ('water',), ('cave',)]
    """
    if levels < 0:
        raise OptionError(f"levels={levels}", expected="0 or more")
    places = [np.array([place for place, own in enumerate(kinds) if own == kind]) for kind in dict.fromkeys(kinds)]
    described = _with_themes(centers, clusters)
    cuts = [_cuts(described[own], levels) for own in places]
    above: list[list[str]] = [[] for _ in names]
    for level in range(levels):
        groups = [
            own[cut[level] == group].tolist()
            for own, cut in zip(places, cuts, strict=True)
            for group in np.unique(cut[level])
        ]
        for group, name in zip(groups, name_groups(groups, names, clusters, chains=chains), strict=True):
            for place in group:
                above[place].append(name)
    return [tuple(groups) for groups in above]


def _with_themes(centers: NDArray[np.float32], clusters: Sequence[Counts]) -> NDArray[np.float64]:
    """(k, d) unit rows: half a cluster's center, half how many of its landmarks are of each theme."""
    found = [[(theme, number) for label, number in counts.items() for theme in themes(label)] for counts in clusters]
    column = {theme: place for place, theme in enumerate(sorted({theme for own in found for theme, _ in own}))}
    of_themes = np.zeros((len(centers), len(column)))
    for row, own in enumerate(found):
        np.add.at(of_themes[row], [column[theme] for theme, _ in own], [number for _, number in own])
    norms = np.linalg.norm(of_themes, axis=1, keepdims=True)
    joined = np.hstack([centers, of_themes / np.where(norms > 0, norms, 1)])
    return np.asarray(joined / np.linalg.norm(joined, axis=1, keepdims=True))


def _cuts(centers: NDArray[np.float64], levels: int) -> list[NDArray[np.int64]]:
    """The group of each cluster at each level, coarse → fine."""
    from scipy.cluster.hierarchy import fcluster, linkage

    if len(centers) == 1:
        return [np.zeros(1, dtype=np.int64)] * levels
    merges = linkage(centers, method="ward")
    least = [round(len(centers) ** (level / (levels + 1))) for level in range(1, levels + 1)]
    numbers = [_number(merges[:, 2], *ends) for ends in pairwise([*least, len(centers) - 1])]
    return [fcluster(merges, number, criterion="maxclust").astype(np.int64) for number in numbers]


def _number(costs: NDArray[np.float64], least: int, most: int) -> int:
    """Of the numbers of groups from the least to twice as many, the one below which merging becomes dearest at once."""
    numbers = range(max(least, 2), min(2 * least, most) + 1)
    return max(numbers, key=lambda number: costs[1 - number] - costs[-number], default=least)
