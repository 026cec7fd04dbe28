"""Errors: how far up the tree a query and its first wrong item meet, and which nodes are confused with which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from hiertree.metrics import evaluate_scores

from .lines import axes_or_new, axes_with_grid, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray


MOST_NUMBERED = 24  # nodes of a confusion matrix whose cells have room for a number
SHADES = 32  # of its color
SCALE = (0, 1, 5, 10, 25, 50, 75, 100)  # percents named beside them


def error_severity(
    scores: Any, levels: Any, *, valid: Any = None, num_levels: int | None = None
) -> NDArray[np.float64]:
    r"""The probability that the first wrong item of a query shares an ancestor of each height with it.

    The first wrong item is the first below level L among the \|Ω^(L)\| best. If it is at level l, the lowest common
    ancestor of the two has height L − l: 1 is a sibling class, L is nothing shared (``first-error[l]`` of
    :mod:`hiertree.metrics`). What is missing from 1 is the probability that no item there is wrong.

    Args:
        scores: (Q, N), larger meaning nearer.
        levels: (Q, N) integers 0 … L.
        valid: (Q, N) booleans; False leaves an item out.
        num_levels: L; the largest of ``levels`` unless given.

    Returns:
        (Q, L) float64 in [0, 1], a column for each height from 1 to L; NaN for a query without an item of its class.

    Raises:
        InputError: as :func:`hiertree.metrics.evaluate_scores`.

    >>> error_severity([[0.9, 0.8, 0.7], [0.9, 0.8, 0.7]], [[1, 2, 0], [2, 1, 0]])
    array([[1., 0.],
           [0., 0.]])
    """
    depth = int(np.max(levels, initial=1)) if num_levels is None else num_levels
    names = [f"first-error[{level}]" for level in range(depth - 1, -1, -1)]
    return evaluate_scores(scores, levels, valid=valid, num_levels=depth, metrics=names).values


def plot_error_severity(
    shares: Mapping[str, NDArray[np.float64]], *, level_names: Sequence[str], axes: Axes | None = None
) -> Axes:
    """Bars: the percent of each model's queries whose first wrong item lies at each height.

    Args:
        shares: of each model, as :func:`error_severity` gives them.
        level_names: L names, coarse → fine.
        axes: to draw on; new ones unless given.

    Returns:
        The axes.
    """
    axes = axes_with_grid(axes)
    heights, width = np.arange(1, len(level_names) + 1), 0.8 / len(shares)
    for number, (name, values) in enumerate(shares.items()):
        offset = (number - (len(shares) - 1) / 2) * width
        axes.bar(heights + offset, 100 * np.nanmean(values, axis=0), 0.9 * width, color=f"C{number}", label=name)
    axes.set_xticks(heights, height_names(level_names))
    axes.set_xlabel("height of the common ancestor")
    axes.set_ylabel("percent of the queries")
    if len(shares) > 1:
        axes.legend(frameon=False)
    return axes


def height_names(level_names: Sequence[str]) -> list[str]:
    """What query and item share at each height, from 1 to L.

    >>> height_names(["family", "species"])
    ['1: same family', '2: nothing shared']
    """
    descriptions = [f"same {name}" for name in reversed(level_names[:-1])]
    return [f"{height}: {description}" for height, description in enumerate([*descriptions, "nothing shared"], start=1)]


def first_wrong_items(
    scores: Any, levels: Any, *, valid: Any = None, num_levels: int | None = None
) -> NDArray[np.int64]:
    r"""The first item of each ranking that is not of the query's class, among the \|Ω^(L)\| best.

    Args:
        scores: (Q, N), larger meaning nearer; of equal ones the smaller index comes first.
        levels: (Q, N) integers 0 … L.
        valid: (Q, N) booleans; False leaves an item out.
        num_levels: L; the largest of ``levels`` unless given.

    Returns:
        (Q,) indices of items; −1 for a query whose best items are all right, or that has none of its class.

    >>> first_wrong_items([[0.9, 0.8, 0.7], [0.9, 0.8, 0.7]], [[1, 2, 0], [2, 1, 0]])
    array([ 0, -1])
    """
    depths, first_wrong = np.asarray(levels), []
    depth = depths.max(initial=1) if num_levels is None else num_levels
    masks = np.ones(depths.shape, dtype=np.bool_) if valid is None else np.asarray(valid)
    for score, level, mask in zip(np.asarray(scores), depths, masks, strict=True):
        items = np.flatnonzero(mask)
        size = int((level[items] == depth).sum())
        best = items[np.argsort(-score[items], kind="stable")[:size]]
        wrong = best[level[best] < depth]
        first_wrong.append(int(wrong[0]) if len(wrong) else -1)
    return np.array(first_wrong, dtype=np.int64)


def confusion_matrix(
    query_nodes: NDArray[np.integer], wrong_nodes: NDArray[np.integer], *, num_nodes: int
) -> NDArray[np.float64]:
    """The share of each node's queries whose first wrong item lies below each node.

    Args:
        query_nodes: (Q,) the node of each query.
        wrong_nodes: (Q,) the node of its first wrong item; −1 where there is none.
        num_nodes: how many there are.

    Returns:
        (num_nodes, num_nodes) float64, a row for each node of queries; NaN in rows without queries. A row adds up to
        the share of its queries that have an error; the diagonal holds the wrong classes below the right node.

    >>> confusion_matrix(np.array([0, 0, 1]), np.array([0, 1, -1]), num_nodes=2)
    array([[0.5, 0.5],
           [0. , 0. ]])
    """
    counts = np.zeros((num_nodes, num_nodes))
    has_error = wrong_nodes >= 0
    np.add.at(counts, (query_nodes[has_error], wrong_nodes[has_error]), 1.0)
    queries = np.bincount(query_nodes, minlength=num_nodes)[:, None]
    return np.divide(counts, queries, out=np.full_like(counts, np.nan), where=queries > 0)


def plot_confusion(
    matrix: NDArray[np.float64], *, nodes: Sequence[Sequence[str]], color: str = "C0", axes: Axes | None = None
) -> Axes:
    """The matrix in the order of the tree, with the tree beside it: a bracket around the nodes below one node.

    Below it is the scale of the colors. Of 24 nodes or fewer, each cell holds its percent.

    Args:
        matrix: (n, n) shares in [0, 1], as :func:`confusion_matrix` gives them.
        nodes: n paths of names, coarse → fine, in the order of the tree and all of one length.
        color: of a share of 1; smaller ones are paler.
        axes: to draw on; new ones unless given.

    Returns:
        The axes.
    """
    from matplotlib.collections import PatchCollection
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm, to_rgb
    from matplotlib.patches import Rectangle

    count = len(nodes)
    axes = axes_or_new(axes, width=4.8 + 0.9 * (len(nodes[0]) - 1), height=2.2 + 0.24 * max(count, 6))
    cell_places = np.argwhere(np.nan_to_num(matrix) > 0)
    percents = 100 * matrix[tuple(cell_places.T)]
    cells = PatchCollection(
        [Rectangle((column - 0.5, row - 0.5), 1, 1) for row, column in cell_places],
        array=percents,
        cmap=LinearSegmentedColormap.from_list("", [(*to_rgb(color), 0.0), (*to_rgb(color), 1.0)], N=SHADES),
        norm=PowerNorm(0.5, 0, 100),  # so that rare errors are visible
        linewidths=0,
    )
    axes.add_collection(cells)
    scale = cast("Figure", axes.figure).colorbar(
        cells, ax=axes, location="bottom", fraction=0.05, aspect=40, ticks=SCALE
    )
    scale.set_label("percent of a row's queries", fontsize="small")
    scale.ax.tick_params(labelsize="small")
    scale.outline.set_linewidth(0.4)
    for (row, column), percent in zip(cell_places.tolist(), percents, strict=True) if count <= MOST_NUMBERED else ():
        axes.text(column, row, f"{percent:.0f}", ha="center", va="center_baseline", fontsize="x-small")
    axes.set(xlim=(-0.5, count - 0.5), ylim=(count - 0.5, -0.5), aspect="equal", ylabel="query")
    axes.set_xlabel("first wrong item")
    names = [shortened(path[-1]) for path in nodes]
    axes.set_xticks(range(count), names, rotation=90, fontsize="small")
    axes.set_yticks(range(count), names, fontsize="small")
    for depth in range(len(nodes[0]) - 1):
        _brackets(axes, [tuple(path[: depth + 1]) for path in nodes], place=1.03 + 0.3 * depth)
    return axes


def _brackets(axes: Axes, groups: Sequence[tuple[str, ...]], *, place: float) -> None:
    """A level of the tree: a line beside the rows of each node, its name, and thin lines between the groups."""
    import matplotlib as mpl

    ink, start = mpl.rcParams["text.color"], 0
    transform = axes.get_yaxis_transform()
    for group, members in groupby(groups):
        end = start + len(list(members))
        axes.plot([place] * 2, [start - 0.35, end - 0.65], transform=transform, color=ink, linewidth=1, clip_on=False)
        axes.text(
            place + 0.02, (start + end - 1) / 2, shortened(group[-1]), transform=transform, va="center", size="small"
        )
        if start:
            axes.axhline(start - 0.5, color=ink, linewidth=0.4, alpha=0.6)
            axes.axvline(start - 0.5, color=ink, linewidth=0.4, alpha=0.6)
        start = end
