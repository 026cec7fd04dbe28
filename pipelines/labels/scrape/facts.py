"""The facts to ask Wikimedia for, read from Wikidata's JSON, which is the same in the API and in dumps."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from pydantic import TypeAdapter

Stage: TypeAlias = Literal["page", "move", "item", "class", "label"]
PLURALS: dict[Stage, str] = {"page": "pages", "move": "moves", "item": "items", "class": "classes", "label": "labels"}
STAGES: tuple[Stage, ...] = tuple(PLURALS)
SourceName: TypeAlias = Literal["api", "html", "dump"]
MOST_MOVES = 5  # soft redirects followed from one category to the next
MOST_STEPS_UP = 5  # of "subclass of", from the classes of landmarks

FOUND, MISSING = "found", "missing"
MOVED, UNREADABLE_MOVE, OTHER_WIKI = "moved", "unreadable move", "redirect to another wiki"
NO_ITEM, REDIRECT_LOOP, INVALID = "no item", "redirect loop", "invalid title"
NO_INFOBOX, NO_INSTANCE, MISSING_CLASS = "no infobox", "no instance of", "missing class"
Leads: TypeAlias = "tuple[tuple[Stage, str], ...]"  # what to ask next because of an answer
INSTANCE_OF, SUBCLASS_OF, MAIN_TOPIC = "P31", "P279", "P301"
WIKIMEDIA_CATEGORY = "Q4167836"
LANGUAGES = ("en", "mul", "en-gb", "en-ca", "de", "fr", "es", "it", "nl", "pt")  # the first that has a label
_ITEM = re.compile(r"Q[1-9][0-9]{0,11}")


@dataclass(frozen=True)
class Page:
    """A page of Commons."""

    key: str  # its title as asked
    status: str  # ``found`` if it has an item or readable labels, or why not
    item: str | None = None
    # the titles that Commons went through by itself (hard redirects), the last one included
    redirects: tuple[str, ...] = ()
    target: str | None = None  # of a soft redirect, the title to ask next
    # where the page itself was read: the labels, each with the page that it links to or ""
    read: tuple[tuple[str, str], ...] | None = None
    stage: ClassVar[Stage] = "page"

    @property
    def leads(self) -> Leads:
        """The page that it has moved to, or its item."""
        target: Leads = (("page", self.target),) if self.target else ()
        return target + ((("item", self.item),) if self.item else ())


@dataclass(frozen=True)
class Item:
    """A Wikidata item."""

    key: str  # its id as asked
    status: str  # ``found`` or ``missing``
    redirect: str | None = None  # the id under which it now stands, if another
    is_category: bool = False  # whether it is an instance of "Wikimedia category"; its own instances are then left out
    topic: str | None = None  # of such a category, the item that is its main topic (P301)
    instances: tuple[str, ...] = ()  # what it is an instance of (P31): ids, best rank only
    revision: int | None = None  # number of the revision read
    modified: str | None = None
    stage: ClassVar[Stage] = "item"

    @property
    def leads(self) -> Leads:
        """Its main topic, or its classes."""
        return (("item", self.topic),) if self.topic else tuple(("class", value) for value in self.instances)


@dataclass(frozen=True)
class Label:
    """The label of an item and its language; None if no fallback language has one."""

    key: str
    text: str | None
    language: str | None
    missing: bool = False  # whether Wikidata has no such item
    stage: ClassVar[Stage] = "label"
    leads: ClassVar[Leads] = ()

    @property
    def status(self) -> str:
        """The language, for counts."""
        return MISSING if self.missing else self.language or "no label"


@dataclass(frozen=True)
class Superclasses:
    """What a class is a subclass of (P279): ids, best rank only."""

    key: str
    parents: tuple[str, ...]
    missing: bool = False  # whether Wikidata has no such item, so that the chain ends here
    stage: ClassVar[Stage] = "class"

    @property
    def leads(self) -> Leads:
        """The classes above it."""
        return tuple(("class", parent) for parent in self.parents)

    @property
    def status(self) -> str:
        """Whether there are any, for counts."""
        return MISSING if self.missing else FOUND if self.parents else "no subclass of"


Fact: TypeAlias = Page | Item | Superclasses | Label
JSON: dict[Stage, TypeAdapter[Fact]] = {kind.stage: TypeAdapter(kind) for kind in (Page, Item, Superclasses, Label)}


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


def is_item_id(text: str) -> bool:
    """Whether a text is the id of an item."""
    return _ITEM.fullmatch(text) is not None


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
