"""The settings of a scrape, declared once for plans, the command line and Python."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import FiniteFloat, field_validator, model_validator

from hiertree.errors import OptionError

from ..steps import Settings, option

WIKIMEDIA = ("https://commons.wikimedia.org", "https://www.wikidata.org")
FASTEST = {"api": 300, "html": 1200}  # requests a minute that Wikimedia allows: 5 and 20 a second
_MAIL = re.compile(r"[^\s@()<>]+@([^\s@()<>]+\.[A-Za-z0-9-]{2,})")
_PAGE = re.compile(r"https?://([^\s()<>/:]+\.[A-Za-z0-9-]{2,})(?::[0-9]+)?(/[^\s()<>]*)?")
_NOT_REAL = re.compile(r"(.*\.)?(example(\.(com|org|net|edu))?|invalid|test|localhost|local)", re.IGNORECASE)


class ScrapeSettings(Settings):
    """Which source is read, and how Wikimedia is asked."""

    contact: str | None = option(None, "Your email address or web page, for Wikimedia's operators; needed to ask them.")
    source: Literal["api", "html"] = option(
        "api", "The action API, 50 landmarks per request, or the category pages, one per request."
    )
    requests_per_minute: FiniteFloat = option(200.0, "Spread evenly, one request at a time.", gt=0)
    max_retries: int = option(8, "Retries of a failed request.", ge=0)
    backoff: FiniteFloat = option(5.0, "Seconds before the first retry; doubled for each further one.", gt=0)
    refresh_older_than: float | None = option(
        None, "Ask again for facts older than this many days.", ge=0, allow_inf_nan=False
    )
    dump: Path | None = option(None, "Read this Wikidata dump (.json.bz2 or .json.gz) and ask nobody.")
    processes: int | None = option(None, "Processes that parse and unpack the dump; default: one per core.", ge=1)
    commons_api: str = option("https://commons.wikimedia.org/w/api.php", "Commons' action API, or a loopback address.")
    wikidata_api: str = option("https://www.wikidata.org/w/api.php", "Wikidata's action API, or a loopback address.")
    commons_site: str = option("https://commons.wikimedia.org", "Commons' pages, or those on a loopback address.")

    @field_validator("contact")
    @classmethod
    def _reaches_somebody(cls, contact: str | None) -> str | None:
        address_match = contact and (_MAIL.fullmatch(contact) or _PAGE.fullmatch(contact))
        if contact is not None and (
            not address_match or _NOT_REAL.fullmatch(address_match[1]) or not contact.isascii()
        ):
            raise OptionError(f"contact={contact!r}", expected="your own email address or web page, for the operators")
        return contact

    @model_validator(mode="after")
    def _asks_nobody_else(self) -> ScrapeSettings:
        for name in ("commons_api", "wikidata_api", "commons_site"):
            url = getattr(self, name)
            if not is_loopback(url) and origin_of(url).removesuffix(":443") not in WIKIMEDIA:
                raise OptionError(f"{name}={url!r}", expected=f"{' or '.join(WIKIMEDIA)}, or a loopback address")
        return self

    @model_validator(mode="after")
    def _asks_slowly(self) -> ScrapeSettings:
        fastest = FASTEST[self.source]
        urls = (self.commons_api, self.wikidata_api) if self.source == "api" else (self.commons_site,)
        if self.requests_per_minute >= fastest and not all(map(is_loopback, urls)):
            raise OptionError(f"requests_per_minute={self.requests_per_minute:g}", expected=f"fewer than {fastest}")
        return self

    @property
    def origins(self) -> frozenset[str]:
        """The only origins that are ever asked."""
        return frozenset(origin_of(url) for url in (self.commons_api, self.wikidata_api, self.commons_site))


def is_loopback(url: str) -> bool:
    """Whether a URL names this machine."""
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or parts.username is not None:
            return False
        return parts.hostname == "localhost" or ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


def origin_of(url: str) -> str:
    """Scheme, host and port of a URL; empty where it has none or names a user."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return ""
    return "" if parts.username is not None else f"{parts.scheme}://{parts.hostname}:{port}"
