"""Whether a label certainly belongs to its cluster: what stands above the cluster's other labels, or a second encoder.

A class is *specific* if at most a tenth of all labels stand below it, itself among them. A label is vouched for by
those of its cluster with which it shares a specific class, and certain if these are 34 % of those whose classes are
known, or if the cluster bears, rightly, the name of a class of its; but not outside the cluster's *core*, the narrowest
class below which half of its other labels stand: an archive among museums shares "cultural institution" with them, and
they share "museum" with each other. Nothing here is fitted, and nothing moves.

A *catch-all* is a cluster of a general name ("structure", "natural region"), or named by a class below which most
labels of three other clusters stand, too ("religious building"): it vouches for nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..encode.place_nouns import class_key, parse
from .clustering import Floats, Integers, Vectors
from .naming import GENERAL

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix
_WIDEST, _LEAST_LABELS = 0.1, 3  # the fraction of all labels below a specific class, and how many are always few
_VOUCHED = 0.34  # the fraction of a cluster from which a label is certain
_HALF = 0.5  # of a cluster's labels: they bear its name, or make its core
_SUBORDINATE = 3  # clusters below the name of another make that a catch-all
_NEIGHBORS, _BLOCK = 3, 2048  # labels of a cluster that a second encoder compares; labels at a time
Lineages = Sequence[frozenset[str]]  # of each label: names of its classes and of all above them, in the singular


def specific_classes(lineages: Lineages) -> csr_matrix:
    """(n, c): below which specific classes each label stands, as ones."""
    from scipy.sparse import csr_matrix

    column_of = {name: column for column, name in enumerate(sorted(frozenset().union(*lineages)))}
    rows = [row for row, lineage in enumerate(lineages) for _ in lineage]
    columns = [column_of[name] for lineage in lineages for name in sorted(lineage)]
    classes = csr_matrix((np.ones(len(rows), dtype=np.int32), (rows, columns)), (len(lineages), len(column_of) or 1))
    return classes[:, np.asarray(classes.sum(axis=0))[0] <= max(_LEAST_LABELS, _WIDEST * len(lineages))]


def vouching_fractions(classes: csr_matrix, has_chain: NDArray[np.bool_], assignment: Integers) -> Floats:
    """(n,): the fraction of the other labels of its cluster, those with a chain, that share a specific class with it.

    A label alone in its cluster has 1.

    >>> lineages = [frozenset({"pond", "lake"}), frozenset({"lake"}), frozenset({"church"}), frozenset()]
    >>> has_chain, assignment = np.array([True, True, True, False]), np.array([0, 0, 0, 1])
    >>> vouching_fractions(specific_classes(lineages), has_chain, assignment).tolist()
    [0.5, 0.5, 0.0, 1.0]
    """
    fractions = np.zeros(len(assignment))
    for rows in _rows_of_clusters(assignment):
        own_classes, is_counted = classes[rows], has_chain[rows]
        starts = range(0, len(rows), _BLOCK)
        sharing = [(own_classes[start : start + _BLOCK] @ own_classes.T).astype(bool).sum(axis=1) for start in starts]
        counts = np.asarray(np.concatenate(sharing)).ravel() - (
            np.diff(own_classes.indptr) > 0
        )  # a label does not vouch for itself
        fractions[rows] = counts / np.maximum(is_counted.sum() - is_counted, 1) if len(rows) > 1 else 1
    return fractions


def are_outside_core(classes: csr_matrix, has_chain: NDArray[np.bool_], assignment: Integers) -> NDArray[np.bool_]:
    """(n,) booleans: whether a label stands neither below the core of its cluster's others nor above one that does.

    Two labels, at least, make a core.

    >>> lineages = [frozenset({name, "museum", "house"}) for name in "abc"] + [frozenset({"archive", "house"})]
    >>> are_outside_core(specific_classes(lineages), np.ones(4, dtype=bool), np.zeros(4, dtype=int)).tolist()
    [False, False, False, True]
    """
    widths, outside = np.asarray(classes.sum(axis=0))[0], np.zeros(len(assignment), dtype=bool)
    for cluster_rows in _rows_of_clusters(assignment):
        rows = cluster_rows[has_chain[cluster_rows]]
        min_count, own_classes = max(_HALF * (len(rows) - 1), 2), classes[rows]
        common = np.flatnonzero(np.asarray(own_classes.sum(axis=0))[0] >= min_count)
        stands_below = own_classes[:, common].toarray().astype(bool)
        is_core = _narrowest(stands_below.sum(axis=0) - stands_below >= min_count, widths[common])
        outside[rows] = is_core.any(axis=1) & ~(is_core & stands_below).any(axis=1)
        for index in np.flatnonzero(outside[rows]):
            in_core = own_classes[np.flatnonzero((stands_below & is_core[index]).any(axis=1))]
            shared_counts = (in_core @ own_classes[index].T).toarray()
            outside[rows[index]] = shared_counts.max() < own_classes[index].nnz  # not all, with what it is itself
    return outside


def cluster_cores(
    classes: csr_matrix, has_chain: NDArray[np.bool_], assignment: Integers, catch_alls: NDArray[np.bool_]
) -> dict[int, tuple[int, frozenset[int]]]:
    """By cluster, how wide its core is, and which classes are it; catch-alls have none."""
    widths, cores = np.asarray(classes.sum(axis=0))[0], {}
    for cluster in np.flatnonzero(~catch_alls).tolist():
        rows = np.flatnonzero((assignment == cluster) & has_chain)
        counts = np.asarray(classes[rows].sum(axis=0))
        columns = np.flatnonzero(_narrowest(counts >= max(_HALF * len(rows), 1), widths)[0])
        if len(columns):
            cores[cluster] = int(widths[columns[0]]), frozenset(columns.tolist())
    return cores


def _rows_of_clusters(assignment: Integers) -> list[Integers]:
    return [np.flatnonzero(assignment == cluster) for cluster in np.unique(assignment)]


def _narrowest(are_shared: NDArray[np.bool_], widths: Integers) -> NDArray[np.bool_]:
    """Which of the classes shared, in each row, fewest labels stand below."""
    own_widths = np.where(are_shared, widths, np.inf)
    return np.asarray(are_shared & (own_widths == own_widths.min(axis=1, keepdims=True, initial=np.inf)))


def bears_names(lineages: Lineages, texts: Sequence[str], names: Sequence[str]) -> NDArray[np.bool_]:
    """(n, k): whether a label is what a cluster is called, by its lineage or, without one, by its head noun."""
    keys = [class_key(name) for name in names]
    heads = [class_key(parse(text).head) for text in texts]
    pairs = [*zip(lineages, heads, strict=True)]
    rows = [[key in lineage or (not lineage and key == head) for key in keys] for lineage, head in pairs]
    return np.array(rows, dtype=bool)


def are_catch_alls(names: Sequence[str], bears: NDArray[np.bool_], assignment: Integers) -> NDArray[np.bool_]:
    """(k,) booleans."""
    sizes = np.bincount(assignment, minlength=len(names))[: len(names)]
    counts = np.zeros((len(names), len(names)))  # of labels of a row's cluster that are what a column's is called
    is_named = assignment < len(names)
    np.add.at(counts, assignment[is_named], bears[is_named])
    is_below = (counts > _HALF * sizes[:, None]) & ~np.eye(len(names), dtype=bool)
    is_general = np.array([parse(name).certain and parse(name).sense in GENERAL for name in names], dtype=bool)
    return np.asarray(is_general | (is_below.sum(axis=0) >= _SUBORDINATE))


def are_vouched(
    fractions: Floats, bears: NDArray[np.bool_], catch_alls: NDArray[np.bool_], assignment: Integers
) -> NDArray[np.bool_]:
    """(n,) booleans: whether a label certainly belongs to its cluster; those of unnamed clusters do not."""
    num_clusters, vouched = len(catch_alls), np.zeros(len(assignment), dtype=bool)
    rows = np.flatnonzero(assignment < num_clusters)
    clusters = assignment[rows]
    bearers = np.bincount(clusters, weights=bears[rows, clusters], minlength=num_clusters)
    is_apt = bearers >= _HALF * np.bincount(clusters, minlength=num_clusters)
    by_name = bears[rows, clusters] & is_apt[clusters]
    vouched[rows] = ((fractions[rows] >= _VOUCHED) | by_name) & ~catch_alls[clusters]
    return vouched


def likelier_cluster(
    core_widths: Mapping[int, float], chain: Sequence[str], names: Sequence[str], own_index: int
) -> int | None:
    """The cluster of the narrowest core below which a label stands, or else one named by the nearest class above it.

    Args:
        core_widths: how wide the cores are below which it stands, by the number of the cluster.
        chain: names of what stands above it, from the nearest on.
        names: those of the clusters, empty for a catch-all.
        own_index: the number of its cluster.
    """
    other_clusters = [cluster for cluster in core_widths if cluster != own_index]
    index_of = {class_key(name): index for index, name in enumerate(names) if name and index != own_index}
    named_clusters = (index_of[key] for key in map(class_key, chain) if key in index_of)
    if other_clusters:
        return min(other_clusters, key=lambda cluster: (core_widths[cluster], cluster))
    return next(named_clusters, None)


def nearest_clusters(vectors: Vectors, assignment: Integers, num_clusters: int) -> Integers:
    """(n,) the cluster whose three labels nearest to a label are nearest on average, itself left out; −1 without any.

    >>> nearest_clusters(np.eye(2, dtype=np.float32)[[0, 0, 1, 1]], np.array([0, 0, 0, 1]), 2).tolist()
    [0, 0, 1, 0]
    """
    nearest = np.full(len(vectors), -1)
    members = [np.flatnonzero(assignment == cluster) for cluster in range(num_clusters)]
    for start in range(0, len(vectors), _BLOCK):
        cosines = (vectors[start : start + _BLOCK] @ vectors.T).astype(np.float64)
        np.fill_diagonal(cosines[:, start:], np.nan)
        means = np.full((len(cosines), num_clusters), -np.inf)
        for cluster, columns in enumerate(members):
            descending = -np.sort(-cosines[:, columns], axis=1)[:, :_NEIGHBORS]  # NaN comes last
            means[:, cluster] = np.ma.masked_invalid(descending).mean(axis=1).filled(-np.inf)
        nearest[start : start + _BLOCK] = np.where(np.isfinite(means).any(axis=1), means.argmax(axis=1), -1)
    return nearest
