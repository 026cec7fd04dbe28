"""Drawings inside the page, as SVG in its fonts and colors, and what each shows in words: curves and maps."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from html import escape
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from hiertree.errors import ImageError

from ..pages import COLORS, STYLE, data_uri, inline_svg, run_color
from .plots import (
    class_means,
    curve_points,
    group_looks,
    plot_embeddings,
    plot_learning,
    plot_spread,
    project_embeddings,
)
from .queries_and_gallery import own_label, sample_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from .queries_and_gallery import QueriesAndGallery
    from .sources import Measurement

    Histories = Mapping[str, Sequence[Mapping[str, Any]]]  # rows of history.jsonl, by the name of the run

MapPoints = Literal["pca", "t-sne", "class-means"]  # queries by a projection, or the means of classes by t-SNE
MOST_POINTS = 1_500
MOST_THUMBNAILS = 300  # on a page, shared by its maps
THUMBNAIL = 32  # pixels of its longer side
_POINT = re.compile(r"<use\b([^>]*?)/>|<path (?!id=)([^>]*?)/>")


@dataclass(frozen=True)
class SvgFigure:
    """An ``<svg>`` element, a description for readers who do not see it, and the axes that it was drawn on."""

    svg: str
    description: str
    axes: Axes


def drawn(
    plot: Callable[..., Axes], *arguments: Any, title: str, description: str, letters: int = 50, **options: Any
) -> SvgFigure:
    """What a plot draws, in the page's colors, under a title of so many letters a line.

    No two drawings of a page may have the same title: their ids are made of it.
    """
    import matplotlib as mpl
    from matplotlib.rcsetup import cycler

    colors = cycler(color=[run_color(number) for number in range(COLORS)])
    with mpl.rc_context({**STYLE, "axes.prop_cycle": colors}):
        axes = plot(*arguments, **options)
        axes.set_title(fill(title, letters))
        svg = inline_svg(cast("Figure", axes.figure), name=title)
    return SvgFigure(svg, f"{title}. {description}", axes)


def learning_curves(histories: Histories, *, metrics: Sequence[str]) -> list[SvgFigure]:
    """The loss of each run, each metric that some run measured more than once, and learning rates, epoch by epoch.

    Losses of different kinds have no common scale, so each has its own drawing.
    """
    figures = [
        _learning({name: rows}, "loss", title=f"{name}: training loss", first_color=number)
        for number, (name, rows) in enumerate(histories.items())
    ]
    figures += [
        _learning(histories, metric, title=f"{metric} on the test split, percent")
        for metric in metrics
        if any(len(curve_points(rows, metric)) > 1 for rows in histories.values())
    ]
    if histories:
        figures.append(_learning(histories, "lr", title="learning rate after each epoch"))
    return figures


def _learning(histories: Histories, quantity: str, *, title: str, first_color: int = 0) -> SvgFigure:
    curves = {name: curve_points(rows, quantity) for name, rows in histories.items()}
    ends = (
        f"{name}: {points[0][1]:.3g} in epoch {points[0][0]:g}, {points[-1][1]:.3g} in epoch {points[-1][0]:g}."
        for name, points in curves.items()
        if points
    )
    return drawn(plot_learning, curves, first_color=first_color, title=title, description=" ".join(ends))


def histogram(values: Mapping[str, NDArray[np.float64]], *, metric: str) -> SvgFigure:
    """For each run the share of its queries in each twentieth of 0 … 1."""
    spread = {name: np.quantile(100 * column, [0.25, 0.75]) for name, column in values.items() if len(column)}
    halves = (f"{name}: half of them from {low:.1f} to {high:.1f}." for name, (low, high) in spread.items())
    title = f"Percent of the queries in each twentieth of {metric}"
    return drawn(plot_spread, values, metric=metric, title=title, description=" ".join(halves))


def map_figures(
    measurements: Mapping[str, Measurement], data: QueriesAndGallery, *, points: MapPoints
) -> dict[str, Any]:
    """Draw the queries of each model, or their classes, at most 1,500, colored by a level; some with a picture.

    A class has the picture of its first query. A picture has its place in percent of the drawing's sides.
    """
    of_classes, every = points == "class-means", np.arange(len(data.query_paths))
    _, first, class_of = np.unique(data.query_paths[:, -1], return_index=True, return_inverse=True)
    sample = sample_of(np.arange(len(first)) if of_classes else every, MOST_POINTS)
    queries = first[sample] if of_classes else sample
    groups = [own_label(data.tree.labels_of(path)) for path in data.query_paths[queries, :1].tolist()]
    names = [data.label(data.query_paths[query]) if of_classes else _name(data, int(query)) for query in queries]
    order = [row for rows, *_ in group_looks(groups).values() for row in rows.tolist()]
    pictures = _pictures(data, queries, limit=MOST_THUMBNAILS // len(measurements))
    maps = []
    for model, run in measurements.items():
        vectors = class_means(run.vectors[0], class_of)[sample] if of_classes else run.vectors[0][queries]
        projected = project_embeddings(vectors, method="pca" if points == "pca" else "t-sne")
        description = "Points that lie close are similar."
        figure = drawn(plot_embeddings, projected, groups, title=f"{model}: map", description=description)
        titled = replace(figure, svg=_add_titles(figure.svg, [names[row] for row in order]))
        to_figure = figure.axes.transData - figure.axes.figure.transFigure
        places = np.abs(100 * to_figure.transform(projected) - [0, 100])
        thumbnails = [
            {"image": image, "name": names[row], "left": places[row, 0], "top": places[row, 1]}
            for row, image in pictures.items()
        ]
        maps.append({"figure": titled, "thumbnails": thumbnails})
    level = data.tree.level_names[0]
    of = len(first) if of_classes else len(every)
    counts = {"shown": len(queries), "of": of, "pictured": len(pictures)}
    return {**counts, "points": points, "level": level, "maps": maps}


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


def _add_titles(svg: str, names: list[str]) -> str:
    """The drawing with a title in each point, in the order in which matplotlib draws them."""
    head, mark, points = svg.partition("-points-0")
    left = iter(names)

    def titled(point: re.Match[str]) -> str:
        name = next(left, None)
        if name is None:
            return point[0]
        tag, attributes = ("use", point[1]) if point[1] is not None else ("path", f" {point[2]}")
        return f"<{tag}{attributes}><title>{escape(name)}</title></{tag}>"

    return head + mark + _POINT.sub(titled, points)
