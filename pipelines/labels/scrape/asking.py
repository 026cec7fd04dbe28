"""Ask for everything that a store lacks: stage by stage and batch by batch, each answer stored at once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import IO, Any, NamedTuple, TypeAlias
from urllib.parse import quote

from hiertree.errors import ScrapeError
from hiertree.io.progress import show_progress

from .clock import REAL_TIME, Clock
from .facts import PLURALS, Fact, SourceName, Stage
from .settings import ScrapeSettings
from .store import Store
from .web import action_api, category_page
from .web.answers import Refused, Unusable
from .web.client import Client, Unanswered

Ask: TypeAlias = Callable[[Sequence[str]], Sequence[Fact]]
LONGEST_BATCH = 6000  # bytes of keys in a URL; servers refuse above 8 KiB
MOST_FAILURES_IN_A_ROW = 3


@dataclass(frozen=True)
class FactSource:
    """Whom to ask: for each stage, in order, what answers a batch of at most ``batch`` keys."""

    name: SourceName
    stages: Mapping[Stage, Ask]
    batch: int


def api_source(client: Client, settings: ScrapeSettings) -> FactSource:
    """Wikimedia's action API."""
    stages: dict[Stage, Ask] = {
        "page": partial(action_api.ask_pages, client, settings.commons_api),
        "move": partial(action_api.ask_moves, client, settings.commons_api),
        "item": partial(action_api.ask_items, client, settings.wikidata_api),
        "class": partial(action_api.ask_classes, client, settings.wikidata_api),
        "label": partial(action_api.ask_labels, client, settings.wikidata_api),
    }
    return FactSource("api", stages, action_api.MOST_KEYS)


def html_source(client: Client, settings: ScrapeSettings) -> FactSource:
    """The category pages, one per request."""
    return FactSource("html", {"page": partial(category_page.ask_page, client, settings.commons_site)}, 1)


SOURCES = {"api": api_source, "html": html_source}


class ScrapeLog:
    """A log of JSON lines; without a file, nothing."""

    def __init__(self, file: IO[str] | None, clock: Clock) -> None:
        self._file, self._clock = file, clock

    def write(self, event: str, details: Mapping[str, Any]) -> None:
        """Append a line."""
        if self._file is not None:
            time = self._clock.now().isoformat(timespec="milliseconds")
            self._file.write(json.dumps({"time": time, "event": event, **details}, ensure_ascii=False) + "\n")
            self._file.flush()

    def retried(self, reason: str, seconds: float) -> None:
        """Append a line about a wait before a retry."""
        self.write("retry", {"reason": reason, "seconds": round(seconds, 3)})


class AnsweredBatch(NamedTuple):
    """Keys asked together and the facts about them, or why there are none and whether the server may be at fault."""

    asked: Sequence[str]
    facts: Sequence[Fact]
    reason: str = ""
    outage: bool = False

    def answers(self) -> Counter[str]:
        """How many keys had which answer."""
        return Counter([fact.status for fact in self.facts] or ["failed"] * len(self.asked))


def ask_missing(
    store: Store, source: FactSource, *, before: int = 0, clock: Clock = REAL_TIME, log: ScrapeLog
) -> Counter[str]:
    """Ask for everything that is missing.

    Args:
        store: the landmarks, and what is known.
        source: whom to ask.
        before: facts from before this time (seconds since 1970) are asked for again.
        clock: time.
        log: gets a line per batch.

    Returns:
        How many keys had which answer, as ``"stage status"``.

    Raises:
        ScrapeError: the server refuses the client, or three batches in a row had no usable answer.
    """
    counts: Counter[str] = Counter()
    failures = 0
    while found := _next_stage(store, source, before):
        stage, keys = found
        for batch in _show(stage, keys, _ask_all(source.stages[stage], keys, source.batch), clock):
            now = int(clock.now().timestamp())
            if batch.reason:
                store.fail(stage, batch.asked, reason=batch.reason, time=now)
            else:
                store.save(batch.facts, source=source.name, time=now)
            answers = batch.answers()
            counts.update({f"{stage} {status}": count for status, count in answers.items()})
            details = {"stage": stage, "asked": len(batch.asked), "answers": answers, "reason": batch.reason}
            log.write("batch", details)
            failures = failures + 1 if batch.outage else 0
            if failures == MOST_FAILURES_IN_A_ROW:
                raise ScrapeError(
                    f"{failures} requests in a row without an answer ({batch.reason})",
                    remedy="what is stored stays; later, 'labels retry' goes on",
                )
    return counts


def _next_stage(store: Store, source: FactSource, before: int) -> tuple[Stage, list[str]] | None:
    for stage in source.stages:
        if keys := store.missing(stage, before=before):
            return stage, keys
    return None


def _ask_all(ask: Ask, keys: Sequence[str], size: int) -> Iterator[AnsweredBatch]:
    """Ask for all keys; a batch that is refused, or whose answer is of no use, is halved down to the key at fault."""
    waiting = list(reversed(list(batches(keys, size))))
    while waiting:
        batch = waiting.pop()
        try:
            yield AnsweredBatch(batch, ask(batch))
        except Unanswered as error:
            yield AnsweredBatch(batch, (), str(error), outage=True)
        except Refused as error:
            half = len(batch) // 2
            if half:
                waiting += [batch[half:], batch[:half]]
            else:
                yield AnsweredBatch(batch, (), error.reason, outage=isinstance(error, Unusable))


def batches(keys: Sequence[str], size: int) -> Iterator[list[str]]:
    """Keys in their order, at most ``size`` at once and no more than fit a URL.

    >>> list(batches(["Q1", "Q2", "Q3"], 2))
    [['Q1', 'Q2'], ['Q3']]
    """
    batch: list[str] = []
    length = 0
    for key in keys:
        added = len(quote(key)) + 3
        if batch and (len(batch) == size or length + added > LONGEST_BATCH):
            yield batch
            batch, length = [], 0
        batch.append(key)
        length += added
    if batch:
        yield batch


def _show(
    stage: Stage, keys: Sequence[str], answered: Iterator[AnsweredBatch], clock: Clock
) -> Iterator[AnsweredBatch]:
    """Pass batches on, showing rate, time left and counts."""
    statuses: Counter[str] = Counter()
    done, started = 0, clock.monotonic()
    with show_progress(description=PLURALS[stage], total=len(keys)) as advance:
        for batch in answered:
            yield batch
            done += len(batch.asked)
            statuses += batch.answers()
            rate = done / max(clock.monotonic() - started, 1e-9)
            counts = ", ".join(f"{status} {count}" for status, count in statuses.most_common(6))
            minutes_left = (len(keys) - done) / rate / 60
            advance(len(batch.asked), f"{60 * rate:.0f}/min, {minutes_left:.0f} min left; {counts}")
