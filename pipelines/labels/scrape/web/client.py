"""One request at a time, at a steady pace, repeated while that makes sense."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar
from urllib.parse import urljoin

from hiertree.errors import hide_credentials

from ..settings import FASTEST, ScrapeSettings, is_loopback
from ..store import Store
from .answers import LONGEST_RETRY_AFTER, HttpAnswer, Incomplete, TryAgain, Unusable
from .clock import REAL_TIME, Clock

LONGEST_BACKOFF = 300.0  # seconds
JITTER = 0.25  # the back-off is lengthened at random by up to this share
SLOW_ANSWER, REST = 1.0, 5.0  # after an answer of more seconds the API is left alone for so many
MOST_INCOMPLETE = 2  # incomplete answers after which what was asked is the likely reason
MOST_REDIRECTS = 5
Read = TypeVar("Read")
_log = logging.getLogger(__name__)


class Unanswered(Exception):  # noqa: N818
    """No usable answer after every retry."""


class Getter(Protocol):
    """What a :class:`Transport` does: ask once."""

    def get(self, url: str, parameters: Mapping[str, str] | None = None) -> HttpAnswer:
        """The answer, read to its end."""


class Pace:
    """When the next request may start: evenly spaced, and after the pauses that were asked for.

    Args:
        requests_per_minute: how often at most.
        clock: time.
        memory: where the time of the next request outlives the process.
    """

    def __init__(self, requests_per_minute: float, clock: Clock, memory: Store | None = None) -> None:
        self._spacing, self._clock, self._memory = 60.0 / requests_per_minute, clock, memory
        self._earliest = float("-inf")
        if memory is not None:
            left = memory.next_request() - clock.now().timestamp()
            self._earliest = clock.monotonic() + min(left, LONGEST_RETRY_AFTER)  # more would be a clock put back

    def wait(self, *, spacing: float = 0.0) -> None:
        """Sleep until the next request may start, and count it as started; the one after comes no sooner than that."""
        while (left := self._earliest - self._clock.monotonic()) > 0:
            self._clock.sleep(left)
        self.pause(max(self._spacing, spacing))

    def pause(self, seconds: float) -> None:
        """Start no request for so many seconds from now."""
        now = self._clock.monotonic()
        self._earliest = max(self._earliest, now + seconds)
        if self._memory is not None:
            self._memory.keep_next_request(self._clock.now().timestamp() + self._earliest - now)


class Client:
    """Asks politely.

    Args:
        transport: asks once.
        settings: rate, retries and back-off.
        clock: time.
        memory: where the time of the next request outlives the process.
        on_retry: called with the reason and the seconds of every wait.
    """

    def __init__(
        self,
        transport: Getter,
        *,
        settings: ScrapeSettings,
        clock: Clock = REAL_TIME,
        memory: Store | None = None,
        on_retry: Callable[[str, float], None] | None = None,
    ) -> None:
        self.settings, self.clock, self.requests = settings, clock, 0
        self._transport, self._on_retry = transport, on_retry
        self._pace = Pace(settings.requests_per_minute, clock, memory)
        self._apis = (settings.commons_api, settings.wikidata_api)

    def ask(self, url: str, parameters: Mapping[str, str] | None, read: Callable[[HttpAnswer], Read]) -> Read:
        """What ``read`` makes of the answer; where it (or the transport) raises TryAgain, after a wait.

        Raises:
            Unanswered: after ``max_retries`` retries, or redirects that do not end.
            Unusable: the answer is too large, or was incomplete three times.
            Refused: passed on; another try would be refused too.
            ScrapeError: passed on.
        """
        incomplete = 0
        for attempt in range(self.settings.max_retries + 1):
            try:
                return read(self._get(url, parameters))
            except TryAgain as trouble:
                last = trouble
            incomplete += isinstance(last, Incomplete)
            self._pace.pause(last.after or 0.0)
            if attempt == self.settings.max_retries or incomplete > MOST_INCOMPLETE:
                break
            seconds = wait_before_retry(self.settings.backoff, attempt, last.after, random_share())
            if self._on_retry is not None:
                self._on_retry(last.reason, seconds)
            if attempt:  # one wait is nothing unusual
                _log.warning("no answer (%s); retry %d in %.0f s", last.reason, attempt + 1, seconds)
            self._pace.pause(seconds)
        raise Unusable(last.reason) if isinstance(last, Incomplete) else Unanswered(last.reason)

    def _get(self, url: str, parameters: Mapping[str, str] | None) -> HttpAnswer:
        """The answer behind redirects, each of which is a request like any other."""
        visited = {url} if parameters is None else set()
        for _ in range(MOST_REDIRECTS + 1):
            answer = self._get_once(url, parameters)
            location = answer.headers.get("location")
            if answer.status not in (301, 302, 303, 307, 308) or not location:
                return answer
            url, parameters = urljoin(url, location), None
            if url in visited:
                break
            visited.add(url)
        raise Unanswered(f"HTTP redirects that do not end, at last to {hide_credentials(url)[:200]!r}")

    def _get_once(self, url: str, parameters: Mapping[str, str] | None) -> HttpAnswer:
        is_api = url in self._apis  # whose rules are stricter; pages are slow as a matter of course
        self._pace.wait(spacing=60.0 / FASTEST["api"] if is_api and not is_loopback(url) else 0.0)
        self.requests += 1
        started = self.clock.monotonic()
        try:
            return self._transport.get(url, parameters)
        finally:
            if is_api and self.clock.monotonic() - started > SLOW_ANSWER:
                self._pace.pause(REST)


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
