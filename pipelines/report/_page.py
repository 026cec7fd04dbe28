"""The page: one HTML file that needs nothing else, put together from finished runs."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from importlib.resources import files as resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree import files
from hiertree.errors import OptionError
from hiertree.pipelines.report._comparison import side_by_side
from hiertree.pipelines.report._figures import learning_curves
from hiertree.pipelines.report._grids import Grids
from hiertree.pipelines.report._retrievals import choose_queries
from hiertree.pipelines.report._runs import FinishedRun, read_runs
from hiertree.pipelines.report._tree import branches_of

if TYPE_CHECKING:
    from hiertree.datasets import ImageDataset
    from hiertree.tree import LabelTree


def write_report(
    path: str | os.PathLike[str],
    runs: Sequence[str | os.PathLike[str]],
    *,
    title: str = "Retrieval report",
    lead: Sequence[str] = (),
    dataset: ImageDataset | None = None,
    tree: LabelTree | None = None,
    tree_lead: Sequence[str] = (),
    leaf_names: Mapping[Hashable, str] | None = None,
    commands: Sequence[str] = (),
    queries: int = 8,
    hits: int = 10,
    seed: int = 0,
) -> Path:
    """Write finished runs on the same images as one self-contained HTML page.

    It holds the metrics side by side with their convention card, retrievals of the same queries by every run, learning
    curves, a label tree if one is given, and how to make it all again. The same runs give the same page.

    Args:
        path: the HTML file.
        runs: folders of finished runs, as :func:`hiertree.pipelines.train.train` leaves them.
        title: of the page.
        lead: paragraphs at its top.
        dataset: the images that the runs were measured on; unless given, loaded as the first run's recipe says.
        tree: a label tree to show.
        tree_lead: paragraphs above it.
        leaf_names: what to call its leaves; others are called by their labels.
        commands: what to type to make the page again; unless given, how to train each run.
        queries: how many queries are shown; they are drawn by ``seed``, from as many coarsest categories as there are.
        hits: how many images of each ranking are shown.
        seed: of the draw.

    Returns:
        The path.

    Raises:
        OptionError: no run, one that is not finished, runs on different images or without a metric in common, or fewer
            than one query or hit.
        CheckpointError: the folder of a run is damaged.
        ImageError: an image that is shown does not decode.
    """
    if queries < 1 or hits < 1:
        raise OptionError(f"queries={queries}, hits={hits}", expected="1 or more of each")
    found = read_runs(runs)
    first = next(iter(found.values()))
    images = _images_of(first, dataset)
    rows = side_by_side([run.metrics for run in found.values()], level_names=images.tree.level_names)
    if not rows:
        raise OptionError("runs without a metric in common", expected="runs measured alike (evaluation.metrics)")
    grids, chosen = Grids(images), choose_queries(images.paths, count=queries, seed=seed)
    judged_by = min((row.metric for row in rows), key=lambda metric: metric != "H-AP")
    page = {
        "title": title,
        "lead": lead,
        "facts": _facts(images),
        "runs": found,
        "rows": rows,
        "num_queries": len(images),
        "convention": _in_words(first.results["convention"]),
        "skipped": {name: number for name, number in first.results["skipped"].items() if number},
        "rule": _rule(seed),
        "legend": grids.legend,
        "num_hits": min(hits, len(images) - 1),
        "judged_by": judged_by,
        "queries": grids.queries(found, chosen, hits=hits, metric=judged_by),
        "figures": learning_curves({name: run.history for name, run in found.items()}),
        "tree": None if tree is None else branches_of(tree, leaf_names),
        "tree_lead": tree_lead,
        "commands": commands or [f"hiertree train {run.folder / 'recipe.yaml'}" for run in found.values()],
        "versions": _versions(first.manifest),
    }
    files.write_text(path, _render(page))
    return Path(path)


def _images_of(run: FinishedRun, dataset: ImageDataset | None) -> ImageDataset:
    """The images that a run was measured on."""
    from hiertree.pipelines.training.data import load_split

    images = load_split(run.recipe, "test") if dataset is None else dataset
    if images.queries is not None:
        raise OptionError(
            f"{images.name} ({images.split}), whose queries have a gallery of their own",
            expected="a test split whose images retrieve each other",
            remedy="read its metrics.json and per_query.parquet",
        )
    if not np.array_equal(images.paths, run.paths):
        raise OptionError(
            f"the {len(images)} images of {images.name} ({images.split})",
            expected=f"the {len(run.paths)} images that {run.folder} was measured on, with the same paths",
        )
    return images


def _facts(images: ImageDataset) -> str:
    levels = zip(images.tree.level_names, images.tree.level_sizes, strict=True)
    tree = " › ".join(f"{name} ({size:,})" for name, size in levels)
    return f"Measured on the {len(images):,} images of {images.name}, {images.split} split. Levels: {tree}."


def _rule(seed: int) -> str:
    return (
        f"The queries are not picked by hand: a draw with seed {seed} takes them in turn from as many of the coarsest "
        "categories as there are."
    )


def _in_words(convention: Mapping[str, Any]) -> dict[str, str]:
    """The lines of the card that are words or numbers; what it nests, it also says in words."""
    return {name.replace("_", " "): str(text) for name, text in convention.items() if isinstance(text, (str, int))}


def _versions(manifest: Mapping[str, Any]) -> dict[str, str]:
    chosen = {"hiertree": manifest["hiertree"], "revision": manifest["source_revision"], "python": manifest["python"]}
    return {name: str(text) for name, text in (chosen | manifest["packages"]).items() if text}


def _render(page: Mapping[str, Any]) -> str:
    """Fill the template; whatever is not markup made here is escaped."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    folder = resources("hiertree.pipelines.report")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(folder.joinpath("page.html").read_text(encoding="utf-8"))
    css = Markup(folder.joinpath("page.css").read_text(encoding="utf-8").rstrip())  # noqa: S704  (our own file)
    return template.render(page, css=css) + "\n"
