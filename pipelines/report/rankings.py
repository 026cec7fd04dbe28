"""Which queries the page shows, and for each the first images of every model with a strip of the ranks after them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hiertree import levels
from hiertree.errors import ImageError

from ..pages import data_uri
from ..pair_scores import nearest_images

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .queries_and_gallery import QueriesAndGallery
    from .sources import Measurement

    Points = tuple[NDArray[np.floating], NDArray[np.integer]]  # vectors and paths

Match = Literal["same", "near", "wrong"]  # at the finest level, in a shared supercategory, with nothing shared
STRIP = 100  # ranks that are shown as a strip of bars, below the few that are shown as pictures


def extreme_queries(
    values: NDArray[np.float64], *, count: int, classes: NDArray[np.integer] | None = None
) -> dict[str, list[int]]:
    """Indices of the queries with the smallest, the median and the largest values; the smaller index first in a tie.

    Queries without a value are not chosen, and none is of two kinds: there are fewer of each where there are too few.
    A kind has one query of each class, as far as there are as many classes.

    >>> extreme_queries(np.array([0.5, 0.1, np.nan, 0.9, 0.4, 0.6]), count=1)
    {'worst': [1], 'median': [0], 'best': [3]}
    >>> extreme_queries(np.array([0.1, 0.2, 0.3, 0.5, 0.8, 0.9]), count=2, classes=np.array([0, 0, 1, 2, 3, 3]))
    {'worst': [0, 2], 'median': [1, 4], 'best': [5, 3]}
    """
    answered = np.flatnonzero(~np.isnan(values))
    order = answered[np.argsort(values[answered], kind="stable")].tolist()
    if len(order) < 3:
        return {"worst": order[:1], "median": [], "best": order[1:]}
    size, of = min(count, len(order) // 3), np.arange(len(values)) if classes is None else classes
    worst = _spread_classes(order, of, size)
    rest = [query for query in sorted(order, key=lambda query: (-values[query], query)) if query not in set(worst)]
    best = _spread_classes(rest, of, size)
    left = [query for query in order if query not in {*worst, *best}]
    middle = sorted(range(len(left)), key=lambda rank: abs(2 * rank + 1 - len(left)))
    median = _spread_classes([left[rank] for rank in middle], of, size)
    return {"worst": worst, "median": sorted(median, key=lambda query: (values[query], query)), "best": best}


def changed_queries(
    first_values: NDArray[np.float64], last_values: NDArray[np.float64], *, count: int, classes: NDArray[np.integer]
) -> dict[str, list[int]]:
    """Indices of the queries whose values rose or fell the most, likewise of different classes.

    >>> changed_queries(np.zeros(4), np.array([0.1, 0.3, -0.2, 0.0]), count=2, classes=np.arange(4))
    {'improved': [1, 0], 'damaged': [2]}
    """
    gains = last_values - first_values
    rose, fell = np.flatnonzero(gains > 0), np.flatnonzero(gains < 0)
    return {
        "improved": _spread_classes(rose[np.argsort(-gains[rose], kind="stable")].tolist(), classes, count),
        "damaged": _spread_classes(fell[np.argsort(gains[fell], kind="stable")].tolist(), classes, count),
    }


def _spread_classes(order: Sequence[int], classes: NDArray[np.integer], count: int) -> list[int]:
    """The first queries of different classes in an order, then the first of the others."""
    first = {int(classes[query]): query for query in reversed(order)}
    ranked = sorted(range(len(order)), key=lambda rank: first[int(classes[order[rank]])] != order[rank])
    return [order[rank] for rank in sorted(ranked[:count])]


def ranked_images(
    queries: Points, gallery: Points, *, count: int, left_out: Sequence[NDArray[np.int64]]
) -> list[tuple[list[int], list[int]]]:
    """For each query the rows of the nearest images, and the level that each shares with it.

    ``left_out`` is as in :func:`nearest_images`.
    """
    (vectors, paths), (items, item_paths) = queries, gallery
    rankings = []
    nearest = nearest_images(vectors, items, count=count, left_out=left_out)
    for path, rows, hidden in zip(paths, nearest, left_out, strict=True):
        hits = rows[: len(items) - len(hidden)]
        rankings.append((hits.tolist(), levels(path[None], item_paths[hits])[0].tolist()))
    return rankings


@dataclass(frozen=True)
class LevelStyle:
    """The look of a level that an image shares with the query: color, border and sign, and their meaning."""

    match: Match
    mark: str
    text: str
    depth: int  # percent of the way from nothing shared to the finest level


def level_styles(level_names: Sequence[str]) -> list[LevelStyle]:
    """The style of every level, from none to the finest."""
    *coarser, finest = level_names
    step = 100 / len(level_names)
    coarse_styles = [
        LevelStyle("near", name, f"same {name}", round(step * level)) for level, name in enumerate(coarser, 1)
    ]
    return [
        LevelStyle("wrong", "✗", "nothing shared", 0),
        *coarse_styles,
        LevelStyle("same", "✓", f"same {finest}", 100),
    ]


class RankingGrids:
    """Makes what the page shows of queries; each picture is encoded once, and ``unreadable`` names those that fail."""

    def __init__(self, data: QueriesAndGallery) -> None:
        self._data = data
        self.styles = level_styles(data.tree.level_names)
        self._pictures: dict[int, str] = {}
        self.unreadable: list[str] = []

    def queries(
        self, runs: Mapping[str, Measurement], queries: Sequence[int], *, hits: int, metric: str
    ) -> list[dict[str, Any]]:
        """The picture and labels of the chosen queries, each with the ranking of every model.

        Of a ranking the page shows its value of a metric, ``hits`` pictures, and a strip of the first ranks as bars.
        """
        data = self._data
        rankings = [self._rankings(name, run, queries, hits, metric) for name, run in runs.items()]
        return [
            {**self._pictured(query, data.query_paths[query], shared=0), "rankings": query_rankings}
            for query, *query_rankings in zip(queries, *rankings, strict=True)
        ]

    def _rankings(
        self, name: str, run: Measurement, queries: Sequence[int], hits: int, metric: str
    ) -> list[dict[str, Any]]:
        data, (embeddings, items) = self._data, run.vectors
        ranked = ranked_images(
            (embeddings[list(queries)], data.query_paths[list(queries)]),
            (items, data.gallery_paths),
            count=max(hits, STRIP),
            left_out=[run.left_out(query) for query in queries],
        )
        return [
            {
                "run": name,
                "score": float(run.per_query[metric].iloc[query]),
                "pictures": [
                    self._pictured(data.gallery_start + row, data.gallery_paths[row], shared=level)
                    for row, level in zip(rows[:hits], hit_levels[:hits], strict=True)
                ],
                **self._strip(hit_levels[:STRIP]),
            }
            for query, (rows, hit_levels) in zip(queries, ranked, strict=True)
        ]

    def _strip(self, hit_levels: Sequence[int]) -> dict[str, Any]:
        """A bar for each run of ranks of one level, and the number of ranks of each level unless these are all."""
        bars, start = [], 0
        for level, group in groupby(hit_levels):
            length = len(list(group))
            bars.append({"start": start, "length": length, "style": self.styles[level]})
            start += length
        counts = [(count, self.styles[level].text) for level, count in sorted(Counter(hit_levels).items())[::-1]]
        return {"bars": bars, "length": len(hit_levels), "counts": counts if len(hit_levels) == STRIP else []}

    def _pictured(self, row: int, path: NDArray[np.int32], *, shared: int) -> dict[str, Any]:
        """The data URI of an image, empty where there is no picture, its labels, and those below the shared levels."""
        label, style = self._data.label(path), self.styles[shared]
        name = " › ".join(label.split(" › ")[shared:])
        return {"image": self._picture(row), "label": label, "name": name, "style": style}

    def _picture(self, row: int) -> str:
        images = self._data.images
        if images is None:
            return ""
        if row not in self._pictures:
            try:
                self._pictures[row] = data_uri(images[row])
            except ImageError:
                self._pictures[row] = ""
                self.unreadable.append(images.name(row))
        return self._pictures[row]
