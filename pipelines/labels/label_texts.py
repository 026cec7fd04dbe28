"""Normal forms of label texts, and recognition of texts that name Wikimedia's own pages instead of places."""

from __future__ import annotations

import re
import unicodedata

from .encode.place_nouns import singular
from .landmarks import InstanceValue

WIKIMEDIA_ITEMS = {
    "Q4167836": "Wikimedia category",
    "Q4167410": "Wikimedia disambiguation page",
    "Q11266439": "Wikimedia template",
    "Q13406463": "Wikimedia list article",
    "Q14204246": "Wikimedia project page",
    "Q15184295": "Wikimedia module",
    "Q15623926": "Wikimedia set index article",
    "Q17362920": "Wikimedia duplicated page",
    "Q21286738": "Wikimedia permanent duplicate item",
    "Q22808320": "Wikimedia human name disambiguation page",
    "Q4663903": "Wikimedia portal",
}
_WIKIMEDIA_TEXT = re.compile(
    r"(wikimedia|wikipedia|wikidata|wikivoyage|wikinews|wikisource|wikispecies)\b.*\b"
    r"(category|page|template|list|article|module|portal|item|namespace|administration|redirect)\b"
    r"|(human name )?disambiguation page|list article|set index article",
    re.IGNORECASE,
)
_JOINERS = "\u200c\u200d"  # which some scripts need within words
_QUALIFIER = re.compile(r"\s*\([^()]*\)?$")
_OF_A_PLACE = re.compile(r"([^\W\d_](?:(?! (?:of|in) )[^,])*) (?:of|in) (?:the )?[A-Z]\w.*")
_BRITISH = ((re.compile(r"(?<=[^\W\d_]{2})tre\b"), "ter"), (re.compile(r"(?<=[^\W\d_]{3})our\b"), "or"))


def visible(text: str) -> str:
    r"""A text without line breaks and characters that cannot be seen, such as those that turn the writing direction."""
    hidden = {sign for sign in text if unicodedata.category(sign) in ("Cc", "Cf", "Zl", "Zp")}
    return "".join(sign for sign in text if sign in _JOINERS or sign not in hidden)


def normalize_label(text: str) -> str:
    """One form of a label: Unicode NFC, single spaces, nothing invisible, no qualifier in parentheses at the end.

    ``|``, which separates labels in files, becomes ``/``. Qualifiers are what the infobox adds to a label (a year, a
    place) and what scraping may cut off half-way. A plural of a place, as lists are named, becomes what it lists.

    >>> normalize_label("county hall ("), normalize_label(" church  building (1909)"), normalize_label("cafe\u0301")
    ('county hall', 'church building', 'café')
    >>> normalize_label("fortresses of Brazil"), normalize_label("city of Japan"), normalize_label("ways of the cross")
    ('fortress', 'city of Japan', 'ways of the cross')
    """
    characters = text.replace("|", "/")
    spaced = "".join(" " if unicodedata.category(sign) in ("Cc", "Zs", "Zl", "Zp") else sign for sign in characters)
    label = " ".join(unicodedata.normalize("NFC", visible(spaced)).split())
    while (shorter := _QUALIFIER.sub("", label)) != label:
        label = shorter
    return _strip_place(label)


def _strip_place(label: str) -> str:
    """The type in the singular, where a label has the form of a list's name: several of a kind, and where they are.

    The noun before the first preposition is the one of which there are several: "list of cities in Japan" stays.
    """
    match = _OF_A_PLACE.fullmatch(label)
    last = match[1].split()[-1] if match else ""
    if match is None or not last.islower() or singular(last) == last:
        return label
    return match[1].removesuffix(last) + singular(last)


def spelling_key(label: str) -> str:
    """A key shared by labels that differ only in case or in British and American spelling."""
    key = label.casefold()
    for british, american in _BRITISH:
        key = british.sub(american, key)
    return key


def is_wikimedia_page(value: InstanceValue) -> bool:
    """Whether a value says that the item is a page of Wikimedia's own (by Wikidata id, or by text) and not a place."""
    return value.item_id in WIKIMEDIA_ITEMS or _WIKIMEDIA_TEXT.fullmatch(normalize_label(value.text)) is not None
