"""``hiertree labels scrape``, ``status`` and ``retry``: a store, a source and the etiquette put together."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

from hiertree.errors import OptionError

from ..landmarks import ColumnNames
from .client import Client
from .dump import Reading, read_dump
from .dump_blocks import dump_file
from .etiquette import POLITE, REAL_TIME, Clock, Etiquette
from .facts import Stage
from .outcomes import tally
from .scraping import GLDV2, Journal, Source, api_source, html_source, read_categories, run, write_table
from .store import Store
from .transport import Endpoints, Transport, is_loopback

WebSource: TypeAlias = Literal["api", "html"]
Tally: TypeAlias = "Counter[tuple[str, str]]"
_DAY = 86_400
_FASTEST = {"api": 300, "html": 1200}  # requests a minute to Wikimedia: 5 and 20 a second
_STAGES: tuple[Stage, ...] = ("page", "move", "item", "label")


@dataclass(frozen=True)
class Web:
    """How to ask Wikimedia.

    Attributes:
        contact: mail address or web page of whoever runs this, for the operators; there is no default.
        source: ``api`` asks 50 landmarks a request, ``html`` reads one page a landmark.
        endpoints: where to ask.
        etiquette: how politely.
        log: a text file for JSON lines.
        clock: time.
    """

    contact: str
    source: WebSource = "api"
    endpoints: Endpoints = field(default_factory=Endpoints)
    etiquette: Etiquette = POLITE
    log: IO[str] | None = None
    clock: Clock = REAL_TIME

    def __post_init__(self) -> None:
        """Refuse to ask Wikimedia faster than it allows."""
        fastest = _FASTEST[self.source]
        asked = self.endpoints.commons_api if self.source == "api" else self.endpoints.commons_site
        if self.etiquette.requests_per_minute >= fastest and not is_loopback(asked):
            raise OptionError(
                f"requests_per_minute={self.etiquette.requests_per_minute:g}", expected=f"fewer than {fastest}"
            )

    @contextmanager
    def opened(self) -> Iterator[tuple[Source, Journal]]:
        """The source, ready to be asked, and the log."""
        journal = Journal(self.log, self.clock)
        transport = Transport(self.contact, endpoints=self.endpoints, clock=self.clock)
        # the rest after slow answers is a rule of the action API; pages are slow as a matter of course
        etiquette = self.etiquette if self.source == "api" else replace(self.etiquette, rest=0.0)
        client = Client(transport, etiquette=etiquette, clock=self.clock, on_retry=journal.retried)
        try:
            yield (api_source if self.source == "api" else html_source)(client, self.endpoints), journal
        finally:
            journal.write("end", {"requests": client.requests})


def scrape(
    landmarks: str | Path,
    *,
    store: str | Path,
    web: Web,
    columns: ColumnNames = GLDV2,
    refresh_older_than: float | None = None,
    table: str | Path | None = None,
) -> Tally:
    """Ask Wikimedia for the types of landmarks: only for what the store does not know yet.

    Args:
        landmarks: CSV or Parquet with ids and Commons categories, as GLDv2's ``train_label_to_category.csv``.
        store: SQLite file, made where there is none; every answer is in it as soon as it has come.
        web: how to ask.
        columns: what the columns are called.
        refresh_older_than: also ask for facts older than so many days.
        table: a CSV for ``labels build --instances``, written at the end.

    Returns:
        Landmarks by status and reason.

    Raises:
        TableError: the landmarks cannot be read.
        OptionError: a contact that reaches nobody, a rate above Wikimedia's, a negative age.
        ScrapeError: the store is another's or in use, or the servers refuse or stay silent.
    """
    if refresh_older_than is not None and not refresh_older_than >= 0:
        raise OptionError(f"refresh_older_than={refresh_older_than}", expected="days from 0")
    rows = read_categories(landmarks, columns=columns)
    now = web.clock.now().timestamp()
    before = 0 if refresh_older_than is None else int(now - refresh_older_than * _DAY)
    with web.opened() as (source, journal), Store(store) as opened, opened.alone():
        opened.add_landmarks(rows)
        run(opened, source, before=before, clock=web.clock, journal=journal)
        return _finished(opened, table)


def scrape_dump(
    landmarks: str | Path,
    *,
    store: str | Path,
    dump: str | Path,
    columns: ColumnNames = GLDV2,
    processes: int | None = None,
    table: str | Path | None = None,
) -> tuple[Tally, Reading]:
    """Take the types of landmarks from a Wikidata dump; nobody is asked.

    Args:
        landmarks: as in :func:`scrape`.
        store: as in :func:`scrape`; a later :func:`scrape` asks for what the dump did not settle.
        dump: ``latest-all.json.bz2`` or ``.gz``.
        columns: what the columns are called.
        processes: how many parse; default: one a core.
        table: as in :func:`scrape`.

    Returns:
        Landmarks by status and reason, and how the dump was read.

    Raises:
        TableError: the landmarks cannot be read.
        ScrapeError: the dump is not there or breaks off, or the store is another's or in use.
    """
    rows, file = read_categories(landmarks, columns=columns), dump_file(dump)
    with Store(store) as opened, opened.alone():
        opened.add_landmarks(rows)
        reading = read_dump(file, opened, processes=processes)
        return _finished(opened, table), reading


def retry(store: str | Path, *, web: Web, table: str | Path | None = None) -> Tally:
    """Ask again for what failed, and for what is missing.

    Args:
        store: an existing store.
        web: how to ask.
        table: as in :func:`scrape`.

    Raises:
        OptionError, ScrapeError: as :func:`scrape`.
    """
    with web.opened() as (source, journal), Store(store, create=False) as opened, opened.alone():
        opened.forgive()
        run(opened, source, clock=web.clock, journal=journal)
        return _finished(opened, table)


def status(store: str | Path, *, table: str | Path | None = None) -> dict[str, Any]:
    """What a store holds: landmarks by status and reason, rows, keys to ask by stage, failures, times.

    Args:
        store: an existing store; a scrape may be at work on it.
        table: as in :func:`scrape`.

    Raises:
        ScrapeError: no such store.
    """
    with Store(store, create=False) as opened:
        found = _finished(opened, table)
        oldest, newest = opened.connection.execute("SELECT min(time), max(time) FROM pages").fetchone()
        return {
            "outcomes": [
                {"status": status, "reason": reason, "landmarks": count}
                for (status, reason), count in sorted(found.items())
            ],
            "rows": opened.counts(),
            "to_ask": {stage: len(opened.missing(stage)) for stage in _STAGES},
            "oldest_page": _date(oldest),
            "newest_page": _date(newest),
        }


def describe_outcomes(found: Tally) -> str:
    """A line a status and reason.

    >>> print(describe_outcomes(Counter({("labelled", ""): 841, ("unlabelled", "no instance of"): 2})))
    843 landmarks
         841 labelled
           2 unlabelled: no instance of
    """
    lines = [f"{count:8d} {': '.join(filter(None, key))}" for key, count in sorted(found.items())]
    return "\n".join([f"{sum(found.values())} landmarks", *lines])


def describe_status(report: dict[str, Any]) -> str:
    """The same for what :func:`status` returns, with what is still to be asked."""
    found = Counter({(row["status"], row["reason"]): row["landmarks"] for row in report["outcomes"]})
    rows = ", ".join(f"{count} {name}" for name, count in report["rows"].items())
    waiting = ", ".join(f"{count} {stage}s" for stage, count in report["to_ask"].items() if count)
    times = f"pages of {report['oldest_page']} … {report['newest_page']}"
    return "\n".join([describe_outcomes(found), f"stored: {rows}; {times}", f"to ask: {waiting or 'nothing'}"])


def _finished(store: Store, table: str | Path | None) -> Tally:
    if table is not None:
        write_table(store, table)
    return tally(store)


def _date(seconds: int | None) -> str | None:
    return None if seconds is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
