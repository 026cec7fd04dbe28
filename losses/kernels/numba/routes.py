"""Which targets of a row go by pairs and which by the grid: whichever is estimated to take less time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hiertree.jit import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .sorted_rows import GradedItems, SortedRows

LARGEST_POWER = 600.0  # e to this power, times itself, is finite, also when thousands are added up


@jit
def choose(
    ranking: SortedRows,
    candidates: GradedItems,
    targets: GradedItems,
    costs: tuple[float, float, float],
    tau: float,
    per_tau: int,
    terms: int,
    by_pairs: NDArray[np.bool_],
    by_grid: NDArray[np.bool_],
) -> None:
    """Set ``by_pairs`` and ``by_grid`` for each row and grade of targets; neither where there are no pairs.

    ``costs`` are those of a pair, of an item on the grid, and of a node. The grid has ``per_tau`` nodes in ``tau``; the
    series beyond δ, which must stay finite, has so many ``terms``, or too many if negative.
    """
    pair, item, node = costs
    for row in range(len(by_grid)):
        number = ranking.number[row]
        span = (np.float64(ranking.values[row, 0]) - ranking.values[row, max(number - 1, 0)]) / tau
        on_grid = item * number + node * span * per_tau
        works = terms >= 0 and span * terms <= 2 * LARGEST_POWER
        for grade in range(by_grid.shape[1]):
            wanted = targets.start[row, grade + 1] - targets.start[row, grade]
            compared = grade > 0 and wanted > 0 and candidates.start[row, grade] > 0
            by_grid[row, grade] = compared and works and on_grid < pair * wanted * number
            by_pairs[row, grade] = compared and not by_grid[row, grade]
