"""Landmarks and their tables: as published, with the "instance of" values scraped for them, and cleaned.

``landmarks.csv`` lists what cleaning kept and ``dropped.csv`` what it left out, one landmark a row, each with its
origin. Several labels, and their Wikidata ids, are separated by ``|``; ``confidence`` is that of labels from images.
"""

from __future__ import annotations

import logging
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from sys import intern
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

from hiertree.errors import OptionError, TableError, some_of
from hiertree.io.files import AnyPath
from hiertree.io.tables import check_columns, read_table_parts, write_table

from .settings import ColumnNames

if TYPE_CHECKING:
    import pandas as pd

Reason: TypeAlias = Literal[
    "not scraped", "no label", "Wikimedia page", "several labels", "irrelevant label", "no landmark"
]
ITEM_IDS = "item_ids"
_ID = re.compile(r"[^\x00-\x1f\x7f]{1,200}")
# of 'labels scrape --table' and of the published tables
_OTHER_COLUMNS = (ITEM_IDS, "status", "category", "supercategory", "hierarchical_label", "natural_or_human_made")
_NO_TYPES = "name the column of types with --instance-column, or ask Wikimedia with 'hiertree labels scrape'"
_NO_COLUMN = "name it: --id-column, --category-column, --instance-column, or columns=ColumnNames(…)"
_QUOTED = re.compile(r"""(["'])(.{0,300}?)\1(?=\s*[,\]])""")
LANDMARKS, DROPPED, SEPARATOR = "landmarks.csv", "dropped.csv", "|"
_log = logging.getLogger(__name__)


GLDV2_COLUMNS = ColumnNames()


@dataclass(frozen=True, slots=True)
class InstanceValue:
    """One "instance of" value as scraped: its text, and its Wikidata id or an empty string."""

    text: str
    item_id: str = ""


class Origin(NamedTuple):
    """Where values come from: columns that ``labels scrape`` writes, empty texts where a table lacks them."""

    item: str = ""
    languages: str = ""
    redirects: str = ""
    revision: str = ""
    modified: str = ""
    source: str = ""
    time: str = ""
    reason: str = ""

    def shared(self) -> Origin:
        """The same; texts that many landmarks have are held once."""
        names = ("languages", "modified", "source", "time", "reason")
        return self._replace(**{name: intern(getattr(self, name)) for name in names})


NO_ORIGIN = Origin()
Values: TypeAlias = "tuple[InstanceValue, ...]"


@dataclass(frozen=True, slots=True)
class Landmark:
    """A landmark as read; ``values`` is None when the scraped table does not list it."""

    landmark_id: str
    category: str
    values: tuple[InstanceValue, ...] | None
    origin: Origin = NO_ORIGIN


@dataclass(frozen=True, slots=True)
class KeptLandmark:
    """A landmark with its label, or its labels under ``multi="all"``."""

    landmark_id: str
    category: str
    labels: tuple[str, ...]  # one or more
    item_ids: tuple[str, ...] = ()  # their Wikidata ids, empty texts where not known
    confidence: float | None = None  # of a label that its images gave it, or None where it was scraped
    origin: Origin = NO_ORIGIN  # where the labels come from
    scraped: str = ""  # their texts as scraped, before they were put into one form


@dataclass(frozen=True, slots=True)
class DroppedLandmark:
    """A landmark left out, why, and what was scraped for it."""

    landmark_id: str
    category: str
    values: tuple[str, ...]
    reason: Reason
    origin: Origin = NO_ORIGIN


KEPT_COLUMNS = ("landmark_id", "category", "labels", "item_ids", "confidence", "scraped", *Origin._fields)
DROPPED_COLUMNS = ("landmark_id", "category", "instance_of", "reason", *Origin._fields[:-1], "scrape_reason")


