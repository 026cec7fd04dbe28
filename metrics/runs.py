"""Runs and judgments in every form that users have: files, frames, ranx objects, records of ir_measures, mappings."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from hiertree.arrays import as_float64
from hiertree.errors import InputError, OptionError, PathError, TableError
from hiertree.evaluation_options import Choice
from hiertree.io.reading import PARQUET_SUFFIXES, read_json, read_parquet_frame, reading_file
from hiertree.io.tables import TABLE_SUFFIXES, frame_columns, is_frame, is_missing, read_table, table_suffix

from .trec_reading import QRELS, RUN, Form, Triples, checked_qrels, checked_run, index_of, read_triples

if TYPE_CHECKING:
    import pandas as pd
    from narwhals.typing import IntoDataFrame
    from numpy.typing import NDArray

    from hiertree.evaluation_options import ArrayLike

Run: TypeAlias = "str | os.PathLike[str] | Mapping[Any, Any] | ArrayLike | IntoDataFrame | Iterator[Any] | _RanxObject"
Judgments: TypeAlias = "str | os.PathLike[str] | Mapping[Any, Any] | IntoDataFrame | Iterable[Any] | _RanxObject"


class _RanxObject(Protocol):
    """A Run or Qrels of ranx."""

    def to_dict(self) -> Any: ...


_RUN_COLUMNS = {
    "query": ("query", "query_id", "qid", "q_id", "query-id"),
    "item": ("item", "item_id", "doc", "doc_id", "docid", "docno", "document", "corpus-id", "corpus_id", "pid"),
    "score": ("score",),
    "distance": ("distance", "_distance", "dist"),
    "rank": ("rank",),
    "level": ("level", "relevance", "label", "rel"),
}


def as_run(run: Any, *, higher_is_better: bool = True, repeats: Choice = "error") -> Triples:
    """Check a run in any form; equal scores are ties, and the places of a list become scores that fall by one.

    Unless ``higher_is_better``, the scores are distances; so are those of a column that is called so.
    """
    triples = _triples(run, RUN)
    if not higher_is_better:
        if triples.by in ("rank", "place"):
            problem = f"higher_is_better=False of a run by {triples.by} ({triples.source})"
            raise OptionError(problem, expected="a run with scores", remedy="leave it out: the first item is the best")
        distance = triples.value if triples.by == "distance" else -triples.value
        triples = triples._replace(value=distance, source=f"{triples.source}, smallest first")
    return checked_run(triples, repeats=repeats)


def as_qrels(qrels: Any, *, negative: Choice = "error") -> Triples:
    """Check judgments in any form; those below 0 are an error, or irrelevant."""
    return checked_qrels(_triples(qrels, QRELS), negative=negative)


def _triples(lists: Any, form: Form) -> Triples:
    if isinstance(lists, (str, os.PathLike)):
        path = Path(lists)
        suffix = table_suffix(path)
        if suffix not in READERS:
            return read_triples(path, form)
        table = READERS[suffix](path)
        with reading_file(path, expected=form.forms, kind=form.kind):
            triples = _triples(table, form)
        text_triples = triples._replace(queries=list(map(str, triples.queries)), items=list(map(str, triples.items)))
        return text_triples._replace(source=path.name)  # names are text, as in a TREC file
    source = "mapping"
    if is_frame(lists):
        frame = lists if hasattr(lists, "iloc") else frame_columns(lists)
        if not {"id", "images"} <= set(frame):
            return _from_frame(frame, form)
        lists, source = _kaggle_lists(frame, form), "frame of id and images"
    if is_records(lists):
        return _from_rows(_records(lists, form), {}, form.field, f"records, by {form.field}", form.kind)
    if not isinstance(lists, Mapping) and hasattr(lists, "to_dict"):
        source = f"{type(lists).__module__.partition('.')[0]} {type(lists).__name__}"
        lists = lists.to_dict()
    if not isinstance(lists, Mapping):
        raise OptionError(f"a {type(lists).__name__}", expected=form.forms, remedy="or mappings for both run and qrels")
    rows = ((name, *entry) for name, query_items in lists.items() for entry in _entries(name, query_items, form))
    queries = {name: number for number, name in enumerate(lists)}  # some may be empty
    is_ranked = not all(isinstance(items, Mapping) for items in lists.values())
    return _from_rows(rows, queries, "value", source, form.kind)._replace(by="place" if is_ranked else form.field)


def is_records(values: Any) -> bool:
    """Whether it may be an iterable of records: an iterator, or a list or tuple that begins with one."""
    if isinstance(values, (list, tuple)):
        return bool(values) and hasattr(values[0], "query_id")
    return isinstance(values, Iterator)


def _from_rows(
    rows: Iterable[tuple[Any, Any, Any]], queries: dict[Hashable, int], value: str, source: str, kind: type[InputError]
) -> Triples:
    """Triples of (query, item, value)."""
    items: dict[Hashable, int] = {}
    query, item, values = [], [], []
    for name, item_name, item_value in rows:
        query.append(index_of(name, queries, "query"))
        item.append(index_of(item_name, items, "item"))
        values.append(item_value)
    columns = np.array(query, np.int64), np.array(item, np.int64)
    return Triples([*queries], [*items], *columns, _floats(values, value, kind), source)


def _records(records: Any, form: Form) -> Iterator[tuple[Any, Any, Any]]:
    """Objects with ``query_id``, ``doc_id`` and a score or a relevance, as ir_measures and ir_datasets yield them."""
    fields = ("query_id", "doc_id", form.field)
    for record in records:
        if not all(hasattr(record, field) for field in fields):
            expected = f"records of query_id, doc_id and {form.field}, or {form.forms}"
            raise OptionError(f"the record {record!r:.80}", expected=expected)
        yield record.query_id, record.doc_id, getattr(record, form.field)


def _kaggle_lists(frame: Any, form: Form) -> dict[str, Any]:
    """The items of each query as Kaggle's files list them: best first, between spaces; ``None`` for ignored queries."""
    lists: dict[str, Any] = {}
    for query, images in zip(map(str, frame["id"]), frame["images"], strict=True):
        names = [] if is_missing(images) else str(images).split()
        if query in lists:
            raise PathError(f"{query!r} twice in the column id", expected="one row for each query")
        if form is RUN:
            lists[query] = names
        elif names != ["None"]:
            lists[query] = dict.fromkeys(names, 1)
    return lists


