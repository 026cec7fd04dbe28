"""Match a run with its judgments, query by query, to find the level of each listed item.

Mappings of strings and ranx's objects, by far the most common, are matched without numbering the items' names.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any, NamedTuple

import numpy as np

from hiertree.arrays import MAX_LEVELS
from hiertree.jit import Floats, Ints, jit

_NUMBERS = {int, float, np.int64, np.float32, np.float64}
_WORTH_COMPILING = 500  # queries
_LARGEST = 2.0**53  # beyond it float64 rounds integers


class Matched(NamedTuple):
    """T listed items and J judgments, in the order of their queries."""

    queries: Sequence[Hashable]  # the judged ones first
    num_judged: int  # of these queries
    row: Ints  # (T,) the place of each item's query
    value: Floats  # (T,) scores, larger being better
    level: Ints  # (T,) −1 without judgment
    judged_row: Ints  # (J,)
    judged_level: Ints  # (J,)
    sources: tuple[str, str]  # the forms of the run and the judgments, for the convention card


def match(run: Any, qrels: Any) -> Matched | None:
    """Match mappings of strings or ranx's objects; None for other forms and for invalid input."""
    if all(type(side) is dict for side in (run, qrels)):
        matched = _match_mappings(run, qrels)
    elif all(type(side).__module__.startswith("ranx.") for side in (run, qrels)):
        matched = _match_typed(run, qrels)
    else:
        return None
    if matched is None or not (matched.judged_row.size and matched.row.size) or matched.row[0] >= matched.num_judged:
        return None
    levels = matched.judged_level
    return matched if levels.min() >= 0 and levels.max() <= MAX_LEVELS and not np.isnan(matched.value).any() else None


def _match_mappings(run: Mapping[Any, Any], qrels: Mapping[Any, Any]) -> Matched | None:
    sides = run.values(), qrels.values()
    if any(set(map(type, side)) - {dict} for side in sides):
        return None
    names = chain(run, qrels, *(chain.from_iterable(side) for side in sides))
    values = [np.array([])] * 2
    if set(map(type, names)) != {str}:
        return None
    queries = [*qrels, *(name for name in run if name not in qrels)]
    lists, judgments = [run.get(name, {}) for name in queries], [qrels.get(name, {}) for name in queries]
    for place, side in enumerate((lists, judgments)):
        if set(map(type, _values(side))) - _NUMBERS:
            return None
        try:
            values[place] = np.fromiter(_values(side), np.float64)
        except OverflowError:
            return None
        if len(values[place]) and np.abs(values[place][np.isfinite(values[place])]).max(initial=0) >= _LARGEST:
            return None
    if (values[1] != np.floor(values[1])).any():
        return None
    item_levels = (
        map(level_of_item.get, items, repeat(-1)) for level_of_item, items in zip(judgments, lists, strict=True)
    )
    level = np.fromiter(chain.from_iterable(item_levels), np.int64, len(values[0]))
    rows = (np.repeat(np.arange(len(queries)), list(map(len, side))) for side in (lists, judgments))
    row, judged_row = rows
    levels = values[1].astype(np.int64)
    return Matched(queries, len(qrels), row, values[0], level, judged_row, levels, ("mapping", "mapping"))


def _values(side: Sequence[Mapping[str, Any]]) -> chain[Any]:
    return chain.from_iterable(mapping.values() for mapping in side)