def read_landmarks(
    landmarks: AnyPath, instances: AnyPath | None = None, *, columns: ColumnNames = GLDV2_COLUMNS, separator: str = "|"
) -> tuple[list[Landmark], int]:
    """Read the landmark table and the scraped table, which may be one file.

    Args:
        landmarks: CSV or Parquet with ids and, unless their column has its default name and is not there, categories,
            as GLDv2's ``train_label_to_category.csv``.
        instances: CSV or Parquet with ids and "instance of" values; default: the same file.
        columns: what the columns are called.
        separator: what stands between several values of a landmark.

    Returns:
        The landmarks in the order of their table, and how many scraped ids are not among them.

    Raises:
        TableError: a missing column, a broken row, no landmark at all, an id that is empty or there twice; file, line
            and value are named. Or no id of the two tables is the same.
        OptionError: an empty separator.
    """
    if not separator:
        raise OptionError("separator=''", expected="at least one character, such as '|'")
    scraped_path = landmarks if instances is None else instances
    ids, categories = read_listed(landmarks, columns=columns, needs_category=False)
    values_of: dict[str, tuple[Values | None, Origin]] = {}
    first: dict[str, int] = {}
    for table in read_table_parts(scraped_path):
        if columns.item_ids is None and ITEM_IDS in table.columns:  # as 'labels scrape --table' writes them
            columns = columns.model_copy(update={"item_ids": ITEM_IDS})
        if not values_of and scraped_path != landmarks:
            _note_unused(scraped_path, table, columns)
        required_columns = [columns.landmark_id, columns.instance_of, *([columns.item_ids] if columns.item_ids else [])]
        _check_columns(scraped_path, table, required_columns, remedy=_NO_TYPES)
        keys = unique_ids(table, columns.landmark_id, scraped_path, first=first)
        values = zip(_values(table, columns, separator, scraped_path), _origins(table), strict=True)
        values_of |= zip(keys, values, strict=True)
    return join_landmarks(ids, categories, values_of)


def join_landmarks(
    ids: Sequence[str], categories: Sequence[str], values_of: Mapping[str, tuple[Values | None, Origin]]
) -> tuple[list[Landmark], int]:
    """Listed landmarks with the values of their ids, and how many ids with values are not listed."""
    num_unknown = len(values_of.keys() - set(ids))
    if values_of and num_unknown == len(values_of):
        problem = (
            f"no landmark {next(iter(values_of))!r} among those listed, nor any other of the {num_unknown} with values"
        )
        raise TableError(problem, expected=f"ids such as {ids[0]!r}, written alike in both")
    note_unmatched(values_of, ids, source="the table of values", target="the table of landmarks")
    pairs, no_values = zip(ids, categories, strict=True), (None, NO_ORIGIN)
    return [Landmark(key, category, *values_of.get(key, no_values)) for key, category in pairs], num_unknown


def note_unmatched(ids: Iterable[str], landmarks: Iterable[str], *, source: str, target: str) -> str:
    """Say, and log, how many ids of each met none of the other: one id in two forms? Nothing if one side is complete.

    >>> note_unmatched(["1.0", "2"], ["1", "2"], source="a.csv", target="b.csv")
    "1 ids of a.csv met none of b.csv ('1.0'), 1 of the latter none of the former ('1')"
    """
    sources, targets = dict.fromkeys(ids), dict.fromkeys(landmarks)
    only_source, only_target = ([key for key in a if key not in b] for a, b in ((sources, targets), (targets, sources)))
    if not only_source or not only_target:
        return ""
    unmatched = f"{len(only_source)} ids of {source} met none of {target} ({some_of(only_source, 3)})"
    text = f"{unmatched}, {len(only_target)} of the latter none of the former ({some_of(only_target, 3)})"
    _log.info(text)
    return text


def read_listed(
    path: AnyPath, *, columns: ColumnNames = GLDV2_COLUMNS, needs_category: bool = True
) -> tuple[list[str], list[str]]:
    """The ids of a table of landmarks, and their categories: empty texts where a table without them will do."""
    ids: list[str] = []
    categories: list[str] = []
    first: dict[str, int] = {}
    for table in read_table_parts(path):
        column = columns.category
        if not ids:
            _note_unused(path, table, columns)
        expects_category = needs_category or column in table.columns or column != GLDV2_COLUMNS.category
        _check_columns(path, table, [columns.landmark_id, *([column] if expects_category else [])])
        ids += unique_ids(table, columns.landmark_id, path, first=first)
        categories += table[column].tolist() if expects_category else [""] * len(table)
    if not ids:
        raise TableError(f"{path} lists no landmark", expected="a row for each landmark below the header")
    return ids, categories


def _check_columns(path: AnyPath, table: pd.DataFrame, required: list[str], *, remedy: str = _NO_COLUMN) -> None:
    check_columns(path, list(table.columns), required, remedy=remedy)


def _note_unused(path: AnyPath, table: pd.DataFrame, columns: ColumnNames) -> None:
    """Name the columns that no step knows, once for each table."""
    known = {*columns.model_dump().values(), *Origin._fields, *_OTHER_COLUMNS}
    if unused := [name for name in table.columns if name not in known]:
        _log.info("%s: columns not used: %s", Path(path).name, some_of(unused))


