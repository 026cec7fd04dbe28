"""Scrape the types of landmarks into a store: ask stage by stage for what it lacks.

Each answer is stored at once. What failed is asked again on request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple, TypeAlias
from urllib.parse import quote

from hiertree.errors import CategoryError, ScrapeError
from hiertree.io.files import AnyPath, locked_file
from hiertree.io.progress import show_progress
from hiertree.io.provenance import check_outputs

from ..landmarks import GLDV2_COLUMNS, label_items, read_kept, read_listed
from ..settings import ColumnNames, ScrapeSettings
from ..texts import landmark_key
from . import action_api, category_page
from .client import REAL_TIME, Client, Clock, Refused, Transport, Unanswered, Unusable
from .outcomes import Tally, tally, write_instances
from .store import PLURALS, Fact, LandmarkRow, SourceName, Stage, Store, is_item_id

Ask: TypeAlias = Callable[[Sequence[str]], Sequence[Fact]]
Answer: TypeAlias = Sequence[Fact] | Unanswered | Refused  # the facts about keys asked together, or why there are none
LONGEST_BATCH = 6000  # bytes of keys in a URL; servers refuse above 8 KiB
MOST_FAILURES_IN_A_ROW = 3
STORE = "store.sqlite"
_DAY = 86_400


class Source(NamedTuple):
    """The source of a stage: a function that answers a batch, and the largest batch."""

    name: SourceName
    batch: int
    ask: Ask


def sources(client: Client) -> dict[Stage, Source]:
    """Wikimedia's action API, or the category pages and the API for what stands above their items."""
    asks: dict[Stage, Callable[..., Sequence[Fact]]] = {
        "page": action_api.ask_pages,
        "move": action_api.ask_moves,
        "item": action_api.ask_items,
        "class": action_api.ask_classes,
        "label": action_api.ask_labels,
    }
    stage_sources = {stage: Source("api", action_api.MOST_KEYS, partial(ask, client)) for stage, ask in asks.items()}
    if client.settings.source == "html":
        stage_sources["page"] = Source("html", 1, partial(category_page.ask_page, client))
    return stage_sources


def ask_missing(store: Store, client: Client, *, cutoff: int = 0) -> Counter[str]:
    """Ask stage by stage for everything that is missing; how many keys had which answer, as ``"stage status"``."""
    counts: Counter[str] = Counter()
    failures, stage_sources = 0, sources(client)
    while missing := [(stage, keys) for stage, keys in store.missing(cutoff=cutoff).items() if keys]:
        stage, keys = missing[0]
        statuses: Counter[str] = Counter()
        with show_progress(description=PLURALS[stage], total=len(keys)) as advance:
            for batch, answer in _ask_all(stage_sources[stage].ask, keys, stage_sources[stage].batch):
                # a clock that is put back meanwhile must not make an answer older than what is asked again
                timestamp, reason = max(int(client.clock.now().timestamp()), cutoff), ""
                if isinstance(answer, Exception):
                    reason, answers = str(answer), Counter(failed=len(batch))
                    store.fail(stage, batch, reason=reason, time=timestamp)
                else:
                    answers = Counter(fact.status for fact in answer)
                    store.save(answer, source=stage_sources[stage].name, time=timestamp)
                client.note("batch", stage=stage, asked=len(batch), answers=answers, reason=reason)
                failures = failures + 1 if isinstance(answer, Unanswered | Unusable) else 0
                if failures == MOST_FAILURES_IN_A_ROW:
                    problem = f"{failures} requests in a row without an answer ({reason})"
                    raise ScrapeError(problem, remedy="what is stored stays; 'labels retry' continues later")
                statuses += answers
                advance(len(batch), ", ".join(f"{status} {count}" for status, count in statuses.most_common(6)))
        counts.update({f"{stage} {status}": count for status, count in statuses.items()})
    return counts


def _ask_all(ask: Ask, keys: Sequence[str], size: int) -> Iterator[tuple[Sequence[str], Answer]]:
    """Ask for all keys; a batch that is refused, or whose answer is of no use, is halved down to the key at fault."""
    waiting = list(reversed(list(batches(keys, size))))
    while waiting:
        batch = waiting.pop()
        try:
            yield batch, ask(batch)
        except (Unanswered, Refused) as error:
            if len(batch) > 1 and isinstance(error, Refused):
                half = len(batch) // 2
                waiting += [batch[half:], batch[:half]]
            else:
                yield batch, error


def batches(keys: Sequence[str], size: int) -> Iterator[list[str]]:
    """Keys in their order, at most ``size`` at once and no more than fit a URL."""
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


def scrape(
    landmarks: AnyPath | None,
    *,
    store: AnyPath,
    settings: ScrapeSettings,
    columns: ColumnNames = GLDV2_COLUMNS,
    table: AnyPath | None = None,
    failed_too: bool = False,
    log: IO[str] | None = None,
    clock: Clock = REAL_TIME,
) -> Tally:
    """Ask Wikimedia for the types of landmarks: only for what the store does not know yet.

    Args:
        landmarks: CSV or Parquet with ids and Commons categories, as GLDv2's ``train_label_to_category.csv``, or with
            Wikidata's items; a folder made by ``labels clean``, to ask what stands above its labels' classes; None for
            what an existing store lists.
        store: SQLite file, made where there is none; every answer is in it as soon as it has come.
        settings: whom to ask, and how.
        columns: what the columns are called.
        table: a CSV for ``labels build --instances``, written at the end.
        failed_too: also ask again for what failed in an earlier run.
        log: a text file for JSON lines.
        clock: time.

    Returns:
        Landmarks by status and reason.

    Raises:
        OutputError: the table would replace an input, or another process is filling the store.
        TableError: the landmarks cannot be read.
        OptionError: no contact.
        ScrapeError: the store is another's, or the servers refuse or stay silent.
    """
    check_outputs([table], inputs=[path for path in (landmarks, store) if path is not None], force=True)
    rows, classes = ([], []) if landmarks is None else read_subjects(landmarks, columns=columns)
    days = settings.refresh_older_than
    cutoff = 0 if days is None else int(clock.now().timestamp() - days * _DAY)
    transport = Transport(settings)  # before the store is made: there may be no contact
    with Store(store, create=landmarks is not None) as database, locked_file(store):
        database.add_landmarks(rows)
        database.add_classes(classes)
        if failed_too:
            database.forget_failures()
        client = Client(transport, settings=settings, clock=clock, log=log, store=database)
        try:
            ask_missing(database, client, cutoff=cutoff)
        finally:
            client.note("end", requests=client.requests)
        if table is not None:
            write_instances(database, table)
        return tally(database)


def read_subjects(
    path: AnyPath, *, columns: ColumnNames = GLDV2_COLUMNS
) -> tuple[Sequence[LandmarkRow], Sequence[str]]:
    """The landmarks of a table, a malformed category with the reason; or the classes of a cleaned folder's labels."""
    if not Path(path).is_dir():
        return [_landmark(*row) for row in zip(*read_listed(path, columns=columns), strict=True)], []
    ids = {item for items in label_items(read_kept(path)).values() for item in items if is_item_id(item)}
    if not ids:
        remedy = "scrape the table of landmarks instead"
        raise ScrapeError(f"{path}: no label has a Wikidata id", expected="ids such as Q23397", remedy=remedy)
    return [], sorted(ids)


def _landmark(landmark_id: str, category: str) -> LandmarkRow:
    try:
        return LandmarkRow(landmark_id, category, landmark_key(category), None)
    except CategoryError as error:
        return LandmarkRow(landmark_id, category, None, error.given)
