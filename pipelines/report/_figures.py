"""Learning curves as SVG that lives inside the page: its text and colours are the page's own, light or dark.

matplotlib draws with stand-in colours, which become CSS: ``currentColor`` for ink and ``var(--run-1)`` … for the runs.
The same numbers give the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INK = "#010203"
_MEASURED = {"H-AP": "H-AP on the test split, percent", "R@1": "R@1 on the test split, percent"}
_STYLE: Any = {  # matplotlib types its keys one by one, and each release has others
    "svg.fonttype": "none",
    "svg.hashsalt": "hiertree",
    "text.parse_math": False,
    "font.size": 11,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "text.color": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "axes.titlelocation": "left",
    "axes.titlesize": 12,
    "axes.titlepad": 10,
}


@dataclass(frozen=True)
class Figure:
    """A drawing.

    Attributes:
        svg: an ``<svg>`` element.
        description: what it shows, for those who do not see it.
    """

    svg: str
    description: str


def learning_curves(histories: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Figure]:
    """The loss of each run, and H-AP and R@1 of all runs, epoch by epoch.

    Losses of different kinds have no common scale, so each has its own drawing. A metric is drawn where some run
    measured it more than once.

    Args:
        histories: rows of ``history.jsonl``, by the name of the run.
    """
    figures = []
    for number, (name, rows) in enumerate(histories.items()):
        points = [(row["epoch"], row["loss"]) for row in rows]
        figures.append(_drawing({name: points}, title=f"{name}: training loss", first_colour=number))
    for metric, title in _MEASURED.items():
        measured = {
            name: [(row["epoch"], 100 * row["metrics"][metric]) for row in rows if metric in row.get("metrics", {})]
            for name, rows in histories.items()
        }
        if any(len(points) > 1 for points in measured.values()):
            figures.append(_drawing(measured, title=title, first_colour=0))
    return figures


def _drawing(lines: Mapping[str, Sequence[tuple[int, float]]], *, title: str, first_colour: int) -> Figure:
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas
    from matplotlib.ticker import MaxNLocator

    with mpl.rc_context(_STYLE):
        canvas = Canvas(figsize=(4.8, 2.7), layout="constrained")
        axes = canvas.subplots()
        axes.set_title(title)
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
        axes.grid(axis="y", color=_INK, alpha=0.12, linewidth=0.6)
        for number, (name, points) in enumerate(lines.items(), start=first_colour):
            _line(axes, name if len(lines) > 1 else "", points, colour=number)
        axes.set_xlim(left=0)
        text = StringIO()
        canvas.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return Figure(_embeddable(text.getvalue(), prefix=_slug(title)), f"{title}. {_described(lines)}")


def _line(axes: Axes, name: str, points: Sequence[tuple[int, float]], *, colour: int) -> None:
    epochs, values = zip(*points, strict=True)
    dashes = ((None, None), (5, 2), (2, 2), (6, 2, 1, 2))[colour % 4]  # told apart without colour too
    axes.plot(
        epochs, values, color=_stand_in(colour), linewidth=1.8, marker="o", markersize=3, dashes=dashes, label=name
    )
    if name:
        axes.legend(frameon=False, loc="best", handlelength=2.6)


def _described(lines: Mapping[str, Sequence[tuple[int, float]]]) -> str:
    """First and last value of every line, in words."""
    return " ".join(
        f"{name}: {points[0][1]:.3g} in epoch {points[0][0]}, {points[-1][1]:.3g} in epoch {points[-1][0]}."
        for name, points in lines.items()
        if points
    )


def _stand_in(colour: int) -> str:
    return f"#0000{colour + 16:02x}"


def _embeddable(svg: str, *, prefix: str) -> str:
    """The ``<svg>`` element alone, in the page's colours and fonts, its ids its own."""
    svg = svg[svg.index("<svg") :].replace(_INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"#0000([0-9a-f]{2})\b", lambda found: f"var(--run-{int(found[1], 16) - 15})", svg)
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r'(href="#|url\(#)', rf"\g<1>{prefix}-", svg)
    svg = re.sub(r'<svg([^>]*?) height="[^"]*"([^>]*?) width="[^"]*"', r"<svg\1\2", svg, count=1)
    return svg.replace("<svg", '<svg aria-hidden="true"', 1).strip()


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
