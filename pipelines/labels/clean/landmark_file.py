"""``landmarks.csv`` and ``dropped.csv``: what cleaning kept and what it left out, one landmark a row, and its origin.

Several labels, and their Wikidata ids, are separated by ``|``. ``confidence`` is empty but for labels that come from
images.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

from hiertree.errors import TableError
from hiertree.io.tables import read_table, write_table

from ..landmarks import Origin, unique_ids
from .rules import DroppedLandmark, KeptLandmark, Reason

LANDMARKS = "landmarks.csv"
SEPARATOR = "|"
DROPPED = "dropped.csv"
COLUMNS = ("landmark_id", "category", "labels", "item_ids", "confidence", *Origin._fields)
DROPPED_COLUMNS = ("landmark_id", "category", "instance_of", "reason", *Origin._fields[:-1], "scrape_reason")


def write_kept(path: str | os.PathLike[str], kept: Iterable[KeptLandmark]) -> None:
    """Write landmarks, whole or not at all.

    Args:
        path: the file.
        kept: what cleaning kept.

    Raises:
        TableError: a label holds the separator.
    """
    write_table(path, COLUMNS, map(_cells, kept))


def read_kept(path: str | os.PathLike[str]) -> list[KeptLandmark]:
    """Read what :func:`write_kept` wrote.

    Args:
        path: the file, or a folder that holds ``landmarks.csv``.

    Raises:
        TableError: no such file, a missing column, a bad id, a landmark without label, as many ids as there are no
            labels, or a confidence outside 0 … 1; file, line and value are named.

    >>> import tempfile
    >>> kept = [KeptLandmark(7, "Category:Pond", ("pond", "park"), ("Q3253281", ""))]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_kept(Path(folder) / LANDMARKS, kept)
    ...     read_kept(folder) == kept
    True
    """
    return [_kept(*row) for row in _rows(Path(path), LANDMARKS, COLUMNS)]


def write_dropped(path: str | os.PathLike[str], dropped: Iterable[DroppedLandmark]) -> None:
    """Write landmarks that were left out, whole or not at all.

    Args:
        path: the file.
        dropped: what cleaning left out.
    """
    rows = (
        (drop.landmark_id, drop.category, SEPARATOR.join(drop.values), drop.reason, *drop.origin) for drop in dropped
    )
    write_table(path, DROPPED_COLUMNS, rows)


def read_dropped(path: str | os.PathLike[str]) -> list[DroppedLandmark]:
    """Read what :func:`write_dropped` wrote.

    Args:
        path: the file, or a folder that holds ``dropped.csv``.

    Raises:
        TableError: no such file, a missing column, a bad id, or an unknown reason; file, line and value are named.
    """
    return [_dropped(*row) for row in _rows(Path(path), DROPPED, DROPPED_COLUMNS)]


def _rows(path: Path, name: str, columns: Sequence[str]) -> Iterator[tuple[int, tuple[Any, ...], str]]:
    """The id of each row, its cells, and where it stands."""
    file = path / name if path.is_dir() else path
    table = read_table(file, required=columns)
    cells = table[list(columns)].itertuples(index=False, name=None)
    for line, landmark_id, row in zip(table.index, unique_ids(table, "landmark_id", file), cells, strict=True):
        yield landmark_id, row, f"{file}, line {line}"


def _dropped(landmark_id: int, cells: tuple[Any, ...], where: str) -> DroppedLandmark:
    _, category, values, reason, *origin = cells
    if reason not in get_args(Reason):
        raise TableError(f"{where}: reason {reason!r}", expected=f"one of {', '.join(get_args(Reason))}")
    scraped = tuple(values.split(SEPARATOR)) if values else ()
    return DroppedLandmark(landmark_id, category, scraped, reason, Origin(*origin))


def _cells(landmark: KeptLandmark) -> Sequence[object]:
    for label in landmark.labels:
        if SEPARATOR in label:
            raise TableError(
                f"landmark {landmark.landmark_id}: label {label!r}", expected=f"no {SEPARATOR!r} in a label"
            )
    confidence = "" if landmark.confidence is None else landmark.confidence
    item_ids = SEPARATOR.join(landmark.item_ids or [""] * len(landmark.labels))
    return (
        landmark.landmark_id,
        landmark.category,
        SEPARATOR.join(landmark.labels),
        item_ids,
        confidence,
        *landmark.origin,
    )


def _kept(landmark_id: int, cells: tuple[str, ...], where: str) -> KeptLandmark:
    _, category, labels, item_ids, confidence, *origin = cells
    names, ids = tuple(labels.split(SEPARATOR)), tuple(item_ids.split(SEPARATOR))
    if not all(names) or len(ids) != len(names):
        raise TableError(f"{where}: labels {labels!r}, item_ids {item_ids!r}", expected="a label, and as many ids")
    return KeptLandmark(landmark_id, category, names, ids, _confidence(confidence, where), Origin(*origin))


def _confidence(cell: str, where: str) -> float | None:
    try:
        confidence = float(cell) if cell else None
    except ValueError:
        confidence = -1.0
    if confidence is not None and not 0 <= confidence <= 1:
        raise TableError(f"{where}: confidence {cell!r}", expected="nothing, or a number in 0 … 1")
    return confidence
