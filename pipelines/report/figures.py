"""Drawings inside the page and what each shows in words: curves by matplotlib, and the points of a map."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from hiertree.errors import ImageError

from ..pages import RUN_COLORS, STYLE, data_uri, figure_uri
from .plots import curve_points, plot_learning, plot_spread, project_embeddings
from .queries_and_gallery import own_label, sample_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from .plots import Projection
    from .queries_and_gallery import QueriesAndGallery
    from .sources import Measurement

    Histories = Mapping[str, Sequence[Mapping[str, Any]]]  # rows of history.jsonl, by the name of the run

MOST_POINTS = 1_500
MOST_COLORED = 12  # groups of a map that have a color and a line in the legend
MOST_THUMBNAILS = 300  # on a page, shared by its maps
THUMBNAIL = 32  # pixels of its longer side
_MAP_SIZE, _MAP_MARGIN = np.array([400, 300]), 10  # of the drawing's own units


@dataclass(frozen=True)
class DrawnFigure:
    """The data URI of a drawing, its title, and a description for readers who do not see it."""

    image: str
    title: str
    description: str


def drawn(plot: Callable[..., Axes], *arguments: Any, title: str, description: str, **options: Any) -> DrawnFigure:
    """What a plot draws, in the page's colors; the page writes the title."""
    import matplotlib as mpl
    from matplotlib.rcsetup import cycler

    with mpl.rc_context({**STYLE, "axes.prop_cycle": cycler(color=RUN_COLORS)}):
        axes = plot(*arguments, **options)
        return DrawnFigure(figure_uri(cast("Figure", axes.figure)), title, description)


def learning_curves(histories: Histories, *, metrics: Sequence[str]) -> list[DrawnFigure]:
    """The loss of each run, each metric that some run measured more than once, and learning rates, epoch by epoch.

    Losses of different kinds have no common scale, so each has its own drawing.
    """
    figures = [
        _learning({name: rows}, "loss", title=f"{name}: training loss", first_color=index)
        for index, (name, rows) in enumerate(histories.items())
    ]
    figures += [
        _learning(histories, metric, title=f"{metric} on the test split, percent")
        for metric in metrics
        if any(len(curve_points(rows, metric)) > 1 for rows in histories.values())
    ]
    if histories:
        figures.append(_learning(histories, "lr", title="learning rate after each epoch"))
    return figures


def _learning(histories: Histories, quantity: str, *, title: str, first_color: int = 0) -> DrawnFigure:
    curves = {name: curve_points(rows, quantity) for name, rows in histories.items()}
    ends = (
        f"{name}: {points[0][1]:.3g} in epoch {points[0][0]:g}, {points[-1][1]:.3g} in epoch {points[-1][0]:g}."
        for name, points in curves.items()
        if points
    )
    return drawn(plot_learning, curves, first_color=first_color, title=title, description=" ".join(ends))


def histogram(values: Mapping[str, NDArray[np.float64]], *, metric: str) -> DrawnFigure:
    """For each run the percent of its queries in each twentieth of 0 … 1."""
    spread = {name: np.quantile(100 * column, [0.25, 0.75]) for name, column in values.items() if len(column)}
    halves = (f"{name}: half of them from {low:.1f} to {high:.1f}." for name, (low, high) in spread.items())
    title = f"Percent of the queries in each twentieth of {metric}"
    return drawn(plot_spread, values, metric=metric, title=title, description=" ".join(halves))


def map_figures(
    measurements: Mapping[str, Measurement], data: QueriesAndGallery, *, method: Projection
) -> dict[str, Any]:
    """Lay out the queries of each model, at most 1,500, colored by the coarsest level; some with a picture.

    The twelve largest groups have a color; −1 is that of the others.
    """
    queries = sample_of(np.arange(len(data.query_paths)), MOST_POINTS)
    groups = [own_label(data.tree.labels_of(path)) for path in data.query_paths[queries, :1].tolist()]
    names = [_name(data, int(query)) for query in queries]
    legend = [group for group, _ in Counter(groups).most_common(MOST_COLORED)]
    color_of = {group: index for index, group in enumerate(legend)}
    colors = [color_of.get(group, -1) for group in groups]
    pictures = _pictures(data, queries, limit=MOST_THUMBNAILS // len(measurements))
    maps = {}
    for model, run in measurements.items():
        centers = _fitted(project_embeddings(run.vectors[0][queries], method=method)).tolist()
        maps[model] = [
            {"x": x, "y": y, "name": name, "color": color, "image": pictures.get(row, "")}
            for row, ((x, y), name, color) in enumerate(zip(centers, names, colors, strict=True))
        ]
    return {
        "shown": len(queries),
        "of": len(data.query_paths),
        "pictured": len(pictures),
        "method": method,
        "level": data.tree.level_names[0],
        "legend": [*legend, *(["others"] if -1 in colors else [])],
        "colored": len(legend),
        "width": int(_MAP_SIZE[0]),
        "height": int(_MAP_SIZE[1]),
        "maps": maps,
    }


def _fitted(coordinates: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n, 2) coordinates stretched to the drawing, whose second axis points down; a direction of no extent is centered.

    >>> _fitted(np.array([[0.0, 5.0], [1.0, 5.0]]))
    array([[ 10., 150.],
           [390., 150.]])
    """
    low, extent = coordinates.min(axis=0), np.ptp(coordinates, axis=0)
    fractions = np.divide(coordinates - low, extent, out=np.full_like(coordinates, 0.5), where=extent > 0)
    fractions[:, 1] = 1 - fractions[:, 1]
    return np.asarray(_MAP_MARGIN + fractions * (_MAP_SIZE - 2 * _MAP_MARGIN))


def _pictures(data: QueriesAndGallery, queries: NDArray[np.int64], *, limit: int) -> dict[int, str]:
    """Pictures of some of the points, by their row; those that do not decode are left out."""
    pictures: dict[int, str] = {}
    if data.images is not None:
        for row in sample_of(np.arange(len(queries)), limit).tolist():
            with suppress(ImageError):
                pictures[row] = data_uri(data.images[int(queries[row])], largest_side=THUMBNAIL)
    return pictures


def _name(data: QueriesAndGallery, query: int) -> str:
    """Labels, and where there are pictures the file's name."""
    label = data.label(data.query_paths[query])
    return label if data.images is None else f"{label} ({data.images.name(query)})"
