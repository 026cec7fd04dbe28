"""Ranked lists from elsewhere with their levels: lists of gallery indices, or of names with judgments or paths."""

from __future__ import annotations

import logging
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, repeat
from numbers import Number
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hiertree.arrays import MAX_LEVELS, shared_paths, to_numpy, unmatched
from hiertree.errors import OptionError, PathError, ShapeError
from hiertree.evaluation_options import Rules
from hiertree.io.tables import is_frame
from hiertree.jit import Array, Floats, Ints
from hiertree.level_columns import UNKNOWN

from ..engine.retrieval import Retrieval, ScoredLists, values_of_lists
from ..ranking.gallery import drop_ranked, labeled_gallery
from ..result import Evaluation
from ..runs import as_qrels, as_run
from ..trec_reading import Triples, rows_of_names
from . import CheckedRetrievalOptions, Labels, checked_labels, checked_num_levels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..conventions import MetricRequest

_log = logging.getLogger(__name__)
_NUMERIC = {int, float, np.int64, np.float32, np.float64}
_LARGEST = 2.0**53  # beyond it float64 rounds integers


def evaluate_indices(run: Any, query_paths: Any, gallery_paths: Any, options: CheckedRetrievalOptions) -> Evaluation:
    """Every metric of lists of gallery indices, ranked by their order."""
    if is_frame(run) or isinstance(run, Mapping | str | os.PathLike):
        names = "pass the names of the labels' rows, such as query_names=labels.index"
        raise OptionError("a run of names with label paths", expected="query_names too", remedy=names)
    indices, scores = _hits(run) if _holds_hits(run) else (to_numpy(run, name="run"), None)
    if indices.ndim != 2 or indices.dtype.kind not in "iu":
        remedy = "pass the second part of what faiss returns" if indices.ndim == 3 and len(indices) == 2 else None
        problem = f"a run of shape {indices.shape} and type {indices.dtype}"
        raise ShapeError(problem, expected="(Q, K) gallery indices", remedy=remedy)
    if gallery_paths is not None and np.ndim(to_numpy(gallery_paths, name="gallery_paths")) == 0:
        gallery_paths = np.atleast_1d(to_numpy(gallery_paths))
    return _evaluate(indices.astype(np.int64, copy=False), scores, query_paths, gallery_paths, options)


def _holds_hits(run: Any) -> bool:
    """Whether a run is what ``semantic_search`` of sentence-transformers returns."""
    is_nested = isinstance(run, list) and all(isinstance(each, list) for each in run)
    first: Any = next(chain.from_iterable(run), None) if is_nested else None
    return isinstance(first, dict) and {"corpus_id", "score"} <= first.keys()


def _hits(run: list[list[Mapping[str, Any]]]) -> tuple[Ints, Floats]:
    """The indices and scores (Q, K) of such hits."""
    row = np.repeat(np.arange(len(run)), [*map(len, run)])
    hits = [*chain.from_iterable(run)]
    item = np.array([hit["corpus_id"] for hit in hits], np.int64)
    score = np.array([hit["score"] for hit in hits], np.float64)
    indices, scores = _padded(row, len(run), (item, -1), (score, 0.0))
    return indices, scores


def evaluate_named(
    run: Triples, paths: tuple[Any, Any], names: tuple[Any, Any], options: CheckedRetrievalOptions
) -> Evaluation:
    """Every metric of lists of names, where queries and gallery have labels and names.

    Without a gallery the queries are those of the run, and all are items.
    """
    (query_paths, gallery_paths), (query_names, gallery_names) = paths, names
    is_self = gallery_paths is None
    if is_self != (gallery_names is None):
        raise OptionError("only one of gallery_paths and gallery_names", expected="both or neither")
    labels = {"query_paths": query_paths} | ({} if is_self else {"gallery_paths": gallery_paths})
    policies: Any = {"drop_names": True, "uneven": options.uneven, "separator": options.separator}
    numbered, label_names = shared_paths(labels, may_lack_class=() if is_self else [*labels], **policies)
    queries, gallery = numbered["query_paths"], numbered.get("gallery_paths", numbered["query_paths"])
    row_of_query = _spelled_as(run.queries, rows_of_names(query_names, "query_names", len(queries)))
    row_of_item = rows_of_names(gallery_names, "gallery_names", len(gallery)) if not is_self else row_of_query
    row_of_item = _spelled_as(run.items, row_of_item)
    unlabeled_items = _unlabeled_items(run, row_of_query, row_of_item, refuse=options.rules.unjudged == "error")
    row_of_item = row_of_item | {name: row for row, name in enumerate(unlabeled_items, start=len(gallery))}
    result_queries = [*(run.queries if is_self else row_of_query)]
    query = _renumbered(run.query, run.queries, {name: row for row, name in enumerate(result_queries)})
    item = _renumbered(run.item, run.items, row_of_item)
    indices, scores = _padded(query, len(result_queries), (item, -1), (run.value, 0.0))
    rows = [row_of_query[name] for name in result_queries]
    if is_self:
        options = replace(options, query_ids=np.array(rows, np.int64), gallery_ids=np.arange(len(row_of_item)))
    gallery = np.concatenate([gallery, np.full((len(unlabeled_items), gallery.shape[1]), UNKNOWN)])
    result = _evaluate(indices, scores, queries[rows], gallery, options)
    card = replace(result.convention, level_names=label_names.level_names)
    return replace(result, query_ids=result_queries, convention=card, class_names=label_names.class_names)


