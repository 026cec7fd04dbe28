"""Progress of long work: a bar on a terminal, else a plain line every ten seconds, or nothing on request."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import IO, TypeAlias, TypeVar

Advance: TypeAlias = "Callable[..., None]"
Item = TypeVar("Item")
SECONDS_BETWEEN_LINES = 10.0


def track(
    iterable: Iterable[Item], *, description: str, total: int | None = None, enabled: bool = True
) -> Iterator[Item]:
    """Yield the items and show how many are done.

    >>> list(track([1, 2], description="items", enabled=False))
    [1, 2]
    """
    count = total if total is not None else (len(iterable) if isinstance(iterable, Sized) else None)
    with show_progress(description=description, total=count, enabled=enabled) as advance:
        for item in iterable:
            yield item
            advance(1, "")


@contextmanager
def show_progress(
    *,
    description: str,
    total: int | None,
    enabled: bool = True,
    stream: IO[str] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Advance]:
    """A function ``advance(steps, note)`` that updates the progress shown on ``stream`` (default: standard error).

    ``enabled=False`` shows nothing, and so does the environment variable HIERTREE_PROGRESS=0. ``clock`` counts seconds.
    """
    target = stream or sys.stderr
    if not enabled or target is None or not is_progress_shown():  # a closed standard error is None
        yield lambda *_: None
    elif target.isatty():
        with _bar(description, total) as advance:
            yield advance
    else:
        yield _lines(description, total, target, clock)


def is_progress_shown() -> bool:
    """Whether progress is shown, that is, HIERTREE_PROGRESS is not 0."""
    return os.environ.get("HIERTREE_PROGRESS") != "0"


@contextmanager
def silent_progress() -> Iterator[None]:
    """Silence progress in this process and in those it starts."""
    previous_value = os.environ.get("HIERTREE_PROGRESS")
    os.environ["HIERTREE_PROGRESS"] = "0"
    try:
        yield
    finally:
        if previous_value is None:
            del os.environ["HIERTREE_PROGRESS"]
        else:
            os.environ["HIERTREE_PROGRESS"] = previous_value


@contextmanager
def _bar(description: str, total: int | None) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(description, total=total, note="")

        def advance(steps: int, note: str = "") -> None:
            bar.update(task, advance=steps, note=note)

        yield advance


def _lines(description: str, total: int | None, stream: IO[str], clock: Callable[[], float]) -> Advance:
    done, begin = 0, clock()
    last = begin

    def advance(steps: int, note: str = "") -> None:
        nonlocal done, last
        done += steps
        current_time = clock()
        if done == total or current_time - last >= SECONDS_BETWEEN_LINES:
            last = current_time
            count = f"{done}" if total is None else f"{done}/{total}"
            line = "; ".join(filter(None, (_time_left(current_time - begin, done, total), note)))
            print(f"{description}: {count} {line}".rstrip(), file=stream, flush=True)

    return advance


def _time_left(seconds: float, done: int, total: int | None) -> str:
    if total is None or not 0 < done < total:
        return ""
    left = seconds / done * (total - done)
    return f"{left:.0f} s left" if left < 120 else f"{left / 60:.0f} min left"
