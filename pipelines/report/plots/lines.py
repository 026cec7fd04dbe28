"""Lines over epochs, values and recalls, one for each model, and the axes that all plots are drawn on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.metrics import hierarchical_precision_recall

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

Points = Sequence[tuple[float, float]]
RECALLS = np.linspace(0.0, 1.0, 101)
BINS = 20
LONGEST_NAME = 26
DASHES = ((1, 0), (5, 2), (2, 2), (6, 2, 1, 2))


def axes_or_new(axes: Axes | None, *, width: float = 4.8, height: float = 2.7) -> Axes:
    """The given axes, or those of a new figure of that size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained").subplots() if axes is None else axes


def axes_with_grid(axes: Axes | None) -> Axes:
    """The same, with thin lines across in the color of the text."""
    import matplotlib as mpl

    axes = axes_or_new(axes)
    axes.grid(axis="y", color=mpl.rcParams["text.color"], alpha=0.12, linewidth=0.6)
    axes.set_axisbelow(True)
    return axes


def shortened(name: str) -> str:
    """A name of at most 26 letters, so that a plot has room."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def line_look(number: int) -> dict[str, Any]:
    """Color and dashes of a model by its number, from 0, so that lines differ without color too."""
    return {"color": f"C{number}", "linewidth": 1.8, "dashes": DASHES[number % len(DASHES)]}


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

    axes = axes_with_grid(axes)
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


def plot_spread(values: Mapping[str, NDArray[np.float64]], *, metric: str, axes: Axes | None = None) -> Axes:
    """The percent of each model's queries in each twentieth of 0 … 1.

    Args:
        values: of each model's queries, from 0 to 1 and without NaN.
        metric: what they are.
        axes: to draw on; new ones unless given.

    Returns:
        The axes.
    """
    axes = axes_with_grid(axes)
    for number, (name, column) in enumerate(values.items()):
        counts, edges = np.histogram(column.clip(0, 1), bins=BINS, range=(0, 1))
        percent = 100 * counts / max(1, len(column))
        steps = [*percent, percent[-1]]  # the last twice, so that its step is drawn to the end
        axes.plot(100 * edges, steps, drawstyle="steps-post", label=name, **line_look(number))
    axes.set(xlabel=f"{metric}, percent", xlim=(0, 100), ylim=(0, None))
    if len(values) > 1:
        axes.legend(frameon=False, loc="best", handlelength=2.6)
    return axes


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
    """The mean hierarchical precision of each model over recall, one line per model.

    Args:
        precisions: of each model's queries, as :func:`interpolated_precision` gives them.
        axes: to draw on; new ones unless given.

    Returns:
        The axes.
    """
    axes = axes_with_grid(axes)
    for number, (name, values) in enumerate(precisions.items()):
        axes.plot(100 * RECALLS, 100 * np.nanmean(values, axis=0), label=name, **line_look(number))
    axes.set(xlabel="hierarchical recall, percent", ylabel="precision, percent", xlim=(0, 100), ylim=(0, 100))
    if len(precisions) > 1:
        axes.legend(frameon=False, handlelength=2.6)
    return axes
