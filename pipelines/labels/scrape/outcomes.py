"""The outcome for each landmark: its facts joined, or the reason why it has no label."""

from __future__ import annotations

import csv
import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

from hiertree.errors import OptionError
from hiertree.io.files import open_replacing

from ..label_texts import is_wikimedia_page
from ..landmarks import InstanceValue
from .facts import FOUND, MISSING, MOST_MOVES, MOVED, REDIRECT_LOOP
from .store import LandmarkRow, Store

Tally: TypeAlias = "Counter[tuple[str, str]]"
Status: TypeAlias = Literal["labeled", "unlabeled", "failed", "pending"]
COLUMNS = (
    "landmark_id",
    "category",
    "instance_of",
    "item_ids",
    "status",
    "reason",
    "item",
    "languages",
    "redirects",
    "revision",
    "modified",
    "source",
    "time",
)


class Instance(NamedTuple):
    """An "instance of" value: its label, or its id where it has none in any language of the fallback."""

    text: str
    item_id: str
    language: str


@dataclass(frozen=True)
class ScrapeOutcome:
    """A landmark and what is known about it; ``redirects`` lists every title gone through."""

    landmark_id: int
    category: str
    status: Status = "pending"
    reason: str = ""
    item: str = ""
    instances: tuple[Instance, ...] = ()
    redirects: tuple[str, ...] = ()
    revision: int | None = None
    modified: str = ""
    source: str = ""
    time: int | None = None


def outcomes(store: Store) -> Iterator[ScrapeOutcome]:
    """Every landmark, in order of its id."""
    rows = store.connection.cursor().execute("SELECT * FROM landmarks ORDER BY landmark_id")
    yield from (_outcome(store.connection, LandmarkRow(*row)) for row in rows)


def tally(store: Store) -> Tally:
    """Landmarks by status and reason."""
    return Counter((outcome.status, outcome.reason) for outcome in outcomes(store))


def table_rows(store: Store, *, separator: str = "|") -> Iterator[tuple[object, ...]]:
    """The rows, by ``COLUMNS``, of the table that ``labels build --instances`` reads; pending landmarks are left out.

    Raises:
        OptionError: a label holds the separator.
    """
    for outcome in outcomes(store):
        if outcome.status not in ("labeled", "unlabeled"):
            continue
        texts, ids, languages = (tuple(zip(*outcome.instances, strict=True)) or ((), (), ()))[:3]
        for text in texts:
            if separator in text:
                raise OptionError(f"separator={separator!r}", expected="one that no label holds", remedy=repr(text))
        yield (
            outcome.landmark_id,
            outcome.category,
            separator.join(texts),
            separator.join(ids) if any(ids) else "",
            outcome.status,
            outcome.reason,
            outcome.item,
            separator.join(languages),
            json.dumps(outcome.redirects, ensure_ascii=False) if outcome.redirects else "",
            outcome.revision,
            outcome.modified,
            outcome.source,
            outcome.time,
        )


def hypernym_rows(store: Store) -> list[tuple[str, str, str, str, str]]:
    """What is a subclass of what above the landmarks: child, its label, parent, its label (or nothing), source."""
    found = store.connection.execute(
        "SELECT edges.item, coalesce(below.text, ''), value, coalesce(above.text, ''), classes.source"
        " FROM superclasses AS edges JOIN classes USING (item) LEFT JOIN labels AS below ON below.item = edges.item"
        " LEFT JOIN labels AS above ON above.item = value ORDER BY edges.item, position"
    )
    return found.fetchall()


