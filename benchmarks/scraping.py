"""Requests, time and memory of asking about all of GLDv2's landmarks.

The api source runs over answers made up in this process, in time that does not pass: 1 landmark in 12 has no item, 1 in
20 an item that is a category, 1 in 47 has moved, 5,700 classes below 90 others. Memory is the peak of the process,
imports included.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from hiertree.pipelines.labels.scrape.client import Client, Clock, HttpAnswer
from hiertree.pipelines.labels.scrape.outcomes import write_instances
from hiertree.pipelines.labels.scrape.scraping import ask_missing
from hiertree.pipelines.labels.scrape.store import LandmarkRow, Store
from hiertree.pipelines.labels.settings import ScrapeSettings

URL = "http://commons.wikimedia.org/wiki/Category:A_place_with_a_name_"
TITLE = "Category:A place with a name "
CLASSES = 5700


def landmarks(count: int) -> Iterator[LandmarkRow]:
    return (LandmarkRow(str(number), f"{URL}{number}", f"{TITLE}{number}", None) for number in range(count))


def statement(item: str, prop: str = "P31") -> dict[str, Any]:
    named = {"entity-type": "item", "numeric-id": int(item[1:]), "id": item}
    snak = {"snaktype": "value", "property": prop, "datavalue": {"value": named, "type": "wikibase-entityid"}}
    return {"mainsnak": snak, "type": "statement", "rank": "normal"}


class MadeUp:
    """Answers at once, from the numbers in titles and ids."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()

    def get(self, url: str, parameters: Mapping[str, str] | None = None) -> HttpAnswer:
        """Answer as either API would."""
        if not url.endswith("/w/api.php"):
            raise ValueError(url)
        asked = parameters or {}
        self.requests[asked.get("prop", asked.get("props", ""))] += 1
        if asked["action"] == "query":
            pages = [self._page(title, asked["prop"]) for title in asked["titles"].split("|")]
            content: dict[str, Any] = {"batchcomplete": True, "query": {"pages": pages}}
        else:
            entities = {key: self._label(key) | self._item(key) for key in asked["ids"].split("|")}
            content = {"entities": entities, "success": 1}
        return HttpAnswer(200, {}, json.dumps(content).encode())

    def _page(self, title: str, prop: str) -> dict[str, Any]:
        number, head = int(title.rsplit(maxsplit=1)[-1]), {"pageid": 1, "ns": 14, "title": title}
        if prop == "revisions":
            text = f"{{{{Category redirect|New name of place {number}}}}}"
            return {**head, "revisions": [{"slots": {"main": {"content": text}}}]}
        if number % 47 == 0 and title.startswith(TITLE):
            return {**head, "categories": [{"title": "Category:Category redirects"}]}
        return head if number % 12 == 3 else {**head, "pageprops": {"wikibase_item": f"Q{1_000_000 + number}"}}

    def _item(self, key: str) -> dict[str, Any]:
        number = int(key[1:])
        if number < 100 + CLASSES:
            return {"id": key, "claims": {"P279": [statement(f"Q{10 + number % 90}", "P279")]}}
        claims = {"P31": [statement(f"Q{100 + number % CLASSES}")]}
        if number < 3_000_000 and number % 20 == 1:
            claims = {"P31": [statement("Q4167836")], "P301": [statement(f"Q{number + 5_000_000}", "P301")]}
        return {"id": key, "lastrevid": 300 * number, "modified": "2025-01-01T00:00:00Z", "claims": claims}

    def _label(self, key: str) -> dict[str, Any]:
        return {"id": key, "labels": {"en": {"language": "en", "value": f"kind of place {key}"}}}


def timeless() -> tuple[Clock, Callable[[], float]]:
    """A clock that sleeping alone moves, and what it shows."""
    passed = [0.0]

    def sleep(seconds: float) -> None:
        passed[0] += seconds

    start = datetime.now(timezone.utc)
    return Clock(lambda: passed[0], sleep, lambda: start + timedelta(seconds=passed[0])), lambda: passed[0]


def measure(folder: Path, count: int) -> None:
    clock, passed = timeless()
    server, started = MadeUp(), time.perf_counter()
    with Store(folder / "store.sqlite") as store:
        store.add_landmarks(landmarks(count))
        ask_missing(store, Client(server, settings=ScrapeSettings(), clock=clock))
        write_instances(store, folder / "scraped.csv")
    megabytes = (folder / "store.sqlite").stat().st_size / 1e6
    print(f"{server.requests.total()} requests {dict(server.requests)}, {passed() / 60:.0f} min at 200 a minute")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(f"{time.perf_counter() - started:.0f} s of own work, store {megabytes:.0f} MB, peak {peak:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--landmarks", type=int, default=203_094)
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), parser.parse_args().landmarks)


if __name__ == "__main__":
    main()
