"""Axes to draw on, and how lines of different models differ without color too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hiertree.errors import require_package

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONGEST_NAME = 26
DASHES = ((1, 0), (5, 2), (2, 2), (6, 2, 1, 2))


def axes_or_new(axes: Axes | None, *, width: float = 4.8, height: float = 2.7) -> Axes:
    """The axes that were given, or those of a new figure of that size in inches."""
    require_package("matplotlib", extra="plots")
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained").subplots() if axes is None else axes


def shortened(name: str) -> str:
    """A name with at most 26 letters, so that a plot has room."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def line_look(number: int) -> dict[str, Any]:
    """Color and dashes of a model by its number, from 0."""
    return {"color": f"C{number}", "linewidth": 1.8, "dashes": DASHES[number % len(DASHES)]}


def light_grid(axes: Axes) -> None:
    """Thin lines across, in the color of the text."""
    import matplotlib as mpl

    axes.grid(axis="y", color=mpl.rcParams["text.color"], alpha=0.12, linewidth=0.6)
    axes.set_axisbelow(True)
