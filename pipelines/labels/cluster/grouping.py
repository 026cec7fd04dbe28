"""Levels above the clusters: within each kind, centers are merged two by two, the nearest on average first.

Each level is a cut of the same tree of merges, so the levels nest: a group of one level lies within one of the next
coarser. With m clusters of a kind and N levels, level j of them (coarsest first) has about m^(j/(N+1)) groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hiertree.errors import OptionError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NAMED = 3  # clusters in a group's name


def groups_above(
    centers: NDArray[np.float32], kinds: Sequence[str], names: Sequence[str], sizes: Sequence[int], *, levels: int
) -> list[tuple[str, ...]]:
    """Names of the groups above each cluster, coarse → fine.

    A group is named by its three largest clusters ("lake / river / waterfall …").

    Args:
        centers: (k, d) unit rows, the clusters' mean directions.
        kinds: k kinds; groups never hold clusters of two.
        names: k names of clusters, no two alike.
        sizes: k numbers of landmarks.
        levels: how many levels, from 0.

    Raises:
        OptionError: fewer than none.

    >>> centers = np.array([[1, 0], [0.8, 0.6], [0, 1]], dtype=np.float32)
    >>> groups_above(centers, ["natural"] * 3, ["lake", "river", "cave"], [1, 2, 3], levels=1)
    [('river / lake',), ('river / lake',), ('cave',)]
    """
    if levels < 0:
        raise OptionError(f"levels={levels}", expected="0 or more")
    above: list[list[str]] = [[] for _ in names]
    for kind in dict.fromkeys(kinds):
        own = np.array([place for place, other in enumerate(kinds) if other == kind])
        for group_of in _cuts(centers[own], levels):
            for group in np.unique(group_of):
                members = own[group_of == group].tolist()
                name = _name(sorted(members, key=lambda place: (-sizes[place], names[place])), names)
                for place in members:
                    above[place].append(name)
    return [tuple(groups) for groups in above]


def _cuts(centers: NDArray[np.float32], levels: int) -> list[NDArray[np.int64]]:
    """The group of each cluster at each level, coarse → fine."""
    from scipy.cluster.hierarchy import fcluster, linkage

    if len(centers) == 1:
        return [np.zeros(1, dtype=np.int64)] * levels
    merges = linkage(centers.astype(np.float64), method="average", metric="cosine")
    merges[:, 2] = np.maximum.accumulate(np.maximum(merges[:, 2], 0))  # rounding may leave −1e-17
    wanted = [round(len(centers) ** (level / (levels + 1))) for level in range(1, levels + 1)]
    return [fcluster(merges, max(1, groups), criterion="maxclust").astype(np.int64) for groups in wanted]


def _name(members: Sequence[int], names: Sequence[str]) -> str:
    more = " …" if len(members) > _NAMED else ""
    return " / ".join(names[place] for place in members[:_NAMED]) + more
