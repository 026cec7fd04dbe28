"""How Wikimedia asks to be asked: how often, how long to wait after which answer, and when to stop.

Decisions only: nothing here opens a connection, and time comes from a :class:`Clock` that tests replace.
Rules: https://www.mediawiki.org/wiki/API:Etiquette and https://wikitech.wikimedia.org/wiki/Robot_policy.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any

from hiertree.errors import OptionError, ScrapeError

LONGEST_RETRY_AFTER = 3600.0  # a longer wait is better spent with the program ended
_WAIT_CODES = {"maxlag", "ratelimited", "readonly", "timeout", "actionthrottledtext"}


class TryAgain(Exception):  # noqa: N818
    """The answer cannot be used now; ``after`` is what the server asks to wait, in seconds."""

    def __init__(self, reason: str, after: float | None = None) -> None:
        super().__init__(reason)
        self.reason, self.after = reason, after


class Refused(Exception):  # noqa: N818
    """The server will never answer this question as it was put."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Answer:
    """An HTTP answer, read to its end; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float


@dataclass(frozen=True)
class Clock:
    """Where time comes from: seconds that only grow, waiting, and the date."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], datetime] = lambda: datetime.now(timezone.utc)


@dataclass(frozen=True)
class Etiquette:
    """The numbers of politeness; the defaults are Wikimedia's for clients without an account.

    Attributes:
        requests_per_minute: spread evenly; one request at a time in any case.
        max_retries: how often a failed request is made again.
        backoff: seconds before the first retry; doubled for each further one.
        longest_wait: cap of the back-off in seconds.
        jitter: the back-off is lengthened at random by up to this share.
        slow_answer: an answer of more seconds than this …
        rest: … is followed by a rest of so many seconds.
        maxlag: seconds of replication lag beyond which the servers shall refuse.
    """

    requests_per_minute: float = 200.0
    max_retries: int = 8
    backoff: float = 5.0
    longest_wait: float = 300.0
    jitter: float = 0.25
    slow_answer: float = 1.0
    rest: float = 5.0
    maxlag: int = 5

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be meant."""
        if not 0 < self.requests_per_minute < float("inf"):
            raise OptionError(f"requests_per_minute={self.requests_per_minute}", expected="a number above 0")
        if self.max_retries < 0:
            raise OptionError(f"max_retries={self.max_retries}", expected="a number from 0")
        if not 0 < self.backoff < float("inf"):
            raise OptionError(f"backoff={self.backoff}", expected="seconds above 0")

    def wait_before_retry(self, attempt: int, asked: float | None, share: float) -> float:
        """Seconds to wait after failed attempt 0, 1, …: never less than the server asked, and ever longer.

        Args:
            attempt: how many retries there were before.
            asked: the server's Retry-After, if any.
            share: a random number in [0, 1], for the jitter.

        >>> [Etiquette().wait_before_retry(attempt, None, 0.0) for attempt in (0, 1, 2, 9)]
        [5.0, 10.0, 20.0, 300.0]
        >>> Etiquette().wait_before_retry(0, 120.0, 0.5)
        120.0
        """
        growing = min(self.longest_wait, self.backoff * 2.0 ** min(attempt, 60)) * (1.0 + self.jitter * share)
        return max(growing, asked or 0.0)


POLITE, REAL_TIME = Etiquette(), Clock()


@dataclass
class Pace:
    """When the next request may start: evenly spaced, after a rest if the last answer was slow."""

    etiquette: Etiquette
    clock: Clock
    earliest: float = field(default=float("-inf"), init=False)

    def wait(self) -> float:
        """Sleep until the next request may start; returns the time at which it does."""
        while (left := self.earliest - self.clock.monotonic()) > 0:
            self.clock.sleep(left)
        started = self.clock.monotonic()
        self.earliest = started + 60.0 / self.etiquette.requests_per_minute
        return started

    def answered(self, started: float) -> None:
        """Take note that the answer has been read, or that none came."""
        now = self.clock.monotonic()
        if now - started > self.etiquette.slow_answer:
            self.earliest = max(self.earliest, now + self.etiquette.rest)


def retry_after(header: str | None, now: datetime) -> float | None:
    """Seconds that a Retry-After header asks for, given as seconds or as a date; None where it cannot be read.

    >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
    >>> retry_after("7", noon), retry_after("Thu, 01 Jan 2026 12:01:30 GMT", noon), retry_after("soon", noon)
    (7.0, 90.0, None)
    """
    text = (header or "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError):
        return None
    aware = date if date.tzinfo else date.replace(tzinfo=timezone.utc)
    return max(0.0, (aware - now).total_seconds())


def check_status(answer: Answer, now: datetime) -> None:
    """Pass a 200 or 404; say what any other status asks for.

    Raises:
        TryAgain: 429, 408 and what is the server's fault.
        Refused: another 4xx, for this question only.
        ScrapeError: the client is not welcome (401, 403), or is asked to stay away for more than an hour.
    """
    if answer.status in (200, 404):
        return
    said = f"HTTP {answer.status}: {_beginning(answer.body)}"
    if answer.status in (401, 403):
        raise ScrapeError(said, expected="to be let in", remedy="give a real --contact; see Wikimedia's robot policy")
    if answer.status in (408, 429) or answer.status >= 500:
        raise TryAgain(said, _bearable(retry_after(answer.headers.get("retry-after"), now)))
    raise Refused(said)


def check_error(content: Mapping[str, Any], answer: Answer, now: datetime) -> None:
    """Pass an action API's answer without an ``error``; maxlag and the like come inside a 200.

    Raises:
        TryAgain: lag, rate limits, read-only databases, internal errors.
        Refused: the request itself is at fault.
    """
    error = content.get("error")
    if error is None:
        return
    code = str(error.get("code", "")) if isinstance(error, Mapping) else ""
    said = f"{code}: {error.get('info', '')}" if code else "an error without a code"
    if not code or code in _WAIT_CODES or code.startswith("internal_api_error"):
        raise TryAgain(said[:200], _bearable(retry_after(answer.headers.get("retry-after"), now)))
    raise Refused(said[:200])


def _bearable(seconds: float | None) -> float | None:
    if seconds is not None and seconds > LONGEST_RETRY_AFTER:
        raise ScrapeError(
            f"the server asks to wait {seconds:.0f} s",
            expected=f"at most {LONGEST_RETRY_AFTER:.0f} s",
            remedy="run the command again after that time; it goes on where it was",
        )
    return seconds


def _beginning(body: bytes) -> str:
    return " ".join(body[:300].decode("utf-8", "replace").split())[:120]


def random_share() -> float:
    """A random number for the jitter; no result depends on it."""
    return random.random()  # noqa: S311
