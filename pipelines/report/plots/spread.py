"""How the values of the queries are spread: a histogram, a line for each model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from .new_axes import axes_or_new, light_grid, line_look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

BINS = 20


def plot_spread(values: Mapping[str, NDArray[np.float64]], *, metric: str, axes: Axes | None = None) -> Axes:
    """The percent of each model's queries in each twentieth of 0 … 1.

    Args:
        values: of each model's queries, from 0 to 1 and without NaN.
        metric: what they are.
        axes: to draw on; new ones unless given.

    Returns:
        The axes.
    """
    axes = axes_or_new(axes)
    light_grid(axes)
    for number, (name, column) in enumerate(values.items()):
        counts, edges = np.histogram(column.clip(0, 1), bins=BINS, range=(0, 1))
        percent = 100 * counts / max(1, len(column))
        steps = [*percent, percent[-1]]  # the last twice, so that its step is drawn to the end
        axes.plot(100 * edges, steps, drawstyle="steps-post", label=name, **line_look(number))
    axes.set(xlabel=f"{metric}, percent", xlim=(0, 100), ylim=(0, None))
    if len(values) > 1:
        axes.legend(frameon=False, loc="best", handlelength=2.6)
    return axes
