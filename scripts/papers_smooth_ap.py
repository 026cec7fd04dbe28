"""[B] Fig. 4 and S7a on Omniglot: how far Smooth-AP is from AP over an epoch, and how many pairs have a gradient.

``python scripts/papers_smooth_ap.py images_background_small1.zip`` trains one epoch for each temperature and each batch
size, in about two minutes, and prints the means over its steps, which docs/papers.md quotes.
"""

from __future__ import annotations

import sys
import tempfile

import numpy as np
import torch
from torch import Tensor

from hiertree.losses import smooth_ap_error
from hiertree.losses.functional import smooth_ap

LEAST_SLOPE = 0.005  # suppl. Eq. 1
STEPS: list[tuple[float, float]] = []  # AP_e, and the share of differences whose sigmoid has a slope, of each step


def noted_smooth_ap(embeddings: Tensor, paths: Tensor, *, tau: float = 0.01) -> Tensor:
    """Smooth-AP, which notes both for each batch."""
    unit = torch.nn.functional.normalize(embeddings, dim=1)
    scores, levels, valid = unit @ unit.T, paths[:, -1:] == paths[:, -1], ~torch.eye(len(unit), dtype=torch.bool)
    errors = smooth_ap_error(scores.detach(), levels, tau=tau, valid=valid)
    sigmoid = torch.sigmoid((scores[:, None] - scores[:, :, None]).detach() / tau)
    has_slope = sigmoid * (1 - sigmoid) / tau > LEAST_SLOPE
    STEPS.append((float(np.nanmean(errors)), float(has_slope.double().mean())))
    return smooth_ap(scores, levels, torch.ones(len(scores), 2), tau=tau, valid=valid)


def means(root: str, *, tau: float = 0.01, batch_size: int = 64) -> tuple[float, float]:
    """AP_e and P of Eq. 1, means over the steps of an epoch."""
    import papers_smooth_ap  # the module that the recipe names, not this script

    from hiertree.pipelines.training.recipe.reading import load_recipe
    from hiertree.pipelines.training.run.experiment import train

    papers_smooth_ap.STEPS.clear()
    changes = [f"data.root={root}", "training.epochs=1", "training.device=cpu", f"sampler.batch_size={batch_size}"]
    changes += [f"loss={{name: papers_smooth_ap:noted_smooth_ap, tau: {tau}}}"]
    with tempfile.TemporaryDirectory() as folder:
        train(load_recipe("omniglot-smooth-ap", changes), folder)
    error, proportion = np.mean(papers_smooth_ap.STEPS, axis=0)
    return float(error), float(proportion)


if __name__ == "__main__":
    print("| τ | AP_e |\n|---|---|")
    for tau in (0.1, 0.01, 0.001):
        print(f"| {tau} | {means(sys.argv[1], tau=tau)[0]:.4f} |", flush=True)
    print("\n| batch | share with a gradient |\n|---|---|")
    for batch_size in (16, 32, 64, 128):
        print(f"| {batch_size} | {means(sys.argv[1], batch_size=batch_size)[1]:.4f} |", flush=True)
