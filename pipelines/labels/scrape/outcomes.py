"""The outcome for each landmark: its facts joined, or the reason for a missing label; and a scrape's progress."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from hiertree.io.files import AnyPath
from hiertree.io.provenance import check_outputs
from hiertree.io.tables import write_table

from ..landmarks import InstanceValue, Landmark, Origin, Values, join_landmarks, read_listed
from ..settings import ColumnNames
from ..texts import is_wikimedia_page
from .store import (
    FOUND,
    MISSING,
    MISSING_CLASS,
    MOST_MOVES,
    MOVED,
    PLURALS,
    REDIRECT_LOOP,
    Item,
    Known,
    LandmarkRow,
    Page,
    Stage,
    Store,
    is_item_id,
)

Tally: TypeAlias = "Counter[tuple[str, str]]"
Status: TypeAlias = Literal["labeled", "unlabeled", "failed", "pending"]
INSTANCE_COLUMNS = ("landmark_id", "category", "instance_of", "item_ids", "status", *Origin._fields)


@dataclass(frozen=True)
class ScrapeOutcome(Landmark):
    """What is known of a landmark; a class without a label has its id as text."""

    status: Status = "pending"

    def because(self, reason: str, status: Status = "unlabeled") -> ScrapeOutcome:
        """A copy with a status and its reason."""
        values = self.values if status == "failed" else self.values or ()
        return replace(self, status=status, values=values, origin=self.origin._replace(reason=reason))

    def sourced(self, record: Known, **origin: str) -> ScrapeOutcome:
        """A copy with the origin that a fact gives."""
        return replace(self, origin=self.origin._replace(source=record.source, time=str(record.time), **origin))


def outcomes(store: Store) -> Iterator[ScrapeOutcome]:
    """Every landmark, in the order of the tables."""
    rows = store.connection.cursor().execute("SELECT * FROM landmarks ORDER BY rowid")
    yield from (_outcome(store, LandmarkRow(*row)) for row in rows)


def tally(store: Store) -> Tally:
    """Landmarks by status and reason."""
    return Counter((outcome.status, outcome.origin.reason) for outcome in outcomes(store))


def write_instances(store: Store, path: AnyPath) -> None:
    """Write the table that ``labels build --instances`` reads, whole or not at all; pending landmarks are left out.

    ``|``, which separates labels, becomes ``/`` within one, as cleaning would have it.
    """
    rows = (_row(outcome) for outcome in outcomes(store) if outcome.status in ("labeled", "unlabeled"))
    write_table(path, INSTANCE_COLUMNS, rows)


def _row(outcome: ScrapeOutcome) -> tuple[object, ...]:
    texts = "|".join(value.text.replace("|", "/") for value in outcome.values or ())
    ids = "|".join(value.item_id for value in outcome.values or ())
    return (outcome.landmark_id, outcome.category, texts, ids.strip("|") and ids, outcome.status, *outcome.origin)


def stored_hypernyms(path: AnyPath) -> list[tuple[str, str, str, str, str]]:
    """What a store says is a subclass of what: child, its label, parent, its label (or nothing), source."""
    text = "coalesce((SELECT json_extract(answer, '$.text') FROM answers WHERE (stage, key) = ('label', {})), '')"
    with Store(path, create=False) as store:
        cursor = store.connection.execute(
            f"SELECT key, {text.format('leads.key')}, next_key, {text.format('next_key')}, source"  # noqa: S608
            " FROM leads JOIN answers USING (stage, key) WHERE stage = 'class' ORDER BY key, position"
        )
        return cursor.fetchall()


def _outcome(store: Store, landmark: LandmarkRow) -> ScrapeOutcome:
    """Follow a landmark from its category through its pages to the first that has not moved, or from its item."""
    outcome = ScrapeOutcome(landmark.landmark_id, landmark.category, None)
    if landmark.key is None:
        return outcome.because(f"malformed category: {landmark.reason}")
    if is_item_id(landmark.key):
        return _follow_item(store, outcome, landmark.key)
    keys, titles = [landmark.key], list[str]()
    while len(keys) <= MOST_MOVES + 1:
        record = store.known("page", keys[-1])
        if record is None:
            return _unanswered(store, outcome, "page", keys[-1])
        page: Page = record.fact
        titles += [*page.redirects, *([page.target] if page.target else [])]
        redirects = json.dumps(titles, ensure_ascii=False) if titles else ""
        outcome = outcome.sourced(record, item=page.item or "", redirects=redirects)
        if page.target is None:
            return _follow_page(store, outcome, page)
        if page.target in keys:
            return outcome.because(REDIRECT_LOOP)
        keys.append(page.target)
    return outcome.because(f"more than {MOST_MOVES} moves")


def _follow_page(store: Store, outcome: ScrapeOutcome, page: Page) -> ScrapeOutcome:
    """From the page's item, or else from the labels on the page; a move that was not read yet is still to be asked.

    A page shows what its item's classes are called, with notes, and an id where a class has no English label.
    """
    if page.read is not None:
        of_item = _follow_item(store, outcome, page.item) if page.item else outcome
        if page.item and (of_item.values or any(is_item_id(text) for text, _ in page.read)):
            return of_item
        return _judged(outcome, [(InstanceValue(text), "en") for text, _ in page.read], page.status)
    if page.status == MOVED:
        return _unanswered(store, outcome, "move", page.key)
    if page.item is None:
        return outcome.because("missing page" if page.status == MISSING else page.status)
    return _follow_item(store, outcome, page.item)


def _follow_item(store: Store, outcome: ScrapeOutcome, key: str) -> ScrapeOutcome:
    """From the item's classes, or those of a category's main topic."""
    for hop in ("item", "main topic"):
        record = store.known("item", key)
        if record is None:
            return _unanswered(store, outcome, "item", key)
        item: Item = record.fact
        revision = "" if item.revision is None else str(item.revision)
        outcome = outcome.sourced(record, item=key, revision=revision, modified=item.modified or "")
        if item.status != FOUND:
            return outcome.because(f"{item.status} {hop}")
        if not item.is_category:
            return _judge_classes(store, outcome, item.instances)
        if item.topic is None:
            return outcome.because("category without main topic")
        key = item.topic
    return outcome.because("main topic is a category")


def _judge_classes(store: Store, outcome: ScrapeOutcome, keys: Sequence[str]) -> ScrapeOutcome:
    classes = []
    for key in keys:
        record = store.known("label", key)
        if record is None:
            return _unanswered(store, outcome, "label", key)
        if record.fact.missing:
            outcome = replace(outcome, origin=outcome.origin._replace(reason=MISSING_CLASS))
        classes.append((InstanceValue(record.fact.text or key, key), record.fact.language or ""))
    return _judged(outcome, classes, "no instance of")


def _judged(
    outcome: ScrapeOutcome, classes: Sequence[tuple[InstanceValue, str]], reason_for_none: str
) -> ScrapeOutcome:
    """The outcome with its classes, each with the language of its label."""
    if not classes:
        return outcome.because(reason_for_none)
    values, languages = zip(*classes, strict=True)
    origin = outcome.origin._replace(languages="|".join(languages))
    outcome = replace(outcome, status="labeled", values=values, origin=origin)
    return outcome.because("Wikimedia page") if all(map(is_wikimedia_page, values)) else outcome


def _unanswered(store: Store, outcome: ScrapeOutcome, stage: Stage, key: str) -> ScrapeOutcome:
    reason = store.failure(stage, key)
    return outcome if reason is None else outcome.because(reason, "failed")


def status(store: AnyPath, *, table: AnyPath | None = None) -> dict[str, Any]:
    """What a store holds: landmarks by status and reason, rows, keys to ask by stage, failures, times."""
    check_outputs([table], inputs=[store], force=True)
    with Store(store, create=False) as database:
        if table is not None:
            write_instances(database, table)
        times = "SELECT min(time), max(time) FROM answers WHERE stage = 'page'"
        oldest, newest = map(_date, database.connection.execute(times).fetchone())
        return {
            "outcomes": [
                {"status": status, "reason": reason, "landmarks": count}
                for (status, reason), count in sorted(tally(database).items())
            ],
            "rows": database.counts(),
            "to_ask": {stage: len(keys) for stage, keys in database.missing().items()},
            "to_retry": database.failures(),
            "oldest_page": oldest,
            "newest_page": newest,
        }


def count_failed(counts: Tally) -> tuple[int, int]:
    """How many landmarks failed, and how many there are."""
    return sum(count for (status, _), count in counts.items() if status == "failed"), sum(counts.values())


def describe_outcomes(counts: Tally) -> str:
    """A line per status and reason."""
    lines = [f"{count:8d} {': '.join(filter(None, key))}" for key, count in sorted(counts.items())]
    return "\n".join([f"{sum(counts.values())} landmarks", *lines])


def describe_status(report: dict[str, Any]) -> str:
    """:func:`describe_outcomes` for what :func:`status` returns, and what is still to be asked."""
    counts = Counter({(row["status"], row["reason"]): row["landmarks"] for row in report["outcomes"]})
    rows = ", ".join(f"{count} {name}" for name, count in report["rows"].items())
    times = f"; pages of {report['oldest_page']} … {report['newest_page']}" if report["oldest_page"] else ""
    lines = [describe_outcomes(counts)] if counts else []
    lines += [f"stored: {rows}{times}", f"to ask: {_keys(report['to_ask'])}"]
    if any(report["to_retry"].values()):
        lines.append(f"failed, waiting for 'hiertree labels retry': {_keys(report['to_retry'])}")
    return "\n".join(lines)


def _keys(counts: dict[Stage, int]) -> str:
    return ", ".join(f"{count} {PLURALS[stage]}" for stage, count in counts.items() if count) or "nothing"


def _date(seconds: int | None) -> str | None:
    return None if seconds is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def read_stored(landmarks: AnyPath, store: AnyPath, *, columns: ColumnNames) -> tuple[list[Landmark], int]:
    """The landmarks of a table with the values that a store has for them; see ``read_landmarks``."""
    ids, categories = read_listed(landmarks, columns=columns)
    with Store(store, create=False) as database:
        return join_landmarks(ids, categories, dict(map(_values_of, outcomes(database))))


def _values_of(outcome: ScrapeOutcome) -> tuple[str, tuple[Values | None, Origin]]:
    """The id of a landmark, its values, and where they come from or why there are none."""
    waits = outcome.status == "pending" and not outcome.origin.reason
    origin = outcome.origin._replace(reason="not asked for yet") if waits else outcome.origin
    return outcome.landmark_id, (outcome.values, origin)
