"""The tree as a drawing: a column a level, a block a node, as high as its landmarks are many."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...cluster.plots import HUMAN_MADE_COLOR, NATURAL_COLOR, STYLE, new_figure, save_figure
from ...encode.phrases import NATURAL
from .content import TreeNode, level_sizes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HEIGHT, _SMALLEST_TEXT = 11.0, 0.009  # inches; share of the whole below which a block has no name
_PALER = (0.95, 0.75, 0.55, 0.4, 0.3)


def draw_tree(stem: Path, root: TreeNode) -> None:
    """Write ``stem.svg`` and ``stem.png``, down to the supercategories; the same tree gives the same bytes."""
    import matplotlib as mpl

    columns = len(level_sizes(root)) - 1
    with mpl.rc_context(STYLE):
        figure = new_figure(2.6 * columns, _HEIGHT)
        axes = figure.subplots()
        axes.set(xlim=(0, columns), ylim=(root.count, 0))
        axes.axis("off")
        start = 0
        for kind in root.children:
            color = NATURAL_COLOR if kind.name == NATURAL else HUMAN_MADE_COLOR
            _draw(axes, kind, depth=0, start=start, color=color, total=root.count)
            start += kind.count
        save_figure(figure, stem)


def _draw(axes: Axes, node: TreeNode, *, depth: int, start: int, color: str, total: int) -> None:
    """Draw a node and those below it, labels apart."""
    if not node.children:
        return
    middle, alpha = start + node.count / 2, _PALER[min(depth, len(_PALER) - 1)]
    axes.barh(middle, 0.98, left=depth, height=node.count, color=color, alpha=alpha, edgecolor="white")
    if node.count >= _SMALLEST_TEXT * total:
        ink = "white" if depth == 0 else "black"
        name = node.name if len(node.name) <= 34 else f"{node.name[:33]}…"
        axes.text(depth + 0.03, middle, f"{name}  {node.count}", va="center", fontsize=7.5, color=ink)
    for child in node.children:
        _draw(axes, child, depth=depth + 1, start=start, color=color, total=total)
        start += child.count
