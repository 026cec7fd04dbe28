"""Requests, time, memory and disk for scraping 203,094 landmarks, and the speed of reading a dump.

``python benchmarks/scraping.py api`` runs the api source over answers made up in this process, in time that does not
pass: 1 landmark in 12 has no item, 1 in 20 an item that is a category, 1 in 47 has moved, 5,700 classes
below 90 others.
``python benchmarks/scraping.py dump`` writes a dump of ``--gigabytes``, packed with gzip or ``--packed bz2``, into a
temporary folder and reads it with one process and with one per core. Memory is the peak of the largest process, imports
included; processor time is that of all processes.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import json
import os
import random
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

from hiertree.pipelines.labels.scrape.client import Client, Clock, HttpAnswer
from hiertree.pipelines.labels.scrape.dump import read_dump
from hiertree.pipelines.labels.scrape.outcomes import write_instances
from hiertree.pipelines.labels.scrape.scraping import ask_missing
from hiertree.pipelines.labels.scrape.settings import ScrapeSettings
from hiertree.pipelines.labels.scrape.store import LandmarkRow, Store

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


def measure_api(folder: Path, count: int) -> None:
    clock, passed = timeless()
    server, started = MadeUp(), time.perf_counter()
    with Store(folder / "store.sqlite") as store:
        store.add_landmarks(landmarks(count))
        ask_missing(store, Client(server, settings=ScrapeSettings(), clock=clock))
        write_instances(store, folder / "scraped.csv")
    megabytes = (folder / "store.sqlite").stat().st_size / 1e6
    print(f"{server.requests.total()} requests {dict(server.requests)}, {passed() / 60:.0f} min at 200 a minute")
    print(f"{time.perf_counter() - started:.0f} s of own work, store {megabytes:.0f} MB, peak {peak():.0f} MB")


def measure_dump(folder: Path, gigabytes: float, count: int, packed: str) -> None:
    path = folder / f"dump.json.{packed}"
    write_dump(path, gigabytes)
    print(f"{gigabytes:g} GB of JSON in {path.stat().st_size / 1e6:.0f} MB")
    for processes in sorted({1, os.cpu_count() or 1}):
        with Store(folder / f"{processes}.sqlite") as store:
            store.add_landmarks(landmarks(count))
            before = processor_seconds()
            reading = read_dump(path, store, processes=processes)
            rate = gigabytes * 1e3 / (processor_seconds() - before)
            print(f"{processes} processes: {reading}, {rate:.0f} MB a second of processor time; peak {peak():.0f} MB")


def write_dump(path: Path, gigabytes: float) -> None:
    """One entity in ten is a landmark, one in fifty a class; each has 24 kB of labels and of hashed statements."""
    rng, written, number = random.Random(0), 0, 0
    properties = [f"P{1000 + property_}" for property_ in range(40)]
    packed = bz2.open if path.suffix == ".bz2" else partial(gzip.open, compresslevel=1)
    with packed(path, mode="wb") as file:
        file.write(b"[\n")
        while written < gigabytes * 1e9:
            number += 1
            claims = {prop: [hashed(f"Q{rng.randrange(10**8)}", prop, rng)] for prop in properties}
            claims |= {"P31": [statement(f"Q{100 + number % CLASSES}")]}
            claims |= {"P279": [statement("Q5")]} if number % 50 == 7 else {}
            title = f"{TITLE}{number}" if number % 10 == 0 else f"Category:Other {number}"
            sites = {"commonswiki": {"site": "commonswiki", "title": title}} if number % 3 or number % 10 == 0 else {}
            names = {f"l{code}": {"language": f"l{code}", "value": f"name of item {number}"} for code in range(200)}
            labels = {"en": {"language": "en", "value": f"item {number}"}, **names}
            entity = {"type": "item", "id": f"Q{number}", "labels": labels, "claims": claims, "sitelinks": sites}
            written += file.write(json.dumps(entity, separators=(",", ":")).encode() + b",\n")
        file.write(b'{"id":"Q999999999","claims":[]}\n]\n')


def hashed(item: str, prop: str, rng: random.Random) -> dict[str, Any]:
    """A statement with the hash of its snak and an identifier, which do not compress."""
    made = statement(item, prop)
    made["mainsnak"]["hash"] = f"{rng.getrandbits(160):040x}"
    return {**made, "id": f"{item}${rng.getrandbits(128):032x}"}


def processor_seconds() -> float:
    """Of this process and of those that it has awaited."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(entry.ru_utime + entry.ru_stime for entry in used)


def peak() -> float:
    return max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["api", "dump"])
    parser.add_argument("--landmarks", type=int, default=203_094)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--packed", choices=["gz", "bz2"], default="gz")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if chosen.part == "api":
            measure_api(Path(folder), chosen.landmarks)
        else:
            measure_dump(Path(folder), chosen.gigabytes, chosen.landmarks, chosen.packed)


if __name__ == "__main__":
    main()
