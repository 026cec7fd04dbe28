"""Maps of the embeddings: an image's labels, name and picture appear where the mouse rests on its point."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from hiertree.errors import ImageError

from ..pages import data_uri
from .figures import SvgFigure, drawn
from .plots import Projection, group_looks, plot_embeddings, project_embeddings
from .queries_and_gallery import own_label, sample_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from .measurements import Measurement
    from .queries_and_gallery import QueriesAndGallery

MOST_POINTS = 1_500
MOST_THUMBNAILS = 300  # on a page, shared by its maps
THUMBNAIL = 32  # pixels of its longer side
_POINT = re.compile(r"<use\b([^>]*?)/>|<path (?!id=)([^>]*?)/>")


@dataclass(frozen=True)
class Thumbnail:
    """The picture of a point: a data URI, labels and file, and its place in percent of the drawing's sides."""

    image: str
    name: str
    left: float
    top: float


@dataclass(frozen=True)
class ModelMap:
    """The drawing of a model and the pictures over it."""

    figure: SvgFigure
    thumbnails: list[Thumbnail]


@dataclass(frozen=True)
class MapFigures:
    """The section of the page.

    Attributes:
        method: of the projection.
        shown: how many queries have a point.
        level: name of the level that colors them.
        maps: one for each model.
        pictured: how many points of a map show their picture.
    """

    method: Projection
    shown: int
    level: str
    maps: list[ModelMap]
    pictured: int


def map_figures(found: Mapping[str, Measurement], data: QueriesAndGallery, *, method: Projection) -> MapFigures:
    """Draw the queries of each model, at most 1,500."""
    queries = sample_of(np.arange(len(data.query_paths)), MOST_POINTS)
    groups = [own_label(data.tree.labels_of(path)) for path in data.query_paths[queries, :1].tolist()]
    names = [_name(data, int(query)) for query in queries]
    order = [row for rows, *_ in group_looks(groups).values() for row in rows.tolist()]
    thumbnails = _thumbnails(data, queries, most=MOST_THUMBNAILS // len(found))
    maps = []
    for model, run in found.items():
        figure, places = _drawn(project_embeddings(run.vectors[0][queries], method=method), groups, model)
        titled = SvgFigure(_with_names(figure.svg, [names[row] for row in order]), figure.description)
        over = [Thumbnail(image, names[row], *places[row].tolist()) for row, image in thumbnails.items()]
        maps.append(ModelMap(titled, over))
    return MapFigures(method, len(queries), data.tree.level_names[0], maps, len(thumbnails))


def _drawn(projected: NDArray[np.float64], groups: list[str], model: str) -> tuple[SvgFigure, NDArray[np.float64]]:
    """The drawing, and (n, 2) where its points lie, in percent from the left and from the top."""
    kept: list[Axes] = []

    def draw() -> Axes:
        kept.append(plot_embeddings(projected, groups))
        return kept[0]

    figure = drawn(draw, title=f"{model}: map", description="Points that lie close are similar.")
    to_figure = kept[0].transData - kept[0].figure.transFigure
    return figure, np.abs(100 * to_figure.transform(projected) - [0, 100])


def _thumbnails(data: QueriesAndGallery, queries: NDArray[np.int64], *, most: int) -> dict[int, str]:
    """Pictures of some of the points, by their row; those that do not decode are left out."""
    found: dict[int, str] = {}
    if data.images is not None:
        for row in sample_of(np.arange(len(queries)), most).tolist():
            with suppress(ImageError):
                found[row] = data_uri(data.images[int(data.query_rows[queries[row]])], largest_side=THUMBNAIL)
    return found


def _name(data: QueriesAndGallery, query: int) -> str:
    """Labels, and where there are pictures the file's name."""
    label = data.label(data.query_paths[query])
    return label if data.images is None else f"{label} ({data.images.name(int(data.query_rows[query]))})"


def _with_names(svg: str, names: list[str]) -> str:
    """The drawing with a title in each point, in the order in which matplotlib draws them."""
    head, found, points = svg.partition("-points-0")
    left = iter(names)

    def titled(point: re.Match[str]) -> str:
        name = next(left, None)
        if name is None:
            return point[0]
        tag, attributes = ("use", point[1]) if point[1] is not None else ("path", f" {point[2]}")
        return f"<{tag}{attributes}><title>{escape(name)}</title></{tag}>"

    return head + found + _POINT.sub(titled, points)
