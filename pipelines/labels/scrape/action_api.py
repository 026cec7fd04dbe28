"""The action API, 50 keys per request: category → item, soft redirects, item → classes → classes above, labels.

Each request is answered for all of its keys or not at all: an answer that leaves one out is asked for again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hiertree.errors import CategoryError

from ..texts import target_title
from .client import (
    Client,
    HttpAnswer,
    Incomplete,
    Read,
    TryAgain,
    Unanswered,
    UnknownEntity,
    check_error,
    check_size,
    check_status,
    decoded,
)
from .store import (
    FOUND,
    INVALID,
    MISSING,
    MOVED,
    NO_ITEM,
    OTHER_WIKI,
    REDIRECT_LOOP,
    UNREADABLE_MOVE,
    Fact,
    Item,
    Label,
    Page,
    Superclasses,
    is_item_id,
)

if TYPE_CHECKING:
    from mwparserfromhell.nodes import Template
    from mwparserfromhell.wikicode import Wikicode

INSTANCE_OF, SUBCLASS_OF, MAIN_TOPIC = "P31", "P279", "P301"
WIKIMEDIA_CATEGORY = "Q4167836"
LANGUAGES = ("en", "mul", "en-gb", "en-ca", "de", "fr", "es", "it", "nl", "pt")  # the first that has a label
MOST_KEYS = 50
MAXLAG = 5  # seconds of replication lag beyond which the servers are to refuse
MOST_CONTINUATIONS = 20
MOST_VALUES = 500_000  # in an answer; 50 entities with all their claims have about 100,000
SOFT_REDIRECTS = ("Category:Category redirects", "Category:Non-empty category redirects")
_REDIRECT_TEMPLATES = {"categoryredirect", "catredirect", "catredir", "catred", "seecat", "redirectcategory"}
_STATES = frozenset({"pageid", "missing", "invalid", "special", "interwiki"})  # one of which every page has


def ask_pages(client: Client, titles: Sequence[str]) -> list[Page]:
    """Ask for the item of each category; resolve hard redirects, and recognize soft ones by their category."""
    categories = {"clcategories": "|".join(SOFT_REDIRECTS), "cllimit": "max"}
    return _query(client, {"prop": "pageprops|categories", "ppprop": "wikibase_item", **categories}, titles, _page)


def ask_moves(client: Client, titles: Sequence[str]) -> list[Page]:
    """Ask for the targets of soft redirects, from their wikitext."""
    return _query(client, {"prop": "revisions", "rvprop": "content", "rvslots": "main"}, titles, _move)


def ask_items(client: Client, ids: Sequence[str]) -> list[Fact]:
    """Ask for the classes of each item."""
    return _ask_entities(client, ids, "info|claims", item_fact)


def ask_classes(client: Client, ids: Sequence[str]) -> list[Fact]:
    """Ask for the superclasses and the label of each class."""
    return _ask_entities(client, ids, "claims|labels", superclasses_fact, label_fact)


def ask_labels(client: Client, ids: Sequence[str]) -> list[Fact]:
    """Ask for the label of each class."""
    return _ask_entities(client, ids, "labels", label_fact)


def _ask_entities(client: Client, ids: Sequence[str], props: str, *facts: Callable[..., Fact]) -> list[Fact]:
    languages = {"languages": "|".join(LANGUAGES)} if "labels" in props else {}
    parameters = {"action": "wbgetentities", "props": props, "ids": "|".join(ids), **languages}

    def read(document: Any) -> list[Fact]:
        entities = [(key, _entity(document["entities"], key)) for key in ids]
        return [fact(key, entity) for key, entity in entities for fact in facts]

    try:
        return _ask(client, client.settings.wikidata_api, parameters, read)
    except UnknownEntity:  # one id too great for Wikidata spoils the whole request, which is then halved
        if len(ids) > 1:
            raise
        return [fact(ids[0], {"missing": ""}) for fact in facts]


def move_target(wikitext: str) -> str | None:
    """The category that a soft redirect's wikitext names; None where it names none, or computes it."""
    from mwparserfromhell import parse

    code = parse(wikitext)
    for tag in code.filter_tags(matches=lambda tag: str(tag.tag).strip().casefold() == "includeonly"):
        code.remove(tag)
    for template in code.filter_templates():
        if _template_name(template) in _REDIRECT_TEMPLATES:
            return _named_category(template.get("1").value) if template.has("1") else None
    return None


def _template_name(template: Template) -> str:
    name = template.name.strip_code().strip().removeprefix(":").casefold()
    return re.sub(r"[\s_-]", "", name.removeprefix("template:"))


