"""Figures of the papers on five alphabets of Omniglot, beside what docs/papers.md says of them.

``python scripts/papers_figures.py images_background_small1.zip`` trains small networks for about fifteen minutes of one
core and writes docs/papers_figures.csv. ``python scripts/papers_figures.py`` draws it: docs/figures/papers_*.svg.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hiertree.io.files import open_replacing, replacing
from hiertree.losses import smooth_ap_error
from hiertree.losses.functional import smooth_ap, sup_ap

DOCS = Path(__file__).resolve().parent.parent / "docs"
VALUES = DOCS / "papers_figures.csv"
STUDY = DOCS / "omniglot_settings.csv"  # means over two seeds of the sweeps of docs/omniglot.md
LEAST_SLOPE = 0.005  # [B], suppl. Eq. 1
BATCHES, RHOS, TAUS = (16, 32, 64, 128, 256), (0.1, 1, 10, 100, 1e3, 1e4, 1e5), (0.001, 0.005, 0.01, 0.05, 0.1)
TEMPERATURES = (0.1, 0.01, 0.001)  # of [B]
WEIGHTS, BETAS, BITS = (0, 0.1, 0.3, 0.5, 0.7, 0.9, 1), (0.8, 0.7, 0.6, 0.5, 0.4, 0.3), (12, 24, 48)
SUP_AP = "loss={{name: SupAP, rho: {rho}, tau: {tau}}}"
WITH_MARGINS = "loss={{name: ROADMAP, decomposability: pair, lambda_: {weight}, rho: {rho}, beta: {beta}}}"
WITH_PROXIES = "loss={{name: ROADMAP, decomposability: proxy, lambda_: {weight}}}"
SMALL = ["model.width=16", "evaluation={metrics: [mAP@R], select: mAP@R}"]
SMALL += ["training.device=cpu", "training.logger=none"]

Row = tuple[str, str, float, float]  # figure, series, x, y
Series = dict[str, list[tuple[float, float]]]  # points by name
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
        self._percents: dict[str, float] = {}

    def train(self, *settings: str, folder: str, epochs: int = 8, batch_size: int = 128) -> float:
        """mAP@R of a run into this folder."""
        from hiertree.pipelines.training.recipe.reading import load_recipe
        from hiertree.pipelines.training.run.experiment import train

        sizes = [f"data.root={self._root}", f"training.epochs={epochs}", f"sampler.batch_size={batch_size}"]
        return train(load_recipe("omniglot-sup-ap", [*SMALL, *sizes, *settings]), folder).metrics["mAP@R"]

    def percent(self, loss: str, *, batch_size: int = 128, **options: float) -> float:
        """mAP@R in percent after eight epochs."""
        setting = loss.format(**({"rho": 100, "tau": 0.01, "beta": 0.6, "weight": 0.5} | options))
        key = f"{setting} {batch_size}"
        if key not in self._percents:
            with tempfile.TemporaryDirectory() as folder:
                self._percents[key] = 100 * self.train(setting, folder=folder, batch_size=batch_size)
        return self._percents[key]

    def steps(self, tau: float, batch_size: int) -> list[tuple[float, float]]:
        """AP_e and P of Eq. 1 at each step of an epoch."""
        import papers_figures  # the module that the recipe names, not this script

        papers_figures.STEPS.clear()
        with tempfile.TemporaryDirectory() as folder:
            loss = f"loss={{name: papers_figures:logged_smooth_ap, tau: {tau}}}"
            self.train(loss, folder=folder, epochs=1, batch_size=batch_size)
        return list(papers_figures.STEPS)

    def embeddings(self, *settings: str, epochs: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Embeddings and paths of the test split."""
        with tempfile.TemporaryDirectory() as folder:
            self.train(*settings, folder=folder, epochs=epochs)
            with np.load(Path(folder, "embeddings.npz")) as arrays:
                return arrays["embeddings"], arrays["paths"]


