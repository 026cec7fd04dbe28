"""A Wikidata dump, ``latest-all.json.gz`` or ``.bz2``, read once from front to back: without any request.

An item is kept if its Commons category is wanted. Which classes and main topics will be needed is not known before the
end. So every item with a "topic's main category" (P910), and label and superclasses of every item with a "subclass of"
(P279), wait in a temporary store; what is needed is taken from there. The few that a dump does not answer (moved
categories, unusual classes) stay missing, and a run with the api source asks for these alone.
"""

from __future__ import annotations

import bz2
import gzip
import importlib.util
import json
import multiprocessing
import os
import re
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from multiprocessing.pool import AsyncResult
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from hiertree.errors import ScrapeError
from hiertree.io.files import AnyPath
from hiertree.io.progress import show_progress
from hiertree.io.reading import Complaint, reading_file

from .facts import FOUND, Fact, Page, item_fact, label_fact, superclasses_fact
from .store import Store
from .titles import PREFIX

BLOCK = 4 << 20
_WHOLE: Complaint = {"expected": "a whole dump", "remedy": "download it again", "kind": ScrapeError}
LONGEST_LINE = 256 << 20
_ENTITY = re.compile("[A-Z][1-9][0-9]*(-[A-Z][1-9][0-9]*)?")
Read = Callable[[int], bytes]
Tell = Callable[[], int]
_SITE, _MAIN_CATEGORY, _SUBCLASS = b'"commonswiki"', b'"P910"', b'"P279"'
_PAGE = re.compile(rb'"commonswiki":\{"site":"commonswiki","title":("(?:[^"\\]|\\.)*")')


def dump_file(path: AnyPath) -> Path:
    """The path of an existing file that begins like a dump: perhaps a line ``[``, then one entity per line."""
    file = Path(path)
    if not file.is_file():
        raise ScrapeError(f"{file}", expected="a Wikidata dump, such as latest-all.json.bz2")
    with reading_file(file, **_WHOLE), _opened(file, 1) as (read_piece, _):
        beginning = next(_whole_lines(file, read_piece), b"")
    lines = [line.strip() for line in beginning.splitlines()]
    first = next((line for line in lines if line not in (b"", b"[")), b"")
    if not _is_entity(first.removesuffix(b",")):
        excerpt = first[:60].decode("utf-8", "replace")
        raise ScrapeError(f"{file}, with {excerpt!r}", expected="a Wikidata dump, an entity in JSON on each line")
    return file


def _is_entity(line: bytes) -> bool:
    try:
        entity = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(entity, dict) and isinstance(entity.get("id"), str) and bool(_ENTITY.fullmatch(entity["id"]))


def shown_blocks(path: Path, *, cores: int, note: Callable[[], str]) -> Iterator[bytes]:
    """The dump in blocks of whole lines, with progress by the bytes of the file."""
    reported_size, size = 0, dump_file(path).stat().st_size >> 20
    with (
        show_progress(description="dump, MiB", total=size) as advance,
        reading_file(path, **_WHOLE),
        _opened(path, cores) as (read_piece, tell),
    ):
        for block in _whole_lines(path, read_piece):
            yield block
            done = tell() >> 20
            advance(done - reported_size, note())
            reported_size = done


@contextmanager
def _opened(path: Path, cores: int) -> Iterator[tuple[Read, Tell]]:
    """A reader of the text, and a function for the bytes of the file read so far."""
    if path.suffix == ".bz2" and importlib.util.find_spec("rapidgzip") is not None:
        import rapidgzip

        with rapidgzip.IndexedBzip2File(str(path), parallelization=cores) as unpacked:
            yield unpacked.read, lambda: unpacked.tell_compressed() // 8
    else:
        unpack: dict[str, Callable[[Any], Any]] = {".bz2": bz2.open, ".gz": gzip.open}
        with path.open("rb") as file:
            yield unpack.get(path.suffix, lambda plain: plain)(file).read, file.tell


def _whole_lines(path: Path, read_piece: Read) -> Iterator[bytes]:
    rest, last, is_list = b"", b"", None
    while piece := read_piece(BLOCK):
        rest += piece
        is_list = rest.lstrip().startswith(b"[") if is_list is None else is_list
        cut = rest.rfind(b"\n") + 1
        if cut:
            yield rest[:cut]
            last, rest = rest[max(0, cut - 8) : cut], rest[cut:]
        elif len(rest) > LONGEST_LINE:
            raise ScrapeError(f"{path}: a line above {LONGEST_LINE >> 20} MiB", expected="one entity per line")
    if rest.strip():
        yield rest
    if is_list is None or (is_list and (last + rest).split()[-1:] != [b"]"]):
        raise ScrapeError(f"{path} is truncated", expected="a last line ']'", remedy="download it again")


