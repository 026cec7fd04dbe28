"""One form for texts: labels of landmarks, titles of Commons categories, ids of Wikidata items."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import SplitResult, parse_qs, quote, unquote_to_bytes, urlsplit

from hiertree.errors import CategoryError

from .encode.place_nouns import singular
from .landmarks import InstanceValue

# Wikimedia category, disambiguation page, template, list article, project page, module, set index article, duplicated
# page, permanent duplicate item, human name disambiguation page, portal
WIKIMEDIA_ITEMS = {
    *("Q4167836", "Q4167410", "Q11266439", "Q13406463", "Q14204246", "Q15184295", "Q15623926", "Q17362920"),
    *("Q21286738", "Q22808320", "Q4663903"),
}
# "Wikimedia category" and the like, in the languages whose labels are scraped and some others
_PAGE_KIND = (
    r"[ck]at[eéè]gor|luokka|thể loại|d[ie]sambigu|homonym|begriffsklär|doorverwijs|ujednoznacz|rozcestník|"
    r"anlam ayrımı|egyértelm|förgrening|page|p[aáà]gina|seite|strona|template|vorlage|modèle|plantilla|sjabloon|"
    r"szablon|\bsida\b|\blist|lijst|arti[ck]|mod[ue]l|portal|portail|\bitem\b|namespace|administration|redirect"
)
_WIKIMEDIA_TEXT = re.compile(
    rf"(?=.*\b(wiki(media|pedia|data|voyage|news|source|species)|vikimedya)\b)(?=.*({_PAGE_KIND})).*"
    r"|.*(викимеди|вікімеді|ويكيميديا|ویکی.?مدیا|维基媒体|維基媒體|ウィキメディア|위키미디어|ויקימדיה|विकिमीडिया|วิกิมีเดีย).*"
    r"|(human name )?disambiguation page|(list|set index) article|begriffsklärungsseite|page d['’]homonymie"
    r"|p[aá]gina d[ei] d[ei]sambigu\w+",
    re.IGNORECASE,
)
_JOINERS = "\u200c\u200d"  # which some scripts need within words
_EDGE = r"[\s!-/:-@\[-`{-~]"  # what may stand beside a word
_STRAY_JOINERS = re.compile(rf"(?:^|(?<={_EDGE}))[{_JOINERS}]+|[{_JOINERS}]+(?=$|{_EDGE})")
_UNSEEN = "\u034f\u115f\u1160\u3164\uffa0\ufe0e\ufe0f"  # fillers and selectors that count as letters or marks
_QUALIFIER = re.compile(r"\s*\([^()]*\)?$")
_OF_A_PLACE = re.compile(r"([^\W\d_](?:(?! (?:of|in) )[^,])*) (?:of|in) (?:the )?[A-Z]\w.*")
_BRITISH = ((re.compile(r"(?<=[^\W\d_]{2})tre\b"), "ter"), (re.compile(r"(?<=[^\W\d_]{3})our\b"), "or"))

PREFIX = "Category:"
LONGEST_TITLE = 255  # bytes of UTF-8, without the namespace
HOSTS = ("commons.wikimedia.org", "commons.m.wikimedia.org")
EXPECTED = "a URL such as http://commons.wikimedia.org/wiki/Category:Comet_Falls"
LARGEST_ITEM = 2**31 - 1  # the greatest number of an item that Wikidata can hold
_SITE = r"(?:https?://)?(?:(?:www|m)\.)?wikidata\.org/"
_ITEM = re.compile(rf"<?(?:{_SITE}(?:wiki|entity)/|(?:wd|d|wikidata):)?(Q[1-9][0-9]{{0,11}})(?:#\w*)?>?")
_SEVERAL_ITEMS = re.compile(rf"{_ITEM.pattern}(?:[;,|/\s、，；]+{_ITEM.pattern})+")
_CATEGORY = re.compile(  # also as wikitext links to it: [[:c:Category:X|text]]
    r"(?i)(?:\[\[)?[\s_]*:?\s*(?:(?:c|commons)\s*:\s*)?(category[\s_]*:[^\[\]|]*)(?:(?:\|[^\[\]]*)?\]\])?"
)
_DIRECTION_MARKS = re.compile("[\u200e\u200f\u202a-\u202e]")  # MediaWiki drops them from titles
_OTHER_PAGE = re.compile(
    r"(?i)(file|image|media|special|template|user|creator|institution|help|talk|[a-z]+ talk):|[PQ][0-9]+$"
)
_FORBIDDEN = re.compile(r"[#<>\[\]|{}\x00-\x1f\x7f\ufffd]|%[0-9A-Fa-f]{2}|&[A-Za-z0-9]+;|~~~|(^|/)\.\.?(/|$)")
# letters that Wikimedia's wikis ($wgOverrideUcfirstCharacters) leave as they are, Georgian ones above all
_SMALL_FIRST = re.compile("[\u0345\u10d0-\u10ff\u2170-\u217f\u24d0-\u24e9\ua7b9\U00016e60-\U00016e7f]")


class OtherSiteError(CategoryError):
    """A link that leads to another wiki."""


# labels


def visible(text: str) -> str:
    r"""A text without line breaks and characters that cannot be seen, such as those that turn the writing direction."""
    hidden = {sign for sign in text if unicodedata.category(sign) in ("Cc", "Cf", "Zl", "Zp") or sign in _UNSEEN}
    return _STRAY_JOINERS.sub("", "".join(sign for sign in text if sign in _JOINERS or sign not in hidden))


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


# titles and items


def item_id_of(text: str) -> str | None:
    """The Wikidata id that a text is, or is the URL of; None for any other text."""
    match = _ITEM.fullmatch(_DIRECTION_MARKS.sub("", text).strip())
    return match and match[1]


def landmark_key(cell: str) -> str:
    """What a landmark's cell leads to: the item of Wikidata that it names, or the title of its Commons category.

    A title may stand for its URL, with or without ``Category:``, or as a link in wikitext (``:c:Category:X``).
    """
    text = _DIRECTION_MARKS.sub("", cell).strip()
    if item := item_id_of(text):
        if int(item[1:]) > LARGEST_ITEM:
            raise CategoryError("an item beyond Wikidata's range", expected=f"at most Q{LARGEST_ITEM}")
        return item
    if not text:
        raise CategoryError("an empty cell", expected=EXPECTED)
    if _SEVERAL_ITEMS.fullmatch(text):
        raise CategoryError("several items in one cell", expected="the landmark's own item, such as Q42")
    if match := _CATEGORY.fullmatch(text):
        return _decoded(match[1])
    if text.startswith(tuple(f"{host}/" for host in HOSTS)):
        return category_title(f"https://{text}")
    if "://" in text or text.startswith(("www.", "//", "/")) or _OTHER_PAGE.match(text.replace("_", " ")):
        return category_title(text)
    return _decoded(PREFIX + text)


def category_title(url: str) -> str:
    """The title of the Commons category that a URL leads to.

    Percent signs are decoded as UTF-8, underscores become spaces, the text Unicode NFC, the first letter a capital.
    """
    parsed, host = _split_url(url.strip())
    if parsed.scheme not in ("http", "https"):
        raise CategoryError("not a URL", expected=EXPECTED)
    if host not in HOSTS:
        raise CategoryError("another site than Wikimedia Commons", expected=EXPECTED)
    if parsed.query or parsed.fragment:
        raise CategoryError("a query or fragment after the title", expected=EXPECTED)
    return _title_at(parsed.path)


def linked_title(link: str) -> str:
    """The title of the Commons category that a link on one of its pages leads to, or would if it existed."""
    parsed, host = _split_url(link)
    if host not in (None, *HOSTS):
        raise OtherSiteError("another site than Wikimedia Commons", expected=EXPECTED)
    if parsed.path == "/w/index.php":
        return normal_title(parse_qs(parsed.query).get("title", [""])[0])
    return _title_at(parsed.path)


def _split_url(url: str) -> tuple[SplitResult, str | None]:
    try:
        parsed = urlsplit(url)
        return parsed, parsed.hostname
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
    spaced = _DIRECTION_MARKS.sub("", text).replace("_", " ")
    namespace, _, name = " ".join(unicodedata.normalize("NFC", spaced).split()).partition(":")
    name = name.strip()
    if f"{namespace.strip().capitalize()}:" != PREFIX:
        raise CategoryError("not a category", expected=EXPECTED)
    if not name or len(name.encode("utf-8", "surrogatepass")) > LONGEST_TITLE:
        raise CategoryError(f"a title of 0 or more than {LONGEST_TITLE} bytes", expected=EXPECTED)
    if _FORBIDDEN.search(name):
        raise CategoryError("characters that no title may hold", expected=EXPECTED)
    return PREFIX + _first_capital(name[0]) + name[1:]


def _first_capital(letter: str) -> str:
    """A title's first letter as MediaWiki capitalizes it: by one letter, or not at all."""
    forms = (letter,) if _SMALL_FIRST.match(letter) else (letter.upper(), letter.title(), letter)
    return next(form for form in forms if len(form) == 1)


def page_path(title: str) -> str:
    """The path of a category's page."""
    return "/wiki/" + quote(title.replace(" ", "_"), safe=":/,'()!*@;$-._~")


def landmark_name(category: str) -> str:
    """The name of a Commons category; any other text unchanged."""
    try:
        return category_title(category).removeprefix(PREFIX)
    except CategoryError:
        return category.rpartition(PREFIX)[2].replace("_", " ")
