"""One question at a time, in good pace, asked again while that makes sense."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from .etiquette import POLITE, REAL_TIME, Answer, Clock, Etiquette, Pace, TryAgain, random_share

Read = TypeVar("Read")


class Unanswered(Exception):  # noqa: N818
    """No usable answer after every retry."""


class Getter(Protocol):
    """What a :class:`Transport` does: ask once."""

    def get(self, url: str, parameters: Mapping[str, str] | None = None) -> Answer:
        """The answer, read to its end."""


class Client:
    """Asks by the etiquette.

    Args:
        transport: asks once.
        etiquette: the numbers.
        clock: time.
        on_retry: told the reason and the seconds of every wait.
    """

    def __init__(
        self,
        transport: Getter,
        *,
        etiquette: Etiquette = POLITE,
        clock: Clock = REAL_TIME,
        on_retry: Callable[[str, float], None] | None = None,
    ) -> None:
        self.etiquette, self.clock, self.requests = etiquette, clock, 0
        self._transport, self._on_retry, self._pace = transport, on_retry, Pace(etiquette, clock)

    def ask(self, url: str, parameters: Mapping[str, str] | None, read: Callable[[Answer], Read]) -> Read:
        """What ``read`` makes of the answer; where it (or the transport) says try again, after a wait.

        Raises:
            Unanswered: after ``max_retries`` retries.
            Refused: passed on; another try would be refused too.
            ScrapeError: passed on.
        """
        for attempt in range(self.etiquette.max_retries + 1):
            started = self._pace.wait()
            self.requests += 1
            try:
                return read(self._transport.get(url, parameters))
            except TryAgain as trouble:
                reason, after = trouble.reason, trouble.after
            finally:
                self._pace.answered(started)
            if attempt < self.etiquette.max_retries:
                seconds = self.etiquette.wait_before_retry(attempt, after, random_share())
                if self._on_retry is not None:
                    self._on_retry(reason, seconds)
                self.clock.sleep(seconds)
        raise Unanswered(reason)
