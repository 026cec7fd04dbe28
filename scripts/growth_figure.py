"""Draw docs/figures/growth.svg from benchmarks/growth.json: python scripts/growth_figure.py."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

from hiertree.io.files import replacing

ROOT = Path(__file__).resolve().parent.parent
FIGURE = ROOT / "docs" / "figures" / "growth.svg"
MEASURED = ROOT / "benchmarks" / "growth.json"
AXES = {  # of each curve: its title, the unit of its sizes, the unit of its times, and that in seconds
    "evaluation": ("evaluating one query, two levels", "items in the gallery", "milliseconds", 1e-3),
    "losses": ("one batch, forward and backward", "images in the batch", "seconds", 1.0),
}
NAMES = {
    "product": "matrix products alone",
    "pytorch-metric-learning": "pytorch-metric-learning with faiss,\ntwo metrics of one level",
    "sort": "torch's sort alone",
    "sklearn": "scikit-learn",
    "dense": "as the paper's code has it",
    "Smooth-AP": "pytorch-metric-learning's Smooth-AP,\none level",
}
STYLES = {
    "hiertree": {"color": "tab:blue", "linewidth": 2.5},
    "product": {"color": "black", "linestyle": ":"},
    "sort": {"color": "0.6", "linestyle": "--"},
}
OTHERS = ("tab:red", "tab:orange", "tab:green", "tab:purple", "tab:brown")


def draw(path: Path) -> None:
    """Save the figure."""
    mpl.use("svg")
    from matplotlib import pyplot as plt

    plt.rcParams.update({"svg.hashsalt": "growth", "svg.fonttype": "none", "font.size": 9})
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    figure, panels = plt.subplots(1, len(AXES), figsize=(10, 3.6), layout="constrained")
    for axes, (curve, (title, items, unit, seconds)) in zip(panels, AXES.items(), strict=True):
        _draw_curve(axes, measured[curve], seconds)
        axes.set(title=title, xlabel=items, ylabel=unit)
    figure.supxlabel(f"by the clock, {measured['machine']}", fontsize="small", color="0.4")
    with replacing(path) as temporary:
        figure.savefig(temporary, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)


def _draw_curve(axes: Any, measured: dict[str, dict[str, float]], unit: float) -> None:
    """A line for each library, the slowest first in the legend."""
    lines: dict[str, dict[int, float]] = {}
    for size, found in measured.items():
        for who, seconds in found.items():
            lines.setdefault(who, {})[int(size)] = seconds / unit
    common = min(map(max, lines.values()))
    colors = iter(OTHERS)
    for who in sorted(lines, key=lambda who: -lines[who][common]):
        style = STYLES.get(who) or {"color": next(colors)}
        axes.loglog(list(lines[who]), list(lines[who].values()), marker=".", label=NAMES.get(who, who), **style)
    axes.set_xticks(list(map(int, measured)), [f"{int(size):,}" for size in measured], rotation=30, fontsize="small")
    axes.minorticks_off()
    axes.legend(fontsize="x-small", frameon=False, loc="center left", bbox_to_anchor=(1, 0.5), labelspacing=1)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else FIGURE)
