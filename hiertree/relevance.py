r"""Relevance: how much a gallery item is worth to a query, as a table with one value per (query, level).

The relevance functions of the papers depend only on the level of an item and on the number of items at each level. So
each function here takes ``counts`` of shape (Q, L+1), with counts[q, l] = |Ω^(l)| of query q (see
:func:`hiertree.level_counts`), and returns ``table`` of shape (Q, L+1), float64, with table[q, 0] = 0. numpy arrays
give numpy arrays, torch tensors give tensors on their device.

Whether a query counts as an item of its own gallery is the caller's choice: hiertree's metrics leave it out ("strict");
the papers' public code counts it in Ω^(L) ("official").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from array_api_compat import device

from .arrays import array_library, as_array, is_on_host
from .errors import InputError, OptionError, ShapeError
from .options import Uneven, check_choice, check_number, check_shares
from .tree.label_tree import LabelTree

if TYPE_CHECKING:
    import networkx as nx
    from numpy.typing import NDArray

Measure = Literal["lca_height", "unpadded_lca_height", "resnik"]


def hap(counts: Any, *, alpha: float = 1.0) -> Any:
    r"""Relevance of H-AP.

    .. math:: rel(l) = \frac{(l/L)^\alpha}{|\Omega^{(l)}|}

    A level without items gets 0. Source: Ramzi et al., *Optimization of Rank Losses for Image Retrieval*, Eq. 20.

    Args:
        counts: (Q, L+1) items per level.
        alpha: ≥ 0; 1 for the metric; larger values emphasize the finest level (HAPPIER_F).

    Raises:
        OptionError: alpha is negative, not finite, or not a number.
        InputError: counts are not (Q, L+1) numbers ≥ 0.

    >>> hap(np.array([[5, 2, 1]]))
    array([[0.  , 0.25, 1.  ]])
    """
    check_number("alpha", alpha, least=0)
    weights = linear(counts) ** float(alpha)
    weights[..., 0] = 0.0  # 0 ** 0 is 1
    xp, counts = _checked(counts)
    indicator = xp.astype(counts > 0, weights.dtype)
    return weights * indicator / (counts + (1.0 - indicator))


def linear(counts: Any) -> Any:
    """Relevance l / L: the depth of the lowest common ancestor as a fraction of the tree's depth.

    >>> linear(np.array([[5, 2, 1]]))
    array([[0. , 0.5, 1. ]])
    """
    level_table = _level_numbers(counts)
    return level_table / (level_table.shape[-1] - 1)


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
        InputError: counts are not (Q, L+1) numbers ≥ 0.

    >>> weighted_ap(np.array([[5, 2, 2]]), weights=[0.5, 0.5])
    array([[0.   , 0.125, 0.375]])
    """
    xp, counts = _checked(counts)
    num_levels = counts.shape[-1] - 1
    weights = check_shares("weights", weights, num_levels)
    table = _level_numbers(counts) * 0.0
    at_least = table[..., 0]
    terms = []
    for level in range(num_levels, 0, -1):
        at_least = at_least + counts[..., level]
        indicator = xp.astype(at_least > 0, table.dtype)
        terms.append(weights[level - 1] * indicator / (at_least + (1.0 - indicator)))
    for level, term in enumerate(reversed(terms), start=1):
        table[..., level] = table[..., level - 1] + term
    return table