def _named_category(value: Wikicode) -> str | None:
    if value.filter_templates() or value.filter_arguments():
        return None
    links = value.filter_wikilinks()
    try:
        return target_title(str(links[0].title) if links else value.strip_code(keep_template_params=False))
    except CategoryError:
        return None


def _ask(client: Client, url: str, parameters: Mapping[str, str], parse: Callable[[Any], Read]) -> Read:
    """Ask for JSON, with maxlag; what ``parse`` cannot read is incomplete and asked for again."""
    common = {"format": "json", "formatversion": "2", "maxlag": str(MAXLAG)}

    def read_answer(answer: HttpAnswer) -> Read:
        current_time = client.clock.now()
        check_status(answer, current_time)
        document = _json(answer)
        check_error(document, answer, current_time)
        try:
            return parse(document)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise Incomplete(f"an incomplete answer ({type(error).__name__}: {error})"[:200]) from None

    return client.ask(url, {**parameters, **common}, read_answer)


def _json(answer: HttpAnswer) -> dict[str, Any]:
    check_size(sum(map(answer.body.count, (b",", b"{", b"["))), MOST_VALUES)
    try:
        document = json.loads(decoded(answer))
    except (ValueError, RecursionError):
        raise TryAgain(f"HTTP {answer.status} without JSON ({answer.headers.get('content-type', '')})") from None
    if not isinstance(document, dict):
        raise TryAgain("JSON of another shape")
    return document


def _query(
    client: Client, properties: Mapping[str, str], titles: Sequence[str], fact: Callable[[str, _QueryAnswer], Page]
) -> list[Page]:
    """Send ``action=query`` and its continuations until ``batchcomplete``; return a fact for each title."""
    parameters = {"action": "query", **properties, "redirects": "1", "titles": "|".join(titles)}
    answer, continuation = _QueryAnswer({}, {}, {}), dict[str, str]()

    def read(document: Any) -> tuple[_QueryAnswer, list[Page] | dict[str, str]]:
        longer_answer = answer.joined(document["query"], titles)
        if document.get("batchcomplete") is True:
            return longer_answer, [fact(title, longer_answer) for title in titles]
        return longer_answer, {key: str(value) for key, value in document["continue"].items()}

    for _ in range(MOST_CONTINUATIONS):
        answer, rest = _ask(client, client.settings.commons_api, {**parameters, **continuation}, read)
        if isinstance(rest, list):
            return rest
        continuation = rest
    raise Unanswered("a continuation without end")


@dataclass(frozen=True)
class _QueryAnswer:
    """What ``action=query`` answered: how titles were changed, and the page of every title asked for."""

    normalized: dict[str, str]
    redirects: dict[str, str]
    pages: dict[str, dict[str, Any]]

    def joined(self, query: Mapping[str, Any], titles: Sequence[str]) -> _QueryAnswer:
        """This answer and a further one about the same titles; a KeyError or TypeError if that is incomplete."""
        normalized, redirects = (
            {change["from"]: change["to"] for change in query.get(name, ())} for name in ("normalized", "redirects")
        )
        abroad = [change["to"] for change in query.get("redirects", ()) if change.get("tointerwiki")]
        abroad += [page["title"] for page in query.get("interwiki", ())]
        pages = {title: {"title": title, "interwiki": True} for title in abroad}
        answer = _QueryAnswer(normalized, redirects, pages | {page["title"]: page for page in query.get("pages", ())})
        for title in titles:
            page, _ = answer.follow(title)
            if page is not None and not page.keys() & _STATES:
                raise KeyError("pageid")
            if page is not None and self.pages and _is_there(page) != _is_there(self.pages[page["title"]]):
                raise KeyError(f"{title!r} as before")
        pages_so_far = {key: _merged(self.pages.get(key, {}), page) for key, page in answer.pages.items()}
        return replace(answer, pages=pages_so_far)

    def follow(self, title: str) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
        """The page behind a title and the redirects followed; no page if they form a circle."""
        target = self.normalized.get(title, title)
        targets: list[str] = []
        while target in self.redirects:
            target = self.redirects[target]
            if target in targets:
                return None, tuple(targets)
            targets.append(target)
        return self.pages[target], tuple(targets)


def _is_there(page: Mapping[str, Any]) -> bool:
    return "missing" not in page and "invalid" not in page


def _merged(page: dict[str, Any], continuation: dict[str, Any]) -> dict[str, Any]:
    """Merge two answers: lists are concatenated, of other values the later one counts."""
    lists = [name for name, value in continuation.items() if isinstance(value, list) and name in page]
    return {**page, **continuation, **{name: [*page[name], *continuation[name]] for name in lists}}