def _match_typed(run: Any, qrels: Any) -> Matched | None:
    """Match ranx's objects, which hold numba dictionaries; with many queries it pays to compile for the name length."""
    from numba.typed import Dict

    lists, judgments = getattr(run, "run", None), getattr(qrels, "qrels", None)
    if not (isinstance(lists, Dict) and isinstance(judgments, Dict) and len(lists) >= _WORTH_COMPILING):
        return None
    kinds = [side._numba_type_.value_type for side in (lists, judgments)]
    if [str(kind.value_type) for kind in kinds] != ["float64", "int64"]:
        return None
    if not all(hasattr(kind.key_type, "count") for kind in kinds):  # strings of mixed widths: not ranx's
        return None
    (names, lengths, items, value), (queries, judged_lengths, judged_items, levels) = (
        _arrays(side, kind.key_type.count) for side, kind in ((lists, kinds[0]), (judgments, kinds[1]))
    )
    place = {name: number for number, name in enumerate(names)}
    extra_queries = sorted(place.keys() - set(queries), key=place.__getitem__)
    query_places = np.array([place.get(name, -1) for name in [*queries, *extra_queries]])
    starts, counts = (np.append(array, 0)[query_places] for array in (np.cumsum(lengths) - lengths, lengths))
    cells = np.repeat(starts - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
    width = max(items.itemsize, judged_items.itemsize) // 4
    texts, judged_texts = (
        array.astype(f"<U{width}").view(np.uint32).reshape(-1, width) for array in (items, judged_items)
    )
    item_levels, grades = np.full(len(cells), -1), levels.astype(np.int64)
    _look_up(texts, cells, counts, judged_texts, judged_lengths, grades, item_levels)
    row, judged_row = (np.repeat(np.arange(len(array)), array) for array in (counts, judged_lengths))
    sources = "ranx Run", "ranx Qrels"
    return Matched(
        [*queries, *extra_queries], len(queries), row, value[cells], item_levels, judged_row, grades, sources
    )


def _arrays(side: Any, width: int) -> tuple[list[str], Ints, Any, Floats]:
    """The names of queries, and the lengths, items and values of their lists, one list after the other."""
    lengths = np.empty(len(side), np.int64)
    names = np.empty(len(side), f"<U{_lengths(side, lengths)}")
    items, values = np.empty(lengths.sum(), f"<U{width}"), np.empty(lengths.sum())
    _copy(side, names, items, values)
    return names.tolist(), lengths, items, values


@jit
def _lengths(side: Any, lengths: Ints) -> int:
    name_length = 1
    for number, (name, query_items) in enumerate(side.items()):
        name_length, lengths[number] = max(name_length, len(name)), len(query_items)
    return name_length


@jit
def _copy(side: Any, names: Any, items: Any, values: Floats) -> None:
    cell = 0
    for number, (name, query_items) in enumerate(side.items()):
        names[number] = name
        for item, value in query_items.items():
            items[cell], values[cell] = item, value
            cell += 1


@jit
def _look_up(
    texts: Any, cells: Ints, counts: Ints, judged_texts: Any, lengths: Ints, levels: Ints, item_levels: Ints
) -> None:
    """The level of each listed item, looked up in a table of its query's judgments."""
    first = begin = 0
    for query in range(len(lengths)):
        size = 2
        while size < 2 * lengths[query]:
            size *= 2
        table = np.full(size, -1)
        for judgment in range(begin, begin + lengths[query]):
            slot = _slot(judged_texts[judgment], size)
            while table[slot] >= 0:
                slot = (slot + 1) % size
            table[slot] = judgment
        for place in range(first, first + counts[query]):
            text = texts[cells[place]]
            slot = _slot(text, size)
            while table[slot] >= 0:
                judged_text, letter = judged_texts[table[slot]], 0
                while letter < len(text) and judged_text[letter] == text[letter]:
                    letter += 1
                if letter == len(text):
                    item_levels[place] = levels[table[slot]]
                    break
                slot = (slot + 1) % size
        first, begin = first + counts[query], begin + lengths[query]


@jit
def _slot(text: Any, size: int) -> int:
    code = np.uint64(14695981039346656037)  # FNV-1a
    for letter in text:
        code = (code ^ np.uint64(letter)) * np.uint64(1099511628211)
    slot: int = np.int64((code ^ (code >> np.uint64(32))) & np.uint64(size - 1))
    return slot
