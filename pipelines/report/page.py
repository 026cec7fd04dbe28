"""The page of a report: one HTML file that needs nothing else."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hiertree.errors import OptionError
from hiertree.io import files

from ..pages import fill_page
from .figures.svg import SvgFigure
from .measurements import Measurement
from .metric_rows import side_by_side
from .queries_and_gallery import QueriesAndGallery
from .ranking_grids import RankingGrids, ShownQuery
from .tree_branches import TreeBranch


@dataclass(frozen=True)
class QueryGroup:
    """Queries that stand together on the page, under a heading if there is one."""

    title: str
    queries: list[ShownQuery]


def judging_metric(found: Mapping[str, Measurement]) -> str:
    """The metric by which rankings are judged: H-AP, or else the first that every model has for each query.

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

    Args:
        path: the HTML file.
        found: what was measured, by name.
        data: on what.
        grids: that made the groups.
        groups: of queries.
        title: of the page.
        rule: how the queries were chosen.
        hits: pictures of each ranking.
        judged_by: the metric options each ranking.
        figures: learning curves.
        lead: paragraphs at the top.
        tree: labels to show.
        tree_lead: paragraphs above them.
        commands: what to type to make it again.
        analysis: how the values are spread over queries and nodes; None leaves that out.
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
