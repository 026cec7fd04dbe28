"""What an answer of Wikimedia means: use it, ask again later, ask otherwise, or stop.

Rules: https://www.mediawiki.org/wiki/API:Etiquette and https://wikitech.wikimedia.org/wiki/Robot_policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any

from hiertree.errors import ScrapeError

LONGEST_RETRY_AFTER = 3600.0  # for a longer wait the program rather ends
_WAIT_CODES = {"maxlag", "ratelimited", "readonly", "timeout", "actionthrottledtext"}


class TryAgain(Exception):  # noqa: N818
    """The answer cannot be used now; ``after`` is how many seconds the server asks to wait."""

    def __init__(self, reason: str, after: float | None = None) -> None:
        super().__init__(reason)
        self.reason, self.after = reason, after


class Incomplete(TryAgain):
    """The answer lacks something that was asked for."""


class Refused(Exception):  # noqa: N818
    """The server will never answer this request as it was put."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Unusable(Refused):
    """The answer stays incomplete, or is too large, perhaps because of what was asked."""


@dataclass(frozen=True)
class HttpAnswer:
    """An HTTP answer, read to its end; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


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


def check_status(answer: HttpAnswer, now: datetime) -> None:
    """Return for a 200 or 404; raise what any other status asks for.

    Raises:
        TryAgain: 429, 408 and what is the server's fault.
        Refused: another 4xx, for this question only.
        ScrapeError: the server refuses this client (401, 403), or asks it to wait for more than an hour.
    """
    if answer.status in (200, 404):
        return
    message = f"HTTP {answer.status}: {_beginning(answer.body)}"
    if answer.status in (401, 403):
        raise ScrapeError(message, expected="access", remedy="give a real --contact; see Wikimedia's robot policy")
    if answer.status in (408, 429) or answer.status >= 500:
        raise TryAgain(message, _bearable(retry_after(answer.headers.get("retry-after"), now)))
    raise Refused(message)


def check_parts(body: bytes, separators: bytes, most: int) -> None:
    """Refuse a body that would take many times its size in memory when it is parsed.

    Args:
        body: JSON or HTML.
        separators: bytes of which every value or element takes one.
        most: how many there may be.

    Raises:
        Unusable: there are more.
    """
    if sum(body.count(separator) for separator in separators) > most:
        raise Unusable(f"an answer of more than {most} parts")


def check_error(content: Mapping[str, Any], answer: HttpAnswer, now: datetime) -> None:
    """Return if an action API's answer has no ``error``; maxlag and the like come inside a 200.

    Raises:
        TryAgain: lag, rate limits, read-only databases, internal errors.
        Refused: the request itself is at fault.
    """
    error = content.get("error")
    if error is None:
        return
    code = str(error.get("code", "")) if isinstance(error, Mapping) else ""
    message = f"{code}: {error.get('info', '')}" if code else "an error without a code"
    if not code or code in _WAIT_CODES or code.startswith("internal_api_error"):
        raise TryAgain(message[:200], _bearable(retry_after(answer.headers.get("retry-after"), now)))
    raise Refused(message[:200])


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
