"""Draw the pictures of docs/concepts.md, levels.svg and ten_images.png: python scripts/concept_figures.py."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

import hiertree as ht
from hiertree.io.files import replacing
from hiertree.metrics import evaluate_scores

FIGURES = Path(__file__).resolve().parent.parent / "docs" / "figures"
ERRS_FAR = (2, 0, 0, 0, 2, 1, 1, 1, 0, 0)
ERRS_NEAR = (2, 1, 1, 1, 2, 0, 0, 0, 0, 0)
COLORS = {2: "#1b7837", 1: "#e08214", 0: "#999999"}
_NODES = {  # name: (x, y, parent)
    "landmarks": (3.5, 3, None),
    "natural": (1.5, 2, "landmarks"),
    "human-made": (5.5, 2, "landmarks"),
    "mountain": (0.5, 1, "natural"),
    "lake": (2.5, 1, "natural"),
    "church": (4.5, 1, "human-made"),
    "bridge": (6.5, 1, "human-made"),
    "Matterhorn": (0, 0, "mountain"),
    "Mont Blanc": (1, 0, "mountain"),
    "Bled": (2, 0, "lake"),
    "Baikal": (3, 0, "lake"),
    "Notre-Dame": (4, 0, "church"),
    "St Paul's": (5, 0, "church"),
    "Tower Br.": (6, 0, "bridge"),
    "Rialto": (7, 0, "bridge"),
}


def h_ap(levels: tuple[int, ...]) -> dict[str, float]:
    """AP at both levels and H-AP of one list, best first."""
    scores = np.arange(len(levels), 0, -1.0)[None]
    found = evaluate_scores(scores, np.array([levels]), metrics=["AP[2]", "AP[1]", "H-AP"])
    return {name: float(value) for name, value in found.summary().items()}


def draw_levels(path: Path) -> None:
    """A tree of three levels, with the level that three items have to the Matterhorn."""
    from matplotlib import pyplot as plt

    plt.rcParams.update({"svg.hashsalt": "levels", "svg.fonttype": "none", "font.size": 8.5})
    figure, axes = plt.subplots(figsize=(9, 3), layout="constrained")
    for name, (x, y, parent) in _NODES.items():
        if parent:
            axes.plot([x, _NODES[parent][0]], [y, _NODES[parent][1]], color="0.7", zorder=1, linewidth=1)
        box = {"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": "0.7"}
        axes.text(x, y, name, ha="center", va="center", bbox=box, zorder=2)
    for y, text in ((3, "level 0"), (2, "level 1: kind"), (1, "level 2: supercategory"), (0, "level 3: landmark")):
        axes.text(8, y, text, va="center", color="0.35")
    for name, level in (("Mont Blanc", 2), ("Bled", 1), ("Notre-Dame", 0)):
        x = _NODES[name][0]
        axes.text(x, -0.45, f"level {level}", ha="center", va="center", color=COLORS[level])
    axes.text(0, -0.45, "to Matterhorn:", ha="center", va="center", color="0.35")
    axes.set(xlim=(-0.6, 9.6), ylim=(-0.7, 3.3))
    axes.axis("off")
    with replacing(path) as temporary:
        figure.savefig(temporary, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)


def draw_ten_images(path: Path) -> None:
    """Two lists of ten images for one query: the same AP of the class, other mistakes."""
    from matplotlib import pyplot as plt

    images = ht.datasets.load("synthetic", split="test")
    levels = ht.levels(images.paths[:1, :2], images.paths[:, :2])[0]
    rows = {level: [r for r in np.flatnonzero(levels == level) if r][:: 5 if level else 300] for level in COLORS}
    figure, grid = plt.subplots(2, 12, figsize=(9, 2.5), width_ratios=[1, 0.25, *[1] * 10])
    for axes, (title, listed) in zip(grid, (("errs far", ERRS_FAR), ("errs near", ERRS_NEAR)), strict=True):
        take = {level: iter(found) for level, found in rows.items()}
        values = h_ap(listed)
        caption = f"AP[2] {values['AP[2]']:.2f}   H-AP {values['H-AP']:.2f}"
        _tile(axes[0], images.images[0], "black", "query")
        axes[1].axis("off")
        axes[2].set_title(f"{title}:  {caption}", loc="left", fontsize=9)
        for place, level in enumerate(listed):
            _tile(axes[2 + place], images.images[int(next(take[level]))], COLORS[level], f"level {level}")
    figure.subplots_adjust(left=0.01, right=0.99, top=0.9, bottom=0.08, wspace=0.12, hspace=0.5)
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=85, metadata={"Software": None})
    plt.close(figure)


def _tile(axes: Any, image: Any, color: str, text: str) -> None:
    axes.imshow(image)
    axes.set(xticks=[], yticks=[])
    axes.set_xlabel(text, fontsize=7, color=color, labelpad=2)
    for side in axes.spines.values():
        side.set(color=color, linewidth=2.5)


if __name__ == "__main__":
    mpl.use("agg")
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FIGURES
    draw_levels(folder / "levels.svg")
    draw_ten_images(folder / "ten_images.png")
    print(h_ap(ERRS_FAR), h_ap(ERRS_NEAR))
