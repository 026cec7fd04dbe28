"""Evaluation of embeddings, block by block: no more than a block of queries × gallery exists at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from hiertree.arrays import as_embeddings, as_paths, to_numpy
from hiertree.errors import OptionError, ShapeError
from hiertree.metrics._blocks import BUDGET, for_row_ranges
from hiertree.metrics._convention import Convention
from hiertree.metrics._masks import Mask, as_distractors, drop_placed, mask_of
from hiertree.metrics._measure import Plan, Relevance, measure, plan
from hiertree.metrics._protocols import ProtocolName, protocol_of
from hiertree.metrics._result import Evaluation
from hiertree.metrics._rules import OURS, Compat, Rules, rules_of
from hiertree.progress import progress as show_progress

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.metrics._ranked import Ties
    from hiertree.metrics._tree_order import TreeOrder

_PRODUCT_ROWS = 256


class Inputs(NamedTuple):
    """Checked embeddings and paths; in self-retrieval the gallery is the queries. A distractor's path is −1."""

    query: NDArray[Any]
    query_paths: NDArray[np.int64]
    gallery: NDArray[Any]
    gallery_paths: NDArray[np.int64]
    num_distractors: int = 0


def evaluate(
    query: Any,
    query_paths: Any,
    gallery: Any = None,
    gallery_paths: Any = None,
    *,
    metrics: Iterable[str] | None = None,
    alpha: float = 1.0,
    relevance: Relevance | None = None,
    counts: Literal["strict", "official"] | None = None,
    ties: Ties = "average",
    protocol: ProtocolName | None = None,
    compat: Compat | Rules | None = None,
    query_ids: Any = None,
    gallery_ids: Any = None,
    junk: Iterable[Iterable[int]] | None = None,
    distractors: Any = None,
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
        metrics: names (see :mod:`hiertree.metrics`); unless given those of the protocol, or else H-AP, NDCG, ASI, AP at
            every level, R@1, R@10 and mAP@R at the finest.
        alpha: of the relevance of ``H-AP``, (l/L)^α / \|Ω^(l)\| (Eq. 20).
        relevance: another one: counts (Q, L+1) → table (Q, L+1), such as ``hiertree.relevance.linear``.
        counts: where the relevance of H-AP counts \|Ω^(l)\|: ``"strict"``, the gallery without the query, or
            ``"official"``, the query set with the query itself inside \|Ω^(L)\|, as the authors' code does.
        ties: ``"average"`` is the expectation over all orders of equal scores, exactly; ``"worst"`` and ``"best"`` are
            its bounds; ``"paper"`` counts every tied item as ahead; ``"index"`` puts the smaller index first.
        protocol: a benchmark (``"sop"``, ``"inat"``, ``"dyml"``, ``"gldv2"``, ``"revisitop"``, ``"cub"``,
            ``"vehicleid"``, ``"inshop"``): names the metrics, asks for the retrieval it makes, and sets its rules.
        compat: compute as others do: ``"official"`` (HAPPIER's and SupRank's code), ``"delf"``, ``"revisitop"``, or
            :class:`Rules` of your own; unless given, the rules of the protocol or else this package's.
        query_ids: Q integers or strings; gallery items of a query's id (its file name, its sequence) are left out of
            its list. In self-retrieval, of the other queries too.
        gallery_ids: N ids, for a separate gallery.
        junk: for each query the indices of gallery items to leave out of its list.
        distractors: (N,) booleans; a gallery item so marked has no label and is at level 0 to every query, whatever
            its row of ``gallery_paths`` says.
        block_size: queries whose scores are held at once, rounded up to whole matrix products; it changes no number.
        progress: show how many queries are done.

    Returns:
        The values of every metric and query, their means, and the convention card.

    Raises:
        ShapeError: arrays that do not fit together, or an empty gallery.
        EmbeddingError: NaN, infinite or zero-norm embeddings.
        PathError: ids that are not integers ≥ 0.
        OptionError: an unknown metric, an option outside its range, or a retrieval that the protocol does not make.

    Ramzi et al., *Optimization of Rank Losses for Image Retrieval*, TPAMI 2025, Sec. III–IV.

    >>> embeddings = [[1.0, 0.0], [0.9, 0.1], [0.6, 0.5], [0.0, 1.0]]
    >>> paths = [[0, 0], [0, 0], [0, 1], [1, 2]]  # kind, landmark
    >>> result = evaluate(embeddings, paths, metrics=["H-AP", "R@1", "AP[1]"])
    >>> result.summary().round(4).to_dict()
    {'H-AP': 1.0, 'R@1': 1.0, 'AP[1]': 1.0}
    >>> result.skipped  # the last item is alone in its kind, the last two in their landmark
    {'H-AP': 1, 'R@1': 2, 'AP[1]': 1}
    """
    named = None if protocol is None else protocol_of(protocol)
    rules = rules_of(compat, default=OURS if named is None else named.rules)
    if counts is not None:
        rules = replace(rules, counts=counts)
    if block_size is not None and block_size < 1:
        raise OptionError(f"block_size={block_size}", expected="at least 1")
    if named is not None:
        named.check(self_retrieval=gallery is None, with_ids=query_ids is not None)
    inputs = _checked(query, query_paths, gallery, gallery_paths, distractors)
    num_queries, num_items = len(inputs.query), None if gallery is None else len(inputs.gallery)
    mask = mask_of(num_queries, num_items, query_ids=query_ids, gallery_ids=gallery_ids, junk=junk, rules=rules)
    num_levels = inputs.query_paths.shape[1]
    if metrics is None and named is not None:
        metrics = named.names(num_levels)
    chosen = plan(metrics, num_levels=num_levels, alpha=alpha, relevance=relevance, ties=ties, rules=rules)
    values = _values(inputs, mask, chosen, block_size, progress)
    convention = _convention(inputs, mask, chosen, protocol)
    return Evaluation(chosen.names, values, range(num_queries), convention, inputs.query_paths)


def _checked(query: Any, query_paths: Any, gallery: Any, gallery_paths: Any, distractors: Any) -> Inputs:
    if (gallery is None) != (gallery_paths is None):
        missing = "gallery" if gallery is None else "gallery_paths"
        raise OptionError(f"{missing}=None", expected="gallery and gallery_paths together, or neither")
    queries = as_embeddings(query, name="query")
    paths = as_paths(query_paths, name="query_paths", num_items=len(queries))
    if gallery is None:
        if len(queries) == 1:
            raise ShapeError("one item", expected="at least two in self-retrieval, a query and a gallery")
        if distractors is not None:
            raise OptionError("distractors in self-retrieval", expected="a separate gallery: a query needs a label")
        return Inputs(queries, paths, queries, paths)
    items = as_embeddings(gallery, name="gallery")
    unlabelled = np.zeros(len(items), np.bool_) if distractors is None else as_distractors(distractors, len(items))
    item_paths = _gallery_paths(gallery_paths, unlabelled)
    if len(items) == 0:
        raise ShapeError("an empty gallery", expected="at least one item")
    if items.shape[1] != queries.shape[1] or item_paths.shape[1] != paths.shape[1]:
        raise ShapeError(
            f"a gallery of {items.shape[1]} dimensions and {item_paths.shape[1]} levels",
            expected=f"those of the queries, {queries.shape[1]} and {paths.shape[1]}",
        )
    dtype = np.result_type(queries, items)
    queries, items = queries.astype(dtype, copy=False), items.astype(dtype, copy=False)
    return Inputs(queries, paths, items, item_paths, num_distractors=int(unlabelled.sum()))


def _gallery_paths(gallery_paths: Any, unlabelled: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Check the paths of the labelled items; the others get −1, which no query has."""
    given = to_numpy(gallery_paths)
    if unlabelled.any() and given.shape[:1] == unlabelled.shape:
        given = np.where(unlabelled.reshape(-1, *(1,) * (given.ndim - 1)), 0, given)
    paths = as_paths(given, name="gallery_paths", num_items=len(unlabelled))
    return np.where(unlabelled[:, None], -1, paths) if unlabelled.any() else paths


def _values(inputs: Inputs, mask: Mask, chosen: Plan, block_size: int | None, progress: bool) -> NDArray[np.float64]:
    """(Q, M) values, block by block."""
    from hiertree.metrics._tree_order import tree_order

    tree = tree_order(inputs.query_paths, inputs.gallery_paths)
    totals = tree.totals() - mask.counts(inputs.query_paths, inputs.gallery_paths)
    counts = None
    if chosen.rules.counts == "official":
        counts = tree_order(inputs.query_paths, inputs.query_paths).totals()
    values = np.empty((len(inputs.query), len(chosen.metrics)))
    with show_progress(description="queries", total=len(values), enabled=progress) as advance:
        for rows, scores in _score_blocks(inputs, tree, block_size):
            _measure_block(scores, tree, rows, mask, totals, counts, chosen, values)
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
    mask: Mask,
    totals: NDArray[np.int64],
    counts: NDArray[np.int64] | None,
    chosen: Plan,
    values: NDArray[np.float64],
) -> None:
    from hiertree.metrics._ranked import sorted_keys
    from hiertree.metrics._tree_order import fill_levels

    def work(part: slice) -> None:
        queries = slice(rows.start + part.start, rows.start + part.stop)
        part_scores, part_totals = scores[part], totals[queries]
        levels = np.empty(part_scores.shape, np.uint8)
        fill_levels(tree.low[queries], tree.high[queries], levels)
        excluded = mask.excluded(queries, tree.place)
        if mask.place is not None:
            part_totals = drop_placed(mask.place, part_scores, levels, excluded, tree.order, part_totals)
        if chosen.ties == "index":  # equal scores in the order the user gave the gallery
            part_scores, levels, excluded = part_scores[:, tree.place], levels[:, tree.place], excluded[:, tree.place]
        keys = sorted_keys(part_scores, levels, excluded, ties=chosen.ties)
        values[queries] = measure(keys, part_totals, chosen, counts=None if counts is None else counts[queries])

    for_row_ranges(work, len(scores), row_bytes=(32 if chosen.ties != "index" else 64) * scores.shape[1])


def _normalise(embeddings: NDArray[Any]) -> None:
    """Give every row norm 1 in place; by its largest entry first, so that no square overflows or vanishes."""
    for start in range(0, len(embeddings), _PRODUCT_ROWS):
        part = embeddings[start : start + _PRODUCT_ROWS]
        part /= np.abs(part).max(axis=1, keepdims=True)
        part /= np.linalg.norm(part, axis=1, keepdims=True)


def _convention(inputs: Inputs, mask: Mask, chosen: Plan, protocol: str | None) -> Convention:
    unlabelled = f", {inputs.num_distractors} distractors at level 0" if inputs.num_distractors else ""
    return Convention(
        self_rule=mask.rule + unlabelled,
        scores=f"cosine similarity, {inputs.query.dtype}",
        num_levels=chosen.num_levels,
        relevance=chosen.relevance_name,
        counts=chosen.rules.counted,
        ties=chosen.ties,
        rules=chosen.rules,
        protocol=protocol,
    )
