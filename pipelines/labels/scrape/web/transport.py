"""HTTP to a list of origins: requests name who asks, answers are bounded in size and time, nothing is retried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import hiertree
from hiertree.errors import OptionError, ScrapeError, hide_credentials

from ..settings import ScrapeSettings, is_loopback, origin_of
from .answers import HttpAnswer, TryAgain, Unusable
from .clock import REAL_TIME, Clock

if TYPE_CHECKING:
    import requests

LARGEST_BODY = 32 << 20
SECONDS_FOR_A_BYTE = 30.0
SECONDS_FOR_AN_ANSWER = 120.0


class Transport:
    """One connection after another to the origins that the settings name.

    Args:
        settings: who asks, and where.
        clock: bounds the time for an answer.

    Raises:
        OptionError: no contact.
    """

    def __init__(self, settings: ScrapeSettings, *, clock: Clock = REAL_TIME) -> None:
        import requests

        self._origins, self._clock = settings.origins, clock
        self._session = requests.Session()
        self._session.trust_env = False  # no .netrc; proxies are looked up below, for the outer hosts alone
        self._session.headers.update({"User-Agent": user_agent(settings.contact), "Accept-Encoding": "gzip"})

    def get(self, url: str, parameters: Mapping[str, str] | None = None) -> HttpAnswer:
        """Ask once, and follow no redirect.

        Raises:
            TryAgain: no answer, a broken or a late one.
            Unusable: an answer above 32 MiB.
            ScrapeError: an address outside the origins.
        """
        from requests import RequestException
        from requests.utils import get_environ_proxies
        from urllib3.exceptions import HTTPError

        started = self._clock.monotonic()
        if origin_of(url) not in self._origins:
            raise ScrapeError(
                f"{hide_credentials(url)[:200]!r} was to be asked",
                expected=f"one of {', '.join(sorted(self._origins))}",
            )
        try:
            with self._session.get(
                url,
                params=parameters,
                stream=True,
                allow_redirects=False,
                timeout=SECONDS_FOR_A_BYTE,
                proxies=None if is_loopback(url) else get_environ_proxies(url),
            ) as response:
                body = self._body(response, started)
                headers = {name.lower(): value for name, value in response.headers.items()}
                return HttpAnswer(response.status_code, headers, body)
        except (RequestException, HTTPError, OSError) as error:
            cause = getattr(error.args[0] if error.args else None, "reason", None) or error  # without the whole URL
            raise TryAgain(hide_credentials(f"{type(error).__name__}: {cause}")[:200]) from None

    def _body(self, response: requests.Response, started: float) -> bytes:
        """The decoded body, read piece by piece, so that neither size nor dripping can hold us."""
        body = bytearray()
        while piece := response.raw.read1(1 << 16, decode_content=True):
            body += piece
            if len(body) > LARGEST_BODY:
                raise Unusable(f"an answer above {LARGEST_BODY >> 20} MiB")
            if self._clock.monotonic() - started > SECONDS_FOR_AN_ANSWER:
                raise TryAgain(f"an answer of more than {SECONDS_FOR_AN_ANSWER:.0f} s")
        return bytes(body)


def user_agent(contact: str | None) -> str:
    """What the User-Agent header says: client, contact, library.

    Raises:
        OptionError: there is no contact.

    >>> user_agent("maps@univ-lab.fr")
    'hiertree/... (maps@univ-lab.fr) python-requests/...'
    """
    import requests

    if contact is None:
        expected = "your mail address or web page, for Wikimedia's operators"
        raise OptionError("no contact", expected=expected, remedy="pass --contact")
    return f"hiertree/{hiertree.__version__} ({contact}) python-requests/{requests.__version__}"
