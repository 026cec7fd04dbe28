"""Evaluation of ranked lists made elsewhere: indices from a search library, or a run and its judgements."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from hiertree.arrays import MAX_LEVELS, as_paths, to_numpy
from hiertree.errors import EmbeddingError, OptionError, PathError, ShapeError
from hiertree.metrics._blocks import for_row_ranges
from hiertree.metrics._convention import Convention
from hiertree.metrics._measure import Relevance, measure, plan
from hiertree.metrics._result import Evaluation
from hiertree.metrics._scores import checked_num_levels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.metrics._ranked import Ties

Run: TypeAlias = "Mapping[Hashable, Sequence[Hashable] | Mapping[Hashable, float]]"
Judgements: TypeAlias = "Mapping[Hashable, Mapping[Hashable, int]]"


class RankedLists(NamedTuple):
    """Ranked lists with their levels, padded to one length.

    Attributes:
        scores: (Q, K) float64, falling along each list; equal where the list leaves the order open.
        levels: (Q, K) uint8.
        excluded: (Q, K), True for padding and for what the self rule drops.
        totals: (Q, L+1) items of each level that exist, listed or not; level 0 counts only what is known.
        query_ids: Q ids.
        self_rule: for the convention card.
    """

    scores: NDArray[np.float64]
    levels: NDArray[np.uint8]
    excluded: NDArray[np.bool_]
    totals: NDArray[np.int64]
    query_ids: Sequence[Any]
    self_rule: str


def evaluate_ranking(
    run: Any,
    qrels: Judgements | None = None,
    *,
    query_paths: Any = None,
    gallery_paths: Any = None,
    num_levels: int | None = None,
    metrics: Iterable[str] | None = None,
    alpha: float = 1.0,
    relevance: Relevance | None = None,
    ties: Ties = "average",
) -> Evaluation:
    """Every metric of ranked lists, which may be cut short: positives that are not listed count as never found.

    Either *indices*: ``run`` is (Q, K) gallery indices, best first, −1 where a list ends early (as faiss returns them),
    with ``query_paths`` and, unless the queries retrieve each other, ``gallery_paths``. In self-retrieval query i is
    gallery item i; it is dropped from its own list, wherever it stands, and from the counts.

    Or *names*: ``run`` maps each query to its items, a list (best first) or a mapping item → score, and ``qrels`` maps
    each query to the levels of its items. An item without a judgement is at level 0. A judged query that the run lacks
    has an empty list; a query of the run that has no judgements has no positives and is skipped.

    Args:
        run: the lists.
        qrels: levels 0 … L by query and item, for named lists.
        query_paths: (Q, L) label ids, for lists of indices.
        gallery_paths: (N, L) label ids.
        num_levels: L, for named lists; the largest level of ``qrels`` unless given.
        metrics: names; the default ones unless given.
        alpha: of the relevance of ``H-AP``.
        relevance: another one: counts (Q, L+1) → table (Q, L+1). Level 0 counts only what is judged.
        ties: the policy for equal scores in a mapping item → score; lists have no ties.

    Raises:
        OptionError: neither or both of ``qrels`` and ``query_paths``, an unknown metric or option, or no shared query.
        ShapeError: indices that are not (Q, K), or of another number of queries.
        PathError: an index outside the gallery, an item listed twice, or a level that is no integer ≥ 0.
        EmbeddingError: a score is NaN.

    >>> import numpy as np
    >>> paths = np.array([[0, 0], [0, 0], [0, 1], [1, 2]])
    >>> run = [[0, 1, 2], [3, 0, -1]]
    >>> result = evaluate_ranking(run, query_paths=paths[:2], gallery_paths=paths, metrics=["AP[1]"])
    >>> result.per_query()["AP[1]"].round(4).tolist()
    [1.0, 0.1667]
    >>> run = {"q": {"a": 0.9, "b": 0.4}}
    >>> evaluate_ranking(run, {"q": {"b": 2, "c": 1}}, metrics=["AP[1]", "R@1", "H-AP"]).summary().round(4).to_dict()
    {'AP[1]': 0.25, 'R@1': 0.0, 'H-AP': 0.3333}
    """
    if (qrels is None) == (query_paths is None) or (qrels is not None and gallery_paths is not None):
        raise OptionError("both or neither of qrels and paths", expected="qrels for named items, paths for indices")
    if qrels is None:
        if num_levels is not None:
            raise OptionError(f"num_levels={num_levels} beside paths", expected="it only beside qrels")
        lists = _from_indices(run, query_paths, gallery_paths)
    else:
        lists = _from_names(run, qrels, num_levels)
    chosen = plan(metrics, num_levels=lists.totals.shape[1] - 1, alpha=alpha, relevance=relevance, ties=ties)
    values = np.empty((len(lists.totals), len(chosen.metrics)))

    def work(rows: slice) -> None:
        from hiertree.metrics._ranked import sorted_keys

        keys = sorted_keys(lists.scores[rows], lists.levels[rows], lists.excluded[rows], ties=ties)
        values[rows] = measure(keys, lists.totals[rows], chosen)

    for_row_ranges(work, len(values), row_bytes=40 * max(lists.scores.shape[1], 1))
    convention = Convention(
        self_rule=lists.self_rule,
        scores="ranked lists; unlisted positives count as never found",
        num_levels=chosen.num_levels,
        relevance=chosen.relevance_name,
        counts="strict: the gallery without the query" if qrels is None else "strict: as judged, unjudged at level 0",
        ties=ties,
    )
    return Evaluation(chosen.names, values, lists.query_ids, convention)


def _from_indices(run: Any, query_paths: Any, gallery_paths: Any) -> RankedLists:
    from hiertree.metrics._tree_order import tree_order

    indices = to_numpy(run)
    if indices.ndim != 2 or indices.dtype.kind not in "iu":
        raise ShapeError(f"a run of shape {indices.shape} and type {indices.dtype}", expected="(Q, K) gallery indices")
    indices = indices.astype(np.int64, copy=False)
    queries = as_paths(query_paths, name="query_paths", num_items=len(indices))
    items = queries if gallery_paths is None else as_paths(gallery_paths, name="gallery_paths")
    if items.shape[1] != queries.shape[1]:
        raise ShapeError(f"gallery_paths of {items.shape[1]} levels", expected=f"the queries' {queries.shape[1]}")
    _refuse_bad_indices(indices, len(items))
    agree = np.ones(indices.shape, np.bool_)
    levels = np.zeros(indices.shape, np.uint8)
    for column in range(items.shape[1]):
        agree &= items[indices, column] == queries[:, None, column]
        levels += agree
    totals = tree_order(queries, items).totals()
    excluded = indices < 0
    if gallery_paths is None:
        excluded |= indices == np.arange(len(indices))[:, None]
        totals[:, -1] -= 1
    scores = np.broadcast_to(-np.arange(indices.shape[1], dtype=np.float64), indices.shape)
    self_rule = "separate gallery, nothing dropped"
    if gallery_paths is None:
        self_rule = "self-retrieval, each query dropped from its own list by index"
    return RankedLists(scores, levels, excluded, totals, range(len(indices)), self_rule)


def _refuse_bad_indices(indices: NDArray[np.int64], num_items: int) -> None:
    outside = np.flatnonzero(((indices < -1) | (indices >= num_items)).any(axis=1))
    if len(outside):
        raise PathError(f"row {outside[0]} of the run", expected=f"indices from 0 to {num_items - 1}, or −1 for none")
    ordered = np.sort(indices, axis=1)
    twice = np.flatnonzero(((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(axis=1))
    if len(twice):
        raise PathError(f"row {twice[0]} of the run", expected="no index twice")


def _from_names(run: Any, qrels: Any, num_levels: int | None) -> RankedLists:
    if not isinstance(run, Mapping) or not isinstance(qrels, Mapping):
        raise OptionError(f"a run of {type(run).__name__}", expected="mappings from query to items, for run and qrels")
    if not run.keys() & qrels.keys():
        raise OptionError("run and qrels without a shared query", expected="the same query names in both")
    query_ids = [*qrels, *(query for query in run if query not in qrels)]
    depth = checked_num_levels(num_levels, deepest=_deepest(qrels))
    lists = [_scored(query, run.get(query, ())) for query in query_ids]
    shape = (len(lists), max(map(len, lists)))
    scores, levels = np.zeros(shape), np.zeros(shape, np.uint8)
    excluded, totals = np.ones(shape, np.bool_), np.zeros((len(lists), depth + 1), np.int64)
    for row, (query, scored) in enumerate(zip(query_ids, lists, strict=True)):
        judged = qrels.get(query, {})
        scores[row, : len(scored)] = list(scored.values())
        levels[row, : len(scored)] = [judged.get(item, 0) for item in scored]
        excluded[row, : len(scored)] = False
        np.add.at(totals[row], list(judged.values()), 1)
    if np.isnan(scores).any():
        bad = query_ids[int(np.flatnonzero(np.isnan(scores).any(axis=1))[0])]
        raise EmbeddingError(f"scores of query {bad!r} hold NaN", expected="numbers or ±inf")
    return RankedLists(scores, levels, excluded, totals, query_ids, "ranked lists, every item as given")


def _scored(query: Hashable, items: Sequence[Hashable] | Mapping[Hashable, float]) -> Mapping[Hashable, float]:
    """The items of one query with scores; those of a list fall by one a place."""
    if isinstance(items, Mapping):
        return items
    scored = {item: -float(place) for place, item in enumerate(items)}
    if len(scored) < len(items):
        raise PathError(f"the list of query {query!r}", expected="no item twice")
    return scored


def _deepest(qrels: Any) -> int:
    """The deepest judgement, once every one is known to be a level."""
    deepest = 0
    for query, judged in qrels.items():
        for item, level in judged.items():
            if not isinstance(level, (int, np.integer)) or not 0 <= level <= MAX_LEVELS:
                raise PathError(f"level {level!r} of item {item!r}, query {query!r}", expected="an integer ≥ 0")
            deepest = max(deepest, int(level))
    return deepest