def _page(title: str, answer: _QueryAnswer) -> Page:
    page, redirects = answer.follow(title)
    if page is None:
        return Page(title, REDIRECT_LOOP, redirects=redirects)
    if not _is_there(page):
        return Page(title, INVALID if "invalid" in page else MISSING, redirects=redirects)
    if "interwiki" in page:
        return Page(title, OTHER_WIKI, redirects=redirects)
    if any(category["title"] in SOFT_REDIRECTS for category in _list(page.get("categories", []))):
        return Page(title, MOVED, redirects=redirects)
    item = page.get("pageprops", {}).get("wikibase_item")
    if item is None:
        return Page(title, NO_ITEM, redirects=redirects)
    if not is_item_id(item):
        raise TypeError(f"wikibase_item {item!r}")
    return Page(title, FOUND, item, redirects)


def _move(title: str, answer: _QueryAnswer) -> Page:
    page, redirects = answer.follow(title)
    if page is None or not _is_there(page) or "interwiki" in page:
        return Page(title, UNREADABLE_MOVE, redirects=redirects)
    text = page["revisions"][0]["slots"]["main"]
    target = None if "texthidden" in text else move_target(text["content"])
    return Page(title, MOVED if target else UNREADABLE_MOVE, redirects=redirects, target=target)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{type(value).__name__}, not a list")
    return value


def _entity(entities: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The entity asked for, by its own id or by the one that it was redirected from."""
    for entity in (entities[key],) if key in entities else entities.values():
        if key in (entity["id"], entity.get("redirects", {}).get("from")):
            matching_entity: Mapping[str, Any] = entity
            return matching_entity
    raise KeyError(key)


def item_fact(key: str, entity: Mapping[str, Any]) -> Item:
    """The classes, main topic and revision of an entity."""
    if "missing" in entity:
        return Item(key, MISSING)
    claims = _mapping(entity["claims"])
    instances = best_items(claims.get(INSTANCE_OF, ()))
    topics = best_items(claims.get(MAIN_TOPIC, ()))
    is_category = WIKIMEDIA_CATEGORY in instances
    return Item(
        key,
        FOUND,
        redirect=entity["id"] if entity["id"] != key else None,
        is_category=is_category,
        topic=topics[0] if is_category and topics else None,
        instances=() if is_category else instances,
        revision=entity.get("lastrevid"),
        modified=entity.get("modified"),
    )


def label_fact(key: str, entity: Mapping[str, Any]) -> Label:
    """The label of an entity in the first of ``LANGUAGES`` that has one."""
    if "missing" in entity:
        return Label(key, None, None, missing=True)
    labels = _mapping(entity["labels"])
    for language in LANGUAGES:
        text = labels[language]["value"] if language in labels else ""
        if text.strip():
            return Label(key, text, language)
    return Label(key, None, None)


def superclasses_fact(key: str, entity: Mapping[str, Any]) -> Superclasses:
    """What a class is a subclass of; an entity that is not whole raises KeyError or TypeError."""
    if "missing" in entity:
        return Superclasses(key, (), missing=True)
    parents = best_items(_mapping(entity["claims"]).get(SUBCLASS_OF, ()))
    return Superclasses(key, tuple(item for item in parents if item != key))


def best_items(statements: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The items that statements of the best rank name: preferred if there are any, else normal, never deprecated.

    Statements without a value (somevalue, novalue) count for the rank but name nothing. Old answers give an item by
    ``numeric-id`` alone.
    """
    if not isinstance(statements, Sequence):
        raise TypeError(f"statements in a {type(statements).__name__}")
    candidates = [statement for statement in statements if statement.get("rank") != "deprecated"]
    preferred = [statement for statement in candidates if statement.get("rank") == "preferred"]
    items = (_named_item(statement.get("mainsnak", {})) for statement in preferred or candidates)
    return tuple(dict.fromkeys(item for item in items if item is not None))


def _named_item(snak: Mapping[str, Any]) -> str | None:
    if snak.get("snaktype") != "value":
        return None
    value = snak["datavalue"]["value"]
    if value.get("entity-type", "item") != "item":
        return None
    item = value.get("id") or f"Q{value['numeric-id']}"
    return item if is_item_id(item) else None


def _mapping(value: Any) -> Mapping[str, Any]:
    """Accept an empty list as a mapping, since PHP writes empty mappings so."""
    if value != [] and not isinstance(value, Mapping):
        raise TypeError(f"{type(value).__name__}, not a mapping")
    return value or {}
