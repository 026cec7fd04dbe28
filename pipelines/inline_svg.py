"""Figures of matplotlib inside a page, in the page's own fonts and colors, light or dark.

matplotlib draws with placeholder colors, which become CSS: ``currentColor`` for ink, ``var(--run-1)`` … for the runs.
The same numbers give the same bytes.
"""

from __future__ import annotations

import re
from io import StringIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = 6  # of runs, in the page's style
INK = "#010203"
STYLE: Any = {  # matplotlib types its keys one by one, and each release has others
    "svg.fonttype": "none",
    "svg.hashsalt": "hiertree",
    "text.parse_math": False,
    "font.size": 11,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "axes.titlelocation": "left",
    "axes.titlesize": 12,
    "axes.titlepad": 10,
}


def run_color(color: int) -> str:
    """The color of a run by its number, from 0."""
    return f"#0000{color % COLORS + 16:02x}"


def inline_svg(figure: Figure, *, name: str) -> str:
    """The ``<svg>`` element of a figure that was drawn with :data:`STYLE`, in the page's colors and fonts.

    Args:
        figure: drawn with the colors :data:`INK` and :func:`run_color`; others stay what they are.
        name: of which its ids are made, so that no other figure of the page has them.
    """
    prefix, text = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-"), StringIO()
    figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"#0000([0-9a-f]{2})\b", lambda found: f"var(--run-{int(found[1], 16) - 15})", svg)
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r'(href="#|url\(#)', rf"\g<1>{prefix}-", svg)
    svg = re.sub(r'<svg([^>]*?) height="[^"]*"([^>]*?) width="[^"]*"', r"<svg\1\2", svg, count=1)
    return svg.replace("<svg", '<svg aria-hidden="true"', 1).strip()