class Wanted(NamedTuple):
    """What the store lacks before the dump is read: titles of pages, ids of items and of labels."""

    page: frozenset[str]
    item: frozenset[str]
    label: frozenset[str]


@dataclass
class Found:
    """What a block of lines holds: facts that are wanted, and those that may be once the dump has been read."""

    facts: list[Fact] = field(default_factory=list)
    waiting: list[Fact] = field(default_factory=list)
    entities: int = 0
    unreadable: int = 0


@dataclass
class DumpReading:
    """How a dump was read: entities, unreadable lines, facts kept."""

    entities: int = 0
    unreadable: int = 0
    kept: int = 0

    def __str__(self) -> str:
        return f"{self.entities} entities, {self.unreadable} unreadable, {self.kept} facts"


def read_dump(path: AnyPath, store: Store, *, processes: int | None = None) -> DumpReading:
    """Take from a dump what the store lacks."""
    cores, timestamp = processes or os.cpu_count() or 1, int(time.time())
    reading, missing = DumpReading(), store.missing()
    targets = Wanted(frozenset(missing["page"]), frozenset(missing["item"]), frozenset(missing["label"]))
    blocks = shown_blocks(Path(path), cores=cores, note=lambda: str(reading))
    with (
        TemporaryDirectory(dir=store.path.parent, prefix=".dump-") as folder,
        Store(Path(folder) / "waiting.sqlite") as waiting,
        closing(_parsed(blocks, targets, cores)) as parsed,
    ):
        waiting.connection.execute("PRAGMA synchronous = OFF")
        try:
            for content in parsed:
                reading.entities += content.entities
                reading.unreadable += content.unreadable
                reading.kept += len(content.facts)
                store.save(content.facts, source="dump", time=timestamp)
                waiting.save(content.waiting, source="dump", time=timestamp)
        finally:
            while facts := _needed(store, waiting):
                store.save(facts, source="dump", time=timestamp)
    return reading


def parse_lines(block: bytes, targets: Wanted) -> Found:
    """What a block of whole lines holds; lines that cannot matter are not parsed."""
    content = Found()
    everything_matters = bool(targets.item or targets.label)
    for line in block.splitlines():
        text = line.strip().rstrip(b",")
        if len(text) < 3:
            continue
        content.entities += 1
        if not (everything_matters or _MAIN_CATEGORY in text or _SUBCLASS in text or _has_wanted_page(text, targets)):
            continue
        try:
            _take(json.loads(text), targets, content)
        except (ValueError, KeyError, TypeError, AttributeError):
            content.unreadable += 1
    return content


def _has_wanted_page(text: bytes, targets: Wanted) -> bool:
    """Whether an entity may belong to a wanted category; False is certain."""
    if _SITE not in text:
        return False
    page_match = _PAGE.search(text)
    try:
        return page_match is None or json.loads(page_match[1]) in targets.page
    except ValueError:
        return True


def _take(entity: dict[str, Any], targets: Wanted, content: Found) -> None:
    key, claims = entity["id"], entity.get("claims") or {}
    title = (entity.get("sitelinks") or {}).get("commonswiki", {}).get("title", "")
    if title.startswith(PREFIX) and title in targets.page:
        content.facts += [Page(title, FOUND, key), item_fact(key, entity)]
    elif key in targets.item:
        content.facts.append(item_fact(key, entity))
    elif "P910" in claims:
        content.waiting.append(item_fact(key, entity))
    if key in targets.label:
        content.facts.append(label_fact(key, entity))
    elif "P279" in claims:
        content.waiting.append(label_fact(key, entity))
    if "P279" in claims:
        content.waiting.append(superclasses_fact(key, entity))


def _parsed(blocks: Iterator[bytes], targets: Wanted, processes: int) -> Generator[Found, None, None]:
    """Yield the content of each block; several processes parse a few at a time."""
    if processes == 1:
        yield from (parse_lines(block, targets) for block in blocks)
        return
    running: deque[AsyncResult[Found]] = deque()
    broken: ScrapeError | None = None
    with multiprocessing.get_context("spawn").Pool(processes, _remember, (targets,)) as pool:
        try:
            for block in blocks:
                running.append(pool.apply_async(_parse_remembered, (block,)))
                if len(running) == 2 * processes:
                    yield running.popleft().get()
        except ScrapeError as error:
            broken = error  # what was read before is good
        yield from (result.get() for result in running)
    if broken is not None:
        raise broken


_remembered: list[Wanted] = []


def _remember(targets: Wanted) -> None:
    """Keep what is wanted in each process, so that it is sent once and not with each block."""
    _remembered[:] = [targets]


def _parse_remembered(block: bytes) -> Found:
    return parse_lines(block, _remembered[0])


def _needed(store: Store, waiting: Store) -> list[Fact]:
    """The waiting facts that the store now needs."""
    records = (waiting.known(stage, key) for stage, keys in store.missing().items() for key in keys)
    return [record.fact for record in records if record is not None]
