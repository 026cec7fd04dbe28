"""The page: one HTML file that needs nothing else, put together from finished runs."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hiertree.errors import OptionError
from hiertree.io import files

from ..pages import fill_page
from .comparison import side_by_side
from .figures import Figure, learning_curves
from .grids import Grids, Query
from .retrievals import choose_queries
from .runs import FinishedRun, Measurement, read_runs
from .scene import Scene, scene_of
from .sources import require_measured_on
from .tree import Branch, branches_of

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
        runs: folders of finished runs, as :func:`hiertree.pipelines.training.run.training.train` leaves them.
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
    """
    if queries < 1 or hits < 1:
        raise OptionError(f"queries={queries}, hits={hits}", expected="1 or more of each")
    found = read_runs(runs)
    scene = _scene_of(next(iter(found.values())), dataset)
    grids, judged_by = Grids(scene), judging_metric(found)
    chosen = choose_queries(scene.query_paths, count=queries, seed=seed)
    return write_page(
        path,
        found,
        scene,
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


@dataclass(frozen=True)
class QueryGroup:
    """Queries that stand together on the page, under a heading unless it is empty."""

    title: str
    queries: list[Query]


def judging_metric(found: Mapping[str, Measurement]) -> str:
    """The metric by which rankings are judged: H-AP, or else the first that every run has by query.

    Raises:
        OptionError: there is none.
    """
    first, *others = (list(run.per_query.columns) for run in found.values())
    shared = [name for name in first if all(name in columns for columns in others)]
    if not shared:
        raise OptionError("runs without a metric in common", expected="runs measured alike (evaluation.metrics)")
    return "H-AP" if "H-AP" in shared else shared[0]


def write_page(
    path: str | os.PathLike[str],
    found: Mapping[str, Measurement],
    scene: Scene,
    grids: Grids,
    groups: Sequence[QueryGroup],
    *,
    title: str,
    rule: str,
    hits: int,
    judged_by: str,
    figures: Sequence[Figure],
    lead: Sequence[str] = (),
    tree: Branch | None = None,
    tree_lead: Sequence[str] = (),
    commands: Sequence[str] = (),
    analysis: Mapping[str, Any] | None = None,
) -> Path:
    """Fill the template.

    Args:
        path: the HTML file.
        found: what was measured, by name.
        scene: on what.
        grids: that made the groups.
        groups: of queries.
        title: of the page.
        rule: how the queries were chosen.
        hits: pictures of each ranking.
        judged_by: the metric beside each ranking.
        figures: learning curves.
        lead: paragraphs at the top.
        tree: labels to show.
        tree_lead: paragraphs above them.
        commands: what to type to make it again.
        analysis: how the values are spread over queries and nodes; None leaves that out.
    """
    first = next(iter(found.values()))
    rows = side_by_side([run.metrics for run in found.values()], level_names=scene.tree.level_names)
    page = {
        "title": title,
        "lead": lead,
        "facts": scene.facts,
        "runs": found,
        "names": list(found),
        "rows": rows,
        "num_queries": len(scene.query_paths),
        "convention": _in_words(first.results["convention"]),
        "skipped": {name: number for name, number in first.results["skipped"].items() if number},
        "rule": rule,
        "legend": grids.legend,
        "num_hits": min(hits, max(1, len(scene.gallery_paths) - (not scene.separate))),
        "judged_by": judged_by,
        "groups": groups,
        "num_shown": sum(len(group.queries) for group in groups),
        "without": scene.without,
        "unreadable": grids.unreadable,
        "figures": figures,
        "analysis": analysis,
        "tree": tree,
        "tree_lead": tree_lead,
        "commands": commands or [run.command for run in found.values()],
        "versions": _versions(first.manifest),
    }
    files.write_text(path, fill_page("hiertree.pipelines.report", page))
    return Path(path)


def _scene_of(run: FinishedRun, dataset: ImageDataset | None) -> Scene:
    """The images that a run was measured on."""
    from ..training.data.loading import load_split

    images = load_split(run.recipe, "test") if dataset is None else dataset
    scene = scene_of(images)
    require_measured_on(scene, run, f"{images.name} ({images.split})")
    return scene


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
