"""A Wikidata dump, ``latest-all.json.gz`` or ``.bz2``, read once from front to back: without any request.

An item is kept if its Commons category is wanted. Which classes and main topics will be needed is not known before
the end, so that every item with a "topic's main category" (P910), and label and superclasses of every item with a
"subclass of" (P279), wait in a temporary file; what is needed is taken from there. The few that a dump does not answer
(categories that were moved, unusual classes) stay missing, and a run with the api source asks for these alone.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import sqlite3
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from multiprocessing.pool import AsyncResult
from pathlib import Path
from typing import Any

from hiertree.errors import ScrapeError

from .clock import REAL_TIME, Clock
from .dump_blocks import shown_blocks
from .facts import FOUND, MOST_STEPS_UP, Fact, Item, Label, Page, Superclasses
from .store import Store
from .titles import PREFIX
from .wikibase import item_fact, label_fact, superclasses_fact

_SITE, _MAIN_CATEGORY, _SUBCLASS = b'"commonswiki"', b'"P910"', b'"P279"'
_PAGE = re.compile(rb'"commonswiki":\{"site":"commonswiki","title":("(?:[^"\\]|\\.)*")')


@dataclass(frozen=True)
class Wanted:
    """What is missing before the dump is read: titles of pages, ids of items and of labels."""

    pages: frozenset[str]
    items: frozenset[str]
    labels: frozenset[str]


@dataclass
class Found:
    """What a block of lines holds: facts that are wanted, items that may be main topics, labels that may be needed."""

    facts: list[Fact] = field(default_factory=list)
    topics: list[Item] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    above: list[Superclasses] = field(default_factory=list)
    entities: int = 0
    unreadable: int = 0


@dataclass
class DumpReading:
    """How a dump was read: entities, unreadable lines, bytes of JSON, facts kept, seconds."""

    entities: int = 0
    unreadable: int = 0
    bytes: int = 0
    kept: int = 0
    seconds: float = 0.0

    def so_far(self, seconds: float) -> str:
        """What is shown beside the progress."""
        rate = self.bytes / max(seconds, 1e-9) / 1e6
        return f"{rate:.0f} MB/s of JSON, {self.entities} entities, {self.kept} facts"

    def __str__(self) -> str:
        rate = self.bytes / max(self.seconds, 1e-9) / 1e6
        speed = f"{self.bytes / 1e9:.2f} GB of JSON in {self.seconds:.0f} s ({rate:.0f} MB/s)"
        return f"{self.entities} entities, {self.unreadable} unreadable, {self.kept} facts; {speed}"


def read_dump(
    path: str | os.PathLike[str], store: Store, *, processes: int | None = None, clock: Clock = REAL_TIME
) -> DumpReading:
    """Take from a dump what the store lacks.

    Args:
        path: the dump; ``.bz2`` and ``.gz`` by their suffix, anything else is plain JSON, one entity a line.
        store: the landmarks.
        processes: how many parse (and unpack bzip2, if rapidgzip is installed); default: one a core. Memory does not
            depend on the dump's size.
        clock: time.

    Raises:
        ScrapeError: no such file, or one that breaks off; what was read up to there is kept.
    """
    cores = processes or os.cpu_count() or 1
    reading, started = DumpReading(), clock.monotonic()
    missing = Wanted(*(frozenset(store.missing(stage)) for stage in ("page", "item", "label")))
    now = int(clock.now().timestamp())
    with _Waiting(store.path.parent) as waiting, _parsers(missing, cores) as parse:
        try:
            for block, found in parse(shown_blocks(Path(path), cores=cores, note=reading.so_far)):
                reading.bytes += block
                reading.entities += found.entities
                reading.unreadable += found.unreadable
                reading.kept += len(found.facts)
                store.save(found.facts, source="dump", time=now)
                waiting.put(found)
        finally:
            for items in _pieces(store.missing("item")):
                store.save(waiting.topics(items), source="dump", time=now)
            for _ in range(MOST_STEPS_UP):
                for classes in _pieces(store.missing("class")):
                    store.save(waiting.superclasses(classes), source="dump", time=now)
            for labels in _pieces(store.missing("label")):
                store.save(waiting.labels(labels), source="dump", time=now)
    reading.seconds = clock.monotonic() - started
    return reading


def parse_lines(block: bytes, wanted: Wanted) -> Found:
    """What a block of whole lines holds; lines that cannot matter are not parsed.

    >>> line = b'{"id":"Q1","type":"item","labels":{"en":{"value":"lake"}},"claims":{"P279":[]},"sitelinks":{}},'
    >>> parse_lines(line, Wanted(frozenset(), frozenset(), frozenset())).labels
    [Label(key='Q1', text='lake', language='en')]
    """
    found = Found()
    everything_matters = bool(wanted.items or wanted.labels)
    for line in block.splitlines():
        text = line.strip().rstrip(b",")
        if len(text) < 3:
            continue
        found.entities += 1
        if not (everything_matters or _MAIN_CATEGORY in text or _SUBCLASS in text or _has_wanted_page(text, wanted)):
            continue
        try:
            _take(json.loads(text), wanted, found)
        except (ValueError, KeyError, TypeError, AttributeError):
            found.unreadable += 1
    return found


def _has_wanted_page(text: bytes, wanted: Wanted) -> bool:
    """Whether an entity may belong to a wanted category; False is certain."""
    if _SITE not in text:
        return False
    found = _PAGE.search(text)
    try:
        return found is None or json.loads(found[1]) in wanted.pages
    except ValueError:
        return True


def _take(entity: dict[str, Any], wanted: Wanted, found: Found) -> None:
    key, claims = entity["id"], entity.get("claims") or {}
    title = (entity.get("sitelinks") or {}).get("commonswiki", {}).get("title", "")
    if title.startswith(PREFIX) and title in wanted.pages:
        found.facts += [Page(title, FOUND, key), item_fact(key, entity)]
    elif key in wanted.items:
        found.facts.append(item_fact(key, entity))
    elif "P910" in claims:
        found.topics.append(item_fact(key, entity))
    if key in wanted.labels:
        found.facts.append(label_fact(key, entity))
    elif "P279" in claims:
        found.labels.append(label_fact(key, entity))
    if "P279" in claims:
        found.above.append(superclasses_fact(key, entity))


@contextmanager
def _parsers(wanted: Wanted, count: int) -> Iterator[Callable[[Iterator[bytes]], Iterator[tuple[int, Found]]]]:
    """A function that parses blocks in several processes, in their order, few at a time."""
    if count == 1:
        yield lambda blocks: ((len(block), parse_lines(block, wanted)) for block in blocks)
        return
    with multiprocessing.get_context("spawn").Pool(count, _remember, (wanted,)) as pool:
        yield partial(_in_order, pool.apply_async, 2 * count)


def _in_order(
    start: Callable[..., AsyncResult[Found]], most: int, blocks: Iterator[bytes]
) -> Iterator[tuple[int, Found]]:
    running: deque[tuple[int, AsyncResult[Found]]] = deque()
    broken: ScrapeError | None = None
    try:
        for block in blocks:
            running.append((len(block), start(_parse_remembered, (block,))))
            if len(running) == most:
                size, result = running.popleft()
                yield size, result.get()
    except ScrapeError as error:
        broken = error  # what was read before is good
    yield from ((size, result.get()) for size, result in running)
    if broken is not None:
        raise broken


_remembered: list[Wanted] = []


def _remember(wanted: Wanted) -> None:
    """Sent once to each process rather than with each block."""
    _remembered[:] = [wanted]


def _parse_remembered(block: bytes) -> Found:
    return parse_lines(block, _remembered[0])


class _Waiting:
    """What may be needed at the end of the dump, in a temporary SQLite file."""

    def __init__(self, folder: Path) -> None:
        handle, name = tempfile.mkstemp(dir=folder, prefix=".dump-")
        os.close(handle)
        self._path = Path(name)
        self._connection = sqlite3.connect(name, isolation_level=None)
        self._connection.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
            "CREATE TABLE topics (item TEXT PRIMARY KEY, fact TEXT) WITHOUT ROWID;"
            "CREATE TABLE labels (item TEXT PRIMARY KEY, text TEXT, language TEXT) WITHOUT ROWID;"
            "CREATE TABLE above (item TEXT PRIMARY KEY, parents TEXT) WITHOUT ROWID;"
        )

    def __enter__(self) -> _Waiting:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()
        self._path.unlink(missing_ok=True)

    def put(self, found: Found) -> None:
        """Keep a block's candidates."""
        topics = [(item.key, json.dumps(asdict(item))) for item in found.topics]
        labels = [(label.key, label.text, label.language) for label in found.labels]
        self._connection.execute("BEGIN")
        self._connection.executemany("INSERT OR REPLACE INTO topics VALUES (?, ?)", topics)
        self._connection.executemany("INSERT OR REPLACE INTO labels VALUES (?, ?, ?)", labels)
        above = [(one.key, " ".join(one.parents)) for one in found.above]
        self._connection.executemany("INSERT OR REPLACE INTO above VALUES (?, ?)", above)
        self._connection.execute("COMMIT")

    def topics(self, keys: Sequence[str]) -> list[Item]:
        """Those of the items that waited."""
        rows = (self._connection.execute("SELECT fact FROM topics WHERE item = ?", (key,)).fetchone() for key in keys)
        facts = [json.loads(row[0]) for row in rows if row is not None]
        return [Item(**{**fact, "instances": tuple(fact["instances"])}) for fact in facts]

    def superclasses(self, keys: Sequence[str]) -> list[Superclasses]:
        """Those of the classes that waited."""
        query = "SELECT item, parents FROM above WHERE item = ?"
        rows = (self._connection.execute(query, (key,)).fetchone() for key in keys)
        return [Superclasses(row[0], tuple(row[1].split())) for row in rows if row is not None]

    def labels(self, keys: Sequence[str]) -> list[Label]:
        """Those of the labels that waited."""
        query = "SELECT item, text, language FROM labels WHERE item = ?"
        rows = (self._connection.execute(query, (key,)).fetchone() for key in keys)
        return [Label(*row) for row in rows if row is not None]


def _pieces(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(keys), 10_000):
        yield keys[start : start + 10_000]
