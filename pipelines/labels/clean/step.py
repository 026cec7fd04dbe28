"""``hiertree labels clean``: landmarks and their scraped values → the landmarks that have a label, in a folder.

The folder holds ``landmarks.csv`` (those kept), ``labels.csv`` (distinct labels and how many landmarks carry each),
``dropped.csv`` (the others, each with its reason), ``report.json``, ``manifest.json`` and, from a store that knows what
stands above the labels, ``hypernyms.csv``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from hiertree.errors import OptionError, TableError
from hiertree.io.files import write_json
from hiertree.io.tables import write_table

from ..encode.hypernyms import EDGE_COLUMNS
from ..folders import HYPERNYMS, LABELS, REPORT, AnyPath, StepRecord
from ..landmarks import (
    GLDV2_COLUMNS,
    NO_ORIGIN,
    ColumnNames,
    InstanceValue,
    Landmark,
    Origin,
    read_landmarks,
    read_listed,
)
from ..scrape.outcomes import ScrapeOutcome, hypernym_rows, outcomes
from ..scrape.store import Store
from ..settings import Settings
from .landmark_file import DROPPED, LANDMARKS, write_dropped, write_kept
from .rules import Cleaned, DroppedLandmark, Multi, clean_landmarks, label_counts

COMMAND = "hiertree labels clean"
_MENDED_SHOWN = 3


class CleanSettings(Settings):
    """How landmarks are read and cleaned."""

    multi: Annotated[Multi, Field(description="What becomes of landmarks with several labels.")] = "drop"
    separator: Annotated[str, Field(min_length=1, description="What stands between several values.")] = "|"


DEFAULTS = CleanSettings()


def clean_step(
    landmarks: AnyPath,
    *,
    out: AnyPath,
    instances: AnyPath | None = None,
    store: AnyPath | None = None,
    columns: ColumnNames = GLDV2_COLUMNS,
    settings: CleanSettings = DEFAULTS,
) -> dict[str, Any]:
    """Clean labels, write the folder and return its report.

    Args:
        landmarks: CSV or Parquet of landmark ids and Commons categories.
        out: the folder to make.
        instances: CSV or Parquet of landmark ids and "instance of" values; default: the same file.
        store: a store of ``labels scrape`` instead.
        columns: what the columns of the tables are called.
        settings: how landmarks are read and cleaned.

    Raises:
        TableError: a table that cannot be read as asked, or holds no landmark.
        ScrapeError: the store is something else.
        OptionError: both ``instances`` and ``store``, or ``out`` holds other files.
    """
    record = clean_record(landmarks, instances=instances, store=store, columns=columns, settings=settings)
    record.check(out)
    edges: list[tuple[str, ...]] = []
    if store is None:
        read, unknown_ids = read_landmarks(landmarks, instances, columns=columns, separator=settings.separator)
    else:
        read, unknown_ids = read_stored(landmarks, store, columns=columns)
        with Store(store, create=False) as opened:
            edges += hypernym_rows(opened)
    cleaned = clean_landmarks(read, multi=settings.multi)
    report = cleaning_report(cleaned, unknown_ids=unknown_ids)
    with record.writing(out) as folder:
        write_cleaned(folder, cleaned, report)
        if edges:
            write_table(folder / HYPERNYMS, (*EDGE_COLUMNS, "source"), edges)
    return report


def clean_record(
    landmarks: AnyPath,
    *,
    instances: AnyPath | None,
    store: AnyPath | None,
    columns: ColumnNames,
    settings: CleanSettings,
) -> StepRecord:
    """What :func:`clean_step` makes its folder from.

    Raises:
        OptionError: both ``instances`` and ``store``.
    """
    if instances is not None and store is not None:
        raise OptionError("both instances and a store", expected="one of them")
    inputs = tuple(path for path in (landmarks, instances, store) if path is not None)
    return StepRecord(COMMAND, {**settings.model_dump(), "columns": columns.model_dump()}, inputs)


def read_stored(landmarks: AnyPath, store: AnyPath, *, columns: ColumnNames) -> tuple[list[Landmark], int]:
    """The landmarks of a table with the values that a store has for them; see :func:`read_landmarks`.

    Raises:
        ScrapeError: the store is something else.
    """
    ids, categories = read_listed(landmarks, columns=columns)
    with Store(store, create=False) as opened:
        found = {outcome.landmark_id: _values_and_origin(outcome) for outcome in outcomes(opened)}
    listed = zip(ids, categories, strict=True)
    read = [Landmark(key, category, *found.get(key, (None, NO_ORIGIN))) for key, category in listed]
    return read, len(found.keys() - set(ids))


def _values_and_origin(outcome: ScrapeOutcome) -> tuple[tuple[InstanceValue, ...] | None, Origin]:
    """The values of a landmark; None, and why, of one that could not be asked about."""
    if outcome.status in ("failed", "pending"):
        return None, outcome.origin._replace(reason=outcome.reason or "not asked for yet")
    return tuple(InstanceValue(one.text, one.item_id) for one in outcome.instances), outcome.origin


def cleaning_report(cleaned: Cleaned, *, unknown_ids: int) -> dict[str, Any]:
    """The counts of the paper's Sec. VI-A: landmarks read, with a label, dropped by reason, kept; distinct labels.

    Args:
        cleaned: the landmarks kept and dropped.
        unknown_ids: how many scraped ids belong to no listed landmark.
    """
    reasons = Counter(drop.reason for drop in cleaned.dropped)
    landmarks = len(cleaned.kept) + len(cleaned.dropped)
    return {
        "landmarks": landmarks,
        "scraped": landmarks - reasons["not scraped"],
        "with_label": landmarks - reasons["not scraped"] - reasons["no label"],
        "dropped": dict(sorted(reasons.items())),
        "because": causes(cleaned.dropped),
        "kept": len(cleaned.kept),
        "distinct_labels": len(label_counts(cleaned.kept)),
        "scraped_ids_without_landmark": unknown_ids,
        "mended_labels": cleaned.mended,
    }


def causes(dropped: Iterable[DroppedLandmark]) -> dict[str, dict[str, int]]:
    """What is known about why landmarks were dropped for a reason, counted."""
    counts = Counter((drop.reason, drop.origin.reason) for drop in dropped)
    found: dict[str, dict[str, int]] = {}
    for (reason, cause), count in sorted(counts.items()):
        if cause not in ("", reason):
            found.setdefault(reason, {})[cause] = count
    return found


def describe_cleaning(report: Mapping[str, Any]) -> str:
    """The counts as text, one per line.

    >>> counts = {"landmarks": 5, "scraped": 5, "with_label": 3, "kept": 2, "distinct_labels": 2,
    ...           "dropped": {"no label": 2, "several labels": 1}, "because": {"no label": {"missing page": 1}}}
    >>> print(describe_cleaning(counts))
           5 landmarks
           5 scraped
           3 with a label
           2 dropped: no label (1 missing page)
           1 dropped: several labels
           2 kept, with 2 distinct labels
    """
    because = {
        reason: f" ({', '.join(f'{number} {cause}' for cause, number in found.items())})"
        for reason, found in report["because"].items()
    }
    lines = [
        (report["landmarks"], "landmarks"),
        (report["scraped"], "scraped"),
        (report["with_label"], "with a label"),
        *((number, f"dropped: {reason}{because.get(reason, '')}") for reason, number in report["dropped"].items()),
        (report["kept"], f"kept, with {report['distinct_labels']} distinct labels"),
    ]
    if mended := report.get("mended_labels"):
        first = ", ".join(f"{text!r} → {label!r}" for text, label in list(mended.items())[:_MENDED_SHOWN])
        lines.append(
            (len(mended), f"texts put into the form of their label: {first}{', …' * (len(mended) > _MENDED_SHOWN)}")
        )
    return "\n".join(f"{number:8d} {text}" for number, text in lines)


def write_cleaned(folder: Path, cleaned: Cleaned, report: Mapping[str, Any]) -> None:
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
        return {name: report[name] for name in cleaning_report(Cleaned([], [], {}), unknown_ids=0)} | report
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise TableError(f"{file}: {error}", expected=f"the report of '{COMMAND}'") from None