def measure(root: str) -> Iterator[Row]:
    """Every value of the drawings that takes a training."""
    runs = Runs(root)
    for tau in TEMPERATURES:
        yield from (("[B] 4", f"τ = {tau}", step, error) for step, (error, _) in enumerate(runs.steps(tau, 64), 1))
    for batch_size in BATCHES:
        fraction = np.mean([fraction for _, fraction in runs.steps(0.01, batch_size)])
        yield "[B] S7a", "P", batch_size, 100 * float(fraction)
    yield from precision_recall(runs)
    for batch_size in BATCHES:
        alone = runs.percent(SUP_AP, batch_size=batch_size)
        for figure, loss, weight in (("[R] 5", WITH_MARGINS, 0.5), ("[S] 6", WITH_PROXIES, 0.1)):
            both = runs.percent(loss, weight=weight, batch_size=batch_size)
            yield figure, "gain", batch_size, 100 * (both / alone - 1)
    for rho in RHOS:
        for figure in ("[R] 13b", "[S] 7b") if rho < RHOS[-1] else ("[R] 13b",):
            yield figure, "Sup-AP", rho, runs.percent(SUP_AP, rho=rho)
        yield "[R] 4b", "ROADMAP", rho, runs.percent(WITH_MARGINS, rho=rho)
    for weight in WEIGHTS:
        for figure, loss in (("[R] 4a", WITH_MARGINS), ("[S] 7a", WITH_PROXIES)):
            yield figure, "ROADMAP", weight, runs.percent(loss if weight else SUP_AP, weight=weight)
    yield from tie_ranges(runs)
    for tau in TAUS:
        yield "[R] 13a", "Sup-AP", tau, runs.percent(SUP_AP, tau=tau)
    for beta in BETAS:
        yield "[R] 4c", "ROADMAP", round(0.9 - beta, 1), runs.percent(WITH_MARGINS, beta=beta)


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
    """Print each value as soon as it is known, and write all in the end."""
    with open_replacing(VALUES) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["figure", "series", "x", "y"])
        for figure, series, x, y in rows:
            writer.writerow([figure, series, f"{x:g}", f"{y:.4g}"])
            print(figure, series, f"{x:g} {y:.4g}", flush=True)