def _from_frame(table: Any, form: Form) -> Triples:
    import pandas as pd

    frame = pd.DataFrame(table)
    value_columns = (name for name in ("score", "distance") if _column(frame, name, required=False))
    by = "level" if form is QRELS else next(value_columns, "rank")
    columns: list[NDArray[np.int64]] = []
    names: list[Sequence[Hashable]] = []
    for role in ("query", "item"):
        cells = frame[_column(frame, role)]
        try:
            indices, unique_names = cells.factorize()
        except TypeError as error:
            raise PathError(f"a frame: {role}: {error}", expected="text or numbers") from None
        if (indices < 0).any():
            raise OptionError(f"a frame without {role} in row {int(np.argmax(indices < 0))}", expected="a name")
        columns.append(indices.astype(np.int64))
        names.append(unique_names.tolist())
    values = _floats(frame[_column(frame, by)].tolist(), by, form.kind)
    values = -values if by in ("rank", "distance") else values
    return Triples(names[0], names[1], columns[0], columns[1], values, f"frame, by {by}", by=by)


def _column(frame: pd.DataFrame, role: str, *, required: bool = True) -> str:
    """The name of the column with a role; empty if there is none and it is optional."""
    matches = [name for name in _RUN_COLUMNS[role] if name in frame.columns]
    if not matches and role == "level" and "score" in frame.columns:  # what ranx calls the grades of its Qrels
        return "score"
    if len(matches) > 1 or (required and not matches):
        column_list = ", ".join(map(str, frame.columns))
        labels = "if it holds labels, pass it as query_paths, with query_names=labels.index"
        raise OptionError(
            f"a frame of columns {column_list}",
            expected=f"one for the {role}: {' or '.join(_RUN_COLUMNS[role])}",
            remedy=None if matches or _RUN_COLUMNS["query"][0] in frame.columns else labels,
        )
    return matches[0] if matches else ""


def _entries(query: Hashable, entries: Any, form: Form) -> Iterator[tuple[Hashable, Any]]:
    """The items of one query with their values; those of a list fall by one per place."""
    is_list = isinstance(entries, Sequence) and not isinstance(entries, (str, bytes))
    is_list = is_list or (isinstance(entries, np.ndarray) and entries.ndim == 1)
    if isinstance(entries, Mapping):
        yield from entries.items()
    elif is_list and form is RUN:
        yield from ((item, -float(place)) for place, item in enumerate(entries, start=1))
    else:
        remedy = "call tolist() for listed items, to_dict() for scored ones" if hasattr(entries, "tolist") else None
        raise OptionError(f"a {type(entries).__name__} for query {query!r}", expected=form.forms, remedy=remedy)


def _floats(values: Sequence[Any], name: str, kind: type[InputError]) -> NDArray[np.float64]:
    array = as_float64(values, name=name, kind=kind)
    if array.ndim > 1:
        raise kind(f"{name}: {values[0]!r:.80}", expected="numbers")
    return array


def _parquet(path: Path) -> Any:
    return read_parquet_frame(path, expected="a readable Parquet file")


def _json(path: Path) -> dict[str, Any]:
    table = read_json(path, expected="a JSON file as ranx saves it", finite=False)
    if not isinstance(table, dict) or not all(isinstance(entries, (dict, list)) for entries in table.values()):
        expected = "query → item → number, as ranx saves it, or query → items, best first"
        raise TableError(f"{path}: no object of objects or lists", expected=expected)
    for query, entries in table.items():
        if isinstance(entries, list):  # as the names of queries, which JSON has as texts
            table[query] = [str(item) if isinstance(item, int) else item for item in entries]
    return table


READERS: Mapping[str, Callable[[Path], Any]] = {
    **dict.fromkeys(set(TABLE_SUFFIXES) - {".tsv"}, read_table),  # runs and judgments in .tsv have no heads, or BEIR's
    **dict.fromkeys(PARQUET_SUFFIXES, _parquet),
    ".json": _json,
}
