"""The lists of ranx's objects, which hold dictionaries of numba."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np

from hiertree.jit import Ints, jit

_WORTH_COMPILING = 500  # queries


def lists_of(lists: Any) -> dict[str, dict[str, float]] | None:
    """What ``to_dict`` of a ranx Run or Qrels gives, in a tenth of its time; None where compiling would take longer."""
    typed_lists: Any = getattr(lists, "run", None) or getattr(lists, "qrels", None)
    entries: Any = getattr(getattr(typed_lists, "_numba_type_", None), "value_type", None)
    if not hasattr(getattr(entries, "key_type", None), "count") or len(typed_lists) < _WORTH_COMPILING:
        return None
    lengths = np.empty(len(typed_lists), np.int64)
    names = np.empty(len(typed_lists), f"<U{_lengths(typed_lists, lengths)}")
    items = np.empty(lengths.sum(), f"<U{entries.key_type.count}")
    values = np.empty(len(items), str(entries.value_type))
    _copy(typed_lists, names, items, values)
    pairs = zip(items.tolist(), values.tolist(), strict=True)
    return {name: dict(islice(pairs, length)) for name, length in zip(names.tolist(), lengths.tolist(), strict=True)}


@jit
def _lengths(lists: Any, lengths: Ints) -> int:
    """Write the length of each list, and return that of the longest name of a query."""
    name_length = 1
    for number, (name, entries) in enumerate(lists.items()):
        name_length, lengths[number] = max(name_length, len(name)), len(entries)
    return name_length


@jit
def _copy(lists: Any, names: Any, items: Any, values: Any) -> None:
    cell = 0
    for number, (name, entries) in enumerate(lists.items()):
        names[number] = name
        for item, value in entries.items():
            items[cell], values[cell] = item, value
            cell += 1
