"""Evaluation of embeddings, block by block: no more than a block of queries × gallery exists at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from hiertree.arrays import as_embeddings, as_paths
from hiertree.errors import OptionError, ShapeError
from hiertree.metrics._blocks import BUDGET, for_row_ranges
from hiertree.metrics._convention import Convention
from hiertree.metrics._measure import Plan, Relevance, measure, plan
from hiertree.metrics._result import Evaluation
from hiertree.progress import progress as show_progress

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.metrics._ranked import Ties
    from hiertree.metrics._tree_order import TreeOrder

_PRODUCT_ROWS = 256


class Inputs(NamedTuple):
    """Checked embeddings and paths; in self-retrieval the gallery is the queries."""

    query: NDArray[Any]
    query_paths: NDArray[np.int64]
    gallery: NDArray[Any]
    gallery_paths: NDArray[np.int64]
    self_retrieval: bool


def evaluate(
    query: Any,
    query_paths: Any,
    gallery: Any = None,
    gallery_paths: Any = None,
    *,
    metrics: Iterable[str] | None = None,
    alpha: float = 1.0,
    relevance: Relevance | None = None,
    counts: Literal["strict", "official"] = "strict",
    ties: Ties = "average",
    block_size: int | None = None,
    progress: bool = False,
) -> Evaluation:
    r"""Every metric of a retrieval by cosine similarity.

    Without a gallery the queries retrieve each other, each masked in its own list *by index*; duplicates of it stay.
    With one, nothing is dropped. Embeddings are L2-normalised and multiplied in their own type (float64, else float32);
    what is computed from the scores is float64. Memory beyond the embeddings and one normalised copy of the gallery:
    about half a GiB at most for galleries below a million items, never Q × N.

    Args:
        query: (Q, d) embeddings, numpy or torch, any real type, finite and of non-zero norm.
        query_paths: (Q, L) label ids ≥ 0, coarse → fine; (Q,) means L = 1.
        gallery: (N, d) embeddings, or None for self-retrieval.
        gallery_paths: (N, L), ids of the same space as the queries'.
        metrics: names (see :mod:`hiertree.metrics`); unless given H-AP, NDCG, ASI, AP at every level,
            R@1, R@10 and mAP@R at the finest.
        alpha: of the relevance of ``H-AP``, (l/L)^α / \|Ω^(l)\| (Eq. 20).
        relevance: another one: counts (Q, L+1) → table (Q, L+1), such as ``hiertree.relevance.linear``.
        counts: ``"official"`` counts the query itself inside \|Ω^(L)\| when the relevance of H-AP is taken, as the
            authors' code does in self-retrieval.
        ties: ``"average"`` is the expectation over all orders of equal scores, exactly; ``"worst"`` and ``"best"`` are
            its bounds; ``"paper"`` counts every tied item as ahead; ``"index"`` puts the smaller index first.
        block_size: queries whose scores are held at once, rounded up to whole matrix products; it changes no number.
        progress: show how many queries are done.

    Returns:
        The values of every metric and query, their means, and the convention card.

    Raises:
        ShapeError: arrays that do not fit together, or an empty gallery.
        EmbeddingError: NaN, infinite or zero-norm embeddings.
        PathError: ids that are not integers ≥ 0.
        OptionError: an unknown metric or an option outside its range.

    Ramzi et al., *Optimization of Rank Losses for Image Retrieval*, TPAMI 2025, Sec. III–IV.

    >>> embeddings = [[1.0, 0.0], [0.9, 0.1], [0.6, 0.5], [0.0, 1.0]]
    >>> paths = [[0, 0], [0, 0], [0, 1], [1, 2]]  # kind, landmark
    >>> result = evaluate(embeddings, paths, metrics=["H-AP", "R@1", "AP[1]"])
    >>> result.summary().round(4).to_dict()
    {'H-AP': 1.0, 'R@1': 1.0, 'AP[1]': 1.0}
    >>> result.skipped  # the last item is alone in its kind, the last two in their landmark
    {'H-AP': 1, 'R@1': 2, 'AP[1]': 1}
    """
    inputs = _checked(query, query_paths, gallery, gallery_paths)
    if counts not in ("strict", "official") or (counts == "official" and not inputs.self_retrieval):
        raise OptionError(
            f"counts={counts!r}", expected="'strict', or 'official' in self-retrieval, where a query can count itself"
        )
    if block_size is not None and block_size < 1:
        raise OptionError(f"block_size={block_size}", expected="at least 1")
    chosen = plan(
        metrics,
        num_levels=inputs.query_paths.shape[1],
        alpha=alpha,
        relevance=relevance,
        ties=ties,
        extra_finest=int(counts == "official"),
    )
    values = _values(inputs, chosen, block_size, progress)
    return Evaluation(chosen.names, values, range(len(values)), _convention(inputs, chosen, counts))


def _checked(query: Any, query_paths: Any, gallery: Any, gallery_paths: Any) -> Inputs:
    if (gallery is None) != (gallery_paths is None):
        missing = "gallery" if gallery is None else "gallery_paths"
        raise OptionError(f"{missing}=None", expected="gallery and gallery_paths together, or neither")
    queries = as_embeddings(query, name="query")
    paths = as_paths(query_paths, name="query_paths", num_items=len(queries))
    if gallery is None:
        if len(queries) == 1:
            raise ShapeError("one item", expected="at least two in self-retrieval, a query and a gallery")
        return Inputs(queries, paths, queries, paths, self_retrieval=True)
    items = as_embeddings(gallery, name="gallery")
    item_paths = as_paths(gallery_paths, name="gallery_paths", num_items=len(items))
    if len(items) == 0:
        raise ShapeError("an empty gallery", expected="at least one item")
    if items.shape[1] != queries.shape[1] or item_paths.shape[1] != paths.shape[1]:
        raise ShapeError(
            f"a gallery of {items.shape[1]} dimensions and {item_paths.shape[1]} levels",
            expected=f"those of the queries, {queries.shape[1]} and {paths.shape[1]}",
        )
    dtype = np.result_type(queries, items)
    queries, items = queries.astype(dtype, copy=False), items.astype(dtype, copy=False)
    return Inputs(queries, paths, items, item_paths, self_retrieval=False)


def _values(inputs: Inputs, chosen: Plan, block_size: int | None, progress: bool) -> NDArray[np.float64]:
    """(Q, M) values, block by block."""
    from hiertree.metrics._tree_order import tree_order

    tree = tree_order(inputs.query_paths, inputs.gallery_paths)
    totals = tree.totals()
    totals[:, -1] -= int(inputs.self_retrieval)
    values = np.empty((len(inputs.query), len(chosen.metrics)))
    with show_progress(description="queries", total=len(values), enabled=progress) as advance:
        for rows, scores in _score_blocks(inputs, tree, block_size):
            itself = tree.place[rows] if inputs.self_retrieval else None
            _measure_block(scores, tree, rows, itself, totals, chosen, values)
            advance(len(scores), "")
    return values


def _score_blocks(inputs: Inputs, tree: TreeOrder, block_size: int | None) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Blocks of queries with their scores, the gallery in tree order.

    A product's rounding may depend on its shape. So all have the same, whatever the block size, the last one padded.
    """
    gallery = inputs.gallery[tree.order]
    _normalise(gallery)
    num_queries = len(inputs.query)
    height = min(_PRODUCT_ROWS, BUDGET // (len(gallery) * gallery.itemsize), max(num_queries, 8))
    height = 1 << max(height.bit_length() - 1, 3)
    products = max(-(-(block_size or height) // height), 1)
    scores = np.empty((products * height, len(gallery)), gallery.dtype)
    padded = np.zeros((height, gallery.shape[1]), gallery.dtype)
    for start in range(0, num_queries, len(scores)):
        stop = min(start + len(scores), num_queries)
        for first in range(start, stop, height):
            part = inputs.query[first : min(first + height, stop)]
            padded[: len(part)] = part
            _normalise(padded[: len(part)])
            np.matmul(padded, gallery.T, out=scores[first - start : first - start + height])
        yield slice(start, stop), scores[: stop - start]


def _measure_block(
    scores: NDArray[Any],
    tree: TreeOrder,
    rows: slice,
    itself: NDArray[np.int64] | None,
    totals: NDArray[np.int64],
    chosen: Plan,
    values: NDArray[np.float64],
) -> None:
    from hiertree.metrics._ranked import sorted_keys
    from hiertree.metrics._tree_order import fill_levels

    low, high, block_totals, block_values = tree.low[rows], tree.high[rows], totals[rows], values[rows]

    def work(part: slice) -> None:
        part_scores = scores[part]
        levels = np.empty(part_scores.shape, np.uint8)
        fill_levels(low[part], high[part], levels)
        excluded = np.zeros(part_scores.shape, np.bool_)
        if itself is not None:
            excluded[np.arange(len(excluded)), itself[part]] = True
        if chosen.ties == "index":  # equal scores in the order the user gave the gallery
            part_scores, levels, excluded = part_scores[:, tree.place], levels[:, tree.place], excluded[:, tree.place]
        keys = sorted_keys(part_scores, levels, excluded, ties=chosen.ties)
        block_values[part] = measure(keys, block_totals[part], chosen)

    for_row_ranges(work, len(scores), row_bytes=(32 if chosen.ties != "index" else 64) * scores.shape[1])


def _normalise(embeddings: NDArray[Any]) -> None:
    """Give every row norm 1 in place; by its largest entry first, so that no square overflows or vanishes."""
    for start in range(0, len(embeddings), _PRODUCT_ROWS):
        part = embeddings[start : start + _PRODUCT_ROWS]
        part /= np.abs(part).max(axis=1, keepdims=True)
        part /= np.linalg.norm(part, axis=1, keepdims=True)


def _convention(inputs: Inputs, chosen: Plan, counts: str) -> Convention:
    itself = "self-retrieval, each query masked by index"
    counted = {
        "strict": "strict: the gallery without the query",
        "official": "official: the gallery and the query itself, in Ω^(L)",
    }
    return Convention(
        self_rule=itself if inputs.self_retrieval else "separate gallery, nothing dropped",
        scores=f"cosine similarity, {inputs.query.dtype}",
        num_levels=chosen.num_levels,
        relevance=chosen.relevance_name,
        counts=counted[counts],
        ties=chosen.ties,
    )
