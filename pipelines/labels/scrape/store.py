"""The store: one SQLite file that holds what was asked, what was answered, and what is still to be asked.

Every batch of answers is one transaction in a write-ahead log, so that a process killed at any moment loses the
request in flight and nothing else. ``schema.sql`` describes the tables.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from hiertree.errors import ScrapeError

from .facts import MOST_MOVES, MOST_STEPS_UP, Fact, Item, Page, SourceName, Stage, Superclasses

APPLICATION, VERSION = 0x68697274, 1  # "hirt"

_CLASSES = """
    WITH RECURSIVE wanted (class, steps) AS (
        SELECT DISTINCT value, 0 FROM instances
        UNION SELECT value, steps + 1 FROM wanted JOIN superclasses ON item = class WHERE steps < :steps
    )"""
_WANTED: dict[Stage, str] = {
    "page": """
        WITH RECURSIVE wanted (title, hop) AS (
            SELECT title, 0 FROM landmarks WHERE title IS NOT NULL
            UNION SELECT target, hop + 1 FROM wanted JOIN pages USING (title) WHERE target IS NOT NULL AND hop < :moves
        )
        SELECT DISTINCT wanted.title AS key FROM wanted LEFT JOIN pages USING (title)
        WHERE status IS NULL OR time < :before""",
    "move": "SELECT title AS key FROM pages WHERE status = 'moved' AND target IS NULL",
    "item": """
        SELECT key FROM (
            SELECT item AS key FROM pages WHERE item IS NOT NULL AND read IS NULL
            UNION SELECT topic FROM items WHERE topic IS NOT NULL AND item IN (SELECT item FROM pages)
        ) LEFT JOIN items ON item = key
        WHERE item IS NULL OR time < :before""",
    "class": f"""
        {_CLASSES} SELECT DISTINCT class AS key FROM wanted LEFT JOIN classes ON classes.item = class
        WHERE steps < :steps AND (classes.item IS NULL OR time < :before)""",  # noqa: S608
    "label": f"""
        {_CLASSES} SELECT DISTINCT class AS key FROM wanted LEFT JOIN labels ON labels.item = class
        WHERE labels.item IS NULL OR time < :before""",  # noqa: S608
}


class LandmarkRow(NamedTuple):
    """A landmark as asked for: ``title`` is None where the category is malformed, and ``reason`` says why."""

    landmark_id: int
    category: str
    title: str | None
    reason: str | None


class Store:
    """A store on disk; a context manager that closes it, and makes a ScrapeError of SQLite's errors.

    Args:
        path: the file, made where there is none.
        create: False: it must be there already.

    Raises:
        ScrapeError: the file is something else, or of another version.
    """

    def __init__(self, path: str | os.PathLike[str], *, create: bool = True) -> None:
        self.path = Path(path)
        if not create and (not self.path.is_file() or not self.path.stat().st_size):
            raise ScrapeError(f"{self.path}", expected="an existing store", remedy="make one with 'labels scrape'")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.connection = sqlite3.connect(self.path, isolation_level=None, timeout=30)
            self._prepare()
        except sqlite3.DatabaseError as error:
            raise ScrapeError(f"{self.path}: {error}", expected="a store of 'labels scrape'") from None

    def _prepare(self) -> None:
        one = self.connection.execute
        application, version = one("PRAGMA application_id").fetchone()[0], one("PRAGMA user_version").fetchone()[0]
        known = {name for (name,) in one("SELECT name FROM sqlite_master")}
        if known and (application, version) != (APPLICATION, VERSION):
            raise ScrapeError(f"{self.path}", expected=f"a store of 'labels scrape', version {VERSION}")
        one("PRAGMA journal_mode = WAL")
        one("PRAGMA synchronous = NORMAL")
        one("PRAGMA foreign_keys = ON")
        if not known >= {"next_request", "superclasses"}:  # nothing is there yet, or what an earlier hiertree knew
            schema = files("hiertree.pipelines.labels.scrape").joinpath("schema.sql").read_text(encoding="utf-8")
            header = f"BEGIN; PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION};"
            self.connection.executescript(f"{header} {schema} COMMIT;")

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if isinstance(error, sqlite3.Error):
            remedy = "what is stored stays; mend that and run the command again"
            raise ScrapeError(f"{self.path}: {error}", expected="a whole store and room on its disk", remedy=remedy)

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All of what is written inside, or nothing."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield self.connection
            self.connection.execute("COMMIT")
        except BaseException:
            if self.connection.in_transaction:  # a full disk has ended it already
                self.connection.execute("ROLLBACK")
            raise

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep a second process from asking for the same at the same time; the lock of a killed process is gone.

        Raises:
            ScrapeError: another process uses this store.
        """
        lock = sqlite3.connect(f"{self.path}-lock", isolation_level=None, timeout=0)
        try:
            lock.execute("BEGIN EXCLUSIVE")
            yield
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            raise ScrapeError(f"{self.path} is in use by another process", remedy="wait until it has ended") from None
        finally:
            lock.close()

    def next_request(self) -> float:
        """When the next request may start, in seconds since 1970; 0 if that was never kept."""
        found = self.connection.execute("SELECT max(time) FROM next_request").fetchone()[0]
        return 0.0 if found is None else float(found)

    def keep_next_request(self, time: float) -> None:
        """Keep when the next request may start."""
        self.connection.execute("INSERT OR REPLACE INTO next_request VALUES (1, ?)", (time,))

    def add_landmarks(self, rows: Iterable[LandmarkRow]) -> None:
        """Add landmarks; those already there must have the same category.

        Raises:
            ScrapeError: a landmark is known with another category.
        """
        with self.transaction() as connection:
            connection.execute("CREATE TEMP TABLE given AS SELECT * FROM landmarks LIMIT 0")
            connection.executemany("INSERT INTO given VALUES (?, ?, ?, ?)", rows)
            other = connection.execute(
                "SELECT landmark_id, landmarks.category, given.category FROM landmarks JOIN given USING (landmark_id)"
                " WHERE landmarks.category <> given.category ORDER BY landmark_id LIMIT 1"
            ).fetchone()
            if other is not None:
                raise ScrapeError(
                    f"{self.path}: landmark {other[0]} is {other[1]!r} there and {other[2]!r} here",
                    remedy="give another table its own --store",
                )
            connection.execute("INSERT OR IGNORE INTO landmarks SELECT * FROM given ORDER BY landmark_id")
            connection.execute("DROP TABLE given")

    def missing(self, stage: Stage, *, before: int = 0) -> list[str]:
        """What is still to be asked in a stage, in order; facts older than ``before`` count as missing."""
        given_up = "SELECT key FROM failures WHERE stage = :stage"
        query = f"SELECT key FROM ({_WANTED[stage]}) WHERE key NOT IN ({given_up}) ORDER BY key"  # noqa: S608
        named = {"before": before, "stage": stage, "moves": MOST_MOVES, "steps": MOST_STEPS_UP}
        return [key for (key,) in self.connection.execute(query, named)]

    def save(self, facts: Sequence[Fact], *, source: SourceName, time: int) -> None:
        """Keep facts in place of earlier ones of the same keys, in one transaction."""
        with self.transaction() as connection:
            for fact in facts:
                _save(connection, fact, source, time)

    def fail(self, stage: Stage, keys: Iterable[str], *, reason: str, time: int) -> None:
        """Note that keys are not to be asked again until :meth:`forget_failures`."""
        with self.transaction() as connection:
            rows = [(stage, key, reason, time) for key in keys]
            connection.executemany("INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?)", rows)

    def failures(self, stage: Stage) -> int:
        """How many keys of a stage failed."""
        counted = self.connection.execute("SELECT count(*) FROM failures WHERE stage = ?", (stage,))
        return int(counted.fetchone()[0])

    def forget_failures(self) -> int:
        """Forget all failures, so that their keys are asked again; returns how many there were."""
        return self.connection.execute("DELETE FROM failures").rowcount

    def counts(self) -> dict[str, int]:
        """Rows of each table."""
        tables = ("landmarks", "pages", "items", "classes", "labels", "failures")
        return {name: self.connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables}  # noqa: S608


