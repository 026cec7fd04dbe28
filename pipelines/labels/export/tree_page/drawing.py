"""The tree as a drawing: a column a level, a block a node, as high as its landmarks are many."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hiertree.io.files import replacing

from ...encode.phrases import NATURAL
from .content import TreeNode, level_sizes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT, _SMALLEST_TEXT = 11.0, 0.009  # inches; share of the whole below which a block has no name
_PALER = (0.95, 0.75, 0.55, 0.4, 0.3)
_NATURAL_COLOR, _HUMAN_MADE_COLOR, _INK = "#2c7a4b", "#5747b8", "#23211e"
_STYLE: Any = {
    "svg.fonttype": "path",
    "svg.hashsalt": "hiertree",
    "text.parse_math": False,
    "text.color": _INK,
    "font.size": 9,
}
_NO_GLYPH = re.compile(r"Glyph (\d+) .* missing from font")


def draw_tree(stem: Path, root: TreeNode) -> None:
    """Write ``stem.svg`` and ``stem.png``, down to the supercategories; the same tree gives the same bytes.

    Characters that matplotlib's font lacks are boxes, and a warning says so.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    columns = len(level_sizes(root)) - 1
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(2.6 * columns, _HEIGHT), layout="constrained")
        axes = figure.subplots()
        axes.set(xlim=(0, columns), ylim=(root.count, 0))
        axes.axis("off")
        start = 0
        for kind in root.children:
            color = _NATURAL_COLOR if kind.name == NATURAL else _HUMAN_MADE_COLOR
            _draw(axes, kind, depth=0, start=start, color=color, total=root.count)
            start += kind.count
        with _missing_glyphs_in_one_warning(stem):
            _save(figure, stem)


@contextmanager
def _missing_glyphs_in_one_warning(stem: Path) -> Iterator[None]:
    """Say once what matplotlib says of every character and file; other warnings stay as they are."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", _NO_GLYPH.pattern)
        yield
    missing = set()
    for warning in caught:
        if found := _NO_GLYPH.match(str(warning.message)):
            missing.add(chr(int(found[1])))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    if missing:
        text = f"{stem.name}.svg and .png show boxes for {len(missing)} characters, {min(missing)!r} for instance"
        remedy = "name a font that has them as font.family in matplotlibrc; the page shows them"
        warnings.warn(f"{text}: {remedy}", UserWarning, stacklevel=4)


def _save(figure: Figure, stem: Path) -> None:
    """Write both files without time or version in them."""
    with replacing(stem.with_suffix(".svg")) as temporary:
        figure.savefig(temporary, format="svg", metadata={"Date": None, "Creator": None})
    with replacing(stem.with_suffix(".png")) as temporary:
        figure.savefig(temporary, format="png", dpi=150, metadata={"Software": None})


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
