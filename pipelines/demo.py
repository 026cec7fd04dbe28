"""``hiertree demo``: the whole path, small but real, offline.

Landmark ids become hierarchical labels; two networks learn to retrieve images, one from the finest classes alone
(Smooth-AP) and one from the whole tree (HAPPIER); both are measured by every metric; a page shows it all.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hiertree.io.files import write_text
from hiertree.io.provenance import check_outputs

from .labels import build
from .labels.export.tree_page import tree_of
from .report import make_report
from .report.tables import MetricRow, side_by_side
from .stored_embeddings.evaluating import print_table
from .training.data.splits import load_split
from .training.recipe.reading import load_recipe
from .training.run.experiment import train

if TYPE_CHECKING:
    from rich.tree import Tree

    from .labels.export.tree_page import TreeNode
    from .training.recipe.settings import Recipe

LANDMARKS = files("hiertree.pipelines").joinpath("landmarks.csv")
_TITLE = "What a label hierarchy buys"
_LEAD = (
    "Two networks of the same shape learn from the same images for the same time. Each then retrieves images like a "
    "given one, among classes that it has never seen. SmoothAP learns from the finest classes alone, HAPPIER from the "
    "whole tree above them, so that its errors can be smaller."
)
_LOSSES = ("smooth-ap", "happier")
_SHORT = {
    "synthetic": ("model.width=16", "training.epochs=24", "optimizer.lr=4e-3", "evaluation.every=4"),
    "omniglot": ("model.width=16", "training.epochs=4", "optimizer.lr=4e-3"),
}
_FEW_IMAGES = ("data.families=4", "data.kinds=3", "data.instances=4", "data.images=6", "sampler.batch_size=64")
_QUICK = {
    "synthetic": (*_FEW_IMAGES, "model.width=8", "training.epochs=2", "evaluation.every=1"),
    "omniglot": ("model.width=8", "training.epochs=1"),
}


def run_demo(
    out: str | os.PathLike[str],
    *,
    data: str | os.PathLike[str] | None = None,
    seed: int = 0,
    quick: bool = False,
    fresh: bool = False,
) -> Path:
    """Build labels, train and measure two models, print the results and write ``out/index.html``, the page. Offline.

    Finished runs of the same recipes that are in ``out`` already are not run again unless ``fresh``, interrupted ones
    go on. ``data`` is Omniglot, as a zip, npz or folder; without it images are drawn. ``quick`` trains a tiny network
    for a few steps only, to see that everything runs.
    """
    from rich.console import Console
    from threadpoolctl import threadpool_limits

    console, folder, start = Console(), Path(out), time.monotonic()
    table, landmarks = folder / "landmarks.csv", LANDMARKS.read_text(encoding="utf-8")
    is_begun = table.is_file() and table.read_text(encoding="utf-8", errors="replace") == landmarks
    check_outputs([], folders=[folder], marks=("labels/cleaned/manifest.json", *([table.name] if is_begun else [])))
    recipes = _recipes(data, seed=seed, quick=quick)
    images = load_split(recipes[0], "test")  # first, so that a wrong path fails at once
    console.rule("[bold]1  Landmark ids become a tree of labels", align="left")
    write_text(table, landmarks)
    labels = build({"landmarks": table, "cluster": {"seed": seed}}, out=folder / "labels")
    tree = tree_of(labels.exported, examples=labels.report["kept"])
    console.print(_draw_tree(tree), _describe_report(labels.report), sep="\n")
    console.rule("[bold]2  Two networks learn to retrieve images", align="left")
    with threadpool_limits(1):  # networks this small gain nothing from a second thread
        # so that runs with other settings are kept
        suffix = (f"-seed{seed}" if seed else "") + ("-quick" if quick else "")
        runs = [train(recipe, folder / "runs" / f"{recipe.name}{suffix}", fresh=fresh) for recipe in recipes]
    console.rule(f"[bold]3  {_TITLE}", align="left")
    rows = side_by_side([run.metrics for run in runs], level_names=images.tree.level_names)
    _print_metrics(rows, [recipe.loss.name for recipe in recipes])
    console.print(_differences(rows, recipes))
    page = make_report(
        [run.folder for run in runs],
        folder / "index.html",
        title=_TITLE,
        lead=[_LEAD, _differences(rows, recipes)],
        tree=tree,
        tree_lead=[_describe_report(labels.report)],
        hits=10,
        commands=[_command(folder, data, seed=seed, quick=quick)],
    )
    console.print(f"{page} shows it all; made in {time.monotonic() - start:.0f} s.", soft_wrap=True)
    return page


def _recipes(data: str | os.PathLike[str] | None, *, seed: int, quick: bool) -> list[Recipe]:
    """Smooth-AP's recipe and HAPPIER's, the same but for the loss."""
    source = "synthetic" if data is None else "omniglot"
    overrides = [f"seed={seed}", *(_QUICK if quick else _SHORT)[source]]
    overrides += [] if data is None else [f"data.root={os.fspath(data)}"]
    return [load_recipe(f"{source}-{loss}", overrides) for loss in _LOSSES]


def _draw_tree(root: TreeNode) -> Tree:
    """The tree as text: kinds, supercategories, and as many landmarks of each as fit on a line."""
    from rich.text import Text
    from rich.tree import Tree

    diagram = Tree(Text(f"{root.count} landmarks", style="bold"))
    for kind in root.children:
        branch = diagram.add(Text.assemble((kind.name, "bold"), f" {kind.count}"))
        for category in kind.children:
            landmarks = (", ".join(name for _, name in category.examples), "dim")
            line = Text.assemble(f"{category.name} {category.count}  ", landmarks, no_wrap=True, overflow="ellipsis")
            branch.add(line)
    return diagram


def _describe_report(report: dict[str, Any]) -> str:
    """The counts of the labels' report in one paragraph."""
    dropped = ", ".join(f"{count} for “{reason}”" for reason, count in report["dropped"].items())
    left_out = f" ({dropped} left out)" if dropped else ""
    return (
        f"{report['kept']} of {report['landmarks']} landmarks{left_out} carry {report['distinct_labels']} different "
        f"“instance of” labels, which fall into {report['clusters']} supercategories of two kinds. The labels were "
        "embedded by their words, clustered and named, without a network or manual work."
    )


