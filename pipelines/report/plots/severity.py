"""Severity of errors: how far up the tree a query and its first wrong item meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.metrics import evaluate_scores

from .new_axes import axes_or_new, light_grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray


def error_severity(
    scores: Any, levels: Any, *, valid: Any = None, num_levels: int | None = None
) -> NDArray[np.float64]:
    r"""The probability that the first wrong item of a query shares an ancestor of each height with it.

    The first wrong item is the first below level L among the \|Ω^(L)\| best. If it is at level l, the lowest common
    ancestor of the two has height L − l: 1 is a sibling class, L is nothing shared (``first-error[l]`` of
    :mod:`hiertree.metrics`). What is missing from 1 is the probability that no item there is wrong.

    Args:
        scores: (Q, N), larger meaning nearer.
        levels: (Q, N) integers 0 … L.
        valid: (Q, N) booleans; False leaves an item out.
        num_levels: L; the largest of ``levels`` unless given.

    Returns:
        (Q, L) float64 in [0, 1], a column for each height from 1 to L; NaN for a query without an item of its class.

    Raises:
        InputError: as :func:`hiertree.metrics.evaluate_scores`.

    >>> error_severity([[0.9, 0.8, 0.7], [0.9, 0.8, 0.7]], [[1, 2, 0], [2, 1, 0]])
    array([[1., 0.],
           [0., 0.]])
    """
    depth = int(np.max(levels, initial=1)) if num_levels is None else num_levels
    names = [f"first-error[{level}]" for level in range(depth - 1, -1, -1)]
    return evaluate_scores(scores, levels, valid=valid, num_levels=depth, metrics=names).values


def plot_error_severity(
    shares: Mapping[str, NDArray[np.float64]], *, level_names: Sequence[str], axes: Axes | None = None
) -> Axes:
    """Bars: the percent of each model's queries whose first wrong item lies at each height.

    Args:
        shares: of each model, as :func:`error_severity` gives them.
        level_names: L names, coarse → fine.
        axes: to draw on; new ones unless given.

    Returns:
        The axes.
    """
    axes = axes_or_new(axes)
    light_grid(axes)
    heights, width = np.arange(1, len(level_names) + 1), 0.8 / len(shares)
    for number, (name, values) in enumerate(shares.items()):
        offset = (number - (len(shares) - 1) / 2) * width
        axes.bar(heights + offset, 100 * np.nanmean(values, axis=0), 0.9 * width, color=f"C{number}", label=name)
    axes.set_xticks(heights, height_names(level_names))
    axes.set_xlabel("height of the common ancestor")
    axes.set_ylabel("percent of the queries")
    if len(shares) > 1:
        axes.legend(frameon=False)
    return axes


def height_names(level_names: Sequence[str]) -> list[str]:
    """What query and item share at each height, from 1 to L.

    >>> height_names(["family", "species"])
    ['1: same family', '2: nothing shared']
    """
    shared = [f"same {name}" for name in reversed(level_names[:-1])]
    return [f"{height}: {what}" for height, what in enumerate([*shared, "nothing shared"], start=1)]
