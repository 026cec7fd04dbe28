"""What a metric may be where scores are known up to rounding: a bound in place of one processor's digits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

ROUNDING = 1e-6
"""How far the cosine of two vectors in single precision is from the exact one, with some room."""


def metric_bounds(
    metric: Callable[[list[float], list[int]], float | None],
    scores: NDArray[np.floating],
    levels: Sequence[int] | NDArray[np.integer],
    error: float = ROUNDING,
) -> NDArray[np.float64]:
    """The least and the greatest value that a metric of one query can have if each score is off by at most ``error``.

    Two items can change places if their scores are within ``2 * error``. Shifting each item by that much a level, down
    or up, puts every such pair in the worse or the better order and leaves all others alone but those that are in the
    wrong order already. NaN where the query has no value.
    """
    exact, depths = np.asarray(scores, dtype=np.float64), np.asarray(levels, dtype=np.int64)
    bounds = [metric((exact + sign * 2 * error * depths).tolist(), depths.tolist()) for sign in (-1, 1)]
    return np.array([np.nan if value is None else value for value in bounds])
