"""Figures of the papers on five alphabets of Omniglot, beside what docs/papers.md says of them.

``python scripts/papers_figures.py images_background_small1.zip`` trains small networks for about fifteen minutes of one
core and writes docs/papers_figures.csv. ``python scripts/papers_figures.py`` draws it: docs/figures/papers_*.svg.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from torch import Tensor

from hiertree.io.files import open_replacing, replacing
from hiertree.losses import binary_codes, smooth_ap_error
from hiertree.losses.functional import smooth_ap, sup_ap

DOCS = Path(__file__).resolve().parent.parent / "docs"
VALUES = DOCS / "papers_figures.csv"
LEAST_SLOPE = 0.005  # [B], suppl. Eq. 1
BATCHES, RHOS, TAUS = (16, 32, 64, 128, 256), (0.1, 1, 10, 100, 1e3, 1e4, 1e5), (0.001, 0.005, 0.01, 0.05, 0.1)
WEIGHTS, BETAS, BITS = (0, 0.1, 0.3, 0.5, 0.7, 0.9, 1), (0.8, 0.7, 0.6, 0.5, 0.4, 0.3), (12, 24, 48)
SUP_AP = "loss={{name: SupAP, rho: {rho}, tau: {tau}}}"
WITH_MARGINS = "loss={{name: ROADMAP, decomposability: pair, lambda_: {weight}, rho: {rho}, beta: {beta}}}"
WITH_PROXIES = "loss={{name: ROADMAP, decomposability: proxy, lambda_: {weight}}}"
SMALL = ["training.device=cpu", "training.logger=none", "model.width=16", "evaluation={metrics: [mAP@R], select: mAP@R}"]

Row = tuple[str, str, float, float]  # figure, series, x, y
STEPS: list[tuple[float, float]] = []  # AP_e, and the fraction of differences whose sigmoid has a slope, of each step


def logged_smooth_ap(embeddings: Tensor, paths: Tensor, *, tau: float = 0.01) -> Tensor:
    """Smooth-AP, which notes both for each batch."""
    unit = torch.nn.functional.normalize(embeddings, dim=1)
    scores, levels, valid = unit @ unit.T, paths[:, -1:] == paths[:, -1], ~torch.eye(len(unit), dtype=torch.bool)
    errors = smooth_ap_error(scores.detach(), levels, tau=tau, valid=valid)
    sigmoid = torch.sigmoid((scores[:, None] - scores[:, :, None]).detach() / tau)
    has_slope = sigmoid * (1 - sigmoid) / tau > LEAST_SLOPE
    STEPS.append((float(np.nanmean(errors)), float(has_slope.double().mean())))
    return smooth_ap(scores, levels, torch.ones(len(scores), 2), tau=tau, valid=valid)


class Runs:
    """Trainings on one set of images, each made once."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._map_at_r: dict[str, float] = {}

    def train(self, *settings: str, folder: str, epochs: int = 8, batch_size: int = 128) -> float:
        """mAP@R in percent of a run into this folder."""
        from hiertree.pipelines.training.recipe.reading import load_recipe
        from hiertree.pipelines.training.run.experiment import train

        sizes = [f"data.root={self._root}", f"training.epochs={epochs}", f"sampler.batch_size={batch_size}"]
        return 100 * train(load_recipe("omniglot-sup-ap", [*SMALL, *sizes, *settings]), folder).metrics["mAP@R"]

    def map_at_r(self, loss: str, *, batch_size: int = 128, **options: float) -> float:
        """mAP@R in percent after eight epochs."""
        setting = loss.format(**({"rho": 100, "tau": 0.01, "beta": 0.6, "weight": 0.5} | options))
        key = f"{setting} {batch_size}"
        if key not in self._map_at_r:
            with tempfile.TemporaryDirectory() as folder:
                self._map_at_r[key] = self.train(setting, folder=folder, batch_size=batch_size)
        return self._map_at_r[key]

    def steps(self, tau: float, batch_size: int) -> list[tuple[float, float]]:
        """AP_e and P of Eq. 1 at each step of an epoch."""
        import papers_figures  # the module that the recipe names, not this script

        papers_figures.STEPS.clear()
        with tempfile.TemporaryDirectory() as folder:
            loss = f"loss={{name: papers_figures:logged_smooth_ap, tau: {tau}}}"
            self.train(loss, folder=folder, epochs=1, batch_size=batch_size)
        return list(papers_figures.STEPS)

    def embeddings(self, *settings: str, epochs: int) -> tuple[np.ndarray, np.ndarray]:
        """Embeddings and paths of the test split."""
        with tempfile.TemporaryDirectory() as folder:
            self.train(*settings, folder=folder, epochs=epochs)
            with np.load(Path(folder, "embeddings.npz")) as arrays:
                return arrays["embeddings"], arrays["paths"]


