"""Maps of the embeddings on the page: the labels and the name of an image appear where the mouse rests on its point."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from .plots import Projection, group_looks, plot_embeddings, project_embeddings
from .sampled_rankings import sample_of
from .svg_figures import SvgFigure, drawn
from .tree_branches import own_label

if TYPE_CHECKING:
    from .measurements import Measurement
    from .queries_and_gallery import QueriesAndGallery

MOST_POINTS = 1_500
_POINT = re.compile(r"<use\b([^>]*?)/>|<path (?!id=)([^>]*?)/>")


@dataclass(frozen=True)
class MapFigures:
    """The section of the page.

    Attributes:
        method: of the projection.
        shown: how many queries have a point.
        level: name of the level that colors them.
        figures: one a model.
    """

    method: Projection
    shown: int
    level: str
    figures: list[SvgFigure]


def map_figures(found: Mapping[str, Measurement], data: QueriesAndGallery, *, method: Projection) -> MapFigures:
    """Draw the queries of each model, at most 1,500.

    Args:
        found: the models.
        data: what they were measured on.
        method: of the projection.
    """
    queries = sample_of(np.arange(len(data.query_paths)), MOST_POINTS)
    groups = [own_label(data.tree.labels_of(path)) for path in data.query_paths[queries, :1].tolist()]
    names = [_name(data, int(query)) for query in queries]
    order = [row for rows, *_ in group_looks(groups).values() for row in rows.tolist()]
    figures = []
    for model, run in found.items():
        places = project_embeddings(run.vectors[0][queries], method=method)
        figure = _drawn(places, groups, title=f"{model}: map")
        figures.append(SvgFigure(_with_names(figure.svg, [names[row] for row in order]), figure.description))
    return MapFigures(method, len(queries), data.tree.level_names[0], figures)


def _drawn(places: np.ndarray, groups: list[str], *, title: str) -> SvgFigure:
    return drawn(lambda: plot_embeddings(places, groups), title=title, description="Points that lie close are similar.")


def _name(data: QueriesAndGallery, query: int) -> str:
    """Labels, and where there are pictures the file's name."""
    label = data.label(data.query_paths[query])
    return label if data.images is None else f"{label} ({data.images.name(int(data.query_rows[query]))})"


def _with_names(svg: str, names: list[str]) -> str:
    """The drawing with a title in each point, in the order in which they are drawn."""
    head, found, points = svg.partition("-points-0")
    left = iter(names)

    def titled(point: re.Match[str]) -> str:
        name = next(left, None)
        if name is None:
            return point[0]
        tag, attributes = ("use", point[1]) if point[1] is not None else ("path", point[2])
        return f"<{tag}{'' if tag == 'use' else ' '}{attributes}><title>{escape(name)}</title></{tag}>"

    return head + found + _POINT.sub(titled, points)
