"""Ranked lists from elsewhere with their levels: lists of gallery indices, or of names with judgments or paths."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.arrays import shared_paths, to_numpy
from hiertree.errors import OptionError, PathError, ShapeError
from hiertree.io.tables import is_frame
from hiertree.jit import Array, Floats, Ints

from ..engine.retrieval import Retrieval, ScoredLists, values_of_lists
from ..matching import Matched, match
from ..ranking.gallery import drop_ranked, labeled_gallery
from ..result import Evaluation
from ..runs import as_qrels, as_run
from ..trec_reading import NegativeQrels, Repeats, Triples, rows_of_names
from .inputs import CheckedRetrievalOptions, Labels, checked_labels, checked_num_levels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..request import MetricRequest


def evaluate_indices(run: Any, query_paths: Any, gallery_paths: Any, asked: CheckedRetrievalOptions) -> Evaluation:
    """Every metric of lists of gallery indices, ranked by their order."""
    if is_frame(run) or isinstance(run, Mapping | str | os.PathLike):
        names = "pass the names of the labels' rows, such as query_names=labels.index"
        raise OptionError("a run of names with label paths alone", expected="query_names too", remedy=names)
    indices = to_numpy(run, name="run")
    if indices.ndim != 2 or indices.dtype.kind not in "iu":
        remedy = "pass the second part of what faiss returns" if indices.ndim == 3 and len(indices) == 2 else None
        problem = f"a run of shape {indices.shape} and type {indices.dtype}"
        raise ShapeError(problem, expected="(Q, K) gallery indices", remedy=remedy)
    if gallery_paths is not None and np.ndim(to_numpy(gallery_paths, name="gallery_paths")) == 0:
        gallery_paths = np.atleast_1d(to_numpy(gallery_paths))
    return _evaluate(indices.astype(np.int64, copy=False), None, query_paths, gallery_paths, asked)


def evaluate_named(
    listed: Triples, paths: tuple[Any, Any], names: tuple[Any, Any], asked: CheckedRetrievalOptions, *, unjudged: str
) -> Evaluation:
    """Every metric of lists of names, where queries and gallery have labels and names.

    Without a gallery the queries are those of the run, and all are items.
    """
    (query_paths, gallery_paths), (query_names, gallery_names) = paths, names
    is_self = gallery_paths is None
    if is_self != (gallery_names is None):
        raise OptionError("gallery_paths or gallery_names alone", expected="both or neither")
    sides = {"query_paths": query_paths} | ({} if is_self else {"gallery_paths": gallery_paths})
    numbered, label_names = shared_paths(sides)
    queries, gallery = numbered["query_paths"], numbered.get("gallery_paths", numbered["query_paths"])
    row_of_query = rows_of_names(query_names, "query_names", len(queries))
    row_of_item = row_of_query if is_self else rows_of_names(gallery_names, "gallery_names", len(gallery))
    unknown = _unlabeled_items(listed, row_of_query, row_of_item, refuse=unjudged == "error")
    row_of_item = row_of_item | {name: len(gallery) + number for number, name in enumerate(unknown)}
    chosen = [*(listed.queries if is_self else row_of_query)]
    query = _renumbered(listed.query, listed.queries, {name: number for number, name in enumerate(chosen)})
    item = _renumbered(listed.item, listed.items, row_of_item)
    indices, scores = _padded(query, len(chosen), (item, -1), (listed.value, 0.0))
    rows, places = [row_of_query[name] for name in chosen], np.arange(len(row_of_item))
    if is_self:
        asked = replace(asked, query_ids=np.array(rows, np.int64), gallery_ids=places)
    if unknown:
        asked = replace(asked, distractors=places >= len(gallery))
    gallery = np.concatenate([gallery, np.zeros((len(unknown), gallery.shape[1]), np.int64)])
    result = _evaluate(indices, scores, queries[rows], gallery, asked)
    card = replace(result.convention, level_names=label_names.level_names)
    return replace(result, query_ids=chosen, convention=card, class_names=label_names.class_names)


def _unlabeled_items(
    listed: Triples, row_of_query: Mapping[Hashable, int], row_of_item: Mapping[Hashable, int], *, refuse: bool
) -> list[Hashable]:
    """The items of a run without a label; refuses unlabeled queries, and unlabeled items on request."""
    strange = np.array([name not in row_of_query for name in listed.queries], np.bool_)
    expected = "every query of the run among query_names"
    listed.refuse(strange[listed.query], "a query without a label", expected=expected, kind=PathError)
    unknown = [name for name in listed.items if name not in row_of_item]
    if unknown and len(unknown) == len(listed.items):
        problem = f"a run of items such as {unknown[0]!r}"
        raise OptionError(problem, expected=f"items that have labels, such as {next(iter(row_of_item))!r}")
    if refuse:
        strange = np.array([name not in row_of_item for name in listed.items], np.bool_)
        advice = "pass unjudged='irrelevant' to count such items at level 0"
        expected = "a label for every item"
        listed.refuse(strange[listed.item], "an item without a label", expected=expected, kind=PathError, remedy=advice)
    return unknown


def _evaluate(
    indices: Ints, scores: Floats | None, query_paths: Any, gallery_paths: Any, asked: CheckedRetrievalOptions
) -> Evaluation:
    num_queries, num_items = len(indices), None if gallery_paths is None else len(gallery_paths)
    labels = checked_labels(query_paths, gallery_paths, num_queries, num_items, asked)
    _check_indices(indices, len(labels.gallery_paths), repeats=asked.rules.repeats)
    request = asked.request(num_queries=num_queries, num_levels=labels.query_paths.shape[1])
    values = values_of_indices(indices, labels, request, scores=scores)
    return labels.evaluation(request, values, scores="ranked lists; unlisted positives count as never found")


def _check_indices(indices: Ints, num_items: int, *, repeats: Repeats) -> None:
    """PathError, naming the row, for an index outside the gallery or, where it is an error, repeated in a list."""
    outside = np.flatnonzero(((indices < -1) | (indices >= num_items)).any(axis=1))
    if len(outside):
        raise PathError(f"row {outside[0]} of the run", expected=f"indices from 0 to {num_items - 1}, or −1 for none")
    if repeats == "irrelevant":
        return
    ordered = np.sort(indices, axis=1)
    twice = np.flatnonzero(((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(axis=1))
    if len(twice):
        raise PathError(f"row {twice[0]} of the run", expected="no index twice")


def values_of_indices(indices: Ints, labels: Labels, request: MetricRequest, *, scores: Array | None = None) -> Floats:
    """(Q, M) values of lists (Q, K) of gallery indices, −1 past a list's end, ranked by scores (Q, K) or by order."""
    queries, items, mask = labels.query_paths, labels.gallery_paths, labels.mask
    gallery = labeled_gallery(queries, items, mask, request.rules)
    agree, levels = np.ones(indices.shape, np.bool_), np.zeros(indices.shape, np.uint8)
    for column in range(items.shape[1]):
        agree &= items[indices, column] == queries[:, None, column]
        levels += agree
    if request.rules.repeats == "irrelevant":
        levels[_repeated(indices)] = 0
    rows, masked = mask.pairs(slice(0, len(queries)))
    firsts = np.arange(len(queries))[:, None] * len(items)
    excluded = (indices < 0) | np.isin(firsts + indices, rows * len(items) + masked)
    places = np.arange(indices.shape[1])
    if scores is None:
        scores = np.broadcast_to(-places.astype(np.float64), indices.shape)
    lists = ScoredLists(scores, levels, excluded)
    totals = drop_ranked(mask.place, *lists, places, gallery.totals)
    return values_of_lists(Retrieval(lists, request, totals, gallery.counts, num_ranks=len(places)))


