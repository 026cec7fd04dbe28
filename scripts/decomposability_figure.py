"""Draw docs/figures/decomposability.svg, batches that do not add up: python scripts/decomposability_figure.py."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np

from hiertree.io.files import replacing
from hiertree.losses import decomposability_bound_with_margins, decomposability_gap

FIGURE = Path(__file__).resolve().parent.parent / "docs" / "figures" / "decomposability.svg"
ALPHA, BETA = 0.9, 0.6  # of L_DG
LEVELS, BATCHES = [[1, 0, 0, 1, 0, 0]], [0, 0, 0, 1, 1, 1]
SCORES = {
    "batches apart": [[0.9, 0.8, 0.7, 0.5, 0.4, 0.3]],
    "one negative beyond β": [[0.95, 0.65, 0.3, 0.93, 0.5, 0.2]],
    "within the margins": [[0.95, 0.6, 0.3, 0.93, 0.5, 0.2]],
}


def draw(path: Path) -> None:
    """Save the figure."""
    mpl.use("svg")
    from matplotlib import pyplot as plt

    plt.rcParams.update({"svg.hashsalt": "decomposability", "svg.fonttype": "none", "font.size": 9})
    figure, panels = plt.subplots(1, len(SCORES), figsize=(8, 1.9), sharey=True, layout="constrained")
    positive, batches = np.array(LEVELS[0]) == 1, np.array(BATCHES)
    for axes, (title, scores) in zip(panels, SCORES.items(), strict=True):
        gap = decomposability_gap(scores, LEVELS, BATCHES)[0]
        bound = decomposability_bound_with_margins(scores, LEVELS, BATCHES, alpha=ALPHA, beta=BETA)[0]
        axes.set(
            title=f"{title}\ngap {gap:.2f}, at most {bound:.2f}", xlabel="score", xlim=(0.1, 1.05), ylim=(1.6, -0.6)
        )
        axes.set_yticks([0, 1], ["batch 1", "batch 2"])
        for margin, name, color in ((ALPHA, "α", "tab:blue"), (BETA, "β", "tab:red")):
            axes.axvline(margin, color=color, linewidth=0.8, linestyle=":")
            axes.text(margin, -0.5, name, color=color, horizontalalignment="right", verticalalignment="top")
        for chosen, marker, color in ((positive, "o", "tab:blue"), (~positive, "x", "tab:red")):
            axes.scatter(np.array(scores[0])[chosen], batches[chosen], marker=marker, color=color)
    with replacing(path) as temporary:
        figure.savefig(temporary, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else FIGURE)
