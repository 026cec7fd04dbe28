"""The action API, 50 keys a question: category → item, soft redirects, item → classes, class → label.

Every question is answered for each of its keys or not at all: an answer that leaves one out is asked for again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hiertree.errors import CategoryError

from ..facts import (
    FOUND,
    INVALID,
    MISSING,
    MOVED,
    NO_ITEM,
    REDIRECT_LOOP,
    UNREADABLE_MOVE,
    Item,
    Label,
    Page,
)
from ..titles import PREFIX, normal_title
from ..wikibase import LANGUAGES, is_item_id, item_fact, label_fact
from .answers import HttpAnswer, Refused, TryAgain, check_error, check_status
from .client import Client, Read

MOST_KEYS = 50
MAXLAG = 5  # seconds of replication lag beyond which the servers are to refuse
MOST_CONTINUATIONS = 20
SOFT_REDIRECTS = ("Category:Category redirects", "Category:Non-empty category redirects")
_REDIRECT_TEMPLATES = {"categoryredirect", "catredirect", "catredir", "catred", "seecat", "redirectcategory"}
_TEMPLATE = re.compile(r"\{\{\s*([^|{}]+?)\s*\|\s*(?:1\s*=)?\s*:?\s*([^|{}]+?)\s*(?=[|}])")


def ask_pages(client: Client, url: str, titles: Sequence[str]) -> list[Page]:
    """Which item each category belongs to, hard redirects resolved, soft ones recognized by their own category."""
    parameters = {
        "action": "query",
        "prop": "pageprops|categories",
        "ppprop": "wikibase_item",
        "clcategories": "|".join(SOFT_REDIRECTS),
        "cllimit": "max",
        "redirects": "1",
        "titles": "|".join(titles),
    }
    return _query(client, url, parameters, titles, _page)


def ask_moves(client: Client, url: str, titles: Sequence[str]) -> list[Page]:
    """Where soft redirects lead, from their wikitext."""
    parameters = {
        "action": "query",
        "prop": "revisions",
        "rvprop": "content",
        "rvslots": "main",
        "redirects": "1",
        "titles": "|".join(titles),
    }
    return _query(client, url, parameters, titles, _move)


def ask_items(client: Client, url: str, ids: Sequence[str]) -> list[Item]:
    """What each item is an instance of."""
    parameters = {"action": "wbgetentities", "props": "info|claims", "ids": "|".join(ids)}
    return _ask(
        client, url, parameters, lambda content: [item_fact(key, _entity(content["entities"], key)) for key in ids]
    )


def ask_labels(client: Client, url: str, ids: Sequence[str]) -> list[Label]:
    """How each class is called."""
    languages = "|".join(LANGUAGES)
    parameters = {"action": "wbgetentities", "props": "labels", "languages": languages, "ids": "|".join(ids)}
    return _ask(
        client, url, parameters, lambda content: [label_fact(key, _entity(content["entities"], key)) for key in ids]
    )


def move_target(wikitext: str) -> str | None:
    """The category that a soft redirect's wikitext names.

    >>> move_target("{{Category redirect|1=Lumen Field|reason=renamed}}")
    'Category:Lumen Field'
    """
    for name, target in _TEMPLATE.findall(wikitext):
        if re.sub(r"[\s_-]", "", name).casefold() in _REDIRECT_TEMPLATES:
            try:
                return normal_title(target if target.casefold().startswith(PREFIX.casefold()) else PREFIX + target)
            except CategoryError:
                return None
    return None


def _ask(client: Client, url: str, parameters: Mapping[str, str], read: Callable[[Any], Read]) -> Read:
    """Ask for JSON, with maxlag; an answer that is none, or that ``read`` finds incomplete, is asked for again."""
    common = {"format": "json", "formatversion": "2", "maxlag": str(MAXLAG)}

    def read_answer(answer: HttpAnswer) -> Read:
        now = client.clock.now()
        check_status(answer, now)
        content = _json(answer)
        check_error(content, answer, now)
        try:
            return read(content)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise TryAgain(f"an incomplete answer ({type(error).__name__}: {error})"[:200]) from None

    return client.ask(url, {**parameters, **common}, read_answer)


def _json(answer: HttpAnswer) -> dict[str, Any]:
    try:
        content = json.loads(answer.body.decode("utf-8"))
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
        raise TryAgain(f"HTTP {answer.status} without JSON ({answer.headers.get('content-type', '')})") from None
    if not isinstance(content, dict):
        raise TryAgain("JSON of another shape")
    return content


def _query(
    client: Client,
    url: str,
    parameters: Mapping[str, str],
    titles: Sequence[str],
    fact: Callable[[str, _Found], Page],
) -> list[Page]:
    """Ask ``action=query``, and on as long as it says ``continue``; then a fact for each title."""
    found = _Found()

    def read(content: Any) -> tuple[dict[str, str], list[Page]]:
        found.take(content)
        for title in titles:
            found.follow(title)  # every answer lists every page; a KeyError asks for this one again
        more = {key: str(value) for key, value in content.get("continue", {}).items()}
        return more, [] if more else [fact(title, found) for title in titles]

    more: dict[str, str] = {}
    for _ in range(MOST_CONTINUATIONS):
        more, pages = _ask(client, url, {**parameters, **more}, read)
        if not more:
            return pages
    raise Refused(f"more than {MOST_CONTINUATIONS} continuations")


class _Found:
    """An answer of ``action=query``: how titles were changed, and the pages by title."""

    def __init__(self) -> None:
        self.normalized: dict[str, str] = {}
        self.redirects: dict[str, str] = {}
        self.pages: dict[str, dict[str, Any]] = {}

    def take(self, content: Mapping[str, Any]) -> None:
        """Take a further answer in; twice is as good as once."""
        query = content["query"]
        self.normalized |= {change["from"]: change["to"] for change in query.get("normalized", ())}
        self.redirects |= {change["from"]: change["to"] for change in query.get("redirects", ())}
        for page in query.get("pages", ()):
            self.pages.setdefault(page["title"], {}).update(page)

    def follow(self, title: str) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
        """The page to which a title leads and the redirects gone through; no page where they go in a circle."""
        here = self.normalized.get(title, title)
        way: list[str] = []
        while here in self.redirects:
            here = self.redirects[here]
            if here in way:
                return None, tuple(way)
            way.append(here)
        return self.pages[here], tuple(way)


def _page(title: str, found: _Found) -> Page:
    page, way = found.follow(title)
    if page is None:
        return Page(title, REDIRECT_LOOP, redirects=way)
    if "invalid" in page or "missing" in page:
        return Page(title, INVALID if "invalid" in page else MISSING, redirects=way)
    if any(category["title"] in SOFT_REDIRECTS for category in page.get("categories", ())):
        return Page(title, MOVED, redirects=way)
    item = page.get("pageprops", {}).get("wikibase_item", "")
    return Page(title, FOUND, item, way) if is_item_id(item) else Page(title, NO_ITEM, redirects=way)


def _move(title: str, found: _Found) -> Page:
    page, way = found.follow(title)
    if page is None or "missing" in page:
        return Page(title, UNREADABLE_MOVE, redirects=way)
    target = move_target(page["revisions"][0]["slots"]["main"]["content"])
    return Page(title, MOVED if target else UNREADABLE_MOVE, redirects=way, target=target)


def _entity(entities: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The entity asked for; a redirected one may stand under its new id."""
    if key in entities:
        found: Mapping[str, Any] = entities[key]
        return found
    for entity in entities.values():
        if entity.get("redirects", {}).get("from") == key:
            return dict(entity)
    raise KeyError(key)
