"""Learning curves and histograms as SVG inside the page, in the page's own fonts and colors, light or dark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ..inline_svg import COLORS, INK, STYLE, inline_svg, run_color

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

Lines: TypeAlias = "Mapping[str, Sequence[tuple[float, float]]]"


@dataclass(frozen=True)
class SvgFigure:
    """A drawing.

    Attributes:
        svg: an ``<svg>`` element.
        description: what it shows, for those who do not see it.
    """

    svg: str
    description: str


def drawn(draw: Callable[[], Axes], *, title: str, description: str) -> SvgFigure:
    """What a plot draws, in the page's colors.

    Args:
        draw: the plot, on axes of its own.
        title: above it; no two drawings of a page have the same.
        description: the numbers in words.
    """
    import matplotlib as mpl
    from cycler import cycler

    colors = cycler(color=[run_color(number) for number in range(COLORS)])
    with mpl.rc_context({**STYLE, "axes.prop_cycle": colors}):
        axes = draw()
        axes.set_title(title)
        svg = inline_svg(cast("Figure", axes.figure), name=title)
    return SvgFigure(svg, f"{title}. {description}")


def learning_curves(
    histories: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    metrics: Sequence[str] = ("H-AP", "R@1"),
    learning_rate: bool = False,
) -> list[SvgFigure]:
    """The loss of each run, and metrics of all runs, epoch by epoch.

    Losses of different kinds have no common scale, so each has its own drawing. A metric is drawn where some run
    measured it more than once.

    Args:
        histories: rows of ``history.jsonl``, by the name of the run.
        metrics: those that are drawn.
        learning_rate: whether it is drawn too.
    """
    figures = []
    for number, (name, rows) in enumerate(histories.items()):
        points = [(row["epoch"], row["loss"]) for row in rows if "loss" in row]
        figures.append(_drawing({name: points}, title=f"{name}: training loss", first_color=number))
    for metric in metrics:
        measured = {
            name: [(row["epoch"], 100 * row["metrics"][metric]) for row in rows if metric in row.get("metrics", {})]
            for name, rows in histories.items()
        }
        if any(len(points) > 1 for points in measured.values()):
            figures.append(_drawing(measured, title=f"{metric} on the test split, percent", first_color=0))
    if learning_rate and histories:
        rates = {name: [(row["epoch"], row["lr"]) for row in rows if "lr" in row] for name, rows in histories.items()}
        figures.append(_drawing(rates, title="learning rate after each epoch", first_color=0))
    return figures


def histogram(values: Mapping[str, NDArray[np.float64]], *, metric: str) -> SvgFigure:
    """The spread of the queries' values: for each run the share of its queries in each twentieth of 0 … 1.

    Args:
        values: of each run's queries.
        metric: what they are.
    """
    import numpy as np

    shares = {name: _shares(column) for name, column in values.items()}
    spread = {name: np.quantile(100 * column, [0.25, 0.75]) for name, column in values.items() if len(column)}
    described = (f"{name}: half of them from {low:.1f} to {high:.1f}." for name, (low, high) in spread.items())
    title = f"Percent of the queries in each twentieth of {metric}"
    return _drawing(shares, title=title, first_color=0, steps_of=f"{metric}, percent", description=" ".join(described))


def _shares(values: NDArray[np.float64]) -> list[tuple[float, float]]:
    """Where each twentieth begins and its share, in percent; the last twice, so that its step is drawn to the end."""
    import numpy as np

    counts, edges = np.histogram(values.clip(0, 1), bins=20, range=(0, 1))
    percent = 100 * counts / max(1, len(values))
    return [(100 * float(edge), float(share)) for edge, share in zip(edges, [*percent, percent[-1]], strict=True)]


def _drawing(lines: Lines, *, title: str, first_color: int, steps_of: str = "", description: str = "") -> SvgFigure:
    """A line a run: values by epoch, or steps over another quantity."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas
    from matplotlib.ticker import MaxNLocator

    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(4.8, 2.7), layout="constrained")
        axes = canvas.subplots()
        axes.set_title(title)
        axes.set_xlabel(steps_of or "epoch")
        if not steps_of:
            axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
        axes.grid(axis="y", color=INK, alpha=0.12, linewidth=0.6)
        for number, (name, points) in enumerate(lines.items(), start=first_color):
            if points:
                _line(axes, name if len(lines) > 1 else "", points, color=number, steps=bool(steps_of))
        axes.set_xlim(left=0)
        if steps_of:
            axes.set(xlim=(0, 100), ylim=(0, None))
        svg = inline_svg(canvas, name=f"{title}-{first_color}")
    return SvgFigure(svg, f"{title}. {description or _described(lines)}")


def _line(axes: Axes, name: str, points: Sequence[tuple[float, float]], *, color: int, steps: bool) -> None:
    epochs, values = zip(*points, strict=True)
    dashes = ((None, None), (5, 2), (2, 2), (6, 2, 1, 2))[color % 4]  # so that lines differ without color too
    look: dict[str, Any] = {"drawstyle": "steps-post"} if steps else {"marker": "o", "markersize": 3}
    axes.plot(epochs, values, color=run_color(color), linewidth=1.8, dashes=dashes, label=name, **look)
    if name:
        axes.legend(frameon=False, loc="best", handlelength=2.6)


def _described(lines: Lines) -> str:
    """First and last value of every line, in words."""
    return " ".join(
        f"{name}: {points[0][1]:.3g} in epoch {points[0][0]:g}, {points[-1][1]:.3g} in epoch {points[-1][0]:g}."
        for name, points in lines.items()
        if points
    )
