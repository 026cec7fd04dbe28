"""A polite HTTP client for Wikimedia: one request at a time at a steady pace, with retries where they help.

Rules: https://www.mediawiki.org/wiki/API:Etiquette and https://wikitech.wikimedia.org/wiki/Robot_policy.
"""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import Callable, Mapping
from concurrent import futures
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from email.message import Message
from email.utils import parsedate_to_datetime
from threading import Thread
from typing import IO, TYPE_CHECKING, Any, TypeVar
from urllib.parse import urljoin

import hiertree
from hiertree.errors import OptionError, ScrapeError, hide_credentials

from ..settings import FASTEST, ScrapeSettings, is_loopback, origin_of
from .store import Store

if TYPE_CHECKING:
    from requests import Session

LONGEST_RETRY_AFTER = 3600.0  # for a longer wait the program rather ends
_TOO_SLOW = "an answer of more than {:.0f} s"
_WAIT_CODES = {"maxlag", "ratelimited", "readonly", "timeout", "actionthrottledtext"}
LARGEST_BODY = 32 << 20
SECONDS_FOR_A_BYTE = 30.0
SECONDS_FOR_AN_ANSWER = 120.0
LONGEST_BACKOFF = 300.0  # seconds
LONGEST_SILENCE = 30.0  # seconds of waiting without a word
JITTER = 0.25  # the back-off is lengthened at random by up to this fraction
SLOW_ANSWER, REST = 1.0, 5.0  # after an answer of more seconds the API is left alone for so many
MOST_INCOMPLETE = 2  # incomplete answers after which what was asked is the likely reason
MOST_REDIRECTS = 5
Read = TypeVar("Read")
_log = logging.getLogger(__name__)


class TryAgain(Exception):  # noqa: N818
    """The answer cannot be used now; ``after`` is how many seconds the server asks to wait."""

    def __init__(self, reason: str, delay: float | None = None) -> None:
        super().__init__(reason)
        self.reason, self.after = reason, delay


class NoConnection(TryAgain):
    """The server cannot be reached: no such name, no route, nobody who listens, or another's certificate."""


class Incomplete(TryAgain):
    """The answer lacks something that was asked for."""


class Refused(Exception):  # noqa: N818
    """The server will never answer this request as it was put."""


class Unusable(Refused):
    """The answer stays incomplete or is too large, perhaps because of the request."""


class UnknownEntity(Refused):
    """Wikidata can have no entity of one of the ids asked for."""


@dataclass(frozen=True)
class HttpAnswer:
    """An HTTP answer, read to its end; headers are found by their names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def retry_after(header: str | None, current_time: datetime) -> float | None:
    """Seconds that a Retry-After header asks for, given as seconds or as a date; None where it cannot be read."""
    text = (header or "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    date = _date(text)
    return None if date is None else max(0.0, (date - current_time).total_seconds())


def _date(header: str) -> datetime | None:
    """The time that a header gives, if it can be read."""
    try:
        date = parsedate_to_datetime(header)
        return date.astimezone(timezone.utc) if date.tzinfo else date.replace(tzinfo=timezone.utc)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def check_status(answer: HttpAnswer, current_time: datetime) -> None:
    """Return for status 200 or 404; raise the error that any other status means."""
    if answer.status in (200, 404):
        return
    beginning = " ".join(answer.body[:300].decode("utf-8", "replace").split())
    message = f"HTTP {answer.status}: {beginning[:120]}"
    if answer.status in (401, 403):
        raise ScrapeError(message, expected="permission", remedy="give a real --contact; see Wikimedia's robot policy")
    if answer.status in (408, 429) or answer.status >= 500:
        raise TryAgain(message, _requested_wait(answer, current_time))
    raise Refused(message)


def decoded(answer: HttpAnswer) -> str:
    """Decode UTF-8 text; refuse another charset, which a proxy must have made and may have lost letters."""
    header = Message()
    header["content-type"] = answer.headers.get("content-type", "")
    charset = header.get_content_charset("utf-8")
    if charset not in ("utf-8", "utf8"):
        raise TryAgain(f"an answer in {charset}, not in UTF-8")
    try:
        return answer.body.decode("utf-8")
    except UnicodeDecodeError:
        raise TryAgain("an answer that is not UTF-8") from None


def check_size(num_elements: int, limit: int) -> None:
    """Refuse an answer of so many elements that parsing it would need many times its size in memory."""
    if num_elements > limit:
        raise Unusable(f"an answer of more than {limit} elements")


def check_error(document: Mapping[str, Any], answer: HttpAnswer, current_time: datetime) -> None:
    """Return if an action API's answer has no ``error``; maxlag and the like come inside a 200."""
    error = document.get("error")
    if error is None:
        return
    code = str(error.get("code", "")) if isinstance(error, Mapping) else ""
    message = f"{code}: {error.get('info', '')}" if code else "an error without a code"
    if not code or code in _WAIT_CODES or code.startswith("internal_api_error"):
        raise TryAgain(message[:200], _requested_wait(answer, current_time))
    raise (UnknownEntity if code == "no-such-entity" else Refused)(message[:200])


