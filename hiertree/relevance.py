r"""Relevance: how much a gallery item is worth to a query, as a table with one value per (query, level).

Every relevance function of the papers depends only on the level of the item and on how many items sit at each level.
So each function here takes ``counts`` of shape (Q, L+1), with counts[q, l] = |Ω^(l)| of query q (see
:func:`hiertree.level_counts`), and returns ``table`` of shape (Q, L+1), float64, with table[q, 0] = 0.
numpy arrays give numpy arrays, torch tensors give tensors on their device.

Convention: |Ω^(l)| is what the caller counted. The package's default counts the gallery *without* the query ("strict");
the papers' public code counts the query too, inside Ω^(L) ("official").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from array_api_compat import array_namespace, device

from .errors import OptionError, ShapeError

if TYPE_CHECKING:
    import networkx as nx
    from numpy.typing import NDArray

    from .tree.label_tree import LabelTree


def hap(counts: Any, *, alpha: float = 1.0) -> Any:
    r"""Relevance of H-AP.

    .. math:: rel(l) = \frac{(l/L)^\alpha}{|\Omega^{(l)}|}

    A level without items gets 0. Source: Ramzi et al., *Optimization of Rank Losses for Image Retrieval*, Eq. 20.

    Args:
        counts: (Q, L+1) items per level.
        alpha: ≥ 0; 1 for the metric, larger values stress the finest level (HAPPIER_F).

    Raises:
        OptionError: alpha is negative or not finite.

    >>> hap(np.array([[5, 2, 1]]))
    array([[0.  , 0.25, 1.  ]])
    """
    if not 0 <= alpha < float("inf"):
        raise OptionError(f"alpha={alpha}", expected="a finite number ≥ 0")
    weights = _fraction_of_depth(counts) ** alpha
    weights[..., 0] = 0.0  # 0 ** 0 is 1
    xp = array_namespace(counts)
    present = xp.astype(counts > 0, weights.dtype)
    return weights * present / (counts + (1.0 - present))


def linear(counts: Any) -> Any:
    """Relevance l / L: the depth of the lowest common ancestor as a fraction of the tree's depth.

    >>> linear(np.array([[5, 2, 1]]))
    array([[0. , 0.5, 1. ]])
    """
    return _fraction_of_depth(counts)


def gain(counts: Any) -> Any:
    """Relevance 2^l − 1, the gain of NDCG (Eq. 23).

    >>> gain(np.array([[5, 2, 1]]))
    array([[0., 1., 3.]])
    """
    return 2.0 ** _level_numbers(counts) - 1.0


def weighted_ap(counts: Any, *, weights: Sequence[float]) -> Any:
    r"""Relevance that makes H-AP a weighted mean of the APs of all levels (Property 1).

    .. math:: rel(l) = \sum_{p \le l} \frac{w_p}{|\Omega^{+,p}|}, \qquad \sum_p w_p = 1

    Args:
        counts: (Q, L+1) items per level.
        weights: L numbers ≥ 0, coarse → fine, that add up to 1.

    Raises:
        OptionError: not L weights, a negative one, or a sum other than 1.

    >>> weighted_ap(np.array([[5, 2, 2]]), weights=[0.5, 0.5])
    array([[0.   , 0.125, 0.375]])
    """
    xp = array_namespace(counts)
    num_levels = counts.shape[-1] - 1
    if len(weights) != num_levels or not (min(weights) >= 0 and abs(sum(weights) - 1) <= 1e-9):  # NaN is neither
        raise OptionError(f"weights={list(weights)}", expected=f"{num_levels} numbers ≥ 0 that add up to 1")
    table = _level_numbers(counts) * 0.0
    at_least = table[..., 0]
    shares = []
    for level in range(num_levels, 0, -1):
        at_least = at_least + counts[..., level]
        present = xp.astype(at_least > 0, table.dtype)
        shares.append(weights[level - 1] * present / (at_least + (1.0 - present)))
    for level, share in enumerate(reversed(shares), start=1):
        table[..., level] = table[..., level - 1] + share
    return table


def from_networkx(
    tree: LabelTree | nx.DiGraph[Any], query_leaves: Sequence[Any] | NDArray[Any], *, measure: str = "lca_height"
) -> NDArray[np.float64]:
    r"""Relevance of each level from a similarity of nodes in the tree, for each query.

    With c the query's ancestor at level l, the lowest common ancestor of the query and any item at that level:

    * ``"lca_height"``: 1 − height(c) / height(root), height being the longest way down to a leaf
      (Barz & Denzler, *Hierarchy-based Image Embeddings for Semantic Image Retrieval*, WACV 2019, Eq. 2);
    * ``"wu_palmer"``: 2·depth(c) / (depth(query) + depth(item)), the root having depth 1
      (Wu & Palmer, ACL 1994);
    * ``"resnik"``: IC(c) = −log(leaves under c / all leaves), divided by log(all leaves) so that it lies in [0, 1]
      (Resnik, IJCAI 1995, with leaf counts for probabilities);
    * ``"lin"``: 2·IC(c) / (IC(query) + IC(item)) (Lin, ICML 1998).

    Each is shifted and scaled so that the root is worth 0; this changes only Wu–Palmer, whose root would be worth more.

    Args:
        tree: a LabelTree, or a networkx arborescence that makes one.
        query_leaves: Q leaf ids.
        measure: one of the four names.

    Returns:
        (Q, L+1) float64, rel[q, 0] = 0.

    Raises:
        OptionError: an unknown measure.
        HierarchyError: the graph is no tree of one depth, or a leaf is unknown.

    >>> from hiertree import LabelTree
    >>> tree = LabelTree.from_paths([("natural", "lake", 1), ("natural", "lake", 2), ("human-made", "church", 3)])
    >>> from_networkx(tree, [1, 3], measure="lca_height")
    array([[0.        , 0.33333333, 0.66666667, 1.        ],
           [0.        , 0.33333333, 0.66666667, 1.        ]])
    """
    from .tree.label_tree import LabelTree

    label_tree = tree if isinstance(tree, LabelTree) else LabelTree.from_networkx(tree)
    measures = {
        "lca_height": _lca_height,
        "wu_palmer": _wu_palmer,
        "resnik": _information_content,
        "lin": _information_content,  # every leaf counts once, so all leaves share one IC and Lin's ratio is Resnik's
    }
    if measure not in measures:
        raise OptionError(f"measure={measure!r}", expected=f"one of {', '.join(measures)}")
    return measures[measure](label_tree, label_tree.paths(query_leaves))


def _lca_height(tree: LabelTree, paths: NDArray[np.int32]) -> NDArray[np.float64]:
    depths = np.arange(tree.num_levels + 1) / tree.num_levels  # all leaves are equally deep: height = L − depth
    return np.tile(depths, (len(paths), 1))


def _wu_palmer(tree: LabelTree, paths: NDArray[np.int32]) -> NDArray[np.float64]:
    depth = 1.0 + np.arange(tree.num_levels + 1)
    similarity = depth / depth[-1]
    return np.tile((similarity - similarity[0]) / (1.0 - similarity[0]), (len(paths), 1))


def _information_content(tree: LabelTree, paths: NDArray[np.int32]) -> NDArray[np.float64]:
    all_paths = tree.paths(tree.leaves)
    table = np.zeros((len(paths), tree.num_levels + 1))
    if len(all_paths) == 1:
        table[:, 1:] = 1.0  # nothing is informative in a tree of one leaf; every relevant item is equally good
        return table
    for level in range(1, tree.num_levels + 1):
        leaves_below = np.bincount(all_paths[:, level - 1])
        table[:, level] = -np.log(leaves_below[paths[:, level - 1]] / len(all_paths)) / np.log(len(all_paths))
    return table


def _level_numbers(counts: Any) -> Any:
    """0 … L as float64, repeated for every query: the shape every table has."""
    if counts.ndim != 2 or counts.shape[-1] < 2:
        raise ShapeError(f"counts of shape {tuple(counts.shape)}", expected="(Q, L+1) with L ≥ 1")
    xp = array_namespace(counts)
    numbers = xp.arange(counts.shape[-1], dtype=xp.float64, device=device(counts))
    return xp.zeros(counts.shape, dtype=xp.float64, device=device(counts)) + numbers


def _fraction_of_depth(counts: Any) -> Any:
    return _level_numbers(counts) / (counts.shape[-1] - 1)
