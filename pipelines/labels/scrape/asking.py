"""Ask for everything that a store lacks: stage by stage and batch by batch, each answer stored at once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import IO, Any, NamedTuple, TypeAlias
from urllib.parse import quote

from hiertree.errors import ScrapeError
from hiertree.io.progress import show_progress

from .facts import PLURALS, Fact, SourceName, Stage
from .settings import ScrapeSettings
from .store import Store
from .web import action_api, category_page
from .web.answers import Refused, Unusable
from .web.client import Client, Unanswered
from .web.clock import REAL_TIME, Clock

Ask: TypeAlias = Callable[[Sequence[str]], Sequence[Fact]]
LONGEST_BATCH = 6000  # bytes of keys in a URL; servers refuse above 8 KiB
MOST_FAILURES_IN_A_ROW = 3


class Source(NamedTuple):
    """Whom to ask in a stage: what answers a batch of at most so many keys."""

    name: SourceName
    batch: int
    ask: Ask


Sources: TypeAlias = Mapping[Stage, Source]


def api_sources(client: Client, settings: ScrapeSettings) -> Sources:
    """Wikimedia's action API, in the order of the stages."""
    commons, wikidata = settings.commons_api, settings.wikidata_api
    asks: dict[Stage, Ask] = {
        "page": partial(action_api.ask_pages, client, commons),
        "move": partial(action_api.ask_moves, client, commons),
        "item": partial(action_api.ask_items, client, wikidata),
        "class": partial(action_api.ask_classes, client, wikidata),
        "label": partial(action_api.ask_labels, client, wikidata),
    }
    return {stage: Source("api", action_api.MOST_KEYS, ask) for stage, ask in asks.items()}


def html_sources(client: Client, settings: ScrapeSettings) -> Sources:
    """The category pages, one per request; then the API, 50 per request, for what stands above their items."""
    pages = Source("html", 1, partial(category_page.ask_page, client, settings.commons_site))
    return {**api_sources(client, settings), "page": pages}


SOURCES = {"api": api_sources, "html": html_sources}


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
    store: Store, sources: Sources, *, before: int = 0, clock: Clock = REAL_TIME, log: ScrapeLog
) -> Counter[str]:
    """Ask for everything that is missing.

    Args:
        store: the landmarks, and what is known.
        sources: whom to ask.
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
    while found := _next_stage(store, sources, before):
        stage, keys = found
        source = sources[stage]
        for batch in _show(stage, keys, _ask_all(source.ask, keys, source.batch)):
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


def _next_stage(store: Store, sources: Sources, before: int) -> tuple[Stage, list[str]] | None:
    missing = store.missing(before=before)
    return next(((stage, missing[stage]) for stage in sources if missing[stage]), None)


def _show(stage: Stage, keys: Sequence[str], answered: Iterable[AnsweredBatch]) -> Iterator[AnsweredBatch]:
    """Pass batches on, counting their answers."""
    statuses: Counter[str] = Counter()
    with show_progress(description=PLURALS[stage], total=len(keys)) as advance:
        for batch in answered:
            yield batch
            statuses += batch.answers()
            advance(len(batch.asked), ", ".join(f"{status} {count}" for status, count in statuses.most_common(6)))


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
