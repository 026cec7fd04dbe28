"""Training curves: the loss, the learning rate or a metric of each run, epoch by epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .new_axes import axes_or_new, light_grid, line_look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Points = Sequence[tuple[float, float]]


def curve_points(history: Sequence[Mapping[str, Any]], quantity: str) -> list[tuple[float, float]]:
    """Epochs and values of a quantity, where the history has it.

    Args:
        history: rows of a run's ``history.jsonl``.
        quantity: ``"loss"``, ``"lr"`` or the name of a metric, which is in percent.

    >>> curve_points([{"epoch": 1, "loss": 2.0}, {"epoch": 2, "loss": 1.5, "metrics": {"R@1": 0.5}}], "R@1")
    [(2, 50.0)]
    """
    if quantity in ("loss", "lr"):
        return [(row["epoch"], row[quantity]) for row in history if quantity in row]
    return [(row["epoch"], 100 * row["metrics"][quantity]) for row in history if quantity in row.get("metrics", {})]


def plot_learning(curves: Mapping[str, Points], *, first_color: int = 0, axes: Axes | None = None) -> Axes:
    """A line for each run over the epochs.

    Args:
        curves: of each run, as :func:`curve_points` gives them; runs without a point are left out.
        first_color: number of the first run's color.
        axes: to draw on; new ones unless given.

    Returns:
        The axes.
    """
    from matplotlib.ticker import MaxNLocator

    axes = axes_or_new(axes)
    light_grid(axes)
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    for number, (name, points) in enumerate(curves.items(), start=first_color):
        if points:
            epochs, values = zip(*points, strict=True)
            axes.plot(epochs, values, marker="o", markersize=3, label=name, **line_look(number))
    if len(curves) > 1 and axes.lines:
        axes.legend(frameon=False, loc="best", handlelength=2.6)
    axes.set_xlim(left=0)
    return axes
