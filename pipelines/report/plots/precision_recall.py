"""Hierarchical precision–recall curves, a line for each model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.metrics import hierarchical_precision_recall

from .new_axes import axes_or_new, light_grid, line_look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

RECALLS = np.linspace(0.0, 1.0, 101)


def interpolated_precision(
    scores: Any, levels: Any, *, valid: Any = None, num_levels: int | None = None, alpha: float = 1.0
) -> NDArray[np.float64]:
    r"""Hierarchical precision of each query at 101 recalls, so that curves of different queries have a mean.

    At recall r it is the greatest H-P@k of all ranks k with H-R@k ≥ r (Ramzi et al., TPAMI 2025, Eq. 30, 31).

    Args:
        scores: (Q, N), larger meaning nearer.
        levels: (Q, N) integers 0 … L.
        valid: (Q, N) booleans; False leaves an item out.
        num_levels: L; the largest of ``levels`` unless given.
        alpha: of the relevance (l/L)^α / \|Ω^(l)\|.

    Returns:
        (Q, 101) float64 in [0, 1], at the recalls 0, 0.01 … 1; NaN for a query without positives.

    Raises:
        InputError: as :func:`hiertree.metrics.hierarchical_precision_recall`.

    >>> interpolated_precision([[0.9, 0.8, 0.7]], [[0, 2, 1]])[0, [0, 66, 100]].round(3)
    array([0.667, 0.667, 0.667])
    """
    curves = hierarchical_precision_recall(scores, levels, valid=valid, num_levels=num_levels, alpha=alpha)
    best = np.maximum.accumulate(curves.precision[:, ::-1], axis=1)[:, ::-1]
    rounded = curves.recall + 1e-9  # sums of shares may end just below 1
    places = [np.minimum(np.searchsorted(recall, RECALLS), len(recall) - 1) for recall in rounded]
    return np.take_along_axis(best, np.array(places).reshape(len(best), len(RECALLS)), axis=1)


def plot_precision_recall(precisions: Mapping[str, NDArray[np.float64]], *, axes: Axes | None = None) -> Axes:
    """The mean hierarchical precision of each model over recall, a line a model.

    Args:
        precisions: of each model's queries, as :func:`interpolated_precision` gives them.
        axes: to draw on; new ones unless given.

    Returns:
        The axes.
    """
    axes = axes_or_new(axes)
    light_grid(axes)
    for number, (name, values) in enumerate(precisions.items()):
        axes.plot(100 * RECALLS, 100 * np.nanmean(values, axis=0), label=name, **line_look(number))
    axes.set(xlabel="hierarchical recall, percent", ylabel="precision, percent", xlim=(0, 100), ylim=(0, 100))
    if len(precisions) > 1:
        axes.legend(frameon=False, handlelength=2.6)
    return axes
