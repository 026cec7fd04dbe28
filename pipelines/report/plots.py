"""The plots of a report, each as a function of numbers that returns matplotlib axes, and what computes the numbers.

>>> from hiertree.pipelines.report.plots import error_severity, plot_error_severity
>>> severities = error_severity([[0.9, 0.8, 0.7]], [[1, 2, 0]])  # the nearest item is a sibling
>>> severities
array([[1., 0.]])
>>> axes = plot_error_severity({"a model": severities}, level_names=["family", "species"])
>>> axes.get_ylabel()
'percent of the queries'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hiertree.arrays import unit_rows
from hiertree.errors import require_package
from hiertree.metrics import evaluate_scores, hierarchical_precision_recall
from hiertree.options import check_choice

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

__all__ = [
    "Projection",
    "confusion_matrix",
    "curve_points",
    "error_severity",
    "first_wrong_items",
    "interpolated_precision",
    "plot_error_severity",
    "plot_learning",
    "plot_precision_recall",
    "plot_spread",
    "project_embeddings",
]

Points = Sequence[tuple[float, float]]
Projection = Literal["pca", "t-sne"]
RECALLS = np.linspace(0.0, 1.0, 101)
BINS = 20
DASHES = ((1, 0), (5, 2), (2, 2), (6, 2, 1, 2))


def _axes_with_grid(axes: Axes | None) -> Axes:
    """The given axes, or those of a new figure, with thin lines across in the color of the text."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    axes = Figure(figsize=(4.8, 2.7), layout="constrained").subplots() if axes is None else axes
    axes.grid(axis="y", color=mpl.rcParams["text.color"], alpha=0.12, linewidth=0.6)
    axes.set_axisbelow(True)
    return axes


def _line_style(model: int) -> dict[str, Any]:
    """Color and dashes of a model by its index, so that lines differ without color too."""
    return {"color": f"C{model}", "linewidth": 1.8, "dashes": DASHES[model % len(DASHES)]}


def curve_points(history: Sequence[Mapping[str, Any]], quantity: str) -> list[tuple[float, float]]:
    """Epochs and values of a quantity, where the history has it.

    Args:
        history: rows of a run's ``history.jsonl``.
        quantity: ``"loss"``, ``"lr"`` or the name of a metric, which is in percent.

    >>> curve_points([{"epoch": 1, "loss": 2.0}, {"epoch": 2, "loss": 1.5, "metrics": {"R@1": 0.5}}], "R@1")
    [(2, 50.0)]
    """
    if quantity in ("loss", "lr"):
        return [(row["epoch"], row[quantity]) for row in history if quantity in row]
    return [(row["epoch"], 100 * row["metrics"][quantity]) for row in history if quantity in row.get("metrics", {})]


def plot_learning(curves: Mapping[str, Points], *, first_color: int = 0, axes: Axes | None = None) -> Axes:
    """A line for each run over the epochs.

    Args:
        curves: of each run, as :func:`curve_points` gives them; runs without a point are left out.
        first_color: index of the first run's color.
        axes: to draw on; new ones unless given.

    Returns:
        The axes.
    """
    from matplotlib.ticker import MaxNLocator

    axes = _axes_with_grid(axes)
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    for model, (name, points) in enumerate(curves.items(), start=first_color):
        if points:
            epochs, values = zip(*points, strict=True)
            axes.plot(epochs, values, marker="o", markersize=3, label=name, **_line_style(model))
    if len(curves) > 1 and axes.lines:
        axes.legend(frameon=False, loc="best", handlelength=2.6)
    axes.set_xlim(left=0)
    return axes


def plot_spread(values: Mapping[str, NDArray[np.float64]], *, metric: str, axes: Axes | None = None) -> Axes:
    """The percent of each model's queries in each twentieth of 0 … 1.

    Args:
        values: of each model's queries, from 0 to 1 and without NaN.
        metric: what they are.
        axes: to draw on; new ones unless given.

    Returns:
        The axes.
    """
    axes = _axes_with_grid(axes)
    for model, (name, column) in enumerate(values.items()):
        counts, edges = np.histogram(column.clip(0, 1), bins=BINS, range=(0, 1))
        percent = 100 * counts / max(1, len(column))
        steps = [*percent, percent[-1]]  # the last twice, so that its step is drawn to the end
        axes.plot(100 * edges, steps, drawstyle="steps-post", label=name, **_line_style(model))
    axes.set(xlabel=f"{metric}, percent", xlim=(0, 100), ylim=(0, None))
    if len(values) > 1:
        axes.legend(frameon=False, loc="best", handlelength=2.6)
    return axes


