"""Evaluation of ranked lists made elsewhere: indices from a search library, or a run and its judgements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from hiertree.arrays import as_paths, to_numpy
from hiertree.errors import OptionError, PathError, ShapeError
from hiertree.metrics._blocks import for_row_ranges
from hiertree.metrics._convention import Convention
from hiertree.metrics._measure import Relevance, measure, plan
from hiertree.metrics._result import Evaluation
from hiertree.metrics._scores import checked_num_levels
from hiertree.metrics._sources import as_qrels, as_run
from hiertree.metrics._triples import Triples

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.metrics._ranked import Ties


class RankedLists(NamedTuple):
    r"""Ranked lists with their levels, padded to one length.

    Attributes:
        scores: (Q, K) float64, falling along each list; equal where the list leaves the order open.
        levels: (Q, K) uint8.
        excluded: (Q, K), True for padding and for what the self rule drops.
        totals: (Q, L+1) items of each level that exist, listed or not; level 0 counts only what is known.
        query_ids: Q ids.
        self_rule: for the convention card, as are
        source: what was ranked by, and
        counts: what \|Ω^(l)\| counts.
    """

    scores: NDArray[np.float64]
    levels: NDArray[np.uint8]
    excluded: NDArray[np.bool_]
    totals: NDArray[np.int64]
    query_ids: Sequence[Any]
    self_rule: str
    source: str = "ranked lists"
    counts: str = "strict: the gallery without the query"


def evaluate_ranking(
    run: Any,
    qrels: Any = None,
    *,
    query_paths: Any = None,
    gallery_paths: Any = None,
    num_levels: int | None = None,
    unjudged: Literal["irrelevant", "error"] = "irrelevant",
    metrics: Iterable[str] | None = None,
    alpha: float = 1.0,
    relevance: Relevance | None = None,
    ties: Ties = "average",
) -> Evaluation:
    """Every metric of ranked lists, which may be cut short: positives that are not listed count as never found.

    Either *indices*: ``run`` is (Q, K) gallery indices, best first, −1 where a list ends early (as faiss returns them),
    with ``query_paths`` and, unless the queries retrieve each other, ``gallery_paths``. In self-retrieval query i is
    gallery item i; it is dropped from its own list, wherever it stands, and from the counts.

    Or *names*: ``run`` lists the items of each query and ``qrels`` judges them, graded judgements being levels. Each is
    the path of a TREC file, or a pandas frame (columns query, doc and score or rank; query, doc and level; also under
    the names of TREC tools), or a ranx Run and Qrels, or a mapping: query → items (best first), query → item → score,
    query → item → level. Scores rank, also where there are ranks beside them; they are compared as float64 (trec_eval,
    pytrec_eval and ir_measures compare float32). A judged query that the run lacks has an empty list; a query of the
    run that has no judgements has no positives and is skipped.

    Args:
        run: the lists.
        qrels: levels 0 … L by query and item, for named lists.
        query_paths: (Q, L) label ids, for lists of indices.
        gallery_paths: (N, L) label ids.
        unjudged: what a listed item without judgement is, for named lists: ``"irrelevant"``, of level 0, or an
            ``"error"``; the convention card says which, and how many there were.
        num_levels: L, for named lists; the largest level of ``qrels`` unless given.
        metrics: names; the default ones unless given.
        alpha: of the relevance of ``H-AP``.
        relevance: another one: counts (Q, L+1) → table (Q, L+1). Level 0 counts only what is judged.
        ties: the policy for equal scores, or ranks; lists have no ties. ``"index"`` keeps the order of the run.

    Raises:
        OptionError: neither or both of ``qrels`` and ``query_paths``, an unknown metric or option, or no shared query.
        ShapeError: indices that are not (Q, K), or of another number of queries.
        PathError: an index outside the gallery, an item listed or judged twice, a level that is no integer from 0 to
            255, or an item without judgement under ``unjudged="error"``.
        EmbeddingError: a score is NaN.
        TableError: a broken line of a TREC file; the message names file and line.

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
    if unjudged not in ("irrelevant", "error"):
        raise OptionError(f"unjudged={unjudged!r}", expected="'irrelevant' or 'error'")
    if qrels is None:
        if num_levels is not None or unjudged == "error":
            raise OptionError("num_levels= or unjudged='error' beside paths", expected="them only beside qrels")
        lists = _from_indices(run, query_paths, gallery_paths)
    else:
        lists = _from_names(run, qrels, num_levels, unjudged)
    chosen = plan(metrics, num_levels=lists.totals.shape[1] - 1, alpha=alpha, relevance=relevance, ties=ties)
    values = np.empty((len(lists.totals), len(chosen.metrics)))

    def work(rows: slice) -> None:
        from hiertree.metrics._ranked import placed_matrix

        placed = placed_matrix(lists.scores[rows], lists.levels[rows], lists.excluded[rows], ties=ties)
        values[rows] = measure(placed, lists.totals[rows], chosen)

    for_row_ranges(work, len(values), row_bytes=40 * max(lists.scores.shape[1], 1))
    convention = Convention(
        self_rule=lists.self_rule,
        scores=f"{lists.source}; unlisted positives count as never found",
        num_levels=chosen.num_levels,
        relevance=chosen.relevance_name,
        counts=lists.counts,
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


def _from_names(run: Any, qrels: Any, num_levels: int | None, unjudged: str) -> RankedLists:
    listed, judged = as_run(run), as_qrels(qrels)
    rows = {name: row for row, name in enumerate(judged.queries)}
    if not any(name in rows for name in listed.queries):
        raise OptionError("run and qrels without a shared query", expected="the same query names in both")
    for name in listed.queries:
        rows.setdefault(name, len(rows))
    row = np.array([rows[name] for name in listed.queries], np.int64)[listed.query]
    level = _levels_of_listed(listed, judged, row)
    if unjudged == "error":
        advice = "pass unjudged='irrelevant' to count such items at level 0"
        listed.refuse(level < 0, "no judgement", expected="a level for every item", kind=PathError, remedy=advice)
    depth = checked_num_levels(num_levels, deepest=int(judged.value.max(initial=0)))
    order = np.argsort(row, kind="stable")
    lengths = np.bincount(row, minlength=len(rows))
    row, place = row[order], np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    shape = (len(rows), int(lengths.max(initial=0)))
    scores, levels, excluded = np.zeros(shape), np.zeros(shape, np.uint8), np.ones(shape, np.bool_)
    scores[row, place], levels[row, place], excluded[row, place] = listed.value[order], level[order].clip(min=0), False
    cells = judged.query * (depth + 1) + judged.value.astype(np.int64)
    totals = np.bincount(cells, minlength=len(rows) * (depth + 1)).reshape(len(rows), depth + 1)
    counts = f"strict: as judged by {judged.source}; "
    counts += f"{int((level < 0).sum())} listed items without judgement at level 0" if unjudged == "irrelevant" else ""
    counts += "every listed item has a judgement" if unjudged == "error" else ""
    return RankedLists(scores, levels, excluded, totals, [*rows], "every item as listed", listed.source, counts)


def _levels_of_listed(listed: Triples, judged: Triples, row: NDArray[np.int64]) -> NDArray[np.int64]:
    """The level of each row of a run, −1 without a judgement; ``row`` numbers its queries as the judgements do."""
    numbers = {name: number for number, name in enumerate(judged.items)}
    item = np.array([numbers.get(name, -1) for name in listed.items], np.int64)[listed.item]
    known = (item >= 0) & (row < len(judged.queries))
    order = np.argsort(judged.pairs())
    pairs = judged.pairs()[order]
    wanted = row * max(len(judged.items), 1) + item
    place = np.searchsorted(pairs, wanted).clip(max=max(len(pairs) - 1, 0))
    if len(pairs):
        known &= pairs[place] == wanted
    level = np.full(len(row), -1, np.int64)
    level[known] = judged.value[order][place[known]].astype(np.int64)
    return level