def _repeated(indices: Ints) -> NDArray[np.bool_]:
    """(Q, K) True where an index stands again in a list."""
    order = np.argsort(indices, axis=1, kind="stable")
    ordered = np.take_along_axis(indices, order, axis=1)
    again = np.zeros(indices.shape, np.bool_)
    np.put_along_axis(again, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
    return again


def evaluate_judged(
    run: Any,
    qrels: Any,
    asked: CheckedRetrievalOptions,
    *,
    num_levels: int | None,
    unjudged: str,
    negative: NegativeQrels,
    higher_is_better: bool,
) -> Evaluation:
    """Every metric of a run by its judgments, each in any form; judged queries come first."""
    matched = match(run, qrels) if higher_is_better else None
    if matched is None or (unjudged == "error" and (matched.level < 0).any()):
        listed = as_run(run, higher_is_better=higher_is_better, repeats=asked.rules.repeats)
        matched = _match_names(listed, as_qrels(qrels, negative=negative), refuse=unjudged == "error")
    names, row, level = matched.queries, matched.row, matched.level
    counted = f"{int((level < 0).sum())} listed items without judgment at level 0"
    if unjudged == "error":
        counted = "every listed item has a judgment"
    depth = checked_num_levels(num_levels, deepest=int(matched.judged_level.max(initial=0)))
    request = asked.with_rules(counts="strict", itself="masked").request(num_queries=len(names), num_levels=depth)
    cells = matched.judged_row * (depth + 1) + matched.judged_level
    totals = np.bincount(cells, minlength=len(names) * (depth + 1)).reshape(len(names), depth + 1)
    columns = (matched.value, 0.0), (level.clip(min=0).astype(np.uint8), 0), (np.zeros(len(row), np.bool_), True)
    lists = ScoredLists(*_padded(row, len(names), *columns))
    values = values_of_lists(Retrieval(lists, request, totals, None, num_ranks=lists.scores.shape[1]))
    values[matched.num_judged :] = np.nan  # independent of the rules for queries without positives
    scores = f"{matched.sources[0]}; unlisted positives count as never found"
    counts = f"strict: as judged by {matched.sources[1]}; {counted}"
    card = request.convention(self_rule="every item as listed", scores=scores, counts=counts)
    return Evaluation(request.names, values, names, card)


def _match_names(listed: Triples, judged: Triples, *, refuse: bool) -> Matched:
    """The level of each listed item, by the number of its name; refuses unjudged items on request."""
    _check_same_names(listed, judged)
    names = [*dict.fromkeys([*judged.queries, *listed.queries])]
    row = _renumbered(listed.query, listed.queries, {name: number for number, name in enumerate(names)})
    level = _levels_of_listed(listed, judged, row)
    if refuse:
        advice = "pass unjudged='irrelevant' to count such items at level 0"
        listed.refuse(level < 0, "no judgment", expected="a level for every item", kind=PathError, remedy=advice)
    levels, sources = judged.value.astype(np.int64), (listed.source, judged.source)
    return Matched(names, len(judged.queries), row, listed.value, level, judged.query, levels, sources)


def _check_same_names(listed: Triples, judged: Triples) -> None:
    """Refuse a run and judgments without a common query, or with items of different types: 7 never equals '7'."""
    if not set(listed.queries) & set(judged.queries):
        examples = " and ".join(map(_example, (listed.queries, judged.queries)))
        problem = f"run ({listed.source}) and qrels ({judged.source}) without a shared query: {examples}"
        raise OptionError(problem, expected="the same query names in both")
    kinds = [
        {next((kind for kind in (str, Number) if isinstance(name, kind)), type(name)) for name in names}
        for names in (listed.items, judged.items)
    ]
    if kinds[0] and kinds[1] and not kinds[0] & kinds[1]:
        problem = f"a run of items {_example(listed.items)}"
        raise OptionError(problem, expected=f"names of the type of the judged items, {_example(judged.items)}")


def _example(names: Sequence[Hashable]) -> str:
    return f"such as {names[0]!r}" if len(names) else "none"


def _renumbered(numbers: Ints, names: Sequence[Hashable], places: Mapping[Hashable, int]) -> Ints:
    """The new number of each name; −1 for a name without one."""
    return np.array([places.get(name, -1) for name in names], np.int64)[numbers]


def _padded(row: Ints, number: int, *columns: tuple[Array, Any]) -> list[Array]:
    """Each column of triples as (Q, K), in the order of each row, with ``fill`` past a list's end."""
    lengths, order = np.bincount(row, minlength=number), None
    if (row[1:] < row[:-1]).any():
        order = np.argsort(row, kind="stable")
        row = row[order]
    place = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    padded = []
    for values, fill in columns:
        cells = np.full((number, int(lengths.max(initial=0))), fill, values.dtype)
        cells[row, place] = values if order is None else values[order]
        padded.append(cells)
    return padded


def _levels_of_listed(listed: Triples, judged: Triples, row: Ints) -> Ints:
    """The level of each item of a run, −1 without a judgment; ``row`` is the place of each query in the judgments."""
    import pandas as pd

    item = _renumbered(listed.item, listed.items, {name: number for number, name in enumerate(judged.items)})
    wanted = np.where(item < 0, -1, row * max(len(judged.items), 1) + item)
    place = judged.pairs().get_indexer(pd.Index(wanted))
    levels: Ints = np.append(judged.value, -1)[place].astype(np.int64)  # −1 reads the appended −1
    return levels