def draw(folder: Path) -> None:
    """Save a figure for each paper."""
    mpl.use("svg")
    from matplotlib import pyplot as plt

    plt.rcParams.update({"svg.hashsalt": "papers", "svg.fonttype": "none", "font.size": 8, "lines.markersize": 3})
    values: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for table in (VALUES, STUDY):
        with table.open(encoding="utf-8", newline="") as file:
            for figure, series, x, y in list(csv.reader(file))[1:]:
                values.setdefault(figure, {}).setdefault(series, []).append((float(x), float(y)))
    for name, panels in PANELS.items():
        rows = 1 if len(panels) < 4 else 2
        figure, grid = plt.subplots(rows, -(-len(panels) // rows), figsize=(9, 2.3 * rows), layout="constrained")
        for axes in grid.flat[len(panels) :]:
            axes.axis("off")
        for axes, (title, plot, labels) in zip(grid.flat, panels, strict=False):
            plot(axes, values.get(title.partition(":")[0], {}))
            axes.set(title=title, **labels)
            if len(axes.get_legend_handles_labels()[1]) > 1:
                axes.legend(frameon=False, fontsize=6, loc="upper right" if plot is gradients else "best")
        with replacing(folder / f"papers_{name}.svg") as temporary:
            figure.savefig(temporary, format="svg", metadata={"Date": None, "Creator": None})
        plt.close(figure)


def lines(axes: Any, series: Series) -> None:
    """A line for each series."""
    for name, points in series.items():
        axes.plot(*zip(*points, strict=True), marker=".", label=name)


def over_logarithm(axes: Any, series: Series) -> None:
    """The same, x growing by factors."""
    axes.set_xscale("log")
    lines(axes, series)


def over_batches(axes: Any, series: Series) -> None:
    """The same, x being sizes of batches."""
    over_logarithm(axes, series)
    axes.set_xticks(BATCHES, list(map(str, BATCHES)))
    axes.minorticks_off()


def sigmoids(axes: Any, _: Series) -> None:
    """[B] Fig. 2: the indicator, and sigmoids."""
    t = np.linspace(-0.2, 0.2, 401)
    axes.plot(t, t > 0, color="black", label="1{t > 0}", drawstyle="steps-post")
    for tau in TEMPERATURES:
        axes.plot(t, 1 / (1 + np.exp(-t / tau)), label=f"τ = {tau}")


def slopes(axes: Any, _: Series) -> None:
    """[B] Fig. 2 and S7b: their derivatives, as far as they count."""
    t = np.linspace(-0.2, 0.2, 401)
    axes.set_yscale("log")
    for tau in TEMPERATURES:
        axes.plot(t, 1 / (4 * tau * np.cosh(t / (2 * tau)) ** 2), label=f"τ = {tau}")
    axes.set_ylim(LEAST_SLOPE, 1e3)


def gradients(axes: Any, _: Series) -> None:
    """[R] Fig. 1, 8, 9: minus the gradients of a negative ahead of two positives, by loss."""
    levels, table = torch.tensor([[1, 1, 0]]), torch.ones(1, 2)
    for row, (name, loss) in enumerate(GRADIENTS.items()):
        scores = torch.tensor([[0.70, 0.71, 0.84]], dtype=torch.float64, requires_grad=True)
        loss(scores, levels, table).backward()
        assert scores.grad is not None
        axes.bar(np.arange(3) + 0.27 * (row - 1), -scores.grad[0].numpy(), 0.25, label=name)
    axes.axhline(0, color="black", linewidth=0.6)
    axes.set_xticks(range(3), ["x₁ (+)", "x₂ (+)", "x₃ (−)"])
    axes.set_yscale("symlog", linthresh=0.1)
    axes.set_ylim(-10, 100)


def ranges(bits: int) -> Callable[[Any, Series], None]:
    """[T] Fig. 3: mAP from the worst to the best order of ties, and the mean."""

    def plot(axes: Any, series: Series) -> None:
        means = {name.partition(" ")[0]: dict(points)[bits] for name, points in series.items() if "average" in name}
        for row, (name, mean) in enumerate(reversed(means.items())):
            axes.plot([dict(series[f"{name} {ties}"])[bits] for ties in ("worst", "best")], [row, row], linewidth=4)
            axes.plot(mean, row, "ok")
        axes.set_yticks(range(len(means)), list(reversed(means)))

    return plot


GRADIENTS = {
    "Smooth-AP": smooth_ap,
    "H⁺ = H": partial(sup_ap, start=0.0, delta=2.0),
    "Sup-AP": sup_ap,
}
MAP = {"ylabel": "mAP@R, %"}
BATCH, GAIN = {"xlabel": "batch"}, {"xlabel": "batch", "ylabel": "gain of mAP@R, %"}
PANELS: dict[str, list[tuple[str, Callable[[Any, Series], None], dict[str, str]]]] = {
    "smooth_ap": [
        ("[B] 1: one query", lines, {"xlabel": "recall", "ylabel": "precision"}),
        ("[B] 2: steps", sigmoids, {"xlabel": "t"}),
        ("[B] 2, S7b: slopes", slopes, {"xlabel": "t"}),
        ("[B] 4: AP_e over an epoch", lines, {"xlabel": "step", "ylabel": "AP_e"}),
        ("[B] S7a: P, Eq. 1", over_batches, {**BATCH, "ylabel": "%"}),
    ],
    "roadmap": [
        ("[R] 1, 8, 9: −gradient", gradients, {}),
        ("[R] 4a: λ", lines, {"xlabel": "λ", **MAP}),
        ("[R] 4b: ρ", over_logarithm, {"xlabel": "ρ", **MAP}),
        ("[R] 4c: margin", lines, {"xlabel": "α − β", **MAP}),
        ("[R] 5: gain by L_DG", over_batches, GAIN),
        ("[R] 13a: τ", over_logarithm, {"xlabel": "τ", **MAP}),
        ("[R] 13b: ρ", over_logarithm, {"xlabel": "ρ", **MAP}),
    ],
    "suprank": [
        ("[S] 6: gain by L*_DG", over_batches, GAIN),
        ("[S] 7a: λ of ROADMAP", lines, {"xlabel": "λ", **MAP}),
        ("[S] 7b: ρ of Sup-AP", over_logarithm, {"xlabel": "ρ", **MAP}),
        ("[S] 8a: α of HAPPIER", lines, {"xlabel": "α", "ylabel": "AP, %"}),
        ("[S] 8b: λ of HAPPIER", lines, {"xlabel": "λ", "ylabel": "H-AP, %"}),
    ],
    "hashing": [(f"[T] 3: {bits} bits", ranges(bits), {"xlabel": "mAP, %"}) for bits in BITS],
}


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].endswith(".zip"):
        write(measure(sys.argv[1]))
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 and Path(sys.argv[1]).is_dir() else DOCS / "figures")
