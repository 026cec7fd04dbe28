"""The page of a report and of ``hiertree demo``: one HTML file that needs nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hiertree.errors import OptionError
from hiertree.io import files
from hiertree.metrics.request import improves_downward, split_name, strip_brackets

from ..pages import fill_page
from ..training.data.splits import load_split
from .figures import learning_curves
from .queries_and_gallery import QueriesAndGallery
from .rankings import RankingGrids, choose_queries
from .sources import Measurement, read_runs, require_measured_on

if TYPE_CHECKING:
    from hiertree.datasets import ImageDataset

    from ..labels.export.tree_page import TreeNode

_OF_THE_TREE = {
    "H-AP": "hierarchical average precision: close relatives first",
    "NDCG": "deep agreement counts more, late ranks count less",
    "NDCG@k": "deep agreement counts more, late ranks count less, in the first {k}",
    "ASI": "the order as a whole against the order of the tree",
    "HP@k": "levels shared with the first {k}, of those that {k} images can share",
    "AHP": "the mean of that over all k",
    "AHP@k": "the mean of that over 1 … {k}",
    "HD@k": "percent of a level up to the ancestor shared with the first {k}: less is better",
    "mistake-severity": "that of the nearest images of another class: less is better",
    "HOPS": "the levels of all images against the order of the tree",
    "HOPS@k": "the levels of the first {k} against the order of the tree",
}
_OF_A_LEVEL = {
    "AP": "images with the same {level} label come first",
    "R@1": "the nearest image has the same {level} label",
    "R@k": "an image with the same {level} label among the first {k}",
    "TR@k": "images with the same {level} label in the first {k}, of those that fit there",
    "P@k": "share with the same {level} label among the first {k}",
    "P@R": "share with the same {level} label among the first R, the number of such images",
    "MRR": "one over the rank of the first image with the same {level} label",
    "MRR@k": "one over the rank of the first image with the same {level} label, 0 beyond the first {k}",
    "mAP@R": "precision over the first R, the number of images with the same {level} label",
    "mAP@k": "precision over the first {k}, for the same {level} label",
}


def write_demo_page(
    path: str | os.PathLike[str],
    runs: Sequence[str | os.PathLike[str]],
    *,
    title: str = "Retrieval report",
    lead: Sequence[str] = (),
    dataset: ImageDataset | None = None,
    tree: TreeNode | None = None,
    tree_lead: Sequence[str] = (),
    commands: Sequence[str] = (),
    queries: int = 8,
    hits: int = 10,
    seed: int = 0,
) -> Path:
    """Write finished runs on the same images as one self-contained HTML page; the same runs give the same page.

    It holds the metrics side by side with their convention card, retrievals of the same queries by every run, learning
    curves, a label tree if one is given, and how to make it all again. ``dataset`` holds the images that the runs were
    measured on, unless given those of the first run's recipe; ``seed`` draws the queries, from as many of the coarsest
    categories as possible.
    """
    if queries < 1 or hits < 1:
        raise OptionError(f"queries={queries}, hits={hits}", expected="at least 1 of each")
    measurements = read_runs(runs)
    first = next(iter(measurements.values()))
    images = load_split(first.recipe, "test") if dataset is None else dataset
    data = QueriesAndGallery.from_dataset(images)
    require_measured_on(data, first, f"{images.name} ({images.split})")
    return write_page(
        path,
        measurements,
        data,
        {"": choose_queries(data.query_paths, count=queries, seed=seed)},
        hits=hits,
        judged_by=judging_metric(measurements),
        title=title,
        lead=lead,
        rule=(
            f"The queries are not picked by hand: a draw with seed {seed} takes them in turn from as many of the "
            "coarsest categories as there are."
        ),
        figures=learning_curves({name: run.history for name, run in measurements.items()}),
        tree=tree,
        tree_lead=tree_lead,
        commands=commands,
    )


def judging_metric(measurements: Mapping[str, Measurement]) -> str:
    """The metric by which rankings are judged: H-AP, or else the first that every model has for each query."""
    first, *other_columns = (list(run.per_query.columns) for run in measurements.values())
    common = [name for name in first if all(name in columns for columns in other_columns)]
    if not common:
        raise OptionError("runs without a metric in common", expected="runs measured alike (evaluation.metrics)")
    return "H-AP" if "H-AP" in common else common[0]


def write_page(
    path: str | os.PathLike[str],
    measurements: Mapping[str, Measurement],
    data: QueriesAndGallery,
    groups: Mapping[str, Sequence[int]],
    *,
    hits: int,
    judged_by: str,
    **context: Any,
) -> Path:
    """Fill the template.

    ``groups`` are queries by the heading above them, ``hits`` says how many pictures a ranking has, ``judged_by`` which
    metric judges it. ``context`` are further values of the template; without ``analysis`` the page lacks the spread of
    the values over queries and nodes.
    """
    grids, first = RankingGrids(data), next(iter(measurements.values()))
    page = {
        "analysis": None,
        "tree": None,
        **context,
        "facts": data.facts,
        "runs": measurements,
        "names": list(measurements),
        "rows": side_by_side([run.metrics for run in measurements.values()], level_names=data.tree.level_names),
        "published": [(name, run.metrics, row) for name, run in measurements.items() for row in run.published],
        "levels": data.tree.level_names,
        "num_queries": len(data.query_paths),
        "convention": _describe_convention(first.results["convention"]),
        "skipped": {name: number for name, number in first.results["skipped"].items() if number},
        "legend": grids.styles[::-1],
        "num_hits": min(hits, max(1, len(data.gallery_paths) - (not data.separate))),
        "judged_by": judged_by,
        "groups": [
            {"title": title, "queries": grids.queries(measurements, rows, hits=hits, metric=judged_by)}
            for title, rows in groups.items()
            if rows
        ],
        "num_shown": sum(map(len, groups.values())),
        "without": data.without,
        "unreadable": grids.unreadable,
        "commands": context.get("commands") or [run.command for run in measurements.values()],
        "versions": _versions(first.manifest),
    }
    files.write_text(path, fill_page("hiertree.pipelines.report", page, scripted=bool(page["analysis"])))
    return Path(path)


def _describe_convention(convention: Mapping[str, Any]) -> dict[str, str]:
    """The lines of the card that are words or numbers; nested values are among them in words."""
    return {name.replace("_", " "): str(text) for name, text in convention.items() if isinstance(text, (str, int))}


_VERSIONS = {"hiertree": "hiertree", "revision": "source_revision", "python": "python"}


def _versions(manifest: Mapping[str, Any]) -> dict[str, str]:
    versions = {name: manifest.get(key) for name, key in _VERSIONS.items()}
    packages = manifest.get("packages")
    return {
        name: str(text) for name, text in (versions | (packages if isinstance(packages, dict) else {})).items() if text
    }


@dataclass(frozen=True)
class MetricRow:
    """One metric of every run: what it asks, empty for the rarer ones, and a number in 0 … 1 for each run."""

    metric: str
    meaning: str
    values: tuple[float, ...]

    def is_best(self, run: int) -> bool:
        """Whether no other run does better; False for a single run, and for metrics without a best."""
        return len(self.values) > 1 and self.values[run] == best_value(self.metric, self.values)

    @property
    def gain(self) -> float:
        """The last run's value less the first one's."""
        return self.values[-1] - self.values[0]


def best_value(metric: str, values: Iterable[float]) -> float | None:
    """The smallest of distances, else the largest; None for shares of first errors, none of which is better."""
    if strip_brackets(metric) == "first-error":
        return None
    return min(values) if improves_downward(metric, num_levels=0) else max(values)


def side_by_side(metrics: Sequence[Mapping[str, float]], *, level_names: Sequence[str]) -> list[MetricRow]:
    """One row for each metric that all runs have, in the order of the first run; level names are coarse → fine.

    >>> rows = side_by_side([{"H-AP": 0.5, "R@1": 0.9}, {"H-AP": 0.6, "R@1": 0.9}], level_names=["kind", "place"])
    >>> [(row.metric, row.meaning, row.is_best(0), row.is_best(1)) for row in rows][1]
    ('R@1', 'the nearest image has the same place label', True, True)
    """
    common = [name for name in metrics[0] if all(name in run_metrics for run_metrics in metrics)]
    return [MetricRow(name, _meaning(name, level_names), tuple(values[name] for values in metrics)) for name in common]


def _meaning(metric: str, level_names: Sequence[str]) -> str:
    parts = split_name(metric)
    if parts is None or parts.is_mean or parts.parameters or parts.query_list:
        return ""
    k, kind = parts.cutoff, parts.family.kind + ("@k" if parts.cutoff else "")
    level = level_names[(parts.level or len(level_names)) - 1]
    text = _OF_THE_TREE.get(kind) if parts.level is None else None
    return (text or _OF_A_LEVEL.get(strip_brackets(metric), _OF_A_LEVEL.get(kind, ""))).format(k=k, level=level)
