"""The store: an SQLite file of the landmarks asked for, the facts that were answered, and what is still to be asked.

Every batch of answers is one transaction in a write-ahead log, so that a process killed at any moment loses the
request in flight and nothing else. ``schema.sql`` describes the tables.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

from pydantic import TypeAdapter, ValidationError

from hiertree.errors import ScrapeError
from hiertree.io.files import AnyPath

from ...settings import first_complaint

Stage: TypeAlias = Literal["page", "move", "item", "class", "label"]
PLURALS: dict[Stage, str] = {"page": "pages", "move": "moves", "item": "items", "class": "classes", "label": "labels"}
STAGES: tuple[Stage, ...] = tuple(PLURALS)
SourceName: TypeAlias = Literal["api", "html"]
MOST_MOVES = 5  # soft redirects followed from one category to the next
MOST_STEPS_UP = 5  # of "subclass of", from the classes of landmarks

FOUND, MISSING = "found", "missing"
MOVED, UNREADABLE_MOVE, OTHER_WIKI = "moved", "unreadable move", "redirect to another wiki"
NO_ITEM, REDIRECT_LOOP, INVALID = "no item", "redirect loop", "invalid title"
NO_INFOBOX, NO_INSTANCE, MISSING_CLASS = "no infobox", "no instance of", "missing class"
Leads: TypeAlias = "tuple[tuple[Stage, str], ...]"  # what to ask next because of an answer
_ITEM = re.compile(r"Q[1-9][0-9]{0,11}")

APPLICATION, VERSION = 0x68697274, 3  # "hirt"
_SQLITE = b"SQLite format 3\0"

_MISSING = """
    WITH RECURSIVE reached (stage, key, hop) AS (
        SELECT DISTINCT iif(key LIKE 'Category:%', 'page', 'item'), key, 0 FROM landmarks WHERE key IS NOT NULL
        UNION SELECT 'class', key, 0 FROM classes
        UNION
        SELECT next_stage, next_key, iif(next_stage = stage, hop + 1, 0) FROM reached JOIN leads USING (stage, key)
        WHERE next_stage <> stage OR hop < CASE stage WHEN 'page' THEN :moves WHEN 'class' THEN :steps ELSE 1 END
    ), wanted (stage, key) AS (
        SELECT stage, key FROM reached WHERE stage <> 'class' OR hop < :steps
        UNION SELECT 'label', key FROM reached WHERE stage = 'class'
    )
    SELECT stage, key FROM wanted LEFT JOIN answers USING (stage, key) WHERE answer IS NULL OR time < :before
    UNION SELECT 'move', key FROM answers
    WHERE stage = 'page' AND json_valid(answer)
    AND json_extract(answer, '$.status') = :moved AND json_extract(answer, '$.target') IS NULL
    EXCEPT SELECT stage, key FROM failures ORDER BY stage, key"""


@dataclass(frozen=True)
class Page:
    """A page of Commons."""

    key: str  # its title as asked
    status: str  # ``found`` if it has an item or readable labels, or why not
    item: str | None = None
    # the titles that Commons went through by itself (hard redirects), the last one included
    redirects: tuple[str, ...] = ()
    target: str | None = None  # of a soft redirect, the title to ask next
    # where the page itself was read: the labels, each with the page that it links to or ""
    read: tuple[tuple[str, str], ...] | None = None
    stage: ClassVar[Stage] = "page"

    @property
    def leads(self) -> Leads:
        """The page that it has moved to, or its item."""
        target: Leads = (("page", self.target),) if self.target else ()
        return target + ((("item", self.item),) if self.item else ())


@dataclass(frozen=True)
class Item:
    """A Wikidata item."""

    key: str  # its id as asked
    status: str  # ``found`` or ``missing``
    redirect: str | None = None  # the id under which it now stands, if another
    is_category: bool = False  # whether it is an instance of "Wikimedia category"; its own instances are then left out
    topic: str | None = None  # of such a category, the item that is its main topic (P301)
    instances: tuple[str, ...] = ()  # what it is an instance of (P31): ids, best rank only
    revision: int | None = None  # number of the revision read
    modified: str | None = None
    stage: ClassVar[Stage] = "item"

    @property
    def leads(self) -> Leads:
        """Its main topic, or its classes."""
        return (("item", self.topic),) if self.topic else tuple(("class", value) for value in self.instances)


@dataclass(frozen=True)
class Label:
    """The label of an item and its language; None if no fallback language has one."""

    key: str
    text: str | None
    language: str | None
    missing: bool = False  # whether Wikidata has no such item
    stage: ClassVar[Stage] = "label"
    leads: ClassVar[Leads] = ()

    @property
    def status(self) -> str:
        """The language, for counts."""
        return MISSING if self.missing else self.language or "no label"


@dataclass(frozen=True)
class Superclasses:
    """What a class is a subclass of (P279): ids, best rank only."""

    key: str
    parents: tuple[str, ...]
    missing: bool = False  # whether Wikidata has no such item, so that the chain ends here
    stage: ClassVar[Stage] = "class"

    @property
    def leads(self) -> Leads:
        """The classes above it."""
        return tuple(("class", parent) for parent in self.parents)

    @property
    def status(self) -> str:
        """Whether there are any, for counts."""
        return MISSING if self.missing else FOUND if self.parents else "no subclass of"


Fact: TypeAlias = Page | Item | Superclasses | Label
JSON: dict[Stage, TypeAdapter[Fact]] = {kind.stage: TypeAdapter(kind) for kind in (Page, Item, Superclasses, Label)}


def is_item_id(text: str) -> bool:
    """Whether a text is the id of an item."""
    return _ITEM.fullmatch(text) is not None


def is_store(path: AnyPath) -> bool:
    """Whether a file begins like a store."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False


