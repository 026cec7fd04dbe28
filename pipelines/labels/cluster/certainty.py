"""Whether a label certainly belongs to its cluster: what stands above the cluster's other labels, or a second encoder.

A class is *specific* if at most a tenth of all labels stand below it, itself among them. A label is vouched for by
those of its cluster with which it shares a specific class, and certain if these are 34 % of those whose classes are
known, or if the cluster bears, rightly, the name of a class of its. Nothing here is fitted, and nothing moves.

A *catch-all* is a cluster of a general name ("structure", "natural region"), or named by a class below which most
labels of three other clusters stand, too ("religious building"): it vouches for nobody.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..encode.place_nouns import class_key, parse
from .clustering import Floats, Integers, Vectors
from .naming import GENERAL

_WIDEST, _LEAST_LABELS = 0.1, 3  # the fraction of all labels below a specific class, and how many are always few
_VOUCHED = 0.34  # the fraction of a cluster from which a label is certain
_HALF = 0.5  # of a cluster's labels: they bear its name
_SUBORDINATE = 3  # clusters below the name of another make that a catch-all
_NEIGHBORS, _BLOCK = 3, 2048  # labels of a cluster that a second encoder compares; labels at a time
Lineages = Sequence[frozenset[str]]  # of each label: names of its classes and of all above them, in the singular


def vouching_fractions(lineages: Lineages, assignment: Integers, num_clusters: int) -> Floats:
    """(n, k): the fraction of the other labels of each cluster, those with a chain, that share a specific class.

    A label alone in its cluster has 1 there.

    >>> lineages = [frozenset({"pond", "lake"}), frozenset({"lake"}), frozenset({"church"}), frozenset()]
    >>> vouching_fractions(lineages, np.array([0, 0, 0, 1]), 2).tolist()
    [[0.5, 0.0], [0.5, 0.0], [0.0, 0.0], [0.0, 1.0]]
    """
    from scipy.sparse import csr_matrix

    column_of = {name: column for column, name in enumerate(sorted(frozenset().union(*lineages)))}
    rows = [row for row, lineage in enumerate(lineages) for _ in lineage]
    columns = [column_of[name] for lineage in lineages for name in sorted(lineage)]
    classes = csr_matrix((np.ones(len(rows), dtype=np.int32), (rows, columns)), (len(lineages), len(column_of) or 1))
    classes = classes[:, np.asarray(classes.sum(axis=0))[0] <= max(_LEAST_LABELS, _WIDEST * len(lineages))]
    has_chain = np.array([bool(lineage) for lineage in lineages])
    clusters = csr_matrix(
        (np.ones(len(lineages)), (np.arange(len(lineages)), assignment)), (len(lineages), num_clusters)
    )
    counts = np.zeros((len(lineages), num_clusters))
    for start in range(0, len(lineages), _BLOCK):
        block = slice(start, start + _BLOCK)
        counts[block] = ((classes[block] @ classes.T).astype(bool) @ clusters).toarray()
    labels, sizes = np.arange(len(lineages)), np.tile(has_chain @ clusters, (len(lineages), 1))
    counts[labels, assignment] -= np.diff(classes.indptr) > 0  # a label does not vouch for itself
    sizes[labels, assignment] -= has_chain
    fractions: Floats = counts / np.maximum(sizes, 1)
    is_single = np.bincount(assignment, minlength=num_clusters)[assignment] == 1
    fractions[labels[is_single], assignment[is_single]] = 1
    return fractions


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
    vouched[rows] = ((fractions[rows, clusters] >= _VOUCHED) | by_name) & ~catch_alls[clusters]
    return vouched


def likelier_cluster(
    fractions: Floats, chain: Sequence[str], names: Sequence[str], catch_alls: NDArray[np.bool_], own_index: int
) -> int | None:
    """The cluster that vouches most for a label, or else the one named by the nearest class above it, if any."""
    allowed = ~catch_alls & (np.arange(len(names)) != own_index)
    best = int(np.argmax(np.where(allowed, fractions[: len(names)], -1)))
    if allowed[best] and fractions[best] >= _HALF:
        return best
    index_of = {class_key(name): index for index, name in enumerate(names) if allowed[index]}
    return next((index_of[key] for key in map(class_key, chain) if key in index_of), None)


def nearest_clusters(vectors: Vectors, assignment: Integers, num_clusters: int) -> Integers:
    """(n,) the cluster whose three labels nearest to a label are nearest on average, itself left out; −1 without any.

    >>> nearest_clusters(np.eye(2, dtype=np.float32)[[0, 0, 1, 1]], np.array([0, 0, 0, 1]), 2).tolist()
    [0, 0, 1, 0]
    """
    nearest = np.full(len(vectors), -1)
    members = [np.flatnonzero(assignment == cluster) for cluster in range(num_clusters)]
    for start in range(0, len(vectors), _BLOCK):
        cosines = (vectors[start : start + _BLOCK] @ vectors.T).astype(np.float64)
        block = np.arange(len(cosines))
        cosines[block, start + block] = np.nan
        means = np.full((len(cosines), num_clusters), -np.inf)
        for cluster, columns in enumerate(members):
            descending = -np.sort(-cosines[:, columns], axis=1)[:, :_NEIGHBORS]  # NaN comes last
            counts = np.isfinite(descending).sum(axis=1)
            sums = np.nansum(descending, axis=1)
            means[:, cluster] = np.where(counts > 0, sums / np.maximum(counts, 1), -np.inf)
        nearest[start : start + _BLOCK] = np.where(np.isfinite(means).any(axis=1), means.argmax(axis=1), -1)
    return nearest