def _print_metrics(rows: Sequence[MetricRow], names: Sequence[str]) -> None:
    """The metrics side by side for the terminal, the best starred."""
    from rich.box import SIMPLE_HEAD

    right, lines = [*names, "difference"], []
    for row in rows:
        values = [f"{100 * value:.1f} {'★' if row.is_best(run) else ' '}" for run, value in enumerate(row.values)]
        lines.append([row.metric, row.meaning, *values, f"{100 * row.gain:+.1f}"])
    print_table(["metric", "what it asks (percent; ★ best)", *right], lines, right=right, box=SIMPLE_HEAD)


def _differences(rows: Sequence[MetricRow], recipes: Sequence[Recipe]) -> str:
    """The main metrics of the second run minus those of the first."""
    gains = [f"{row.metric} {100 * row.gain:+.1f}" for row in rows if row.metric in ("H-AP", "NDCG", "ASI", "R@1")]
    text = f"{recipes[1].loss.name} against {recipes[0].loss.name}, in points: {', '.join(gains)}."
    return text.replace("-0.0", "0.0").replace(" -", " −")


def _command(folder: Path, data: str | os.PathLike[str] | None, *, seed: int, quick: bool) -> str:
    """The command that makes it all again."""
    command = ["hiertree", "demo", "--out", str(folder), "--seed", str(seed), *(["--quick"] if quick else [])]
    return shlex.join(command if data is None else [*command, "--data", os.fspath(data)])