def measure(root: str) -> Iterator[Row]:
    """Every value of the drawings that takes a training."""
    runs = Runs(root)
    for tau in (0.1, 0.01, 0.001):
        yield from (("[B] 4", f"τ = {tau}", step, error) for step, (error, _) in enumerate(runs.steps(tau, 64), 1))
    for batch_size in BATCHES:
        fraction = np.mean([fraction for _, fraction in runs.steps(0.01, batch_size)])
        yield "[B] S7a", "P", batch_size, 100 * float(fraction)
    yield from precision_recall(runs)
    for batch_size in BATCHES:
        alone = runs.map_at_r(SUP_AP, batch_size=batch_size)
        for figure, loss, weight in (("[R] 5", WITH_MARGINS, 0.5), ("[S] 6", WITH_PROXIES, 0.1)):
            both = runs.map_at_r(loss, weight=weight, batch_size=batch_size)
            yield figure, "gain", batch_size, 100 * (both / alone - 1)
    for rho in RHOS:
        yield "[R] 13b, [S] 7b", "Sup-AP", rho, runs.map_at_r(SUP_AP, rho=rho)
        yield "[R] 4b", "ROADMAP", rho, runs.map_at_r(WITH_MARGINS, rho=rho)
    for weight in WEIGHTS:
        for figure, loss in (("[R] 4a", WITH_MARGINS), ("[S] 7a", WITH_PROXIES)):
            yield figure, "ROADMAP", weight, runs.map_at_r(loss if weight else SUP_AP, weight=weight)
    yield from tie_ranges(runs)
    for tau in TAUS:
        yield "[R] 13a", "Sup-AP", tau, runs.map_at_r(SUP_AP, tau=tau)
    for beta in BETAS:
        yield "[R] 4c", "ROADMAP", round(0.9 - beta, 1), runs.map_at_r(WITH_MARGINS, beta=beta)


def precision_recall(runs: Runs) -> Iterator[Row]:
    """[B] Fig. 1: a query before and after training with Smooth-AP, the one whose AP rises by the median."""
    hits = {}
    for name, epochs in (("before", 0), ("after", 12)):
        vectors, paths = runs.embeddings("loss={name: SmoothAP}", epochs=epochs)
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        scores = unit @ unit.T
        np.fill_diagonal(scores, -np.inf)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :-1]
        hits[name] = paths[order, -1] == paths[:, -1:]
    precision = {name: np.cumsum(found, axis=1) / np.arange(1, found.shape[1] + 1) for name, found in hits.items()}
    ap = {name: (precision[name] * found).sum(axis=1) / found.sum(axis=1) for name, found in hits.items()}
    query = np.argsort(ap["after"] - ap["before"], kind="stable")[len(ap["after"]) // 2]
    for name, found in hits.items():
        ranks = np.flatnonzero(found[query])
        yield from (("[B] 1", name, n / len(ranks), precision[name][query, rank]) for n, rank in enumerate(ranks, 1))


def tie_ranges(runs: Runs) -> Iterator[Row]:
    """[T] Fig. 3: mAP of binary codes under the worst order of ties, their average, and the best."""
    from hiertree.metrics import evaluate_codes

    for bits in BITS:
        growing = f"alpha: {bits**0.5:.3f}, alpha_factor: 2, alpha_every: 3"
        for loss in (f"TieAwareAP, {growing}", f"MIHash, {growing}", f"HashNet, {growing}", "DTSH, alpha: 8"):
            size = f"model.embedding_size={bits}"
            vectors, paths = runs.embeddings(f"loss={{name: {loss}}}", size, epochs=8)
            for ties in ("worst", "average", "best"):
                codes = np.where(vectors > 0, 1, -1)
                ap = evaluate_codes(codes, paths, metrics=["AP"], ties=ties).summary()["AP"]
                yield "[T] 3", f"{loss.partition(',')[0]} {ties}", bits, 100 * float(ap)


def write(rows: Iterator[Row]) -> None:
    """Write each value as soon as it is known."""
    with VALUES.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["figure", "series", "x", "y"])
        for figure, series, x, y in rows:
            writer.writerow([figure, series, f"{x:g}", f"{y:.4g}"])
            file.flush()


if __name__ == "__main__":
    write(measure(sys.argv[1]))