def _spelled_as(names: Sequence[Hashable], row_of: dict[Hashable, int]) -> dict[Hashable, int]:
    """Rows by the names of a run, which may be texts where others are the same numbers, or the other way round."""
    if any(name in row_of for name in names):
        return row_of
    spelling = {str(name): name for name in names}
    return {spelling.get(str(name), name): row for name, row in row_of.items()}


def _unlabeled_items(
    run: Triples, row_of_query: Mapping[Hashable, int], row_of_item: Mapping[Hashable, int], *, refuse: bool
) -> list[Hashable]:
    """The items of a run without a label; refuses unlabeled queries, and unlabeled items on request."""
    strange = np.array([name not in row_of_query for name in run.queries], np.bool_)
    expected = "every query of the run among query_names"
    run.refuse(strange[run.query], "a query without a label", expected=expected, kind=PathError)
    unlabeled_items = [name for name in run.items if name not in row_of_item]
    if unlabeled_items and len(unlabeled_items) == len(run.items):
        problem = f"a run of items such as {unlabeled_items[0]!r}"
        raise OptionError(problem, expected=f"items that have labels, such as {next(iter(row_of_item))!r}")
    if refuse:
        strange = np.array([name not in row_of_item for name in run.items], np.bool_)
        run.refuse(strange[run.item], "an item without a label", expected="a label for every item", kind=PathError)
    return unlabeled_items


def _evaluate(
    indices: Ints, scores: Floats | None, query_paths: Any, gallery_paths: Any, options: CheckedRetrievalOptions
) -> Evaluation:
    num_queries, num_items = len(indices), None if gallery_paths is None else len(gallery_paths)
    labels = checked_labels(query_paths, gallery_paths, num_queries, num_items, options)
    _check_indices(indices, len(labels.gallery_paths), options.rules)
    request = options.request(num_queries=num_queries, num_levels=labels.query_paths.shape[1])
    values = _values_of_indices(indices, scores, labels, request)
    return labels.evaluation(request, values, ranked_by="ranked lists")


def _check_indices(indices: Ints, num_items: int, rules: Rules) -> None:
    """PathError, naming the row, for an index outside the gallery or, where it is an error, repeated in a list."""
    outside = np.flatnonzero(((indices < -1) | (indices >= num_items)).any(axis=1))
    if len(outside):
        raise PathError(f"row {outside[0]} of the run", expected=f"indices from 0 to {num_items - 1}, or −1 for none")
    if rules.repeats == "irrelevant":
        return
    sorted_indices = np.sort(indices, axis=1)
    repeating_rows = np.flatnonzero(
        ((sorted_indices[:, 1:] == sorted_indices[:, :-1]) & (sorted_indices[:, 1:] >= 0)).any(axis=1)
    )
    if len(repeating_rows):
        raise PathError(f"row {repeating_rows[0]} of the run lists an index twice", expected="each once")


def _values_of_indices(indices: Ints, scores: Floats | None, labels: Labels, request: MetricRequest) -> Floats:
    """(Q, M) values of lists (Q, K) of gallery indices, −1 past a list's end, ranked by scores (Q, K) or by order."""
    queries, items, mask = unmatched(labels.query_paths), labels.gallery_paths, labels.mask
    gallery = labeled_gallery(labels.query_paths, items, mask, request.rules)
    agree, levels = np.ones(indices.shape, np.bool_), np.zeros(indices.shape, np.uint8)
    for column in range(items.shape[1]):
        agree &= items[indices, column] == queries[:, None, column]
        levels += agree
    if gallery.depths is not None:
        levels[levels != gallery.depths[indices]] = 0
    if request.rules.repeats == "irrelevant":
        levels[_repeated(indices)] = 0
    rows, masked = mask.pairs(slice(0, len(queries)))
    row_offsets = np.arange(len(queries))[:, None] * len(items)
    excluded = (indices < 0) | np.isin(row_offsets + indices, rows * len(items) + masked)
    ranks = np.arange(indices.shape[1])
    if scores is None:
        scores = np.broadcast_to(-ranks.astype(np.float64), indices.shape)
    lists = ScoredLists(scores, levels, excluded)
    totals = drop_ranked(mask.dropped, *lists, ranks, gallery.totals)
    _say_if_cut(request, lists, totals, num_items=len(items))
    return values_of_lists(Retrieval(lists, request, totals, gallery.counts, num_ranks=len(ranks)))