class LandmarkRow(NamedTuple):
    """A landmark as asked for: ``key`` is a title of Commons, an item of Wikidata, or None, and ``reason`` says why."""

    landmark_id: str
    category: str
    key: str | None
    reason: str | None


class Known(NamedTuple):
    """A fact, where it comes from, and when it came (seconds since 1970)."""

    fact: Any
    source: SourceName
    time: int


class Store:
    """A store on disk; a context manager that closes it, and makes a ScrapeError of SQLite's errors."""

    def __init__(self, path: AnyPath, *, create: bool = True) -> None:
        self.path = Path(path)
        if not create and (not self.path.is_file() or not self.path.stat().st_size):
            problem = f"{'an empty' if self.path.is_file() else 'no such'} file: {self.path}"
            raise ScrapeError(problem, expected="an existing store", remedy="make one with 'labels scrape'")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.connection = sqlite3.connect(self.path, isolation_level="IMMEDIATE", timeout=30)
            self._prepare()
        except sqlite3.DatabaseError as error:
            expected = "a store of 'labels scrape' that can be written to"
            raise ScrapeError(f"{self.path}: {error}", expected=expected) from None

    def _prepare(self) -> None:
        execute = self.connection.execute
        pragmas = [execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
        has_tables = execute("SELECT count(*) FROM sqlite_master").fetchone()[0] > 0
        if has_tables and pragmas != [APPLICATION, VERSION]:
            expected = f"a store of 'labels scrape', version {VERSION}"
            raise ScrapeError(f"{self.path}", expected=expected, remedy="scrape into another file")
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = NORMAL")
        execute("PRAGMA foreign_keys = ON")
        if not has_tables:
            schema = files("hiertree.pipelines.labels.scrape").joinpath("schema.sql").read_text(encoding="utf-8")
            header = f"BEGIN; PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION};"
            self.connection.executescript(f"{header} {schema} COMMIT;")

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.connection.close()
        if isinstance(error, sqlite3.Error):
            remedy = "what is stored stays; fix this and run the command again"
            raise ScrapeError(f"{self.path}: {error}", expected="a whole store and room on its disk", remedy=remedy)

    def next_request(self) -> float:
        """When the next request may start, in seconds since 1970; 0 if that was never kept."""
        timestamp = self.connection.execute("SELECT max(time) FROM next_request").fetchone()[0]
        return 0.0 if timestamp is None else float(timestamp)

    def keep_next_request(self, time: float) -> None:
        """Keep when the next request may start."""
        with self.connection as connection:
            connection.execute("INSERT OR REPLACE INTO next_request VALUES (1, ?)", (time,))

    def add_landmarks(self, rows: Iterable[LandmarkRow]) -> None:
        """Add landmarks; those already there must have the same category, perhaps written in another way."""
        landmarks = list(rows)
        stored_rows = {row[0]: LandmarkRow(*row) for row in self.connection.execute("SELECT * FROM landmarks")}
        for row in landmarks:
            stored_row = stored_rows.get(row.landmark_id, row)
            if row.category != stored_row.category and (row.key is None or row.key != stored_row.key):
                categories = f"{stored_row.category!r} there and {row.category!r} here"
                problem = f"{self.path}: landmark {row.landmark_id} is {categories}"
                raise ScrapeError(problem, remedy="use a separate --store for each table")
        with self.connection as connection:
            conflict = "ON CONFLICT (landmark_id) DO UPDATE SET key = excluded.key, reason = excluded.reason"
            connection.executemany(f"INSERT INTO landmarks VALUES (?, ?, ?, ?) {conflict}", landmarks)  # noqa: S608

    def add_classes(self, keys: Iterable[str]) -> None:
        """Add classes to ask what stands above them."""
        with self.connection as connection:
            connection.executemany("INSERT OR IGNORE INTO classes VALUES (?)", ((key,) for key in keys))

    def missing(self, *, cutoff: int = 0) -> dict[Stage, list[str]]:
        """The keys still to be asked in each stage, in order; answers older than ``cutoff`` count as missing."""
        parameters = {"before": cutoff, "moves": MOST_MOVES, "steps": MOST_STEPS_UP, "moved": MOVED}
        missing_keys: dict[Stage, list[str]] = {stage: [] for stage in STAGES}
        for stage, key in self.connection.execute(_MISSING, parameters):
            missing_keys[stage].append(key)
        return missing_keys

    def known(self, stage: Stage, key: str) -> Known | None:
        """The known fact, or None."""
        query = "SELECT answer, source, time FROM answers WHERE stage = ? AND key = ?"
        row = self.connection.execute(query, (stage, key)).fetchone()
        try:
            return None if row is None else Known(JSON[stage].validate_json(row[0]), *row[1:])
        except ValidationError as error:
            problem = f"{self.path}: the answer to {stage} {key!r} is damaged ({first_complaint(error)})"
            remedy = "restore the store from a copy, or scrape with --refresh-older-than 0"
            raise ScrapeError(problem, expected="the JSON that 'labels scrape' wrote", remedy=remedy) from None

    def save(self, facts: Iterable[Fact], *, source: SourceName, time: int) -> None:
        """Keep facts in place of earlier ones of the same keys, in one transaction."""
        with self.connection as connection:
            for fact in facts:
                stage_and_key = (fact.stage, fact.key)
                text = JSON[fact.stage].dump_json(fact, exclude_defaults=True).decode()
                connection.execute("DELETE FROM answers WHERE (stage, key) = (?, ?)", stage_and_key)
                connection.execute("INSERT INTO answers VALUES (?, ?, ?, ?, ?)", (*stage_and_key, text, source, time))
                leads = [(*stage_and_key, position, *lead) for position, lead in enumerate(fact.leads)]
                connection.executemany("INSERT INTO leads VALUES (?, ?, ?, ?, ?)", leads)

    def fail(self, stage: Stage, keys: Iterable[str], *, reason: str, time: int) -> None:
        """Record failed keys, which are not asked again until :meth:`forget_failures`."""
        with self.connection as connection:
            rows = [(stage, key, reason, time) for key in keys]
            connection.executemany("INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?)", rows)

    def failure(self, stage: Stage, key: str) -> str | None:
        """Why a key is not asked again, or None."""
        query = "SELECT reason FROM failures WHERE stage = ? AND key = ?"
        row = self.connection.execute(query, (stage, key)).fetchone()
        return None if row is None else str(row[0])

    def forget_failures(self) -> int:
        """Forget all failures, so that their keys are asked again; returns how many there were."""
        with self.connection as connection:
            return connection.execute("DELETE FROM failures").rowcount

    def failures(self) -> dict[Stage, int]:
        """The number of failed keys of each stage."""
        counts = dict(self.connection.execute("SELECT stage, count(*) FROM failures GROUP BY stage"))
        return {stage: counts.get(stage, 0) for stage in STAGES}

    def counts(self) -> dict[str, int]:
        """The numbers of landmarks, answers of each stage, and failures."""
        execute = self.connection.execute
        answers = dict(execute("SELECT stage, count(*) FROM answers GROUP BY stage"))
        return {
            "landmarks": execute("SELECT count(*) FROM landmarks").fetchone()[0],
            **{PLURALS[stage]: answers.get(stage, 0) for stage in JSON},
            "failures": execute("SELECT count(*) FROM failures").fetchone()[0],
        }
