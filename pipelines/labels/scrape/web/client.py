"""One request at a time, at a steady pace, repeated while that makes sense."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from ..clock import REAL_TIME, Clock
from ..settings import ScrapeSettings
from .answers import HttpAnswer, TryAgain

LONGEST_BACKOFF = 300.0  # seconds
JITTER = 0.25  # the back-off is lengthened at random by up to this share
SLOW_ANSWER, REST = 1.0, 5.0  # after an answer of more seconds the API is left alone for so many
Read = TypeVar("Read")


class Unanswered(Exception):  # noqa: N818
    """No usable answer after every retry."""


class Getter(Protocol):
    """What a :class:`Transport` does: ask once."""

    def get(self, url: str, parameters: Mapping[str, str] | None = None) -> HttpAnswer:
        """The answer, read to its end."""


@dataclass
class Pace:
    """When the next request may start: evenly spaced, and after a rest where the last answer was slow."""

    requests_per_minute: float
    rest: float
    clock: Clock
    earliest: float = field(default=float("-inf"), init=False)

    def wait(self) -> float:
        """Sleep until the next request may start; returns the time at which it does."""
        while (left := self.earliest - self.clock.monotonic()) > 0:
            self.clock.sleep(left)
        started = self.clock.monotonic()
        self.earliest = started + 60.0 / self.requests_per_minute
        return started

    def answered(self, started: float) -> None:
        """Take note that the answer has been read, or that none came."""
        now = self.clock.monotonic()
        if now - started > SLOW_ANSWER:
            self.earliest = max(self.earliest, now + self.rest)


class Client:
    """Asks politely.

    Args:
        transport: asks once.
        settings: rate, retries and back-off.
        clock: time.
        on_retry: called with the reason and the seconds of every wait.
    """

    def __init__(
        self,
        transport: Getter,
        *,
        settings: ScrapeSettings,
        clock: Clock = REAL_TIME,
        on_retry: Callable[[str, float], None] | None = None,
    ) -> None:
        self.settings, self.clock, self.requests = settings, clock, 0
        self._transport, self._on_retry = transport, on_retry
        # the rest after slow answers is a rule of the action API; pages are slow as a matter of course
        self._pace = Pace(settings.requests_per_minute, REST if settings.source == "api" else 0.0, clock)

    def ask(self, url: str, parameters: Mapping[str, str] | None, read: Callable[[HttpAnswer], Read]) -> Read:
        """What ``read`` makes of the answer; where it (or the transport) says try again, after a wait.

        Raises:
            Unanswered: after ``max_retries`` retries.
            Refused: passed on; another try would be refused too.
            ScrapeError: passed on.
        """
        for attempt in range(self.settings.max_retries + 1):
            started = self._pace.wait()
            self.requests += 1
            try:
                return read(self._transport.get(url, parameters))
            except TryAgain as trouble:
                reason, after = trouble.reason, trouble.after
            finally:
                self._pace.answered(started)
            if attempt < self.settings.max_retries:
                seconds = wait_before_retry(self.settings.backoff, attempt, after, random_share())
                if self._on_retry is not None:
                    self._on_retry(reason, seconds)
                self.clock.sleep(seconds)
        raise Unanswered(reason)


def wait_before_retry(backoff: float, attempt: int, asked: float | None, share: float) -> float:
    """Seconds to wait after failed attempt 0, 1, …: never less than the server asked, and ever longer.

    Args:
        backoff: seconds after attempt 0; doubled for each further one, up to ``LONGEST_BACKOFF``.
        attempt: how many retries there were before.
        asked: the server's Retry-After, if any.
        share: a random number in [0, 1], for the jitter.

    >>> [wait_before_retry(5.0, attempt, None, 0.0) for attempt in (0, 1, 2, 9)]
    [5.0, 10.0, 20.0, 300.0]
    >>> wait_before_retry(5.0, 0, 120.0, 0.5)
    120.0
    """
    growing = min(LONGEST_BACKOFF, backoff * 2.0 ** min(attempt, 60)) * (1.0 + JITTER * share)
    return max(growing, asked or 0.0)


def random_share() -> float:
    """A random number for the jitter; no result depends on it."""
    return random.random()  # noqa: S311
