"""The page of a report and of ``hiertree demo``: one HTML file that needs nothing else."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hiertree.errors import OptionError
from hiertree.io import files

from ..pages import fill_page
from ..training.data.splits import load_split
from .figures import SvgFigure, learning_curves
from .measurements import FinishedRun, Measurement, read_runs
from .metric_rows import side_by_side
from .queries_and_gallery import QueriesAndGallery
from .rankings import RankingGrids, ShownQuery, choose_queries
from .sources import require_measured_on
from .tree_nodes import TreeBranch, branches_of

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
        rule=(
            f"The queries are not picked by hand: a draw with seed {seed} takes them in turn from as many of the "
            "coarsest categories as there are."
        ),
        hits=hits,
        judged_by=judged_by,
        figures=learning_curves({name: run.history for name, run in found.items()}),
        tree=None if tree is None else branches_of(tree, leaf_names),
        tree_lead=tree_lead,
        commands=commands,
    )


def _data_of(run: FinishedRun, dataset: ImageDataset | None) -> QueriesAndGallery:
    images = load_split(run.recipe, "test") if dataset is None else dataset
    data = QueriesAndGallery.from_dataset(images)
    require_measured_on(data, run, f"{images.name} ({images.split})")
    return data


@dataclass(frozen=True)
class QueryGroup:
    """Queries that stand together on the page, under a heading if there is one."""

    title: str
    queries: list[ShownQuery]


def judging_metric(found: Mapping[str, Measurement]) -> str:
    """The metric by which rankings are judged: H-AP, or else the first that every model has for each query."""
    first, *others = (list(run.per_query.columns) for run in found.values())
    shared = [name for name in first if all(name in columns for columns in others)]
    if not shared:
        raise OptionError("runs without a metric in common", expected="runs measured alike (evaluation.metrics)")
    return "H-AP" if "H-AP" in shared else shared[0]


def write_page(
    path: str | os.PathLike[str],
    found: Mapping[str, Measurement],
    data: QueriesAndGallery,
    grids: RankingGrids,
    groups: Sequence[QueryGroup],
    *,
    title: str,
    rule: str,
    hits: int,
    judged_by: str,
    figures: Sequence[SvgFigure],
    lead: Sequence[str] = (),
    tree: TreeBranch | None = None,
    tree_lead: Sequence[str] = (),
    commands: Sequence[str] = (),
    analysis: Mapping[str, Any] | None = None,
) -> Path:
    """Fill the template.

    ``rule`` says how the queries were chosen, ``hits`` how many pictures a ranking has, ``judged_by`` which metric
    judges it; without ``analysis`` the page lacks the spread of the values over queries and nodes.
    """
    first = next(iter(found.values()))
    rows = side_by_side([run.metrics for run in found.values()], level_names=data.tree.level_names)
    page = {
        "title": title,
        "lead": lead,
        "facts": data.facts,
        "runs": found,
        "names": list(found),
        "rows": rows,
        "published": [(name, run.metrics, row) for name, run in found.items() for row in run.published()],
        "levels": data.tree.level_names,
        "num_queries": len(data.query_paths),
        "convention": _in_words(first.results["convention"]),
        "skipped": {name: number for name, number in first.results["skipped"].items() if number},
        "rule": rule,
        "legend": grids.legend,
        "num_hits": min(hits, max(1, len(data.gallery_paths) - (not data.separate))),
        "judged_by": judged_by,
        "groups": groups,
        "num_shown": sum(len(group.queries) for group in groups),
        "without": data.without,
        "unreadable": grids.unreadable,
        "figures": figures,
        "analysis": analysis,
        "tree": tree,
        "tree_lead": tree_lead,
        "commands": commands or [run.command for run in found.values()],
        "versions": _versions(first.manifest),
    }
    files.write_text(path, fill_page("hiertree.pipelines.report", page, scripted=bool(analysis)))
    return Path(path)


def _in_words(convention: Mapping[str, Any]) -> dict[str, str]:
    """The lines of the card that are words or numbers; nested values are among them in words."""
    return {name.replace("_", " "): str(text) for name, text in convention.items() if isinstance(text, (str, int))}


def _versions(manifest: Mapping[str, Any]) -> dict[str, str]:
    chosen = {"hiertree": manifest["hiertree"], "revision": manifest["source_revision"], "python": manifest["python"]}
    return {name: str(text) for name, text in (chosen | manifest["packages"]).items() if text}
