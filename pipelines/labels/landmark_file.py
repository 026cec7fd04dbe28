"""``landmarks.csv``: the landmarks that cleaning kept, one a row, with their labels and where these come from.

Several labels, and their Wikidata ids, are separated by ``|``. ``confidence`` is empty but for labels that come from
images.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from hiertree.errors import TableError
from hiertree.files import open_replacing
from hiertree.pipelines.labels.cleaning import Kept
from hiertree.pipelines.labels.reading import Origin, unique_ids
from hiertree.tables import read_table

LANDMARKS = "landmarks.csv"
SEPARATOR = "|"
COLUMNS = ("landmark_id", "category", "labels", "item_ids", "confidence", *Origin._fields)


def write_kept(path: str | os.PathLike[str], kept: Iterable[Kept]) -> None:
    """Write landmarks, whole or not at all.

    Args:
        path: the file.
        kept: what cleaning kept.

    Raises:
        TableError: a label holds the separator.
    """
    with open_replacing(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(map(_cells, kept))


def read_kept(path: str | os.PathLike[str]) -> list[Kept]:
    """Read what :func:`write_kept` wrote.

    Args:
        path: the file, or a folder that holds ``landmarks.csv``.

    Raises:
        TableError: no such file, a missing column, a bad id, a landmark without label, as many ids as there are no
            labels, or a confidence outside 0 … 1; file, line and value are named.

    >>> import tempfile
    >>> kept = [Kept(7, "Category:Pond", ("pond", "park"), ("Q3253281", ""))]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_kept(Path(folder) / LANDMARKS, kept)
    ...     read_kept(folder) == kept
    True
    """
    file = Path(path) / LANDMARKS if Path(path).is_dir() else Path(path)
    table = read_table(file, required=COLUMNS)
    ids = unique_ids(table, "landmark_id", file)
    rows = zip(table.index, ids, table[list(COLUMNS)].itertuples(index=False, name=None), strict=True)
    return [_kept(landmark_id, cells, f"{file}, line {line}") for line, landmark_id, cells in rows]


def _cells(landmark: Kept) -> Sequence[object]:
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


def _kept(landmark_id: int, cells: tuple[str, ...], where: str) -> Kept:
    _, category, labels, item_ids, confidence, *origin = cells
    names, ids = tuple(labels.split(SEPARATOR)), tuple(item_ids.split(SEPARATOR))
    if not all(names) or len(ids) != len(names):
        raise TableError(f"{where}: labels {labels!r}, item_ids {item_ids!r}", expected="a label, and as many ids")
    return Kept(landmark_id, category, names, ids, _confidence(confidence, where), Origin(*origin))


def _confidence(cell: str, where: str) -> float | None:
    try:
        confidence = float(cell) if cell else None
    except ValueError:
        confidence = -1.0
    if confidence is not None and not 0 <= confidence <= 1:
        raise TableError(f"{where}: confidence {cell!r}", expected="nothing, or a number in 0 … 1")
    return confidence
