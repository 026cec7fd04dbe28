"""Scrape the types of landmarks into a store: from Wikimedia or a dump, or again what failed; and as a plan's step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO

from hiertree.errors import CategoryError, ScrapeError
from hiertree.io.files import write_json
from hiertree.io.outputs import check_outputs
from hiertree.io.provenance import sha256

from ..folders import AnyPath
from ..landmarks import GLDV2_COLUMNS, ColumnNames, read_listed
from .asking import SOURCES, ScrapeLog, ask_missing
from .dump.blocks import dump_file
from .dump.reading import DumpReading, read_dump
from .outcomes import Tally, tally, write_instances
from .reporting import describe_outcomes
from .settings import ScrapeSettings
from .store import LandmarkRow, Store
from .titles import landmark_key
from .web.client import Client
from .web.clock import REAL_TIME, Clock
from .web.transport import Transport

STORE, DUMP_READ = "store.sqlite", "dump.json"
_DAY = 86_400


def scrape(
    landmarks: AnyPath | None,
    *,
    store: AnyPath,
    settings: ScrapeSettings,
    columns: ColumnNames = GLDV2_COLUMNS,
    table: AnyPath | None = None,
    failed_too: bool = False,
    log: IO[str] | None = None,
    clock: Clock = REAL_TIME,
) -> Tally:
    """Ask Wikimedia for the types of landmarks: only for what the store does not know yet.

    Args:
        landmarks: CSV or Parquet with ids and Commons categories, as GLDv2's ``train_label_to_category.csv``, or with
            Wikidata's items; None for those that an existing store lists.
        store: SQLite file, made where there is none; every answer is in it as soon as it has come.
        settings: whom to ask, and how.
        columns: what the columns are called.
        table: a CSV for ``labels build --instances``, written at the end.
        failed_too: also ask again for what failed in an earlier run.
        log: a text file for JSON lines.
        clock: time.

    Returns:
        Landmarks by status and reason.

    Raises:
        OutputError: the table would replace an input.
        TableError: the landmarks cannot be read.
        OptionError: no contact.
        ScrapeError: the store is another's or in use, or the servers refuse or stay silent.
    """
    check_outputs([table], inputs=[path for path in (landmarks, store) if path is not None], force=True)
    rows = [] if landmarks is None else read_categories(landmarks, columns=columns)
    days = settings.refresh_older_than
    before = 0 if days is None else int(clock.now().timestamp() - days * _DAY)
    transport = Transport(settings, clock=clock)  # before the store is made: there may be no contact
    journal = ScrapeLog(log, clock)
    with Store(store, create=landmarks is not None) as opened, opened.alone():
        opened.add_landmarks(rows)
        if failed_too:
            opened.forget_failures()
        client = Client(transport, settings=settings, clock=clock, memory=opened, on_retry=journal.retried)
        try:
            ask_missing(opened, SOURCES[settings.source](client, settings), before=before, clock=clock, log=journal)
        finally:
            journal.write("end", {"requests": client.requests})
        return _finished(opened, table)


def scrape_dump(
    landmarks: AnyPath,
    *,
    store: AnyPath,
    settings: ScrapeSettings,
    columns: ColumnNames = GLDV2_COLUMNS,
    table: AnyPath | None = None,
) -> tuple[Tally, DumpReading]:
    """Take the types of landmarks from the Wikidata dump that the settings name; nobody is asked.

    Args:
        landmarks: as in :func:`scrape`.
        store: as in :func:`scrape`; a later :func:`scrape` asks for what the dump does not hold.
        settings: the dump, and how many processes parse it.
        columns: what the columns are called.
        table: as in :func:`scrape`.

    Returns:
        Landmarks by status and reason, and how the dump was read.

    Raises:
        OutputError: the table would replace an input.
        TableError: the landmarks cannot be read.
        ScrapeError: the dump is not there or breaks off, or the store is another's or in use.
    """
    if settings.dump is None:
        raise ScrapeError("no dump", expected="the path of a Wikidata dump")
    check_outputs([table], inputs=[landmarks, store, settings.dump], force=True)
    rows, file = read_categories(landmarks, columns=columns), dump_file(settings.dump)
    with Store(store) as opened, opened.alone():
        opened.add_landmarks(rows)
        reading = read_dump(file, opened, processes=settings.processes)
        return _finished(opened, table), reading


def read_categories(path: AnyPath, *, columns: ColumnNames = GLDV2_COLUMNS) -> list[LandmarkRow]:
    """Read landmarks and the titles of their categories; a malformed one is kept with the reason.

    Raises:
        TableError: the table cannot be read or lists no landmark, or an id is no integer, negative or there twice.
    """
    return [_landmark(*row) for row in zip(*read_listed(path, columns=columns), strict=True)]


def _landmark(landmark_id: int, category: str) -> LandmarkRow:
    try:
        return LandmarkRow(landmark_id, category, landmark_key(category), None)
    except CategoryError as error:
        return LandmarkRow(landmark_id, category, None, error.given)


def _finished(store: Store, table: AnyPath | None) -> Tally:
    if table is not None:
        write_instances(store, table)
    return tally(store)


def dump_step(landmarks: Path, *, settings: ScrapeSettings, columns: ColumnNames, folder: Path) -> str | None:
    """Read the dump into the folder's store, unless it was read for the same landmarks; a report, or None.

    A dump of a hundred gigabytes is known by its name, size and time, not by its hash.

    Raises:
        HiertreeError: as :func:`hiertree.pipelines.labels.scrape.scrape_dump`.
    """
    dump, note = dump_file(settings.dump or ""), folder / DUMP_READ
    found = dump.stat()
    known = {"dump": dump.name, "bytes": found.st_size, "modified": found.st_mtime_ns, "landmarks": sha256(landmarks)}
    if (folder / STORE).exists() and _noted(note) == known:
        return None
    tally, reading = scrape_dump(landmarks, store=folder / STORE, settings=settings, columns=columns)
    write_json(note, known)
    return f"{reading}\n{describe_outcomes(tally)}"


def _noted(note: Path) -> object:
    try:
        return json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None  # nothing that can be trusted: the dump is read again
