"""Drawings inside the page: SVG in the page's fonts and colors, light or dark, and what each shows in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..pages import COLORS, STYLE, inline_svg, run_color
from .plots import curve_points, plot_learning, plot_spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    Histories = Mapping[str, Sequence[Mapping[str, Any]]]  # rows of history.jsonl, by the name of the run


@dataclass(frozen=True)
class SvgFigure:
    """An ``<svg>`` element, and a description for readers who do not see it."""

    svg: str
    description: str


def drawn(draw: Callable[[], Axes], *, title: str, description: str, letters: int = 50) -> SvgFigure:
    """What a plot draws, in the page's colors, under a title of so many letters a line.

    No two drawings of a page may have the same title: their ids are made of it.
    """
    import matplotlib as mpl
    from matplotlib.rcsetup import cycler

    colors = cycler(color=[run_color(number) for number in range(COLORS)])
    with mpl.rc_context({**STYLE, "axes.prop_cycle": colors}):
        axes = draw()
        axes.set_title(fill(title, letters))
        svg = inline_svg(cast("Figure", axes.figure), name=title)
    return SvgFigure(svg, f"{title}. {description}")


def learning_curves(
    histories: Histories, *, metrics: Sequence[str] = ("H-AP", "R@1"), learning_rate: bool = False
) -> list[SvgFigure]:
    """The loss of each run, and each metric that some run measured more than once, epoch by epoch.

    Losses of different kinds have no common scale, so each has its own drawing.
    """
    figures = [
        _learning({name: rows}, "loss", title=f"{name}: training loss", first_color=number)
        for number, (name, rows) in enumerate(histories.items())
    ]
    figures += [
        _learning(histories, metric, title=f"{metric} on the test split, percent")
        for metric in metrics
        if any(len(curve_points(rows, metric)) > 1 for rows in histories.values())
    ]
    if learning_rate and histories:
        figures.append(_learning(histories, "lr", title="learning rate after each epoch"))
    return figures


def _learning(histories: Histories, quantity: str, *, title: str, first_color: int = 0) -> SvgFigure:
    curves = {name: curve_points(rows, quantity) for name, rows in histories.items()}
    ends = (
        f"{name}: {points[0][1]:.3g} in epoch {points[0][0]:g}, {points[-1][1]:.3g} in epoch {points[-1][0]:g}."
        for name, points in curves.items()
        if points
    )
    return drawn(lambda: plot_learning(curves, first_color=first_color), title=title, description=" ".join(ends))


def histogram(values: Mapping[str, NDArray[np.float64]], *, metric: str) -> SvgFigure:
    """For each run the share of its queries in each twentieth of 0 … 1."""
    spread = {name: np.quantile(100 * column, [0.25, 0.75]) for name, column in values.items() if len(column)}
    halves = (f"{name}: half of them from {low:.1f} to {high:.1f}." for name, (low, high) in spread.items())
    title = f"Percent of the queries in each twentieth of {metric}"
    return drawn(lambda: plot_spread(values, metric=metric), title=title, description=" ".join(halves))