def interpolated_precision(
    scores: Any, levels: Any, *, valid: Any = None, num_levels: int | None = None, alpha: float = 1.0
) -> NDArray[np.float64]:
    r"""Hierarchical precision of each query at 101 recalls, so that curves of different queries have a mean.

    At recall r it is the greatest H-P@k of all ranks k with H-R@k ≥ r (Ramzi et al., TPAMI 2025, Eq. 30, 31).

    Args:
        scores: (Q, N), larger meaning nearer.
        levels: (Q, N) integers 0 … L.
        valid: (Q, N) booleans; False leaves an item out.
        num_levels: L; the largest of ``levels`` unless given.
        alpha: of the relevance (l/L)^α / \|Ω^(l)\|.

    Returns:
        (Q, 101) float64 in [0, 1], at the recalls 0, 0.01 … 1; NaN for a query without positives.

    Raises:
        InputError: as :func:`hiertree.metrics.hierarchical_precision_recall`.

    >>> interpolated_precision([[0.9, 0.8, 0.7]], [[0, 2, 1]])[0, [0, 66, 100]].round(3)
    array([0.667, 0.667, 0.667])
    """
    curves = hierarchical_precision_recall(scores, levels, valid=valid, num_levels=num_levels, alpha=alpha)
    best = np.maximum.accumulate(curves.precision[:, ::-1], axis=1)[:, ::-1]
    rounded = curves.recall + 1e-9  # sums of fractions may end just below 1
    ranks = [np.minimum(np.searchsorted(recall, RECALLS), len(recall) - 1) for recall in rounded]
    return np.take_along_axis(best, np.array(ranks).reshape(len(best), len(RECALLS)), axis=1)


def plot_precision_recall(precisions: Mapping[str, NDArray[np.float64]], *, axes: Axes | None = None) -> Axes:
    """The mean hierarchical precision of each model over recall, one line per model.

    Args:
        precisions: of each model's queries, as :func:`interpolated_precision` gives them.
        axes: to draw on; new ones unless given.

    Returns:
        The axes.
    """
    axes = _axes_with_grid(axes)
    for model, (name, values) in enumerate(precisions.items()):
        axes.plot(100 * RECALLS, 100 * np.nanmean(values, axis=0), label=name, **_line_style(model))
    axes.set(xlabel="hierarchical recall, percent", ylabel="precision, percent", xlim=(0, 100), ylim=(0, 100))
    if len(precisions) > 1:
        axes.legend(frameon=False, handlelength=2.6)
    return axes


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
    severities: Mapping[str, NDArray[np.float64]], *, level_names: Sequence[str], axes: Axes | None = None
) -> Axes:
    """Bars: the percent of each model's queries whose first wrong item lies at each height.

    Args:
        severities: of each model, as :func:`error_severity` gives them.
        level_names: L names, coarse → fine.
        axes: to draw on; new ones unless given.

    Returns:
        The axes.
    """
    axes = _axes_with_grid(axes)
    heights, width = np.arange(1, len(level_names) + 1), 0.8 / len(severities)
    for model, (name, values) in enumerate(severities.items()):
        offset = (model - (len(severities) - 1) / 2) * width
        axes.bar(heights + offset, 100 * np.nanmean(values, axis=0), 0.9 * width, color=f"C{model}", label=name)
    axes.set_xticks(heights, height_names(level_names))
    axes.set_xlabel("height of the common ancestor")
    axes.set_ylabel("percent of the queries")
    if len(severities) > 1:
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


def project_embeddings(embeddings: NDArray[np.floating], *, method: Projection = "pca") -> NDArray[np.float64]:
    """Embeddings in two dimensions, by their directions (the cosine is what ranks them).

    The same embeddings give the same map.

    Args:
        embeddings: (n, d) real vectors of non-zero norm.
        method: ``"pca"``, the two directions of the greatest variance, or ``"t-sne"`` (scikit-learn's), which keeps
            neighbors together; the distances between its groups mean little.

    Returns:
        (n, 2) float64.

    Raises:
        OptionError: another method.
        MissingPackageError: t-SNE without scikit-learn.

    >>> project_embeddings(np.array([[3.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])).round(6).tolist()
    [[1.0, 0.0], [-1.0, 0.0]]
    """
    check_choice("method", method, Projection)
    directions = unit_rows(embeddings).astype(np.float64)
    points = _two_main_directions(directions)
    spread = points[:, 0].std()
    if method == "pca" or len(points) < 4 or spread < 1e-9:
        return points
    require_package("sklearn", extra="labels")
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(points) - 1) / 3)
    start = (points / spread * 1e-4).astype(np.float32)  # small, as scikit-learn starts from a PCA
    return np.asarray(TSNE(perplexity=perplexity, init=start, random_state=0).fit_transform(directions), np.float64)


def _two_main_directions(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n, 2) coordinates along the two directions of the greatest variance, whose largest entries are positive."""
    centered = vectors - vectors.mean(axis=0)
    _, _, axes = np.linalg.svd(centered, full_matrices=False)
    signs = np.where(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)] < 0, -1.0, 1.0)
    points = centered @ (axes[:2] * signs[:2, None]).T
    return np.pad(points, ((0, 0), (0, 2 - points.shape[1])))