def _say_if_cut(request: MetricRequest, lists: ScoredLists, totals: Ints, *, num_items: int | None) -> None:
    """Say in one line which metrics lack positives that lists cut short leave out; ``num_items`` where it is known."""
    length = lists.scores.shape[1]
    num_listed = ((lists.levels > 0) & ~lists.excluded).sum(axis=1)
    is_cut = (num_listed < totals[:, 1:].sum(axis=1)) & (lists.excluded.sum(axis=1) < length)
    names = [metric.name for metric in request.metrics if metric.cutoff is None or metric.cutoff > length]
    if is_cut.any() and names and (num_items is None or length < num_items - 1):
        of_items = "" if num_items is None else f" of {num_items} items"
        text = "lists hold at most %d%s; unlisted positives of %d queries count as never found, which bounds %s"
        _log.warning(text, length, of_items, is_cut.sum(), ", ".join(names))


def _repeated(indices: Ints) -> NDArray[np.bool_]:
    """(Q, K) True where an index stands again in a list."""
    order = np.argsort(indices, axis=1, kind="stable")
    sorted_indices = np.take_along_axis(indices, order, axis=1)
    is_repeat = np.zeros(indices.shape, np.bool_)
    np.put_along_axis(is_repeat, order[:, 1:], sorted_indices[:, 1:] == sorted_indices[:, :-1], axis=1)
    return is_repeat


class _Matched(NamedTuple):
    """T listed items and J judgments, in the order of their queries."""

    queries: Sequence[Hashable]  # the judged ones first
    num_judged: int  # of these queries
    row: Ints  # (T,) that of each item's query
    value: Floats  # (T,) scores, larger being better
    level: Ints  # (T,) −1 without judgment
    judged_row: Ints  # (J,)
    judged_level: Ints  # (J,)
    sources: tuple[str, str]  # the forms of the run and the judgments, for the convention card


def evaluate_judged(
    run: Any, qrels: Any, options: CheckedRetrievalOptions, *, num_levels: int | None, higher_is_better: bool
) -> Evaluation:
    """Every metric of a run by its judgments, each in any form; judged queries come first."""
    rules, matched = options.rules, _match_mappings(run, qrels) if higher_is_better else None
    refuse = rules.unjudged == "error"
    if matched is None or (refuse and (matched.level < 0).any()):
        run_triples = as_run(run, higher_is_better=higher_is_better, repeats=rules.repeats)
        matched = _match_names(run_triples, as_qrels(qrels, negative=rules.negative), refuse=refuse)
    names, row, level = matched.queries, matched.row, matched.level
    unjudged_note = f"{int((level < 0).sum())} listed items without judgment at level 0"
    if refuse:
        unjudged_note = "every listed item has a judgment"
    depth = checked_num_levels(num_levels, deepest=int(matched.judged_level.max(initial=0)))
    request = options.replace_rules(counts="strict", itself="masked").request(num_queries=len(names), num_levels=depth)
    cells = matched.judged_row * (depth + 1) + matched.judged_level
    totals = np.bincount(cells, minlength=len(names) * (depth + 1)).reshape(len(names), depth + 1)
    columns = (matched.value, 0.0), (level.clip(min=0).astype(np.uint8), 0), (np.zeros(len(row), np.bool_), True)
    lists = ScoredLists(*_padded(row, len(names), *columns))
    _say_if_cut(request, lists, totals, num_items=None)
    values = values_of_lists(Retrieval(lists, request, totals, None, num_ranks=lists.scores.shape[1]))
    values[matched.num_judged :] = np.nan  # independent of the rules for queries without positives
    counts = f"strict: as judged by {matched.sources[1]}; {unjudged_note}"
    card = request.convention(
        self_rule="every item as listed", ranked_by="ranked lists", details=matched.sources[0], counts=counts
    )
    return Evaluation(request.names, values, names, card)


