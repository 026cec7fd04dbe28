"""``hiertree report``: how good models are, for which queries and classes they fail, and what they retrieve."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.errors import OptionError, require_package
from hiertree.io import files
from hiertree.metrics.conventions import improves_downward, split_name

from ..pages import fill_page
from ..stored_embeddings.locations import kind_of
from .errors import error_figures
from .figures import histogram, learning_curves, map_figures
from .queries_and_gallery import SIGNIFICANT, paired_test
from .rankings import RankingGrids, changed_queries, extreme_queries
from .sources import EmbeddingsOptions, read_sources, values_of
from .tables import answered_nodes, node_table, side_by_side

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..labels.export.tree_page import TreeNode
    from .plots import Projection
    from .queries_and_gallery import QueriesAndGallery
    from .sources import Measurement

QUANTILES = {"smallest": 0.0, "5 %": 0.05, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "95 %": 0.95, "largest": 1.0}
_OF_COMPARISONS = (
    "Each row of the comparison is shown by its first seed; comparison.html, in its folder, has the means over seeds."
)
MOST_PICTURES = 3_000
_SHOWN = 4  # metrics whose curves are drawn
_WORST = 12  # nodes of a level that a table names


def make_report(
    sources: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    title: str = "Retrieval report",
    overrides: Sequence[str] = (),
    options: EmbeddingsOptions | None = None,
    queries: int = 3,
    hits: int = 8,
    projection: Projection = "pca",
    lead: Sequence[str] = (),
    tree: TreeNode | None = None,
    tree_lead: Sequence[str] = (),
    commands: Sequence[str] = (),
) -> Path:
    """Write finished runs, a comparison, or a file of embeddings as one self-contained HTML page.

    Where the images are missing, or have changed since, the page says so and shows the rest.

    Args:
        sources: folders of finished runs or of comparisons (of which the first seed of each row is shown), measured on
            the same images; or one file of embeddings.
        out: the HTML file.
        title: of the page.
        overrides: of the first run's recipe: ``"data.root=PATH"`` where its images have moved.
        options: labels, gallery and images of a file of embeddings.
        queries: how many of the worst, the median and the best queries are shown, each.
        hits: how many images of each ranking are shown.
        projection: that of the map, ``"pca"`` or ``"t-sne"``.
        lead: paragraphs below the title.
        tree: of labels, to be shown.
        tree_lead: paragraphs above it.
        commands: that make it all again, before those of the models.

    Raises:
        OptionError: sources that cannot be shown together, fewer than one query or hit, or too many for a page.
        CheckpointError: the folder of a run is damaged.
        HiertreeError: whatever is wrong with a file.
    """
    require_package("matplotlib", extra="plots")
    if projection != "pca":
        require_package("sklearn", extra="labels")
    if queries < 1 or hits < 1 or not sources:
        counts = f"{len(sources)} sources, queries={queries}, hits={hits}"
        raise OptionError(counts, expected="at least 1 of each")
    measurements, data = read_sources(sources, overrides=overrides, options=options)
    has_models = len(measurements) > 1
    num_queries = (5 if has_models else 3) * queries
    pictures = num_queries * (1 + len(measurements) * min(hits, len(data.gallery_paths)))
    if pictures > MOST_PICTURES:
        expected = f"at most {MOST_PICTURES:,} on a page"
        raise OptionError(f"{pictures:,} pictures", expected=expected, remedy="fewer queries or hits")
    judged_by = _judging_metric(measurements)
    values = values_of(measurements, judged_by)
    histories = {name: run.history for name, run in measurements.items() if run.history}
    if any(kind_of(Path(source)) == "comparison" for source in sources):
        lead = [*lead, _OF_COMPARISONS]
    if total := max(run.drawn_from for run in measurements.values()):
        lead = [*lead, f"The queries are a draw from {total:,}; `hiertree evaluate` measures all."]
    page = {
        "title": title,
        "lead": lead,
        "tree": tree,
        "tree_lead": tree_lead,
        "judged_by": judged_by,
        "figures": learning_curves(histories, metrics=_curves(measurements)),
        "analysis": {
            **_analysis(measurements, data, values, judged_by),
            "map": map_figures(measurements, data, method=projection),
        },
        **_numbers(measurements, data),
        **_retrievals(measurements, data, values, judged_by, queries=queries, hits=hits),
        "commands": [*commands, *(run.command for run in measurements.values())],
    }
    files.write_text(out, fill_page(__package__, page, scripted=True))
    return Path(out)


def _numbers(measurements: Mapping[str, Measurement], data: QueriesAndGallery) -> dict[str, Any]:
    """The metrics of every model, by what rules, and of what images."""
    first = next(iter(measurements.values()))
    manifest, convention = first.manifest, first.results["convention"]
    versions = {"hiertree": manifest.get("hiertree"), "revision": manifest.get("source_revision")}
    versions |= {"python": manifest.get("python"), **(manifest.get("packages") or {})}
    return {
        "facts": data.facts,
        "runs": measurements,
        "names": list(measurements),
        "rows": side_by_side(
            [run.metrics for run in measurements.values()],
            level_names=data.tree.level_names,
            differing=_differing(list(measurements.values()), data.query_paths),
        ),
        "published": [(name, run.metrics, row) for name, run in measurements.items() for row in run.published],
        "levels": data.tree.level_names,
        "num_queries": len(data.query_paths),
        "convention": {  # nested values are among the others in words
            name.replace("_", " "): str(text) for name, text in convention.items() if isinstance(text, (str, int))
        },
        "skipped": {name: count for name, count in first.results["skipped"].items() if count},
        "versions": {name: str(version) for name, version in versions.items() if version},
    }


def _differing(measurements: Sequence[Measurement], query_paths: NDArray[np.integer]) -> set[str]:
    """The metrics in which two models differ by a paired randomization test over classes; none of other numbers."""
    if len(measurements) != 2:
        return set()
    first, second = (run.per_query for run in measurements)
    tests = {
        str(metric): paired_test(first[metric], second[metric], query_paths) for metric in set(first) & set(second)
    }
    return {metric for metric, test in tests.items() if test is not None and test[-1] < SIGNIFICANT}


def _retrievals(
    measurements: Mapping[str, Measurement],
    data: QueriesAndGallery,
    values: NDArray[np.float64],
    judged_by: str,
    *,
    queries: int,
    hits: int,
) -> dict[str, Any]:
    """The shown queries in groups, and what every model retrieves for them."""
    grids, has_models = RankingGrids(data), len(measurements) > 1
    groups = _chosen(list(measurements), values, data.query_paths[:, -1], queries)
    rule = f"The queries are those with the smallest, the median and the largest {judged_by}"
    rule += " (the mean over the models)" if has_models else ""
    rule += ", each of another class where there are enough"
    rule += f", and those whose {judged_by} the last model changes most." if has_models else "."
    return {
        "rule": rule,
        "legend": grids.styles[::-1],
        "num_hits": min(hits, max(1, len(data.gallery_paths) - (not data.separate))),
        "num_shown": sum(map(len, groups.values())),
        "groups": [
            {"title": title, "queries": grids.queries(measurements, rows, hits=hits, metric=judged_by)}
            for title, rows in groups.items()
            if rows
        ],
        "without": data.without,
        "unreadable": grids.unreadable,
    }


def _judging_metric(measurements: Mapping[str, Measurement]) -> str:
    """The metric by which rankings are judged: H-AP, or else the first that every model has for each query.

    A distance is none: its largest values are those of the worst queries.
    """
    first, *other_columns = (list(run.per_query.columns) for run in measurements.values())
    common = [
        name
        for name in first
        if all(name in columns for columns in other_columns) and not improves_downward(name, num_levels=0)
    ]
    if not common:
        expected = "a metric that all measured and that is better when larger (evaluation.metrics)"
        raise OptionError("runs without a metric in common", expected=expected)
    return "H-AP" if "H-AP" in common else common[0]


def _chosen(
    names: Sequence[str], values: NDArray[np.float64], classes: NDArray[np.integer], count: int
) -> dict[str, list[int]]:
    """The shown queries by the title of their group."""
    extreme = extreme_queries(values.mean(axis=1), count=count, classes=classes)
    groups = {f"{name.capitalize()} queries": rows for name, rows in extreme.items()}
    if len(names) > 1:
        changed = changed_queries(values[:, 0], values[:, -1], count=count, classes=classes)
        groups |= {f"Most {name} from {names[0]} to {names[-1]}": rows for name, rows in changed.items()}
    return groups


def _curves(measurements: Mapping[str, Measurement]) -> list[str]:
    """The metrics that some run measured during training; those of the whole tree and the means first."""
    metrics = dict.fromkeys(
        name for run in measurements.values() for row in run.history for name in row.get("metrics", {})
    )
    fields = {name: split_name(name) for name in metrics}
    first = [
        name for name, field in fields.items() if name in ("H-AP", "R@1", "NDCG", "ASI") or (field and field.is_mean)
    ]
    return list(dict.fromkeys([*first, *metrics]))[:_SHOWN]


def _analysis(
    measurements: Mapping[str, Measurement], data: QueriesAndGallery, values: NDArray[np.float64], judged_by: str
) -> dict[str, Any]:
    """How the values of the queries are spread, and their means by node of the tree."""
    columns = {name: column[~np.isnan(column)] for name, column in zip(measurements, values.T, strict=True)}
    answered = answered_nodes(data, values)
    of_nodes = ("H-AP", "AP", f"AP[{data.tree.num_levels}]", "R@1")
    common = [name for name in of_nodes if all(name in run.per_query.columns for run in measurements.values())]
    in_table = {name: values_of(measurements, name) for name in dict.fromkeys([judged_by, *common])}
    return {
        "histogram": histogram(columns, metric=judged_by),
        "quantiles": list(QUANTILES),
        "spread": {
            name: np.quantile(column, list(QUANTILES.values())).tolist()
            for name, column in columns.items()
            if len(column)
        },
        "worst": {level: nodes[:_WORST] for level, nodes in answered.items()},
        "answered": {level: len(nodes) for level, nodes in answered.items()},
        "table": node_table(data, list(measurements), in_table),
        "errors": error_figures(measurements, data, values),
    }
