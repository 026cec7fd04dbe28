"""What users hold as a run or as judgments: TREC files, pandas frames, ranx objects, plain mappings."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hiertree.errors import EmbeddingError, HiertreeError, OptionError, PathError

from .reading import qrels_triples, run_triples
from .triples import Triples, checked_qrels, checked_run

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

_COLUMNS = {
    "query": ("query", "query_id", "qid", "q_id"),
    "item": ("item", "item_id", "doc", "doc_id", "docid", "docno", "document"),
    "score": ("score",),
    "rank": ("rank",),
    "level": ("level", "relevance", "label", "rel"),
}
_RUN_FORMS = "a TREC file, a frame, a ranx Run, or a mapping from query to items, listed or scored"
_QRELS_FORMS = "a TREC file, a frame, a ranx Qrels, or a mapping from query to items to levels"


def as_run(run: Any) -> Triples:
    """A run in any form, checked; equal scores are ties, and places of a list become scores that fall by one."""
    if isinstance(run, (str, os.PathLike)):
        return run_triples(run)
    if _is_frame(run):
        if _column(run, "score", required=False):
            return checked_run(_from_frame(run, "score"))
        return checked_run(_from_frame(run, "rank", sign=-1.0))
    return checked_run(_from_mapping(run, _RUN_FORMS, kind=EmbeddingError))


def as_qrels(qrels: Any) -> Triples:
    """Judgments in any form, checked."""
    if isinstance(qrels, (str, os.PathLike)):
        return qrels_triples(qrels)
    if _is_frame(qrels):
        return checked_qrels(_from_frame(qrels, "level"))
    return checked_qrels(_from_mapping(qrels, _QRELS_FORMS, kind=PathError))


def _is_frame(values: Any) -> bool:
    return hasattr(values, "columns") and hasattr(values, "iloc")


def _from_frame(frame: pd.DataFrame, by: Literal["score", "rank", "level"], sign: float = 1.0) -> Triples:
    columns: list[NDArray[np.int64]] = []
    names: list[Sequence[Hashable]] = []
    for role in ("query", "item"):
        numbers, found = frame[_column(frame, role)].factorize()
        if (numbers < 0).any():
            raise OptionError(f"a frame without {role} in row {int(np.argmax(numbers < 0))}", expected="a name")
        columns.append(numbers.astype(np.int64))
        names.append(found.tolist())
    cells = frame[_column(frame, by)]
    values = _floats(cells.tolist(), by, kind=PathError if by == "level" else EmbeddingError)
    return Triples(names[0], names[1], columns[0], columns[1], sign * values, f"frame, by {by}")


def _column(frame: pd.DataFrame, role: str, *, required: bool = True) -> str:
    """The name of the column that plays a role; empty if none does and none need."""
    found = [name for name in _COLUMNS[role] if name in frame.columns]
    if len(found) > 1 or (required and not found):
        shown = ", ".join(map(str, frame.columns))
        raise OptionError(f"a frame of columns {shown}", expected=f"one for the {role}: {' or '.join(_COLUMNS[role])}")
    return found[0] if found else ""


def _from_mapping(given: Any, forms: str, *, kind: type[HiertreeError]) -> Triples:
    source = "mapping"
    if not isinstance(given, Mapping) and hasattr(given, "to_dict"):
        source = f"{type(given).__module__.partition('.')[0]} {type(given).__name__}"
        given = given.to_dict()
    if not isinstance(given, Mapping):
        raise OptionError(f"a {type(given).__name__}", expected=forms, remedy="or mappings for both run and qrels")
    items: dict[Hashable, int] = {}
    query: list[int] = []
    item: list[int] = []
    values: list[Any] = []
    for row, (name, own) in enumerate(given.items()):
        for what, value in _entries(name, own, forms, listed=kind is EmbeddingError):
            query.append(row)
            item.append(items.setdefault(what, len(items)))
            values.append(value)
    numbers = np.array(query, np.int64), np.array(item, np.int64)
    return Triples([*given], [*items], *numbers, _floats(values, "value", kind=kind), source)


def _entries(query: Hashable, own: Any, forms: str, *, listed: bool) -> Iterator[tuple[Hashable, Any]]:
    """The items of one query with their values; those of a list fall by one a place."""
    if isinstance(own, Mapping):
        yield from own.items()
    elif listed and isinstance(own, (Sequence, np.ndarray)) and not isinstance(own, str):
        yield from ((item, -float(place)) for place, item in enumerate(own, start=1))
    else:
        raise OptionError(f"a {type(own).__name__} for query {query!r}", expected=forms)


def _floats(values: Sequence[Any], what: str, *, kind: type[HiertreeError]) -> NDArray[np.float64]:
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise kind(f"a {what} that is no number ({error})", expected="numbers") from None
