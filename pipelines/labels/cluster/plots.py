"""Drawings of a clustering, as SVG and PNG; the same numbers give the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hiertree.io.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .scanning import ScanPoint

NATURAL_COLOR, HUMAN_MADE_COLOR, INK = "#2c7a4b", "#5747b8", "#23211e"
STYLE: Any = {
    "svg.fonttype": "path",
    "svg.hashsalt": "hiertree",
    "text.parse_math": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "text.color": INK,
    "font.size": 9,
}


def draw_scan(stem: Path, points: Sequence[ScanPoint], *, proposed: int) -> None:
    """Silhouette, and stability where it was measured, over the number of clusters; the proposal is marked.

    Args:
        stem: path of the two files without suffix.
        points: what was tried.
        proposed: the number of clusters that were proposed in the end.
    """
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        figure = new_figure(6, 3.4)
        axes = figure.subplots()
        ks = [point.k for point in points]
        axes.plot(ks, [point.silhouette for point in points], "o-", color=NATURAL_COLOR, label="silhouette")
        stable = [(point.k, point.stability) for point in points if point.stability is not None]
        if stable:
            axes.plot(*zip(*stable, strict=True), "s--", color=HUMAN_MADE_COLOR, label="stability (adjusted Rand)")
        axes.axvline(proposed, color=INK, linewidth=0.8, linestyle=":", label=f"proposed: {proposed}")
        axes.set(xlabel="number of clusters", xscale="log")
        round_numbers = [k for k in (2, 5, 10, 20, 50, 100, 200, 500) if ks[0] <= k <= ks[-1]] or ks
        axes.set_xticks(round_numbers, [str(k) for k in round_numbers])
        axes.minorticks_off()
        axes.legend(frameon=False)
        save_figure(figure, stem)


def new_figure(width: float, height: float) -> Figure:
    """A figure of that size in inches, without a window."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure, stem: Path) -> None:
    """Write ``stem.svg`` and ``stem.png`` without time or version in them."""
    with replacing(stem.with_suffix(".svg")) as temporary:
        figure.savefig(temporary, format="svg", metadata={"Date": None, "Creator": None})
    with replacing(stem.with_suffix(".png")) as temporary:
        figure.savefig(temporary, format="png", dpi=150, metadata={"Software": None})
