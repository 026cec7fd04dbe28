"""The page of ``hiertree demo``: several runs on the same images, for queries drawn by a seed, and a label tree."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hiertree.errors import OptionError

from ..training.data.splits import load_split
from .figures.svg import learning_curves
from .measurements import FinishedRun, read_runs
from .page import QueryGroup, judging_metric, write_page
from .queries_and_gallery import QueriesAndGallery
from .ranking_grids import RankingGrids
from .rankings import choose_queries
from .sources import require_measured_on
from .tree_branches import branches_of

if TYPE_CHECKING:
    from hiertree.datasets import ImageDataset
    from hiertree.tree import LabelTree


def write_demo_page(
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
        runs: folders of finished runs, as :func:`hiertree.pipelines.training.run.experiment.train` leaves them.
        title: of the page.
        lead: paragraphs at its top.
        dataset: the images that the runs were measured on; unless given, loaded as the first run's recipe says.
        tree: a label tree to show.
        tree_lead: paragraphs above it.
        leaf_names: what to call its leaves; others are called by their labels.
        commands: how to make the page again; unless given, how to train each run.
        queries: how many queries are shown, drawn by ``seed`` from as many of the coarsest categories as possible.
        hits: how many images of each ranking are shown.
        seed: of the draw.

    Returns:
        The path.

    Raises:
        OptionError: no run, one that is not finished, runs on different images or without a metric in common, or fewer
            than one query or hit.
        CheckpointError: the folder of a run is damaged.
    """
    if queries < 1 or hits < 1:
        raise OptionError(f"queries={queries}, hits={hits}", expected="1 or more of each")
    found = read_runs(runs)
    data = _data_of(next(iter(found.values())), dataset)
    grids, judged_by = RankingGrids(data), judging_metric(found)
    chosen = choose_queries(data.query_paths, count=queries, seed=seed)
    return write_page(
        path,
        found,
        data,
        grids,
        [QueryGroup("", grids.queries(found, chosen, hits=hits, metric=judged_by))],
        title=title,
        lead=lead,
        rule=_rule(seed),
        hits=hits,
        judged_by=judged_by,
        figures=learning_curves({name: run.history for name, run in found.items()}),
        tree=None if tree is None else branches_of(tree, leaf_names),
        tree_lead=tree_lead,
        commands=commands,
    )


def _data_of(run: FinishedRun, dataset: ImageDataset | None) -> QueriesAndGallery:
    """The images that a run was measured on."""
    images = load_split(run.recipe, "test") if dataset is None else dataset
    data = QueriesAndGallery.from_dataset(images)
    require_measured_on(data, run, f"{images.name} ({images.split})")
    return data


def _rule(seed: int) -> str:
    return (
        f"The queries are not picked by hand: a draw with seed {seed} takes them in turn from as many of the coarsest "
        "categories as there are."
    )
