"""Hierarchical precision and recall at every rank, in expectation over tied orders (as in ``precision_sums``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hiertree.jit import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..ranking.ranked import Ranked


@jit
def hierarchical_curves(
    ranked: Ranked, tables: NDArray[np.float64], precision: NDArray[np.float64], recall: NDArray[np.float64]
) -> None:
    """Write H-P@k and, before division by R, H-R@k for k = 1 … N of each row; both come zeroed."""
    num_levels = tables.shape[1] - 1
    ahead = np.empty(num_levels + 1)  # Σ_{j ahead} min(rel(k), rel(j)) for a k of each level
    inside = np.empty(num_levels + 1)  # the same over the members of one tie group
    members = np.empty(num_levels + 1)
    for row in range(len(precision)):
        number, table = ranked.number[row], tables[row]
        level, before, size = ranked.level[row], ranked.before[row], ranked.size[row]
        ahead[:] = 0.0
        item = 0
        while item < number:
            start, n = before[item], size[item]
            members[:] = 0.0
            inside[:] = 0.0
            while item < number and before[item] == start:
                members[level[item]] += 1.0
                inside += np.minimum(table, table[level[item]])
                item += 1
            for place in range(n):
                for depth in range(1, num_levels + 1):
                    recall[row, start + place] += members[depth] * table[depth] / n
                    if members[depth] > 0 and table[depth] > 0:
                        among = place / (n - 1) * (inside[depth] - table[depth]) if n > 1 else 0.0
                        shared = (table[depth] + ahead[depth] + among) / table[depth]
                        precision[row, start + place] += members[depth] / n * shared / (start + place + 1)
            ahead += inside
        recall[row] = np.cumsum(recall[row])