def unique_ids(table: pd.DataFrame, column: str, path: AnyPath, *, first: dict[str, int] | None = None) -> list[str]:
    """A column of landmark ids, any text, none there twice; ``first``: their lines, for the parts of a table."""
    ids: list[str] = table[column].str.strip().tolist()
    first = {} if first is None else first
    for line, landmark_id in zip(table.index, ids, strict=True):
        if not _ID.fullmatch(landmark_id):
            expected = "an id of 1 to 200 characters on one line"
            raise TableError(f"{path}, line {line}: {column} {landmark_id!r:.80}", expected=expected)
        if landmark_id in first:
            problem = f"{path}, line {line}: {column} {landmark_id!r} again (first on line {first[landmark_id]})"
            remedy = "join a landmark's values in one cell"
            raise TableError(problem, expected="one row per landmark", remedy=remedy)
        first[landmark_id] = line
    return ids


def _values(
    table: pd.DataFrame, columns: ColumnNames, separator: str, path: AnyPath
) -> Iterator[tuple[InstanceValue, ...]]:
    ids = [""] * len(table) if columns.item_ids is None else table[columns.item_ids]
    shared_values: dict[tuple[InstanceValue, ...], tuple[InstanceValue, ...]] = {}  # most landmarks share theirs
    for line, cell, id_cell in zip(table.index, table[columns.instance_of], ids, strict=True):
        texts = _split(cell, separator)
        item_ids = _split(id_cell, separator) or [""] * len(texts)  # an empty cell: values whose ids are not known
        if len(item_ids) != len(texts):
            problem = f"{len(texts)} values but {len(item_ids)} ids in {columns.item_ids} ({id_cell!r})"
            raise TableError(f"{path}, line {line}: {problem}", expected="one id per value")
        values = tuple(InstanceValue(text, item_id.strip()) for text, item_id in zip(texts, item_ids, strict=True))
        yield shared_values.setdefault(values, values)


def _origins(table: pd.DataFrame) -> Iterator[Origin]:
    cells = table.reindex(columns=list(Origin._fields), fill_value="")
    return (_origin(row) for row in cells.itertuples(index=False, name=None))


def _origin(cells: Sequence[str]) -> Origin:
    return Origin._make(cells).shared() if any(cells) else NO_ORIGIN


@lru_cache(1 << 16)
def _parts(cell: str) -> tuple[str, ...]:
    """The values of a cell of our own tables, shared by landmarks with equal cells."""
    return tuple(cell.split(SEPARATOR))


def _split(cell: str, separator: str) -> list[str]:
    """The values of a cell, also of one that Python or JSON wrote: "['lake', 'dam']"."""
    text = cell.strip()
    quoted = [match[2] for match in _QUOTED.finditer(text)] if text.startswith("[") and text.endswith("]") else []
    return quoted or (cell.split(separator) if text else [])


def write_kept(path: AnyPath, landmarks: Iterable[KeptLandmark]) -> None:
    """Write landmarks, whole or not at all.

    Args:
        path: the file.
        landmarks: what cleaning kept.

    Raises:
        TableError: a label holds the separator.
    """
    write_table(path, KEPT_COLUMNS, map(_cells, landmarks))


def read_kept(path: AnyPath) -> list[KeptLandmark]:
    """Read what :func:`write_kept` wrote.

    Args:
        path: the file, or a folder that holds ``landmarks.csv``.

    Raises:
        TableError: no such file, a missing column, a bad id, a landmark without label, as many ids as there are no
            labels, or a confidence outside 0 … 1; file, line and value are named.

    >>> import tempfile
    >>> kept = [KeptLandmark("7", "Category:Pond", ("pond", "park"), ("Q3253281", ""))]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_kept(Path(folder) / LANDMARKS, kept)
    ...     read_kept(folder) == kept
    True
    """
    return [_kept(*row) for row in _rows(Path(path), LANDMARKS, KEPT_COLUMNS)]


def write_dropped(path: AnyPath, dropped: Iterable[DroppedLandmark]) -> None:
    """Write landmarks that were left out, whole or not at all."""
    rows = ((row.landmark_id, row.category, SEPARATOR.join(row.values), row.reason, *row.origin) for row in dropped)
    write_table(path, DROPPED_COLUMNS, rows)


