"""``hiertree report``: how good models are, for which queries and classes they fail, and what they retrieve."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.errors import OptionError, require_package
from hiertree.metrics.request import split_name

from ..stored_embeddings.locations import kind_of
from .figures import histogram, learning_curves, map_figures
from .page import judging_metric, write_page
from .ranking_figures import batch_gap, error_figures
from .rankings import changed_queries, extreme_queries
from .sources import EmbeddingsOptions, read_sources, values_of
from .tree_nodes import answered_nodes, node_table, tree_of_means

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .figures import MapPoints
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
    projection: MapPoints = "pca",
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
        projection: what the map shows: the queries by ``"pca"`` or ``"t-sne"``, or ``"class-means"``, the mean of each
            class by t-SNE.

    Raises:
        OptionError: sources that cannot be shown together, fewer than one query or hit, or too many for a page.
        CheckpointError: the folder of a run is damaged.
        HiertreeError: whatever is wrong with a file.
    """
    require_package("matplotlib", extra="plots")
    if queries < 1 or hits < 1 or not sources:
        counts = f"{len(sources)} sources, queries={queries}, hits={hits}"
        raise OptionError(counts, expected="at least 1 of each")
    measurements, data = read_sources(sources, overrides=overrides, options=options)
    has_models = len(measurements) > 1
    pictures = (5 if has_models else 3) * queries * (1 + len(measurements) * min(hits, len(data.gallery_paths)))
    if pictures > MOST_PICTURES:
        expected = f"at most {MOST_PICTURES:,} on a page"
        raise OptionError(f"{pictures:,} pictures", expected=expected, remedy="fewer queries or hits")
    judged_by = judging_metric(measurements)
    values = values_of(measurements, judged_by)
    return write_page(
        out,
        measurements,
        data,
        _chosen(list(measurements), values, data.query_paths[:, -1], queries),
        hits=hits,
        judged_by=judged_by,
        title=title,
        lead=[_OF_COMPARISONS] if any(kind_of(Path(source)) == "comparison" for source in sources) else [],
        rule=f"The queries are those with the smallest, the median and the largest {judged_by}"
        + (" (the mean over the models)" if has_models else "")
        + ", each of another class where there are enough"
        + (f", and those whose {judged_by} the last model changes most." if has_models else "."),
        figures=learning_curves(
            {name: run.history for name, run in measurements.items() if run.history},
            metrics=_curves(measurements),
            learning_rate=True,
        ),
        analysis={
            **_analysis(measurements, data, values, judged_by),
            "map": map_figures(measurements, data, points=projection),
        },
    )


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
    names = [(name, split_name(name)) for name in metrics]
    first = [name for name, parts in names if name in ("H-AP", "R@1", "NDCG", "ASI") or (parts and parts.is_mean)]
    return list(dict.fromkeys([*first, *metrics]))[:_SHOWN]


def _analysis(
    measurements: Mapping[str, Measurement], data: QueriesAndGallery, values: NDArray[np.float64], judged_by: str
) -> dict[str, Any]:
    """How the values of the queries are spread, and their means by node of the tree."""
    columns = {name: column[~np.isnan(column)] for name, column in zip(measurements, values.T, strict=True)}
    answered = answered_nodes(data, values)
    top, left_out = tree_of_means(data, values)
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
        "nodes": top,
        "nodes_left_out": left_out,
        "errors": error_figures(measurements, data, values),
        "gap": batch_gap(measurements, data),
    }
