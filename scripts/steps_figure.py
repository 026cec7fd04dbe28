"""Draw docs/figures/steps.svg, the step functions and their gradients: python scripts/steps_figure.py."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import torch

from hiertree.io.files import replacing
from hiertree.losses.pairs.soft_ranks import Sigmoid, SupStep

FIGURE = Path(__file__).resolve().parent.parent / "docs" / "figures" / "steps.svg"
COLORS = {"H": "black", "σ(t/τ)": "tab:blue", "H⁻": "tab:red"}


def draw(path: Path) -> None:
    """Save the figure."""
    mpl.use("svg")
    from matplotlib import pyplot as plt

    plt.rcParams.update({"svg.hashsalt": "steps", "svg.fonttype": "none", "font.size": 9, "path.simplify": True})
    figure, (values, slopes) = plt.subplots(1, 2, figsize=(8, 2.8), layout="constrained")
    t = torch.linspace(-0.06, 0.08, 281, dtype=torch.float64)
    heaviside = (t >= 0).double()
    values.plot(t, heaviside, color=COLORS["H"], label="H", drawstyle="steps-post")
    slopes.plot(t, torch.zeros_like(t), color=COLORS["H"], label="H")
    for name, step, style in (("H⁻", SupStep().parameters, "-"), ("σ(t/τ)", Sigmoid().parameters, "--")):
        values.plot(t, step.value(t) + step.start * heaviside, style, color=COLORS[name], label=name)
        slopes.plot(t, step.slope(t), style, color=COLORS[name], label=name)
    for axes, title in ((values, "value"), (slopes, "gradient")):
        axes.set(title=title, xlabel="t = s_j − s_k  (t > 0: j is ahead of k)")
        axes.axvline(SupStep().parameters.margin, color="gray", linewidth=0.6, linestyle=":")
        axes.legend(frameon=False)
    with replacing(path) as temporary:
        figure.savefig(temporary, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else FIGURE)
