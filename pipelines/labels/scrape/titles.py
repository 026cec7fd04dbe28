"""From a category's URL, as published, to the title by which MediaWiki knows the page."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import SplitResult, parse_qs, quote, unquote_to_bytes, urlsplit

from hiertree.errors import CategoryError

PREFIX = "Category:"
LONGEST_TITLE = 255  # bytes of UTF-8, without the namespace
HOSTS = ("commons.wikimedia.org", "commons.m.wikimedia.org")
EXPECTED = "a URL such as http://commons.wikimedia.org/wiki/Category:Comet_Falls"
LARGEST_ITEM = 2**31 - 1  # the greatest number of an item that Wikidata can hold
_SITE = r"(?:https?://)?(?:(?:www|m)\.)?wikidata\.org/"
_ITEM = re.compile(rf"<?(?:{_SITE}(?:wiki|entity)/|(?:wd|d|wikidata):)?(Q[1-9][0-9]{{0,11}})(?:#\w*)?>?")
_DIRECTION_MARKS = re.compile("[\u200e\u200f\u202a-\u202e]")  # MediaWiki drops them from titles
_OTHER_PAGE = re.compile(
    r"(?i)(file|image|media|special|template|user|creator|institution|help|talk|[a-z]+ talk):|[PQ][0-9]+$"
)
_FORBIDDEN = re.compile(r"[#<>\[\]|{}\x00-\x1f\x7f\ufffd]|%[0-9A-Fa-f]{2}|&[A-Za-z0-9]+;|~~~|(^|/)\.\.?(/|$)")


class OtherSiteError(CategoryError):
    """A link that leads to another wiki."""


def item_id_of(text: str) -> str | None:
    """The Wikidata id that a text is, or is the URL of; None for any other text."""
    match = _ITEM.fullmatch(_DIRECTION_MARKS.sub("", text).strip())
    return match and match[1]


def landmark_key(cell: str) -> str:
    """What a landmark's cell leads to: the item of Wikidata that it names, or the title of its Commons category.

    A title may stand for its URL, with or without ``Category:``.
    """
    text = _DIRECTION_MARKS.sub("", cell).strip()
    if item := item_id_of(text):
        if int(item[1:]) > LARGEST_ITEM:
            raise CategoryError("an item beyond Wikidata's range", expected=f"at most Q{LARGEST_ITEM}")
        return item
    if not text:
        raise CategoryError("an empty cell", expected=EXPECTED)
    if f"{text.partition(':')[0].strip(' _').capitalize()}:" == PREFIX:
        return _decoded(text)
    if text.startswith(tuple(f"{host}/" for host in HOSTS)):
        return category_title(f"https://{text}")
    if "://" in text or text.startswith(("www.", "//", "/")) or _OTHER_PAGE.match(text.replace("_", " ")):
        return category_title(text)
    return _decoded(PREFIX + text)


def category_title(url: str) -> str:
    """The title of the Commons category that a URL leads to.

    Percent signs are decoded as UTF-8, underscores become spaces, the text Unicode NFC, the first letter a capital.
    """
    parts, host = _parts(url.strip())
    if parts.scheme not in ("http", "https"):
        raise CategoryError("not a URL", expected=EXPECTED)
    if host not in HOSTS:
        raise CategoryError("another site than Wikimedia Commons", expected=EXPECTED)
    if parts.query or parts.fragment:
        raise CategoryError("a query or fragment after the title", expected=EXPECTED)
    return _title_at(parts.path)


def linked_title(link: str) -> str:
    """The title of the Commons category that a link on one of its pages leads to, or would if it existed."""
    parts, host = _parts(link)
    if host not in (None, *HOSTS):
        raise OtherSiteError("another site than Wikimedia Commons", expected=EXPECTED)
    if parts.path == "/w/index.php":
        return normal_title(parse_qs(parts.query).get("title", [""])[0])
    return _title_at(parts.path)


def _parts(url: str) -> tuple[SplitResult, str | None]:
    try:
        parts = urlsplit(url)
        return parts, parts.hostname
    except ValueError:
        raise CategoryError("not a URL", expected=EXPECTED) from None


def _title_at(path: str) -> str:
    if not path.startswith("/wiki/"):
        raise CategoryError("not a /wiki/ page", expected=EXPECTED)
    return _decoded(path.removeprefix("/wiki/"))


def target_title(text: str) -> str:
    """The title of the category that a soft redirect names, with or without ``Category:``."""
    name = text.partition("#")[0].strip().removeprefix(":").strip()
    return normal_title(name if name.casefold().startswith(PREFIX.casefold()) else PREFIX + name)


def _decoded(text: str) -> str:
    try:
        return normal_title(unquote_to_bytes(text).decode("utf-8"))
    except UnicodeError:
        raise CategoryError("bytes that are not UTF-8", expected=EXPECTED) from None


def normal_title(text: str) -> str:
    """The one form of a category's title."""
    visible = _DIRECTION_MARKS.sub("", text).replace("_", " ")
    namespace, _, name = " ".join(unicodedata.normalize("NFC", visible).split()).partition(":")
    name = name.strip()
    if f"{namespace.strip().capitalize()}:" != PREFIX:
        raise CategoryError("not a category", expected=EXPECTED)
    if not name or len(name.encode("utf-8", "surrogatepass")) > LONGEST_TITLE:
        raise CategoryError(f"a title of 0 or more than {LONGEST_TITLE} bytes", expected=EXPECTED)
    if _FORBIDDEN.search(name):
        raise CategoryError("characters that no title may hold", expected=EXPECTED)
    first = name[0].upper()
    return PREFIX + (first if len(first) == 1 else name[0]) + name[1:]


def page_path(title: str) -> str:
    """The path of a category's page."""
    return "/wiki/" + quote(title.replace(" ", "_"), safe=":/,'()!*@;$-._~")


def landmark_name(category: str) -> str:
    """The name of a Commons category; any other text unchanged."""
    try:
        return category_title(category).removeprefix(PREFIX)
    except CategoryError:
        return category.rpartition(PREFIX)[2].replace("_", " ")
