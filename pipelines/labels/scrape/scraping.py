"""Scrape the types of landmarks into a store: from Wikimedia, from a dump, or again what failed."""

from __future__ import annotations

from pathlib import Path
from typing import IO

from hiertree.errors import CategoryError, ScrapeError
from hiertree.io.outputs import check_outputs

from ..landmarks import GLDV2_COLUMNS, ColumnNames, read_listed
from .asking import SOURCES, ScrapeLog, ask_missing
from .dump.blocks import dump_file
from .dump.reading import DumpReading, read_dump
from .outcomes import Tally, tally, write_table
from .settings import ScrapeSettings
from .store import LandmarkRow, Store
from .titles import landmark_key
from .web.client import Client
from .web.clock import REAL_TIME, Clock
from .web.transport import Transport

AnyPath = str | Path
_DAY = 86_400


def scrape(
    landmarks: AnyPath,
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
        landmarks: CSV or Parquet with ids and Commons categories, as GLDv2's ``train_label_to_category.csv``.
        store: SQLite file, made where there is none; every answer is in it as soon as it has come.
        settings: whom to ask, and how.
        columns: what the columns are called.
        table: a CSV for ``labels build --instances``, written at the end.
        failed_too: also ask again for what failed in an earlier run, as :func:`retry` does.
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
    check_outputs([table], inputs=[landmarks, store], force=True)
    rows, days = read_categories(landmarks, columns=columns), settings.refresh_older_than
    before = 0 if days is None else int(clock.now().timestamp() - days * _DAY)
    transport = Transport(settings, clock=clock)  # before the store is made: there may be no contact
    with Store(store) as opened, opened.alone():
        opened.add_landmarks(rows)
        if failed_too:
            opened.forget_failures()
        _ask(opened, transport, settings, log, clock, before=before)
        return _finished(opened, table)


def retry(
    store: AnyPath,
    *,
    settings: ScrapeSettings,
    table: AnyPath | None = None,
    log: IO[str] | None = None,
    clock: Clock = REAL_TIME,
) -> Tally:
    """Ask again for what failed, and for what is missing.

    Args:
        store: an existing store.
        settings: as in :func:`scrape`, as are the others.
        table: a CSV.
        log: a text file.
        clock: time.

    Raises:
        OutputError, OptionError, ScrapeError: as :func:`scrape`.
    """
    check_outputs([table], inputs=[store], force=True)
    transport = Transport(settings, clock=clock)
    with Store(store, create=False) as opened, opened.alone():
        opened.forget_failures()
        _ask(opened, transport, settings, log, clock)
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


def _ask(
    store: Store, transport: Transport, settings: ScrapeSettings, log: IO[str] | None, clock: Clock, *, before: int = 0
) -> None:
    journal = ScrapeLog(log, clock)
    client = Client(transport, settings=settings, clock=clock, memory=store, on_retry=journal.retried)
    try:
        ask_missing(store, SOURCES[settings.source](client, settings), before=before, clock=clock, log=journal)
    finally:
        journal.write("end", {"requests": client.requests})


def _finished(store: Store, table: AnyPath | None) -> Tally:
    if table is not None:
        write_table(store, table)
    return tally(store)
