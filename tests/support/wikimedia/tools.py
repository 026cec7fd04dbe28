"""What tests of the scraper share: a clock that no one waits for, and a run against a loopback Wikimedia."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta, timezone
from typing import IO, Any, Literal

from hiertree.pipelines.labels.scrape.client import Client, Clock, Transport
from hiertree.pipelines.labels.scrape.scraping import ask_missing
from hiertree.pipelines.labels.scrape.store import LandmarkRow, Store
from hiertree.pipelines.labels.settings import ScrapeSettings
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
    """The landmarks of ``Places.numbered``."""
    return [LandmarkRow(str(index), f"c{index}", f"Category:Place {index}", None) for index in range(count)]


def scrape(
    store: Store,
    wikimedia: Wikimedia,
    time: FakeTime,
    *,
    cutoff: int = 0,
    log: IO[str] | None = None,
    source: Literal["api", "html"] = "api",
    **others: Any,
) -> Counter[str]:
    """Run a source in fake time; ``others`` are further settings."""
    settings = ScrapeSettings(contact=CONTACT, source=source, **wikimedia.options, **others)
    client = Client(Transport(settings), settings=settings, clock=time.clock, log=log)
    return ask_missing(store, client, cutoff=cutoff)


def facts(store: Store) -> list[tuple[object, ...]]:
    """Everything that a store knows, without times and failures."""
    execute = store.connection.execute
    tables = {"landmarks": "*", "answers": "stage, key, source, answer", "leads": "*"}
    return [
        (name, *row)
        for name, columns in tables.items()
        for row in execute(f"SELECT {columns} FROM {name} ORDER BY 1, 2, 3")
    ]
