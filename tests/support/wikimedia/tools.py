"""What tests of the scraper share: a clock that no one waits for, and a run against a loopback Wikimedia."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import IO

from hiertree.pipelines.labels.scrape.client import Client
from hiertree.pipelines.labels.scrape.etiquette import POLITE, Clock, Etiquette
from hiertree.pipelines.labels.scrape.scraping import Journal, Source, api_source, run
from hiertree.pipelines.labels.scrape.store import LandmarkRow, Store
from hiertree.pipelines.labels.scrape.transport import Endpoints, Transport
from wikimedia.server import Wikimedia

CONTACT = "maps@univ-lab.fr"


class FakeTime:
    """Time that passes only when someone sleeps; ``slept`` lists how long."""

    def __init__(self) -> None:
        self.seconds, self.slept = 0.0, list[float]()
        self.start = datetime.now(timezone.utc)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds

    def now(self) -> datetime:
        return self.start + timedelta(seconds=self.seconds)

    @property
    def clock(self) -> Clock:
        return Clock(self.monotonic, self.sleep, self.now)


def places(count: int) -> list[LandmarkRow]:
    """The landmarks of ``World.numbered``."""
    return [LandmarkRow(number, f"c{number}", f"Category:Place {number}", None) for number in range(count)]


def scrape(
    store: Store,
    wikimedia: Wikimedia,
    time: FakeTime,
    *,
    etiquette: Etiquette = POLITE,
    before: int = 0,
    log: IO[str] | None = None,
    source: Callable[[Client, Endpoints], Source] = api_source,
) -> Counter[str]:
    """Run a source in fake time."""
    endpoints = Endpoints(**wikimedia.options)
    journal = Journal(log, time.clock)
    client = Client(
        Transport(CONTACT, endpoints=endpoints), etiquette=etiquette, clock=time.clock, on_retry=journal.retried
    )
    return run(store, source(client, endpoints), before=before, clock=time.clock, journal=journal)


def facts(store: Store) -> list[tuple[object, ...]]:
    """Everything that a store knows, without times and failures."""
    read = store.connection.execute
    tables = {
        "landmarks": "*",
        "pages": "title, status, item, redirects, target, read, source",
        "items": "item, status, redirect, category, topic, revision, modified, source",
        "instances": "*",
        "labels": "item, text, language, source",
    }
    return [
        row for name, columns in tables.items() for row in read(f"SELECT '{name}', {columns} FROM {name} ORDER BY 2, 3")
    ]