def read_dropped(path: AnyPath) -> list[DroppedLandmark]:
    """Read what :func:`write_dropped` wrote."""
    return [_dropped(*row) for row in _rows(Path(path), DROPPED, DROPPED_COLUMNS)]


def _rows(path: Path, name: str, columns: Sequence[str]) -> Iterator[tuple[str, tuple[Any, ...], str]]:
    """The id of each row, its cells, and where it stands."""
    file = path / name if path.is_dir() else path
    first: dict[str, int] = {}
    for table in read_table_parts(file, required=columns):
        cells = zip(*(table[name].tolist() for name in columns), strict=True)
        ids = unique_ids(table, "landmark_id", file, first=first)
        for line, landmark_id, row in zip(table.index, ids, cells, strict=True):
            yield landmark_id, row, f"{file}, line {line}"


def _dropped(landmark_id: str, cells: tuple[Any, ...], location: str) -> DroppedLandmark:
    _, category, values, reason, *origin = cells
    if reason not in get_args(Reason):
        raise TableError(f"{location}: reason {reason!r}", expected=f"one of {', '.join(get_args(Reason))}")
    return DroppedLandmark(landmark_id, category, _parts(values) if values else (), reason, _origin(origin))


def _cells(landmark: KeptLandmark) -> Sequence[object]:
    key, labels = landmark.landmark_id, landmark.labels
    for label in labels:
        if SEPARATOR in label:
            raise TableError(f"landmark {key}: label {label!r}", expected=f"no {SEPARATOR!r} in a label")
    item_ids = SEPARATOR.join(landmark.item_ids or [""] * len(labels))
    label_cell = SEPARATOR.join(labels)
    return (key, landmark.category, label_cell, item_ids, landmark.confidence, landmark.scraped, *landmark.origin)


def _kept(landmark_id: str, cells: tuple[str, ...], location: str) -> KeptLandmark:
    _, category, labels, item_ids, confidence, scraped_texts, *origin = cells
    names, ids = _parts(labels), _parts(item_ids)
    if not all(names) or len(ids) != len(names):
        raise TableError(f"{location}: labels {labels!r}, item_ids {item_ids!r}", expected="a label, and as many ids")
    fields = (names, ids, _confidence(confidence, location), _origin(origin))
    return KeptLandmark(landmark_id, category, *fields, intern(scraped_texts))


def _confidence(cell: str, location: str) -> float | None:
    if not cell:
        return None
    try:
        confidence = float(cell)
    except ValueError:
        confidence = -1.0
    if not 0 <= confidence <= 1:
        raise TableError(f"{location}: confidence {cell!r}", expected="nothing or 0 … 1")
    return confidence


def relevant(
    landmark: KeptLandmark, irrelevant: Set[str], unfit: Mapping[str, str] = MappingProxyType({})
) -> KeptLandmark | DroppedLandmark:
    """A landmark without the labels that are irrelevant or, as the values of ``unfit`` say, no landmark.

    One that has no other label is dropped.
    """
    item_ids = landmark.item_ids or ("",) * len(landmark.labels)
    label_ids = zip(landmark.labels, item_ids, strict=True)
    pairs = [pair for pair in label_ids if pair[0] not in irrelevant and pair[0] not in unfit]
    if len(pairs) == len(landmark.labels):
        return landmark
    if pairs:
        labels, ids = zip(*pairs, strict=True)
        return replace(landmark, labels=labels, item_ids=ids)
    kind = next((unfit[label] for label in landmark.labels if label in unfit), None)
    reason: Reason = "irrelevant label" if kind is None else "no landmark"
    origin = landmark.origin if kind is None else landmark.origin._replace(reason=kind)
    return DroppedLandmark(landmark.landmark_id, landmark.category, landmark.labels, reason, origin)


def label_counts(landmarks: Iterable[KeptLandmark]) -> Counter[str]:
    """Distinct labels, and how many landmarks carry each."""
    return Counter(label for landmark in landmarks for label in landmark.labels)


def label_items(landmarks: Iterable[KeptLandmark]) -> dict[str, tuple[str, ...]]:
    """The Wikidata ids of labels, for those that have any."""
    items_of: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for landmark in landmarks:
        for label, item in zip(landmark.labels, landmark.item_ids, strict=False):
            items_of[label] |= {item: None} if item else {}
    return {label: tuple(sorted(items)) for label, items in items_of.items() if items}