def _requested_wait(answer: HttpAnswer, current_time: datetime) -> float | None:
    """The seconds of Retry-After, if there are any; too many of them end the run.

    A date is meant by the server's clock, which the answer tells.
    """
    server_time = _date(answer.headers.get("date", ""))
    seconds = retry_after(answer.headers.get("retry-after"), server_time or current_time)
    if seconds is not None and seconds > LONGEST_RETRY_AFTER:
        expected = f"at most {LONGEST_RETRY_AFTER:.0f} s"
        remedy = "run the command again after that time; it continues where it stopped"
        raise ScrapeError(f"the server asks to wait {seconds:.0f} s", expected=expected, remedy=remedy)
    return seconds


@dataclass(frozen=True)
class Clock:
    """Monotonic seconds, sleeping, and the date."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], datetime] = lambda: datetime.now(timezone.utc)


REAL_TIME = Clock()


class Transport:
    """One connection after another to the origins that the settings name."""

    def __init__(self, settings: ScrapeSettings) -> None:
        self._origins, self._user_agent = settings.origins, user_agent(settings.contact)
        self._session = self._new_session()

    def _new_session(self) -> Session:
        import requests

        session = requests.Session()
        session.trust_env = False  # no .netrc; proxies are looked up below, for the outer hosts alone
        session.headers.update({"User-Agent": self._user_agent, "Accept-Encoding": "gzip"})
        return session

    def get(self, url: str, parameters: Mapping[str, str] | None = None) -> HttpAnswer:
        """Send one request, without following redirects; wait for all of the answer for so long and no longer."""
        if origin_of(url) not in self._origins:
            problem = f"{hide_credentials(url)[:200]!r} was to be asked"
            raise ScrapeError(problem, expected=f"one of {', '.join(sorted(self._origins))}")
        answer = futures.Future[HttpAnswer]()
        request = (answer, self._session, url, parameters)
        Thread(target=_receive_into, args=request, daemon=True).start()  # headers that drip cannot be interrupted
        try:
            return answer.result(SECONDS_FOR_AN_ANSWER)
        except futures.TimeoutError:
            self._session = self._new_session()
            raise TryAgain(_TOO_SLOW.format(SECONDS_FOR_AN_ANSWER)) from None


def _receive_into(
    answer: futures.Future[HttpAnswer], session: Session, url: str, parameters: Mapping[str, str] | None
) -> None:
    """Give a future the answer, or the error."""
    from requests import RequestException
    from urllib3.exceptions import HTTPError

    try:
        answer.set_result(_receive(session, url, parameters))
    except (TryAgain, Refused) as error:
        answer.set_exception(error)
    except (RequestException, HTTPError, OSError, ValueError) as error:  # ValueError: a Location that is no URL
        answer.set_exception(_trouble(error))


def _receive(session: Session, url: str, parameters: Mapping[str, str] | None) -> HttpAnswer:
    from requests.utils import get_environ_proxies

    end = time.monotonic() + SECONDS_FOR_AN_ANSWER
    with session.get(
        url,
        params=parameters,
        stream=True,
        allow_redirects=False,
        timeout=SECONDS_FOR_A_BYTE,
        proxies=None if is_loopback(url) else get_environ_proxies(url),
    ) as response:
        coding = response.headers.get("content-encoding", "identity").strip().lower()
        if coding not in ("identity", "gzip", "x-gzip"):  # others may unpack to any size
            raise TryAgain(f"an answer compressed by {coding[:60]}, which was not requested")
        body = bytearray()
        while chunk := response.raw.read1(1 << 16, decode_content=True):
            body += chunk
            if len(body) > LARGEST_BODY:
                raise Unusable(f"an answer above {LARGEST_BODY >> 20} MiB")
            if time.monotonic() > end:
                raise TryAgain(_TOO_SLOW.format(SECONDS_FOR_AN_ANSWER))
        return HttpAnswer(response.status_code, response.headers, bytes(body))


def _trouble(error: Exception) -> TryAgain:
    """What an error of requests means."""
    from requests.exceptions import ConnectTimeout, ProxyError, SSLError
    from urllib3.exceptions import NewConnectionError

    cause = getattr(error.args[0] if error.args else None, "reason", None) or error  # without the whole URL
    reason = hide_credentials(f"{type(error).__name__}: {cause}")[:200]
    unreachable = isinstance(error, ConnectTimeout | ProxyError | SSLError) or isinstance(cause, NewConnectionError)
    return NoConnection(reason) if unreachable else TryAgain(reason)


def user_agent(contact: str | None) -> str:
    """What the User-Agent header says: client, contact, library."""
    import requests

    if contact is None:
        expected = "your email address or web page, for Wikimedia's operators"
        raise OptionError("no contact", expected=expected, remedy="pass --contact")
    return f"hiertree/{hiertree.__version__} ({contact}) python-requests/{requests.__version__}"


class Unanswered(Exception):  # noqa: N818
    """No usable answer after every retry."""


class Pace:
    """Decides when the next request may start: evenly spaced, and after pauses that servers request.

    The store keeps that time, so that a pause outlives the process.
    """

    def __init__(self, requests_per_minute: float, clock: Clock, store: Store | None = None) -> None:
        self._spacing, self._clock, self._store = 60.0 / requests_per_minute, clock, store
        self._earliest, self._reason = float("-inf"), ""
        if store is not None:
            left = store.next_request() - clock.now().timestamp()
            self._earliest = clock.monotonic() + min(left, LONGEST_RETRY_AFTER)  # more would be a clock put back
            self._reason = "an earlier run was to pause until then, or the clock was set back"

    def wait(self, *, spacing: float = 0.0) -> None:
        """Sleep until the next request may start, and count it as started; the one after comes no sooner than that."""
        while (left := self._earliest - self._clock.monotonic()) > 0:
            if left > LONGEST_SILENCE:
                until = (self._clock.now() + timedelta(seconds=left)).astimezone().strftime("%H:%M:%S")
                _log.warning("waiting %.0f s, until %s: %s", left, until, self._reason)
            self._clock.sleep(left)
        self.pause(max(self._spacing, spacing))

    def pause(self, seconds: float, reason: str = "") -> None:
        """Start no request for so many seconds from now."""
        current_time = self._clock.monotonic()
        if current_time + seconds > self._earliest:
            self._earliest, self._reason = current_time + seconds, reason
        if self._store is not None:
            self._store.keep_next_request(self._clock.now().timestamp() + self._earliest - current_time)


class Client:
    """Asks politely, and logs requests as JSON lines if there is a log."""

    def __init__(
        self,
        transport: Transport,
        *,
        settings: ScrapeSettings,
        clock: Clock = REAL_TIME,
        log: IO[str] | None = None,
        store: Store | None = None,
    ) -> None:
        self.settings, self.clock, self.requests = settings, clock, 0
        self._transport, self._log = transport, log
        self._pace = Pace(settings.requests_per_minute, clock, store)
        self._apis = (settings.commons_api, settings.wikidata_api)
        self._was_answered = False  # whether anything was, so that there is a connection

    def note(self, event: str, **details: Any) -> None:
        """Append a line to the log."""
        if self._log is not None:
            time = self.clock.now().isoformat(timespec="milliseconds")
            self._log.write(json.dumps({"time": time, "event": event, **details}, ensure_ascii=False) + "\n")
            self._log.flush()

    def ask(self, url: str, parameters: Mapping[str, str] | None, parse: Callable[[HttpAnswer], Read]) -> Read:
        """What ``parse`` makes of the answer; where it (or the transport) raises TryAgain, after a wait."""
        incomplete = 0
        for attempt in range(self.settings.max_retries + 1):
            try:
                return parse(self._get(url, parameters))
            except TryAgain as trouble:
                last = trouble
            incomplete += isinstance(last, Incomplete)
            if isinstance(last, NoConnection) and not self._was_answered:
                raise _unreachable(url, last.reason)
            self._pace.pause(last.after or 0.0, last.reason)
            if attempt == self.settings.max_retries or incomplete > MOST_INCOMPLETE:
                break
            seconds = wait_before_retry(self.settings.backoff, attempt, last.after, random.random())  # noqa: S311
            self.note("retry", reason=last.reason, seconds=round(seconds, 3))
            is_unusual = attempt > 0 or isinstance(last, NoConnection)
            if is_unusual and seconds <= LONGEST_SILENCE:  # a long wait says so itself
                _log.warning("no answer (%s); retry %d in %.0f s", last.reason, attempt + 1, seconds)
            self._pace.pause(seconds, last.reason)
        raise Unusable(last.reason) if isinstance(last, Incomplete) else Unanswered(last.reason)

    def _get(self, url: str, parameters: Mapping[str, str] | None) -> HttpAnswer:
        """The answer behind redirects, each of which is a request like any other."""
        for _ in range(MOST_REDIRECTS + 1):
            answer = self._get_once(url, parameters)
            location = answer.headers.get("location")
            if answer.status not in (301, 302, 303, 307, 308) or not location:
                return answer
            url, parameters = urljoin(url, location), None
        raise Unanswered(f"endless HTTP redirects, the last to {hide_credentials(url)[:200]!r}")

    def _get_once(self, url: str, parameters: Mapping[str, str] | None) -> HttpAnswer:
        is_api = url in self._apis  # whose rules are stricter; pages are slow as a matter of course
        self._pace.wait(spacing=60.0 / FASTEST["api"] if is_api and not is_loopback(url) else 0.0)
        self.requests += 1
        start_time = self.clock.monotonic()
        try:
            answer = self._transport.get(url, parameters)
            self._was_answered = True
            return answer
        finally:
            if is_api and self.clock.monotonic() - start_time > SLOW_ANSWER:
                self._pace.pause(REST)


def _unreachable(url: str, reason: str) -> ScrapeError:
    remedy = "run the command again once there is one"
    return ScrapeError(f"no connection to {origin_of(url)} ({reason})", expected="one, or HTTPS_PROXY", remedy=remedy)


def wait_before_retry(backoff: float, attempt: int, server_delay: float | None, jitter: float) -> float:
    """Seconds to wait after failed attempt 0, 1, …: never less than the server asked, and ever longer."""
    growing = min(LONGEST_BACKOFF, backoff * 2.0 ** min(attempt, 60)) * (1.0 + JITTER * jitter)
    return max(growing, server_delay or 0.0)
