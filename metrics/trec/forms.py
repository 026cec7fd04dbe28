"""What users hold as a run or as judgments: files, frames, ranx objects, records of ir_measures, plain mappings."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hiertree.arrays import as_float64
from hiertree.errors import EmbeddingError, InputError, OptionError, PathError
from hiertree.io.tables import frame_columns, is_frame

from .reading import trec_qrels, trec_run
from .stored_forms import NAMED_BY_SUFFIX, stored_form
from .triples import NegativeQrels, Triples, checked_qrels, checked_run, number_of

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
_RUN_FORMS = (
    "a file, a frame, a ranx Run, ScoredDocs of ir_measures, or a mapping from query to items, listed or scored"
)
_QRELS_FORMS = "a file, a frame, a ranx Qrels, Qrels of ir_measures, or a mapping from query to items to levels"


def as_run(run: Any) -> Triples:
    """A run in any form, checked; equal scores are ties, and places of a list become scores that fall by one."""
    if isinstance(run, (str, os.PathLike)):
        path = Path(run)
        return checked_run(
            _named(as_run(stored_form(path)), path) if path.suffix in NAMED_BY_SUFFIX else trec_run(path)
        )
    if is_frame(run):
        frame = _as_pandas(run)
        if _column(frame, "score", required=False):
            return checked_run(_from_frame(frame, "score"))
        return checked_run(_from_frame(frame, "rank", sign=-1.0))
    if is_records(run):
        return checked_run(_from_records(run, "score", _RUN_FORMS, kind=EmbeddingError))
    return checked_run(_from_mapping(run, _RUN_FORMS, kind=EmbeddingError))


def as_qrels(qrels: Any, *, negative: NegativeQrels = "error") -> Triples:
    """Judgments in any form, checked; those below 0 are an error, or irrelevant."""
    if isinstance(qrels, (str, os.PathLike)):
        path = Path(qrels)
        if path.suffix not in NAMED_BY_SUFFIX:
            return checked_qrels(trec_qrels(path), negative=negative)
        return _named(as_qrels(stored_form(path), negative=negative), path)
    if is_frame(qrels):
        return checked_qrels(_from_frame(_as_pandas(qrels), "level"), negative=negative)
    if is_records(qrels):
        records = _from_records(qrels, "relevance", _QRELS_FORMS, kind=PathError)
        return checked_qrels(records, negative=negative)
    return checked_qrels(_from_mapping(qrels, _QRELS_FORMS, kind=PathError), negative=negative)


def is_records(values: Any) -> bool:
    """Whether it may be an iterable of records: an iterator, or a list or tuple that begins with one."""
    if isinstance(values, (list, tuple)):
        return bool(values) and hasattr(values[0], "query_id")
    return isinstance(values, Iterator)


def _named(triples: Triples, path: Path) -> Triples:
    """The triples of a file, their names as text, so that 7 in one file is 7 in another."""
    queries, items = ([str(name) for name in names] for names in (triples.queries, triples.items))
    return triples._replace(queries=queries, items=items, source=path.name)


def _from_records(records: Any, value: str, forms: str, *, kind: type[InputError]) -> Triples:
    """Objects with ``query_id``, ``doc_id`` and a score or a relevance, as ir_measures and ir_datasets yield them."""
    queries: dict[Hashable, int] = {}
    items: dict[Hashable, int] = {}
    query, item, values = [], [], []
    for record in records:
        try:
            name, what, number = record.query_id, record.doc_id, getattr(record, value)
        except AttributeError:
            expected = f"records of query_id, doc_id and {value}, or {forms}"
            raise OptionError(f"the record {record!r:.80}", expected=expected) from None
        query.append(number_of(name, queries, "query"))
        item.append(number_of(what, items, "item"))
        values.append(number)
    numbers = np.array(query, np.int64), np.array(item, np.int64)
    return Triples([*queries], [*items], *numbers, _floats(values, value, kind=kind), f"records, by {value}")


def _as_pandas(frame: Any) -> pd.DataFrame:
    import pandas as pd

    return frame if isinstance(frame, pd.DataFrame) else pd.DataFrame(frame_columns(frame))


def _from_frame(frame: pd.DataFrame, by: Literal["score", "rank", "level"], sign: float = 1.0) -> Triples:
    columns: list[NDArray[np.int64]] = []
    names: list[Sequence[Hashable]] = []
    for role in ("query", "item"):
        cells = frame[_column(frame, role)]
        try:
            numbers, found = cells.factorize()
        except TypeError as error:
            raise PathError(f"a frame: {role}: {error}", expected="text or numbers") from None
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
    if not found and role == "level" and "score" in frame.columns:  # what ranx calls the grades of its Qrels
        return "score"
    if len(found) > 1 or (required and not found):
        shown = ", ".join(map(str, frame.columns))
        raise OptionError(f"a frame of columns {shown}", expected=f"one for the {role}: {' or '.join(_COLUMNS[role])}")
    return found[0] if found else ""


def _from_mapping(given: Any, forms: str, *, kind: type[InputError]) -> Triples:
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
            item.append(number_of(what, items, "item"))
            values.append(value)
    numbers = np.array(query, np.int64), np.array(item, np.int64)
    return Triples([*given], [*items], *numbers, _floats(values, "value", kind=kind), source)


def _entries(query: Hashable, own: Any, forms: str, *, listed: bool) -> Iterator[tuple[Hashable, Any]]:
    """The items of one query with their values; those of a list fall by one a place."""
    if isinstance(own, Mapping):
        yield from own.items()
    elif listed and _is_list(own):
        yield from ((item, -float(place)) for place, item in enumerate(own, start=1))
    else:
        remedy = "call tolist() for listed items, to_dict() for scored ones" if hasattr(own, "tolist") else None
        raise OptionError(f"a {type(own).__name__} for query {query!r}", expected=forms, remedy=remedy)


def _is_list(own: Any) -> bool:
    if isinstance(own, np.ndarray):
        return own.ndim == 1
    return isinstance(own, Sequence) and not isinstance(own, (str, bytes))


def _floats(values: Sequence[Any], what: str, *, kind: type[InputError]) -> NDArray[np.float64]:
    numbers = as_float64(values, name=what, kind=kind)
    if numbers.ndim > 1:
        raise kind(f"{what}: {values[0]!r:.80}", expected="numbers")
    return numbers
