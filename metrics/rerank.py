"""Re-ranking and post-processing of embeddings, as used in landmark retrieval; arrays in, arrays out.

Vectors (n, d) of any length are scaled to unit length, and results have unit length; neighbors are those of the largest
cosine. Each function's result goes into :func:`hiertree.metrics.evaluate`, that of :func:`k_reciprocal` into
:func:`hiertree.metrics.evaluate_scores`.

>>> import numpy as np
>>> gallery = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
>>> alpha_query_expansion([[1.0, 0.0]], gallery, k=2, alpha=1.0).round(3)
array([[0.984, 0.179]])
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from hiertree.arrays import as_embeddings, unit_rows
from hiertree.errors import OptionError, ShapeError, require_package
from hiertree.evaluation_options import ArrayLike
from hiertree.jit import Array, Ints
from hiertree.options import check_choice, check_integer, check_number

__all__ = ["alpha_query_expansion", "database_augmentation", "k_reciprocal", "pca_whitening", "poincare_vectors"]
CURVATURE, RADIUS = 0.1, 2.3  # of hyperbolic embeddings, in the public code of their authors
LARGEST_NORM = 1 - 1e-3  # of a point, in radii of the ball: distances to its edge are infinite
_LARGEST_LENGTH = float(np.arctanh(LARGEST_NORM))
_CELLS = 1 << 25  # of a block of similarities, or of neighbors of neighbors


def pca_whitening(embeddings: ArrayLike, learned_on: ArrayLike, *, dimensions: int | None = None) -> Array:
    r"""Center, rotate to the principal directions of other vectors, scale each to unit variance, and to unit length.

    .. math:: x' = \Lambda^{-1/2} U^\top (x - \mu), \qquad x' / \lVert x' \rVert

    with the mean μ and the covariance U Λ Uᵀ of ``learned_on``.
    Jégou and Chum, *Negative evidences and co-occurences in image retrieval*, ECCV 2012.

    Args:
        embeddings: (n, d) vectors to transform; queries and gallery in the same way.
        learned_on: (m, d) vectors, of training images for instance and not of the test's.
        dimensions: directions kept, those of the largest variance; by default all whose variance exceeds rounding.

    Raises:
        OptionError: more dimensions than vary.
        InputError: vectors that are not (n, d), not finite or of length 0.

    >>> pca_whitening([[1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], dimensions=1).shape
    (1, 1)
    """
    vectors, learned = _unit(embeddings, "embeddings"), _unit(learned_on, "learned_on", like=embeddings)
    check_integer("dimensions", dimensions, or_none=True)
    mean = learned.mean(axis=0, dtype=np.float64)
    variance, directions = np.linalg.eigh(np.cov(learned, rowvar=False, dtype=np.float64).reshape(2 * mean.shape))
    varying = int((variance > 1e-10 * variance[-1]).sum()) if variance[-1] > 0 else 0
    num_directions = dimensions or varying
    if not 1 <= num_directions <= varying:
        raise OptionError(f"dimensions={num_directions}", expected=f"1 to {varying}, along which learned_on varies")
    principal_columns = slice(-1, -num_directions - 1, -1)
    rotation = directions[:, principal_columns] / np.sqrt(variance[principal_columns])
    return _unit((vectors - mean) @ rotation, "embeddings").astype(vectors.dtype)


def alpha_query_expansion(query: ArrayLike, gallery: ArrayLike, *, k: int = 10, alpha: float = 3.0) -> Array:
    r"""Add to each query its k nearest items of the gallery, weighted by a power of their cosine.

    .. math:: q' = q + \sum_{i \le k} \max(q^\top x_i, 0)^\alpha \, x_i

    With α = 0 it is average query expansion (Chum et al., ICCV 2007).
    Radenović, Tolias and Chum, *Fine-tuning CNN image retrieval with no human annotation*, TPAMI 2019.

    Args:
        query: (Q, d).
        gallery: (N, d). Where it holds the queries too, each is its own first neighbor, which changes nothing.
        k: neighbors, N at most.
        alpha: the exponent α ≥ 0.

    Raises:
        OptionError: k outside 1 … N, or α below 0.
        InputError: as :func:`pca_whitening`.

    >>> alpha_query_expansion([[1.0, 0.0]], [[0.0, 1.0]], k=1)
    array([[1., 0.]])
    """
    queries, items = _unit(query, "query"), _unit(gallery, "gallery", like=query)
    check_number("alpha", alpha, least=0)
    neighbors, cosines = _nearest(queries, items, k)
    weights = np.where(cosines > 0, np.maximum(cosines, 0) ** alpha, 0)
    return _unit(queries + _weighted(items, neighbors, weights), "the expanded query")


def database_augmentation(gallery: ArrayLike, *, k: int = 10) -> Array:
    r"""Replace each item of the gallery by a mean of itself and its nearest items, weighted by their rank.

    .. math:: x' = \sum_{r=0}^{k-1} \frac{k - r}{k} \, x_{(r)}

    where x₍₀₎ is the item itself and x₍ᵣ₎ its r-th neighbor.
    Turcot and Lowe, ICCV workshops 2009; with these weights Gordo et al., *End-to-end learning of deep visual
    representations for image retrieval*, IJCV 2017.

    Args:
        gallery: (N, d).
        k: vectors in each mean, the item's own among them, N at most.

    Raises:
        OptionError: k outside 1 … N.
        InputError: as :func:`pca_whitening`.

    >>> database_augmentation([[1.0, 0.0], [0.8, 0.6]], k=1)
    array([[1. , 0. ],
           [0.8, 0.6]])
    """
    items = _unit(gallery, "gallery")
    neighbors = _own_first(_nearest(items, items, k)[0])
    weights = np.broadcast_to(1 - np.arange(k) / k, neighbors.shape)
    return _unit(_weighted(items, neighbors, weights), "the augmented item")


def k_reciprocal(
    query: ArrayLike, gallery: ArrayLike | None = None, *, k1: int = 20, k2: int = 6, lambda_: float = 0.3
) -> Array:
    r"""Scores by shared reciprocal neighbors, blended with the distance: (Q, N), larger meaning nearer.

    Among all vectors, N(p, k) are p and its k nearest, and R(p, k) those of them that have p among theirs. R*(p, k₁)
    adds to R(p, k₁) each R(q, k₁/2) of a q in it that shares two thirds of its members with R(p, k₁). Then

    .. math:: V_{p,i} = e^{-d(p, i)} \text{ for } i \in R^*(p, k_1), \text{ else } 0, \qquad
        d^* = (1 - \lambda) \Big(1 - \frac{\sum_i \min(V_{p,i}, V_{g,i})}{\sum_i \max(V_{p,i}, V_{g,i})}\Big)
        + \lambda \, d

    with d the squared Euclidean distance, and each V replaced by its mean over the k₂ nearest, p first. The scores are
    −d*. The authors' code also scales d and V, which the paper does not.
    Zhong et al., *Re-ranking person re-identification with k-reciprocal encoding*, CVPR 2017, Section 3.

    Args:
        query: (Q, d).
        gallery: (N, d); None means that the queries retrieve each other.
        k1: neighbors of the sets, fewer than there are vectors.
        k2: vectors in a mean.
        lambda_: the weight λ of d, in [0, 1].

    Raises:
        OptionError: k₁ or k₂ outside their range, or λ outside [0, 1].
        InputError: as :func:`pca_whitening`.

    >>> k_reciprocal([[1.0, 0.0]], [[1.0, 0.1], [0.0, 1.0]], k1=1, k2=1).round(2)
    array([[-0.01, -1.3 ]])
    """
    require_package("scipy", extra="labels")
    from scipy.sparse import csr_array

    queries = _unit(query, "query")
    every = queries if gallery is None else np.concatenate([queries, _unit(gallery, "gallery", like=query)])
    for name, value in (("k1", k1), ("k2", k2)):
        check_integer(name, value)
        if value >= len(every):
            raise OptionError(f"{name}={value}", expected=f"less than {len(every)}, the number of vectors")
    check_number("lambda_", lambda_, least=0, most=1)
    neighbors = _own_first(_nearest(every, every, max(k1 + 1, k2))[0])
    sets = list(_expanded(neighbors, k1))
    weights = np.concatenate(
        [np.exp(2 * (every[members] @ vector - 1)) for members, vector in zip(sets, every, strict=True)]
    )
    shape = len(every), len(every)
    encoded = csr_array((weights, np.concatenate(sets), np.cumsum([0, *map(len, sets)])), shape=shape)
    means = np.repeat(np.arange(len(every)), k2), neighbors[:, :k2].ravel()
    encoded = (csr_array((np.full(len(means[0]), 1 / k2), means), shape=shape) @ encoded).tocsr()
    items = encoded if gallery is None else encoded[len(queries) :]
    sums, by_column, scores = items.sum(axis=1), items.tocsc(), np.empty((len(queries), items.shape[0]), every.dtype)
    targets = queries if gallery is None else every[len(queries) :]
    for row in range(len(queries)):
        row_cells = slice(encoded.indptr[row], encoded.indptr[row + 1])
        values, columns = encoded.data[row_cells], encoded.indices[row_cells]
        common_entries = by_column[:, columns].tocoo()
        overlap = np.bincount(
            common_entries.row, np.minimum(common_entries.data, values[common_entries.col]), items.shape[0]
        )
        distance = 2 - 2 * (targets @ queries[row])
        scores[row] = (lambda_ - 1) * (1 - overlap / (sums + values.sum() - overlap)) - lambda_ * distance
    return scores


def _expanded(neighbors: Ints, k1: int) -> Iterator[Ints]:
    """R*(p, k₁) of each vector, sorted."""
    wide_sets, narrow_sets = (_reciprocal(neighbors[:, : k + 1]) for k in (k1, max(round(k1 / 2), 1)))
    for members in wide_sets:
        member_sets = [narrow_sets[row] for row in members.tolist()]
        similar_sets = [each for each in member_sets if 3 * np.isin(each, members).sum() >= 2 * len(each)]
        yield np.unique(np.concatenate([members, *similar_sets]))


def _reciprocal(neighbors: Ints) -> list[Ints]:
    """R(p, k) of each vector."""
    sets: list[Ints] = []
    step = max(_CELLS // neighbors.shape[1] ** 2, 1)
    for start in range(0, len(neighbors), step):
        block = neighbors[start : start + step]
        mutual = (neighbors[block] == np.arange(start, start + len(block))[:, None, None]).any(axis=2)
        sets += [row_neighbors[is_mutual] for row_neighbors, is_mutual in zip(block, mutual, strict=True)]
    return sets


def _own_first(neighbors: Ints) -> Ints:
    """Nearest neighbors among the vectors themselves, each vector before its duplicates."""
    own_index = np.arange(len(neighbors))[:, None]
    order = np.argsort(neighbors != own_index, axis=1, kind="stable")
    sorted_neighbors = np.take_along_axis(neighbors, order, axis=1)
    return np.where(
        (sorted_neighbors[:, :1] == own_index) | (np.arange(neighbors.shape[1]) > 0), sorted_neighbors, own_index
    )


def _nearest(query: Array, items: Array, k: int) -> tuple[Ints, Array]:
    """(Q, k) the items with the largest cosines, and the cosines."""
    check_integer("k", k)
    if k > len(items):
        raise OptionError(f"k={k}", expected=f"at most {len(items)}, the number of items")
    neighbors, cosines = np.empty((len(query), k), np.int64), np.empty((len(query), k), query.dtype)
    step = max(_CELLS // len(items), 1)
    for start in range(0, len(query), step):
        block = query[start : start + step] @ items.T
        nearest = np.argpartition(-block, k - 1, axis=1)[:, :k]
        order = np.argsort(-np.take_along_axis(block, nearest, axis=1), axis=1, kind="stable")
        neighbors[start : start + step] = np.take_along_axis(nearest, order, axis=1)
        cosines[start : start + step] = np.take_along_axis(block, neighbors[start : start + step], axis=1)
    return neighbors, cosines


def _weighted(items: Array, neighbors: Ints, weights: Array) -> Array:
    """(Q, d) weighted sums of the neighbors found."""
    total = np.zeros((len(neighbors), items.shape[1]), items.dtype)
    for rank in range(neighbors.shape[1]):
        total += weights[:, rank, None].astype(items.dtype) * items[neighbors[:, rank]]
    return total


def poincare_vectors(
    embeddings: ArrayLike,
    role: Literal["query", "item"],
    *,
    curvature: float = CURVATURE,
    radius: float = RADIUS,
    scale: float = 1.0,
) -> Array:
    r"""Vectors whose cosines rank as distances in the Poincaré ball do, so that any search by cosine is exact for them.

    .. math:: \cos = -\cosh(\sqrt{c}\, d) \,/\, \sqrt{\cosh 2a_q \cosh 2A}

    with the distance d of :class:`hiertree.losses.Hyperbolic`, a = 2√c·min(scale·\|f\|, radius) and A that of the
    radius, both at most 7.6. A point is (sinh a·f/\|f\|, cosh a) on the hyperboloid, where cosh √c·d is an inner
    product; a last number gives all items one length. Embeddings of one length rank as by their own cosines: they need
    none of this.
    Nickel and Kiela, *Learning Continuous Hierarchies in the Lorentz Model of Hyperbolic Geometry*, ICML 2018.

    Args:
        embeddings: (n, d) vectors; give float64 where √c·radius is above 1, since the numbers grow as its exponential.
        role: "query", or "item" of the gallery; images that are both are given twice, with their ids.
        curvature: as in :class:`hiertree.losses.Hyperbolic`.
        radius: as there.
        scale: as there.

    Returns:
        (n, d + 2) unit vectors.

    >>> vectors = [[0.5, 0.0], [2.0, 0.0], [0.6, 0.3]]  # the first is nearest to the last, by the angle to the second
    >>> cosines = poincare_vectors(vectors, "query") @ poincare_vectors(vectors, "item").T
    >>> cosines[0].argsort()[::-1]
    array([0, 2, 1])
    """
    check_choice("role", role, Literal["query", "item"])
    for name, value in (("curvature", curvature), ("radius", radius), ("scale", scale)):
        check_number(name, value, above=0)
    vectors, width = as_embeddings(embeddings), 2 * curvature**0.5
    norms, longest = np.linalg.norm(vectors, axis=1).astype(np.float64), min(width * radius, 2 * _LARGEST_LENGTH)
    lengths = np.minimum(width * scale * norms, longest)
    lifted = np.empty((len(vectors), vectors.shape[1] + 2), vectors.dtype)
    lifted[:, :-2] = vectors * (np.sinh(lengths) / norms).astype(vectors.dtype)[:, None]
    lifted[:, -2] = np.cosh(lengths) if role == "item" else -np.cosh(lengths)
    lifted[:, -1] = np.sqrt(np.cosh(2 * longest) - np.cosh(2 * lengths)) if role == "item" else 0
    return unit_rows(lifted)


def _unit(values: Any, name: str, *, like: Any = None) -> Array:
    """Scale vectors to unit length; refuse another width than given."""
    vectors = as_embeddings(values, name=name)
    width = vectors.shape[1] if like is None else np.shape(like)[1]
    if vectors.shape[1] != width:
        raise ShapeError(f"{name} of {vectors.shape[1]} dimensions", expected=f"{width}")
    return unit_rows(vectors)
