"""``hiertree labels clean``: landmarks and their scraped values → the landmarks that have a label, in a folder.

The folder holds ``landmarks.csv`` (those kept), ``labels.csv`` (distinct labels and how many landmarks carry each),
``dropped.csv`` (the others, each with its reason), ``report.json`` and ``manifest.json``.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hiertree.errors import OptionError, TableError
from hiertree.io.files import write_json
from hiertree.io.tables import read_table, write_table

from ..export.tables import LABELS, REPORT
from ..folders import AnyPath, Making
from ..landmarks import GLDV2_COLUMNS, ColumnNames, Landmark, join_landmarks, read_landmarks
from .counting import cleaning_report, label_counts
from .landmark_file import DROPPED, LANDMARKS, write_dropped, write_kept
from .rules import Cleaned, Multi, clean

COMMAND = "hiertree labels clean"
_UNIT_SEPARATOR = "\x1f"  # no label holds it: normalize_label would take it out


@dataclass(frozen=True)
class CleanSettings:
    """How landmarks are read and cleaned.

    Attributes:
        multi: what becomes of landmarks with several labels: ``"drop"``, ``"first"`` or ``"all"``.
        separator: what stands between several values.
        columns: what the columns are called.
    """

    multi: Multi = "drop"
    separator: str = "|"
    columns: ColumnNames = GLDV2_COLUMNS


def clean_step(
    landmarks: AnyPath,
    *,
    out: AnyPath,
    instances: AnyPath | None = None,
    store: AnyPath | None = None,
    settings: CleanSettings = CleanSettings(),
) -> dict[str, Any]:
    """Clean labels, write the folder and return its report.

    Args:
        landmarks: CSV or Parquet of landmark ids and Commons categories.
        out: the folder to make.
        instances: CSV or Parquet of landmark ids and "instance of" values; default: the same file.
        store: a store of ``labels scrape`` instead.
        settings: how landmarks are read and cleaned.

    Raises:
        TableError: a table that cannot be read as asked.
        ScrapeError: the store is something else.
        OptionError: both ``instances`` and ``store``, an unknown ``multi``, or ``out`` holds other files.
    """
    making = clean_making(landmarks, instances=instances, store=store, settings=settings)
    making.check(out)
    read, strangers = (
        read_landmarks(landmarks, instances, columns=settings.columns, separator=settings.separator)
        if store is None
        else read_stored(landmarks, store, columns=settings.columns)
    )
    cleaned = clean(read, multi=settings.multi)
    report = cleaning_report(cleaned, strangers=strangers)
    with making.into(out) as folder:
        write_cleaned(folder, cleaned, report)
    return report


def clean_making(
    landmarks: AnyPath, *, instances: AnyPath | None, store: AnyPath | None, settings: CleanSettings
) -> Making:
    """What the folder of :func:`clean_step` is made of.

    Raises:
        OptionError: both ``instances`` and ``store``.
    """
    if instances is not None and store is not None:
        raise OptionError("both instances and a store", expected="one of them")
    inputs = tuple(path for path in (landmarks, instances, store) if path is not None)
    return Making(COMMAND, {**asdict(settings), "columns": settings.columns.model_dump()}, inputs)


def write_cleaned(folder: Path, cleaned: Cleaned, report: dict[str, Any]) -> None:
    """Write every file but the manifest into a folder."""
    write_kept(folder / LANDMARKS, cleaned.kept)
    counts = label_counts(cleaned.kept)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    write_table(folder / LABELS, ("label", "landmarks"), ordered)
    write_dropped(folder / DROPPED, cleaned.dropped)
    write_json(folder / REPORT, report)


def read_report(folder: AnyPath) -> dict[str, Any]:
    """The counts in a folder.

    Raises:
        TableError: they cannot be read.
    """
    file = Path(folder) / REPORT
    try:
        report = dict(json.loads(file.read_text(encoding="utf-8")))
        return {name: report[name] for name in cleaning_report(Cleaned([], [], {}), strangers=0)} | report
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise TableError(f"{file}: {error}", expected=f"the report of '{COMMAND}'") from None


def read_stored(landmarks: AnyPath, store: AnyPath, *, columns: ColumnNames) -> tuple[list[Landmark], int]:
    """The landmarks of a table with the values that a store has for them; see :func:`read_landmarks`.

    Raises:
        ScrapeError: the store is something else.
    """
    import pandas as pd

    from ..scrape.outcomes import COLUMNS, table_rows
    from ..scrape.store import Store

    listed = read_table(landmarks, required=[columns.landmark_id, columns.category])
    with Store(store, create=False) as opened:
        rows = [
            ["" if cell is None else str(cell) for cell in row] for row in table_rows(opened, separator=_UNIT_SEPARATOR)
        ]
    scraped = pd.DataFrame(rows, columns=list(COLUMNS), index=pd.RangeIndex(1, len(rows) + 1), dtype=str)
    stored = columns.model_copy(update={"instance_of": "instance_of", "item_ids": "item_ids"})
    scraped = scraped.rename(columns={"landmark_id": columns.landmark_id})
    return join_landmarks(listed, scraped, columns=stored, separator=_UNIT_SEPARATOR, paths=(landmarks, store))