def _save(connection: sqlite3.Connection, fact: Fact, source: SourceName, time: int) -> None:
    if isinstance(fact, Page):
        redirects = json.dumps(fact.redirects, ensure_ascii=False)
        read = None if fact.read is None else json.dumps(fact.read, ensure_ascii=False)
        values = (fact.key, fact.status, fact.item, redirects, fact.target, read)
        connection.execute("INSERT OR REPLACE INTO pages VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*values, source, time))
    elif isinstance(fact, Item):
        connection.execute("DELETE FROM instances WHERE item = ?", (fact.key,))
        about = (fact.key, fact.status, fact.redirect, fact.is_category, fact.topic, fact.revision, fact.modified)
        connection.execute("INSERT OR REPLACE INTO items VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*about, source, time))
        rows = [(fact.key, position, value) for position, value in enumerate(fact.instances)]
        connection.executemany("INSERT INTO instances VALUES (?, ?, ?)", rows)
    elif isinstance(fact, Superclasses):
        connection.execute("DELETE FROM superclasses WHERE item = ?", (fact.key,))
        connection.execute("INSERT OR REPLACE INTO classes VALUES (?, ?, ?)", (fact.key, source, time))
        above = [(fact.key, position, value) for position, value in enumerate(fact.parents)]
        connection.executemany("INSERT INTO superclasses VALUES (?, ?, ?)", above)
    else:
        row = (fact.key, fact.text, fact.language, source, time)
        connection.execute("INSERT OR REPLACE INTO labels VALUES (?, ?, ?, ?, ?)", row)
