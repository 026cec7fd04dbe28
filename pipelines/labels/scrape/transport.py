"""HTTP to a list of origins: who asks is said, answers are bounded in size and time, nothing is retried."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

import hiertree
from hiertree.errors import OptionError, ScrapeError

from .etiquette import REAL_TIME, Answer, Clock, Refused, TryAgain

if TYPE_CHECKING:
    import requests

WIKIMEDIA_HOSTS = ("commons.wikimedia.org", "www.wikidata.org")
LARGEST_BODY = 32 << 20
SECONDS_FOR_A_BYTE = 30.0
SECONDS_FOR_AN_ANSWER = 120.0
MOST_REDIRECTS = 5
_MAIL = re.compile(r"[^\s@()<>]+@([^\s@()<>]+\.[A-Za-z0-9-]{2,})")
_PAGE = re.compile(r"https?://([^\s()<>/:]+\.[A-Za-z0-9-]{2,})(?::[0-9]+)?(/[^\s()<>]*)?")
_NOT_REAL = re.compile(r"(.*\.)?(example(\.(com|org|net|edu))?|invalid|test|localhost|local)", re.IGNORECASE)


@dataclass(frozen=True)
class Endpoints:
    """Where to ask: Wikimedia over https, or a loopback address that is named."""

    commons_api: str = "https://commons.wikimedia.org/w/api.php"
    wikidata_api: str = "https://www.wikidata.org/w/api.php"
    commons_site: str = "https://commons.wikimedia.org"

    def __post_init__(self) -> None:
        """Refuse every other host."""
        for name in (entry.name for entry in fields(self)):
            url = getattr(self, name)
            if not (_is_wikimedia(url) or is_loopback(url)):
                raise OptionError(
                    f"{name}={url!r}", expected=f"https://{' or https://'.join(WIKIMEDIA_HOSTS)}, or a loopback address"
                )

    def replaced(self, others: Mapping[str, str | None]) -> Endpoints:
        """These with others in their place; None leaves one as it is."""
        return replace(self, **{name: url for name, url in others.items() if url is not None})

    def origins(self) -> frozenset[str]:
        """The only origins that are ever asked."""
        return frozenset(_origin(url) for url in (self.commons_api, self.wikidata_api, self.commons_site))


class Transport:
    """One connection after another to the endpoints' origins.

    Args:
        contact: a mail address or web page at which the operators can reach whoever runs this.
        endpoints: where to ask.
        clock: bounds the time for an answer.

    Raises:
        OptionError: a contact that reaches nobody.
    """

    def __init__(self, contact: str, *, endpoints: Endpoints, clock: Clock = REAL_TIME) -> None:
        import requests

        self._origins, self._clock = endpoints.origins(), clock
        self._session = requests.Session()
        self._session.trust_env = False  # no .netrc; proxies are looked up below, for the outer hosts alone
        self._session.headers.update({"User-Agent": user_agent(contact), "Accept-Encoding": "gzip"})

    def get(self, url: str, parameters: Mapping[str, str] | None = None) -> Answer:
        """Ask once; redirects are followed within the origins only.

        Raises:
            TryAgain: no answer, a broken or a late one.
            Refused: an answer above 32 MiB.
            ScrapeError: an address, or a redirect to one, outside the origins.
        """
        started = self._clock.monotonic()
        for _ in range(MOST_REDIRECTS + 1):
            answer = self._get_once(url, parameters, started)
            if answer.status not in (301, 302, 303, 307, 308) or not answer.headers.get("location"):
                return answer
            url, parameters = urljoin(url, answer.headers["location"]), None
        raise Refused(f"more than {MOST_REDIRECTS} HTTP redirects")

    def _get_once(self, url: str, parameters: Mapping[str, str] | None, started: float) -> Answer:
        from requests import RequestException
        from requests.utils import get_environ_proxies
        from urllib3.exceptions import HTTPError

        if _origin(url) not in self._origins:
            raise ScrapeError(f"{url[:200]!r} was to be asked", expected=f"one of {', '.join(sorted(self._origins))}")
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
                return Answer(response.status_code, headers, body, self._clock.monotonic() - started)
        except (RequestException, HTTPError, OSError) as error:
            raise TryAgain(f"{type(error).__name__}: {error}"[:200]) from None

    def _body(self, response: requests.Response, started: float) -> bytes:
        """The decoded body, read piece by piece, so that neither size nor dripping can hold us."""
        body = bytearray()
        while piece := response.raw.read1(1 << 16, decode_content=True):
            body += piece
            if len(body) > LARGEST_BODY:
                raise Refused(f"an answer above {LARGEST_BODY >> 20} MiB")
            if self._clock.monotonic() - started > SECONDS_FOR_AN_ANSWER:
                raise TryAgain(f"an answer of more than {SECONDS_FOR_AN_ANSWER:.0f} s")
        return bytes(body)


def user_agent(contact: str) -> str:
    """What the User-Agent header says: client, contact, library.

    Raises:
        OptionError: a contact that is neither a mail address nor a web page, or that is nobody's.

    >>> user_agent("maps@univ-lab.fr")
    'hiertree/... (maps@univ-lab.fr) python-requests/...'
    """
    import requests

    found = _MAIL.fullmatch(contact) or _PAGE.fullmatch(contact)
    if found is None or _NOT_REAL.fullmatch(found[1]) or not contact.isascii():
        raise OptionError(f"contact={contact!r}", expected="your own mail address or web page, for the operators")
    return f"hiertree/{hiertree.__version__} ({contact}) python-requests/{requests.__version__}"


def is_loopback(url: str) -> bool:
    """Whether a URL names this machine.

    >>> is_loopback("http://127.0.0.1:8000/w/api.php"), is_loopback("https://commons.wikimedia.org")
    (True, False)
    """
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or parts.username is not None:
            return False
        return parts.hostname == "localhost" or ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


def _is_wikimedia(url: str) -> bool:
    return _origin(url) in {f"https://{host}:443" for host in WIKIMEDIA_HOSTS}


def _origin(url: str) -> str:
    try:
        parts = urlsplit(url)
        port: Any = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return ""
    return "" if parts.username is not None else f"{parts.scheme}://{parts.hostname}:{port}"
