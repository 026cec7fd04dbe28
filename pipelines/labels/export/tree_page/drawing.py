"""The tree as a drawing: a column a level, a block a node, as high as its landmarks are many."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...cluster.plots import HUMAN_MADE_COLOR, NATURAL_COLOR, STYLE, new_figure, save_figure
from ...encode.phrases import NATURAL
from .content import TreeNode

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HEIGHT, _SMALLEST_TEXT = 11.0, 0.009  # inches; share of the whole below which a block has no name
_PALER = (0.95, 0.75, 0.55, 0.4, 0.3)


def draw_tree(stem: Path, root: TreeNode, *, levels: int) -> None:
    """Write ``stem.svg`` and ``stem.png``; the same tree gives the same bytes.

    Args:
        stem: path without suffix.
        root: the tree.
        levels: how many levels below the root are drawn.
    """
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        figure = new_figure(2.6 * levels, _HEIGHT)
        axes = figure.subplots()
        axes.set(xlim=(0, levels), ylim=(root.count, 0))
        axes.axis("off")
        _blocks(axes, root, depth=0, start=0, levels=levels, total=root.count, color=NATURAL_COLOR)
        save_figure(figure, stem)


def _blocks(axes: Axes, node: TreeNode, *, depth: int, start: int, levels: int, total: int, color: str) -> None:
    """Draw the children of a node, and theirs."""
    if depth == levels:
        return
    for child in node.ordered():
        if depth == 0:
            color = NATURAL_COLOR if child.name == NATURAL else HUMAN_MADE_COLOR
        paleness = _PALER[min(depth, len(_PALER) - 1)]
        axes.barh(
            start + child.count / 2,
            0.98,
            left=depth,
            height=child.count,
            color=color,
            alpha=paleness,
            edgecolor="white",
        )
        if child.count >= _SMALLEST_TEXT * total:
            ink = "white" if depth == 0 else "black"
            name = child.name if len(child.name) <= 34 else f"{child.name[:33]}…"
            axes.text(
                depth + 0.03, start + child.count / 2, f"{name}  {child.count}", va="center", fontsize=7.5, color=ink
            )
        _blocks(axes, child, depth=depth + 1, start=start, levels=levels, total=total, color=color)
        start += child.count