def _match_mappings(run: Any, qrels: Any) -> _Matched | None:
    """Match dictionaries of dictionaries of text, by far the most common, without numbering the items' names.

    None for other forms, and for invalid input.
    """
    if not all(type(lists) is dict and set(map(type, lists.values())) <= {dict} for lists in (run, qrels)):
        return None
    names = chain(run, qrels, *(chain.from_iterable(lists.values()) for lists in (run, qrels)))
    if set(map(type, names)) != {str}:
        return None
    queries = [*qrels, *(name for name in run if name not in qrels)]
    lists, judgments = [run.get(name, {}) for name in queries], [qrels.get(name, {}) for name in queries]
    value, grades = _cells(lists), _cells(judgments)
    if value is None or grades is None or np.isnan(value).any():
        return None
    judged_level = grades.astype(np.int64)
    if (judged_level != grades).any() or not 0 <= judged_level.min() <= judged_level.max() <= MAX_LEVELS:
        return None
    item_levels = (map(levels.get, items, repeat(-1)) for levels, items in zip(judgments, lists, strict=True))
    level = np.fromiter(chain.from_iterable(item_levels), np.int64, len(value))
    row, judged_row = (np.repeat(np.arange(len(queries)), [*map(len, items)]) for items in (lists, judgments))
    if row[0] >= len(qrels):  # no query is shared
        return None
    return _Matched(queries, len(qrels), row, value, level, judged_row, judged_level, ("mapping", "mapping"))


def _cells(lists: Iterable[Mapping[str, Any]]) -> Floats | None:
    """The numbers of all lists in turn; None if there are none, or some that float64 may not hold."""
    cells = [*chain.from_iterable(items.values() for items in lists)]
    if not cells or set(map(type, cells)) - _NUMERIC:
        return None
    try:
        values = np.array(cells, np.float64)
    except OverflowError:
        return None
    return None if np.abs(values[np.isfinite(values)]).max(initial=0) >= _LARGEST else values


def _match_names(run: Triples, qrels: Triples, *, refuse: bool) -> _Matched:
    """The level of each listed item, by the number of its name; refuses unjudged items on request."""
    _check_same_names(run, qrels)
    names = [*dict.fromkeys([*qrels.queries, *run.queries])]
    row = _renumbered(run.query, run.queries, {name: index for index, name in enumerate(names)})
    level = _levels_of_listed(run, qrels, row)
    if refuse:
        run.refuse(level < 0, "no judgment", expected="a level for every item", kind=PathError)
    levels, sources = qrels.value.astype(np.int64), (run.source, qrels.source)
    return _Matched(names, len(qrels.queries), row, run.value, level, qrels.query, levels, sources)


def _check_same_names(run: Triples, qrels: Triples) -> None:
    """Refuse a run and judgments without a common query, or with items of different types: 7 never equals '7'."""
    if not set(run.queries) & set(qrels.queries):
        examples = " and ".join(map(_example, (run.queries, qrels.queries)))
        problem = f"run ({run.source}) and qrels ({qrels.source}) without a shared query: {examples}"
        raise OptionError(problem, expected="the same query names in both")
    kinds = [
        {next((kind for kind in (str, Number) if isinstance(name, kind)), type(name)) for name in names}
        for names in (run.items, qrels.items)
    ]
    if kinds[0] and kinds[1] and not kinds[0] & kinds[1]:
        problem = f"a run of items {_example(run.items)}"
        raise OptionError(problem, expected=f"names of the type of the judged items, {_example(qrels.items)}")


def _example(names: Sequence[Hashable]) -> str:
    return f"such as {names[0]!r}" if len(names) else "none"


def _renumbered(codes: Ints, names: Sequence[Hashable], codes_of_names: Mapping[Hashable, int]) -> Ints:
    """The new number of each name; −1 for a name without one."""
    return np.array([codes_of_names.get(name, -1) for name in names], np.int64)[codes]


def _padded(row: Ints, num_rows: int, *columns: tuple[Array, Any]) -> list[Array]:
    """Each column of triples as (Q, K), in the order of each row, with ``fill`` past a list's end."""
    lengths, order = np.bincount(row, minlength=num_rows), None
    if (row[1:] < row[:-1]).any():
        order = np.argsort(row, kind="stable")
        row = row[order]
    column = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    padded = []
    for values, fill in columns:
        cells = np.full((num_rows, int(lengths.max(initial=0))), fill, values.dtype)
        cells[row, column] = values if order is None else values[order]
        padded.append(cells)
    return padded


def _levels_of_listed(run: Triples, qrels: Triples, row: Ints) -> Ints:
    """The level of each item of a run, −1 without a judgment; ``row`` is the place of each query in the judgments."""
    import pandas as pd

    item = _renumbered(run.item, run.items, {name: index for index, name in enumerate(qrels.items)})
    pair_codes = np.where(item < 0, -1, row * max(len(qrels.items), 1) + item)
    judgment = qrels.pairs().get_indexer(pd.Index(pair_codes))
    return np.append(qrels.value, -1)[judgment].astype(np.int64)  # −1 reads the appended −1
