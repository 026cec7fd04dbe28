"""Retrieved images as a figure: one query a row, its nearest images framed in the color of the level they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from torchvision.transforms.v2.functional import center_crop, resize

from hiertree import levels
from hiertree.arrays import as_paths
from hiertree.errors import OptionError, ShapeError, require_package
from hiertree.options import check_integer

from ..pair_scores import nearest_images
from .image_inputs import as_image_source

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike

_PIXELS, _INCHES = 160, 1.3  # of a picture


def plot_retrievals(
    embeddings: Any,
    images: object,
    paths: ArrayLike | None = None,
    *,
    queries: int | Sequence[int] = 6,
    k: int = 6,
    seed: int = 0,
) -> Figure:
    """Draw queries and the k images nearest to each, among all images but itself.

    Args:
        embeddings: (n, d), a row for each image; or a :class:`TrainedModel`, which embeds them.
        images: as for :meth:`TrainedModel.embed`, no DataLoader.
        paths: (n, L) of the images; frames then show the level that is shared, from red (none) to green (the finest).
        queries: rows of the queries, or how many to draw by ``seed``.
        k: images for each query.
        seed: of the draw.

    Returns:
        A figure of matplotlib: shown by a notebook, and written by ``savefig("retrievals.pdf")``.

    Raises:
        OptionError: queries that are no rows, or k below 1.
        ShapeError: not one embedding, or path, for each image.
    """
    require_package("matplotlib", extra="plots")
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    check_integer("k", k)
    source = as_image_source(images)
    vectors = embeddings.embed(source) if hasattr(embeddings, "embed") else np.asarray(embeddings)
    labels = np.zeros((len(source), 0), np.int32) if paths is None else as_paths(paths)
    if not len(vectors) == len(labels) == len(source):
        problem = f"{len(vectors)} embeddings and {len(labels)} paths"
        raise ShapeError(problem, expected=f"{len(source)}, one for each image")
    order = np.random.default_rng(seed).permutation(len(source))
    rows = np.sort(order[:queries]) if isinstance(queries, int) else np.asarray(queries, np.int64)
    if not len(rows) or rows.min() < 0 or rows.max() >= len(source):
        raise OptionError(f"queries={queries}", expected=f"rows from 0 to {len(source) - 1}, or how many to draw")
    left_out = [np.array([row]) for row in rows]
    nearest = nearest_images(vectors[rows], vectors, count=k, left_out=left_out)
    figure = Figure(figsize=(_INCHES * (1 + nearest.shape[1]), _INCHES * len(rows)), layout="constrained")
    axes = figure.subplots(len(rows), 1 + nearest.shape[1], squeeze=False)
    for query, matches, row_axes in zip(rows.tolist(), nearest, axes, strict=True):
        depths = levels(labels[[query]], labels[matches])[0] if paths is not None else [None] * len(matches)
        for row, depth, panel in zip([query, *matches.tolist()], [None, *depths], row_axes, strict=True):
            picture = source[row].convert("RGB")
            panel.imshow(np.asarray(center_crop(resize(picture, [_PIXELS], antialias=True), [_PIXELS, _PIXELS])))
            panel.set(xticks=[], yticks=[])
            color = "black" if depth is None else colormaps["RdYlGn"](float(depth) / labels.shape[1])
            panel.spines[:].set(color=color, linewidth=3.0 if depth is not None else 1.0)
    return figure