def from_networkx(
    tree: LabelTree | nx.DiGraph[Any], query_leaves: Sequence[Any] | NDArray[Any], *, measure: Measure = "lca_height"
) -> NDArray[np.float64]:
    r"""Relevance of each level from a similarity of tree nodes, for each query.

    With c the query's ancestor at level l, which is the lowest common ancestor of the query and any item at that level:

    * ``"lca_height"``: 1 − height(c) / height(root) = l / L (Barz & Denzler, *Hierarchy-based Image Embeddings for
      Semantic Image Retrieval*, WACV 2019, Eq. 2);
    * ``"unpadded_lca_height"``: the same in the tree before ``uneven="pad"`` repeated labels, in which height(c) counts
      the levels down to the deepest leaf below c, and a shallow leaf is no higher for its repetitions. It takes a graph
      with leaves at several depths;
    * ``"resnik"``: the information content IC(c) = −log(leaves under c / all leaves), divided by log(all leaves) so
      that it lies in [0, 1] (Resnik, IJCAI 1995, with leaf counts for probabilities).

    In a tree of one depth whose leaves count alike, other measures give the same tables once the root is worth 0:
    Wu & Palmer's (ACL 1994) that of ``"lca_height"``, and Lin's (ICML 1998) that of ``"resnik"``.

    Args:
        tree: a LabelTree, or a networkx arborescence that makes one.
        query_leaves: Q leaf ids.
        measure: one of these names.

    Returns:
        (Q, L+1) float64, rel[q, 0] = 0.

    Raises:
        OptionError: an unknown measure, or ``"unpadded_lca_height"`` of a LabelTree.
        HierarchyError: the graph is not a tree of one depth, or a leaf is unknown.

    >>> tree = LabelTree.from_paths([("natural", "lake", 1), ("natural", "lake", 2), ("human-made", "church", 3)])
    >>> from_networkx(tree, [1, 3], measure="lca_height")
    array([[0.        , 0.33333333, 0.66666667, 1.        ],
           [0.        , 0.33333333, 0.66666667, 1.        ]])
    """
    check_choice("measure", measure, Measure)
    uneven: Uneven = "pad" if measure == "unpadded_lca_height" else "error"
    label_tree = tree if isinstance(tree, LabelTree) else LabelTree.from_networkx(tree, uneven=uneven)
    paths = label_tree.paths(query_leaves)
    if measure == "unpadded_lca_height":
        import networkx as nx

        if isinstance(tree, LabelTree):  # which does not tell repeated labels from equal ones
            raise OptionError("unpadded_lca_height of a LabelTree", expected="the networkx graph that it was made of")
        depths = np.array([len(nx.ancestors(tree, leaf)) for leaf in label_tree.leaves])
        return _unpadded_heights(label_tree, depths, paths)
    if measure == "resnik":
        return _information_content(label_tree, paths)
    return np.tile(np.arange(label_tree.num_levels + 1) / label_tree.num_levels, (len(paths), 1))


def _unpadded_heights(tree: LabelTree, depths: NDArray[np.int64], paths: NDArray[np.int32]) -> NDArray[np.float64]:
    all_paths, num_levels = tree.paths(tree.leaves), tree.num_levels
    table = np.zeros((len(paths), num_levels + 1))
    for level in range(1, num_levels + 1):
        height = np.zeros(tree.level_sizes[level - 1])
        np.maximum.at(height, all_paths[:, level - 1], depths - level)
        table[:, level] = 1.0 - height[paths[:, level - 1]] / depths.max()
    return table


def _information_content(tree: LabelTree, paths: NDArray[np.int32]) -> NDArray[np.float64]:
    all_paths = tree.paths(tree.leaves)
    table = np.zeros((len(paths), tree.num_levels + 1))
    if len(all_paths) == 1:
        table[:, 1:] = 1.0  # in a tree of one leaf no node is informative, so every relevant item counts equally
        return table
    for level in range(1, tree.num_levels + 1):
        leaves_below = np.bincount(all_paths[:, level - 1])
        table[:, level] = -np.log(leaves_below[paths[:, level - 1]] / len(all_paths)) / np.log(len(all_paths))
    return table


def _checked(counts: Any) -> tuple[Any, Any]:
    """The counts as an array, checked, and its library."""
    counts = as_array(counts, name="counts")
    if counts.ndim != 2 or counts.shape[-1] < 2:
        raise ShapeError(f"counts of shape {tuple(counts.shape)}", expected="counts (Q, L+1) with L ≥ 1")
    xp = array_library(counts)
    is_numeric = xp.isdtype(counts.dtype, ("integral", "real floating"))
    if is_on_host(counts) and not (is_numeric and bool(xp.all(counts >= 0))):
        raise InputError("counts with negative values, NaN or no numbers", expected="numbers of items, ≥ 0")
    return xp, counts


def _level_numbers(counts: Any) -> Any:
    """0 … L as float64, repeated for every query, (Q, L+1)."""
    xp, counts = _checked(counts)
    level_table = xp.arange(counts.shape[-1], dtype=xp.float64, device=device(counts))
    return xp.zeros(counts.shape, dtype=xp.float64, device=device(counts)) + level_table
