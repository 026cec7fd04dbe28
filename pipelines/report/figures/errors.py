"""What the page draws of whole rankings: hierarchical precision over recall, and how severe the errors are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..plots import (
    error_severity,
    first_wrong_items,
    interpolated_precision,
    plot_error_severity,
    plot_precision_recall,
)
from ..plots.severity import height_names
from ..sampled_rankings import MOST_QUERIES, sample_of, scored_blocks
from .confusion import ConfusionFigures, confusion_figures
from .svg import SvgFigure, drawn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..measurements import Measurement
    from ..queries_and_gallery import QueriesAndGallery


@dataclass(frozen=True)
class _RankingShapes:
    """Of one model: (q, 101) precisions, (q, L) shares of errors and the (q,) first wrong items."""

    precision: NDArray[np.float64]
    severity: NDArray[np.float64]
    wrong: NDArray[np.int64]


@dataclass(frozen=True)
class ErrorFigures:
    """The section of the page.

    Attributes:
        queries: how many were looked at.
        of: how many there are.
        figures: the drawings.
        confusion: the matrices; None where no query has an item of its class.
    """

    queries: int
    of: int
    figures: list[SvgFigure]
    confusion: ConfusionFigures | None


def error_figures(
    found: Mapping[str, Measurement], data: QueriesAndGallery, values: NDArray[np.float64]
) -> ErrorFigures | None:
    """Draw them, from at most 1,000 queries; None where no query has a value.

    Args:
        found: the models.
        data: what they were measured on.
        values: (Q, R) a metric of each query, a column a run; NaN where it has none.
    """
    known = np.flatnonzero(~np.isnan(values).any(axis=1))
    if not len(known):
        return None
    queries = sample_of(known, MOST_QUERIES)
    shapes = {name: _shapes(run, data, queries) for name, run in found.items()}
    curves, classed = _precision_recall(shapes), ~np.isnan(next(iter(shapes.values())).severity).any(axis=1)
    if not classed.any():
        return ErrorFigures(len(queries), len(known), [curves], None)
    wrong = {name: shape.wrong[classed] for name, shape in shapes.items()}
    confusion = confusion_figures(wrong, data, queries[classed])
    return ErrorFigures(len(queries), len(known), [curves, _severity(shapes, data.tree.level_names)], confusion)


def _shapes(run: Measurement, data: QueriesAndGallery, queries: NDArray[np.int64]) -> _RankingShapes:
    depth = data.tree.num_levels
    blocks = [
        (
            interpolated_precision(block.scores, block.levels, valid=block.valid, num_levels=depth),
            error_severity(block.scores, block.levels, valid=block.valid, num_levels=depth),
            first_wrong_items(block.scores, block.levels, valid=block.valid, num_levels=depth),
        )
        for block in scored_blocks(run, data, queries)
    ]
    precisions, severities, wrong = zip(*blocks, strict=True)
    return _RankingShapes(np.concatenate(precisions), np.concatenate(severities), np.concatenate(wrong))


def _precision_recall(shapes: Mapping[str, _RankingShapes]) -> SvgFigure:
    curves = {name: shape.precision for name, shape in shapes.items()}
    means = {name: 100 * np.nanmean(curve, axis=0) for name, curve in curves.items()}
    said = (
        f"{name}: {mean[25]:.0f} at recall 25, {mean[50]:.0f} at 50, {mean[75]:.0f} at 75."
        for name, mean in means.items()
    )
    title = "Hierarchical precision over recall"
    return drawn(lambda: plot_precision_recall(curves), title=title, description=" ".join(said))


def _severity(shapes: Mapping[str, _RankingShapes], level_names: tuple[str, ...]) -> SvgFigure:
    shares = {name: shape.severity for name, shape in shapes.items()}
    said = []
    for name, share in shares.items():
        means = zip(height_names(level_names), 100 * np.nanmean(share, axis=0), strict=True)
        said.append(f"{name}: {', '.join(f'{mean:.0f} at {height}' for height, mean in means)}.")
    title = "Where the first wrong image lies"
    return drawn(lambda: plot_error_severity(shares, level_names=level_names), title=title, description=" ".join(said))