def write_table(store: Store, path: str | os.PathLike[str], *, separator: str = "|") -> None:
    """Write the table that ``labels build --instances`` reads, whole or not at all.

    Raises:
        OptionError: no separator, or one that a label holds.
    """
    if not separator:
        raise OptionError("separator=''", expected="at least one character, such as '|'")
    with open_replacing(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(table_rows(store, separator=separator))


def _outcome(connection: sqlite3.Connection, landmark: LandmarkRow) -> ScrapeOutcome:
    """Follow a landmark from its category through its pages to the first that has not moved."""
    known = ScrapeOutcome(landmark.landmark_id, landmark.category)
    if landmark.title is None:
        return replace(known, status="unlabeled", reason=f"malformed category: {landmark.reason}")
    way: tuple[str, ...] = ()
    seen = [landmark.title]
    while len(seen) <= MOST_MOVES + 1:
        page = connection.execute(
            "SELECT status, item, redirects, target, read, source, time FROM pages WHERE title = ?", (seen[-1],)
        ).fetchone()
        if page is None:
            return _unanswered(connection, known, "page", seen[-1])
        status, item, redirects, target, read, source, time = page
        way = (*way, *json.loads(redirects))
        known = replace(known, item=item or "", redirects=way, source=source, time=time)
        if target is None:
            return _of_page(connection, known, seen[-1], status, read)
        way = (*way, target)
        if target in seen:
            return replace(known, status="unlabeled", reason=REDIRECT_LOOP, redirects=way)
        seen.append(target)
    return replace(known, status="unlabeled", reason=f"more than {MOST_MOVES} moves", redirects=way)


def _of_page(
    connection: sqlite3.Connection, known: ScrapeOutcome, title: str, status: str, read: str | None
) -> ScrapeOutcome:
    """From the labels on the page itself, or else from its item; a move that was not read yet is still to be asked."""
    if read is not None:
        return _judged(known, tuple(Instance(text, "", "en") for text, _ in json.loads(read)), status)
    if status == MOVED:
        return _unanswered(connection, known, "move", title)
    if status != FOUND:
        return replace(known, status="unlabeled", reason="missing page" if status == MISSING else status)
    return _of_item(connection, known, known.item)


def _of_item(connection: sqlite3.Connection, known: ScrapeOutcome, item: str) -> ScrapeOutcome:
    """From the item's classes, or those of a category's main topic."""
    for hop in ("item", "main topic"):
        found = connection.execute(
            "SELECT status, category, topic, revision, modified, source, time FROM items WHERE item = ?", (item,)
        ).fetchone()
        if found is None:
            return _unanswered(connection, known, "item", item)
        status, is_category, topic, revision, modified, source, time = found
        known = replace(known, item=item, revision=revision, modified=modified or "", source=source, time=time)
        if status != FOUND:
            return replace(known, status="unlabeled", reason=f"{status} {hop}")
        if not is_category:
            return _of_instances(connection, known, item)
        if topic is None:
            return replace(known, status="unlabeled", reason="category without main topic")
        item = topic
    return replace(known, status="unlabeled", reason="main topic is a category")


def _of_instances(connection: sqlite3.Connection, known: ScrapeOutcome, item: str) -> ScrapeOutcome:
    rows = connection.execute(
        "SELECT value, labels.item, text, language FROM instances LEFT JOIN labels ON labels.item = value"
        " WHERE instances.item = ? ORDER BY position",
        (item,),
    ).fetchall()
    for value, label, _, _ in rows:
        if label is None:
            return _unanswered(connection, known, "label", value)
    instances = tuple(Instance(text or value, value, language or "") for value, _, text, language in rows)
    return _judged(known, instances, "no instance of")


def _judged(known: ScrapeOutcome, instances: Sequence[Instance], reason_for_none: str) -> ScrapeOutcome:
    known = replace(known, instances=tuple(instances))
    if not instances:
        return replace(known, status="unlabeled", reason=reason_for_none)
    if all(is_wikimedia_page(InstanceValue(instance.text, instance.item_id)) for instance in instances):
        return replace(known, status="unlabeled", reason="Wikimedia page")
    return replace(known, status="labeled")


def _unanswered(connection: sqlite3.Connection, known: ScrapeOutcome, stage: str, key: str) -> ScrapeOutcome:
    failure = connection.execute("SELECT reason FROM failures WHERE stage = ? AND key = ?", (stage, key)).fetchone()
    return known if failure is None else replace(known, status="failed", reason=failure[0])
