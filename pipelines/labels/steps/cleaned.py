"""``hiertree labels clean``: landmarks and their scraped values → the landmarks that have a label, in a folder.

The folder holds ``landmarks.csv`` (those kept), ``labels.csv`` (distinct labels and how many landmarks carry each),
``dropped.csv`` (the others, each with its reason), ``report.json`` and ``manifest.json``.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from hiertree.errors import OptionError
from hiertree.files import write_json
from hiertree.pipelines.labels.cleaning import Cleaned, Multi, clean
from hiertree.pipelines.labels.counting import cleaning_report, label_counts
from hiertree.pipelines.labels.folders import AnyPath, made_folder
from hiertree.pipelines.labels.landmark_file import DROPPED, LANDMARKS, write_dropped, write_kept
from hiertree.pipelines.labels.reading import Columns, Landmark, join_landmarks, read_landmarks
from hiertree.pipelines.labels.tables import LABELS, REPORT
from hiertree.tables import read_table, write_table

COMMAND = "hiertree labels clean"
_UNIT_SEPARATOR = "\x1f"  # no label holds it: normalise_label would take it out


def clean_step(
    landmarks: AnyPath,
    *,
    out: AnyPath,
    instances: AnyPath | None = None,
    store: AnyPath | None = None,
    columns: Columns | None = None,
    separator: str = "|",
    multi: Multi = "drop",
) -> dict[str, Any]:
    """Clean labels, write the folder and return its report.

    Args:
        landmarks: CSV or Parquet of landmark ids and Commons categories.
        out: the folder to make.
        instances: CSV or Parquet of landmark ids and "instance of" values; default: the same file.
        store: a store of ``labels scrape`` instead.
        columns: what the columns are called.
        separator: what stands between several values.
        multi: what becomes of landmarks with several labels: ``"drop"``, ``"first"`` or ``"all"``.

    Raises:
        TableError: a table that cannot be read as asked.
        ScrapeError: the store is something else.
        OptionError: both ``instances`` and ``store``, an unknown ``multi``, or ``out`` holds other files.
    """
    if instances is not None and store is not None:
        raise OptionError("both instances and a store", expected="one of them")
    names = columns or Columns()
    read, strangers = (
        read_landmarks(landmarks, instances, columns=names, separator=separator)
        if store is None
        else read_stored(landmarks, store, columns=names)
    )
    cleaned = clean(read, multi=multi)
    report = cleaning_report(cleaned, strangers=strangers)
    inputs = [path for path in (landmarks, instances, store) if path is not None]
    with made_folder(
        out, command=COMMAND, parameters=clean_parameters(names, separator, multi), inputs=inputs
    ) as folder:
        write_cleaned(folder, cleaned, report)
    return report


def clean_parameters(columns: Columns, separator: str, multi: Multi) -> dict[str, Any]:
    """The settings, for the manifest."""
    return {"columns": asdict(columns), "separator": separator, "multi": multi}


def write_cleaned(folder: Path, cleaned: Cleaned, report: dict[str, Any]) -> None:
    """Write every file but the manifest into a folder."""
    write_kept(folder / LANDMARKS, cleaned.kept)
    counts = label_counts(cleaned.kept)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    write_table(folder / LABELS, ("label", "landmarks"), ordered)
    write_dropped(folder / DROPPED, cleaned.dropped)
    write_json(folder / REPORT, report)


def read_stored(landmarks: AnyPath, store: AnyPath, *, columns: Columns) -> tuple[list[Landmark], int]:
    """The landmarks of a table with the values that a store has for them; see :func:`read_landmarks`.

    Raises:
        ScrapeError: the store is something else.
    """
    import pandas as pd

    from hiertree.pipelines.labels.scrape.outcomes import COLUMNS, table_rows
    from hiertree.pipelines.labels.scrape.store import Store

    listed = read_table(landmarks, required=[columns.landmark_id, columns.category])
    with Store(store, create=False) as opened:
        rows = [
            ["" if cell is None else str(cell) for cell in row] for row in table_rows(opened, separator=_UNIT_SEPARATOR)
        ]
    scraped = pd.DataFrame(rows, columns=list(COLUMNS), index=pd.RangeIndex(1, len(rows) + 1), dtype=str)
    stored = replace(columns, instance_of="instance_of", item_ids="item_ids")
    scraped = scraped.rename(columns={"landmark_id": columns.landmark_id})
    return join_landmarks(listed, scraped, columns=stored, separator=_UNIT_SEPARATOR, paths=(landmarks, store))
