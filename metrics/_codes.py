"""Evaluation of binary codes by Hamming distance, where ties are the rule: a code of b bits has b + 1 distances."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hiertree.arrays import as_paths, to_numpy
from hiertree.errors import EmbeddingError, OptionError, ShapeError
from hiertree.metrics._blocks import for_row_ranges
from hiertree.metrics._convention import Convention
from hiertree.metrics._masks import Mask, mask_of
from hiertree.metrics._measure import Plan, Ranking, Relevance, measure, measure_ranking, plan
from hiertree.metrics._result import Evaluation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.metrics._ranked import Ranked, Ties
    from hiertree.metrics._tree_order import TreeOrder

_WORD = 64
_MOST_BITS = 2**16 - _WORD  # so that a distance fits a uint16


class Codes(NamedTuple):
    """Queries (Q, W) and a gallery in tree order (W, N), as uint64 words, with what is left out of each list."""

    queries: NDArray[np.uint64]
    gallery: NDArray[np.uint64]
    num_bits: int
    tree: TreeOrder
    mask: Mask
    totals: NDArray[np.int64]


def evaluate_codes(
    query_codes: Any,
    query_paths: Any,
    gallery_codes: Any = None,
    gallery_paths: Any = None,
    *,
    metrics: Iterable[str] | None = None,
    alpha: float = 1.0,
    relevance: Relevance | None = None,
    ties: Ties = "average",
    query_ids: Any = None,
    gallery_ids: Any = None,
) -> Evaluation:
    """Every metric of a retrieval by Hamming distance, exact over its ties: ``AP`` is AP_T, ``NDCG`` is NDCG_T.

    He et al., *Hashing as Tie-Aware Learning to Rank*, CVPR 2018 (Eq. 6, 7; evaluation by counting sort). Time grows
    with Q × N popcounts; ``ties="index"`` sorts, and is slower. Memory: a few bytes for each positive of a few queries.

    Args:
        query_codes: (Q, b/8) uint8, eight bits a byte; or (Q, b) booleans; or (Q, b) numbers that are all −1 or +1.
        query_paths: (Q, L) label ids ≥ 0, coarse → fine; (Q,) means L = 1.
        gallery_codes: codes of the same length, or None for self-retrieval, each query masked by index.
        gallery_paths: (N, L), ids of the same space as the queries'.
        metrics: names (see :mod:`hiertree.metrics`); ``mAP@1000`` is AP@1000, divided by min(1000, positives).
        alpha: of the relevance of ``H-AP``.
        relevance: another one: counts (Q, L+1) → table (Q, L+1).
        ties: as :func:`evaluate` takes it.
        query_ids: Q integers or strings; gallery items of a query's id are left out of its list.
        gallery_ids: N ids, for a separate gallery.

    Raises:
        ShapeError: arrays that do not fit together, or an empty gallery.
        EmbeddingError: codes that are none of the three kinds.
        PathError: ids that are not integers ≥ 0.
        OptionError: an unknown metric or an option outside its range.

    >>> codes = [[1, 1, 1, -1], [1, 1, -1, -1], [-1, -1, 1, 1], [-1, 1, 1, -1]]
    >>> evaluate_codes(codes, [0, 0, 1, 1], metrics=["AP", "NDCG"]).summary().round(4).to_dict()
    {'AP': 0.7917, 'NDCG': 0.8452}
    """
    codes = _checked(query_codes, query_paths, gallery_codes, gallery_paths, query_ids, gallery_ids)
    num_levels = codes.tree.low.shape[1]
    chosen = plan(metrics, num_levels=num_levels, alpha=alpha, relevance=relevance, ties=ties)
    values = np.empty((len(codes.queries), len(chosen.metrics)))

    def work(rows: slice) -> None:
        by_index = chosen.ties == "index"
        values[rows] = _in_index_order(codes, rows, chosen) if by_index else _by_counting(codes, rows, chosen)

    row_bytes = 32 * codes.gallery.shape[1]
    if ties != "index":
        row_bytes = 32 * int(codes.totals[:, 1:].sum(axis=1).max(initial=0)) + 8 * (codes.num_bits + 1) * num_levels
    for_row_ranges(work, len(values), row_bytes=max(row_bytes, 1))
    convention = Convention(
        self_rule=codes.mask.rule,
        scores=f"Hamming distance, {codes.num_bits} bits",
        num_levels=num_levels,
        relevance=chosen.relevance_name,
        counts=chosen.rules.counted,
        ties=ties,
    )
    return Evaluation(chosen.names, values, range(len(values)), convention)


def _checked(
    query_codes: Any, query_paths: Any, gallery_codes: Any, gallery_paths: Any, query_ids: Any, gallery_ids: Any
) -> Codes:
    from hiertree.metrics._tree_order import tree_order

    if (gallery_codes is None) != (gallery_paths is None):
        missing = "gallery_codes" if gallery_codes is None else "gallery_paths"
        raise OptionError(f"{missing}=None", expected="gallery_codes and gallery_paths together, or neither")
    queries, num_bits = _as_words(query_codes, "query_codes")
    paths = as_paths(query_paths, name="query_paths", num_items=len(queries))
    items, item_bits, item_paths = queries, num_bits, paths
    if gallery_codes is not None:
        items, item_bits = _as_words(gallery_codes, "gallery_codes")
        item_paths = as_paths(gallery_paths, name="gallery_paths", num_items=len(items))
    if (item_bits, item_paths.shape[1]) != (num_bits, paths.shape[1]):
        raise ShapeError(
            f"a gallery of {item_bits} bits and {item_paths.shape[1]} levels",
            expected=f"those of the queries, {num_bits} and {paths.shape[1]}",
        )
    if len(items) < (2 if gallery_codes is None else 1):
        raise ShapeError(f"a gallery of {len(items)} items", expected="at least one beside the query")
    num_items = None if gallery_codes is None else len(items)
    mask = mask_of(len(queries), num_items, query_ids=query_ids, gallery_ids=gallery_ids)
    tree = tree_order(paths, item_paths)
    totals = tree.totals() - mask.counts(paths, item_paths)
    return Codes(queries, np.ascontiguousarray(items[tree.order].T), num_bits, tree, mask, totals)


def _as_words(values: Any, name: str) -> tuple[NDArray[np.uint64], int]:
    """Codes as (n, W) uint64 words, padded with zeros, and their number of bits."""
    array = to_numpy(values)
    if array.ndim != 2 or array.shape[1] == 0:
        raise ShapeError(f"{name} of shape {array.shape}", expected="shape (n, bits), or (n, bits / 8) packed in uint8")
    packed = array.dtype == np.uint8
    if not packed:
        if array.dtype != np.bool_ and (array.dtype.kind not in "if" or not (np.abs(array) == 1).all()):
            raise EmbeddingError(
                f"{name} of type {array.dtype}",
                expected="packed uint8, booleans, or numbers that are all −1 or +1",
                remedy="binarise with embeddings > 0",
            )
        array = np.packbits(array > 0, axis=1)
    num_bits = 8 * array.shape[1] if packed else to_numpy(values).shape[1]
    if num_bits > _MOST_BITS:
        raise ShapeError(f"{name} of {num_bits} bits", expected=f"at most {_MOST_BITS}")
    width = -(-array.shape[1] // 8) * 8
    padded = np.zeros((len(array), width), np.uint8)
    padded[:, : array.shape[1]] = array
    return padded.view(np.uint64), num_bits


def _by_counting(codes: Codes, rows: slice, chosen: Plan) -> NDArray[np.float64]:
    """(r, M) values from the number of items of each level at each distance."""
    from hiertree.metrics._hamming import count_distances, count_positives, leave_out

    queries, tree = codes.queries[rows], codes.tree
    shape = (len(queries), codes.num_bits + 1)
    counts, positives = np.empty(shape, np.int64), np.empty((*shape, chosen.num_levels + 1), np.int64)
    count_distances(queries, codes.gallery, counts)
    count_positives(queries, codes.gallery, tree.low[rows], tree.high[rows], positives)
    pair_rows, items = codes.mask.pairs(rows)
    places = tree.place[items]
    inside = (tree.low[rows][pair_rows] <= places[:, None]) & (places[:, None] < tree.high[rows][pair_rows])
    leave_out(queries, codes.gallery, pair_rows, places, inside.sum(axis=1), counts, positives)
    totals = codes.totals[rows]
    ranking = Ranking(lambda preference: _ranked(counts, positives, preference, chosen), codes.gallery.shape[1])
    return measure_ranking(ranking, totals, totals, chosen)


def _ranked(
    counts: NDArray[np.int64], positives: NDArray[np.int64], preference: NDArray[np.float64], chosen: Plan
) -> Ranked:
    from hiertree.metrics._hamming import rank_counts
    from hiertree.metrics._ranked import Ranked

    number = positives.sum(axis=(1, 2))
    shape = (len(counts), int(number.max(initial=0)))
    ranked = Ranked(np.empty(shape, np.uint8), np.empty(shape, np.int32), np.empty(shape, np.int32), number)
    order = np.argsort(preference, axis=1, kind="stable")
    order = np.ascontiguousarray(order[:, ::-1]) if chosen.ties == "best" else order
    rank_counts(counts, positives, order, chosen.ties in ("average", "paper"), ranked)
    return ranked


def _in_index_order(codes: Codes, rows: slice, chosen: Plan) -> NDArray[np.float64]:
    """(r, M) values where of equal distances the smaller index comes first."""
    from hiertree.metrics._hamming import distances
    from hiertree.metrics._ranked import placed_matrix
    from hiertree.metrics._tree_order import fill_levels

    found = np.empty((rows.stop - rows.start, codes.gallery.shape[1]), np.uint16)
    levels = np.empty(found.shape, np.uint8)
    distances(codes.queries[rows], codes.gallery, found)
    fill_levels(codes.tree.low[rows], codes.tree.high[rows], levels)
    excluded = codes.mask.excluded(rows, codes.tree.place)
    place = codes.tree.place
    placed = placed_matrix(-found[:, place].astype(np.float32), levels[:, place], excluded[:, place], ties="index")
    return measure(placed, codes.totals[rows], chosen)
