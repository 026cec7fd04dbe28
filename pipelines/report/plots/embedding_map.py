"""A map of embeddings in two dimensions, colored by the coarsest level of the tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hiertree.arrays import unit_rows
from hiertree.errors import require_package
from hiertree.options import check_choice

from .lines import axes_or_new, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

Projection = Literal["pca", "t-sne"]
_MARKERS = "osD^vP"
MOST_COLORED = 12  # groups that have a color and a place in the legend


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
    places = _two_main_directions(directions)
    spread = places[:, 0].std()
    if method == "pca" or len(places) < 4 or spread < 1e-9:
        return places
    require_package("sklearn", extra="labels")
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(places) - 1) / 3)
    start = (places / spread * 1e-4).astype(np.float32)  # small, as scikit-learn starts from a PCA
    return np.asarray(TSNE(perplexity=perplexity, init=start, random_state=0).fit_transform(directions), np.float64)


def class_means(embeddings: NDArray[np.floating], classes: NDArray[np.integer]) -> NDArray[np.floating]:
    """The mean direction of each class, for a map of the classes (Ramzi et al., TPAMI 2025, Fig. 9).

    Where the directions of a class cancel out, its first one stands for it.

    Args:
        embeddings: (n, d) real vectors of non-zero norm.
        classes: (n,) the class of each; all numbers from 0 to C − 1.

    Returns:
        (C, d) floats, not of unit norm.

    >>> class_means(np.array([[2.0, 0.0], [0.0, 1.0], [0.0, 3.0], [0.0, -1.0]]), np.array([0, 0, 1, 1]))
    array([[0.5, 0.5],
           [0. , 1. ]])
    """
    order = np.argsort(classes, kind="stable")
    directions = unit_rows(embeddings[order])
    _, first, counts = np.unique(classes[order], return_index=True, return_counts=True)
    means: NDArray[np.floating] = np.add.reduceat(directions, first) / counts[:, None]
    cancelled = np.abs(means).max(axis=1) < 1e-6
    means[cancelled] = directions[first[cancelled]]
    return means


def _two_main_directions(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n, 2) coordinates along the two directions of the greatest variance, whose largest entries are positive."""
    centered = vectors - vectors.mean(axis=0)
    _, _, axes = np.linalg.svd(centered, full_matrices=False)
    signs = np.where(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)] < 0, -1.0, 1.0)
    places = centered @ (axes[:2] * signs[:2, None]).T
    return np.pad(places, ((0, 0), (0, 2 - places.shape[1])))


def plot_embeddings(places: NDArray[np.float64], groups: Sequence[str], *, axes: Axes | None = None) -> Axes:
    """A point for each embedding; the twelve largest groups have a color and a marker of their own.

    Args:
        places: (n, 2), as :func:`project_embeddings` gives them.
        groups: n names, say of the nodes of the coarsest level.
        axes: to draw on; new ones unless given.

    Returns:
        The axes; the points of each group are one collection, with ``get_gid()`` points-0, points-1 …
    """
    import matplotlib as mpl

    axes = axes_or_new(axes, height=4.2)
    colors = len(mpl.rcParams["axes.prop_cycle"])
    for number, (name, (rows, color, marker)) in enumerate(group_looks(groups).items()):
        look: dict[str, Any] = {"color": color or mpl.rcParams["text.color"], "alpha": 0.75 if color else 0.35}
        look |= {"facecolors": "none", "linewidths": 0.9} if color and number >= colors else {"linewidths": 0}
        x, y = places[rows].T
        axes.scatter(x, y, s=14, marker=marker, label=shortened(name), gid=f"points-{number}", **look)
    axes.set(xticks=[], yticks=[])
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.legend(
        frameon=False, fontsize="small", markerscale=1.5, ncols=2, loc="upper center", bbox_to_anchor=(0.5, 0.0)
    )
    return axes


def group_looks(groups: Sequence[str]) -> dict[str, tuple[NDArray[np.int64], str, str]]:
    """Rows, color and marker of each group, the largest first; the others together, without a color.

    >>> {name: (rows.tolist(), *look) for name, (rows, *look) in group_looks(["lake", "peak", "lake"]).items()}
    {'lake': ([0, 2], 'C0', 'o'), 'peak': ([1], 'C1', 's')}
    """
    names, looks = np.array(groups, dtype=object), {}
    largest = [name for name, _ in Counter(groups).most_common(MOST_COLORED)]
    for number, name in enumerate(largest):
        marker = _MARKERS[(number + number // len(_MARKERS)) % len(_MARKERS)]
        looks[name] = (np.flatnonzero(names == name), f"C{number}", marker)
    rest = np.array([row for row, name in enumerate(groups) if name not in set(largest)], dtype=np.int64)
    if len(rest):
        looks["others"] = (rest, "", ".")
    return looks
