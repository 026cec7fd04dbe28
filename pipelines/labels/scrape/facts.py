"""What Wikimedia is asked for: where a category leads, what an item is, what a class is called and is a subclass of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from pydantic import TypeAdapter

Stage: TypeAlias = Literal["page", "move", "item", "class", "label"]
PLURALS: dict[Stage, str] = {"page": "pages", "move": "moves", "item": "items", "class": "classes", "label": "labels"}
STAGES: tuple[Stage, ...] = tuple(PLURALS)
SourceName: TypeAlias = Literal["api", "html", "dump"]
MOST_MOVES = 5  # soft redirects followed from one category to the next
MOST_STEPS_UP = 5  # of "subclass of", from the classes of landmarks

FOUND, MISSING = "found", "missing"
MOVED, UNREADABLE_MOVE = "moved", "unreadable move"
NO_ITEM, REDIRECT_LOOP, INVALID = "no item", "redirect loop", "invalid title"
NO_INFOBOX, NO_INSTANCE = "no infobox", "no instance of"
Leads: TypeAlias = "tuple[tuple[Stage, str], ...]"  # what to ask next because of an answer


@dataclass(frozen=True)
class Page:
    """A page of Commons.

    Attributes:
        key: its title as asked.
        status: ``found`` if it has an item or readable labels, or why not.
        item: its Wikidata item.
        redirects: the titles that Commons went through by itself (hard redirects), the last one included.
        target: of a soft redirect, the title to ask next.
        read: where the page itself was read: the labels, each with the page that it links to or "".
    """

    key: str
    status: str
    item: str | None = None
    redirects: tuple[str, ...] = ()
    target: str | None = None
    read: tuple[tuple[str, str], ...] | None = None
    stage: ClassVar[Stage] = "page"

    @property
    def leads(self) -> Leads:
        """The page that it has moved to, or its item."""
        target: Leads = (("page", self.target),) if self.target else ()
        return target + ((("item", self.item),) if self.item else ())


@dataclass(frozen=True)
class Item:
    """A Wikidata item.

    Attributes:
        key: its id as asked.
        status: ``found`` or ``missing``.
        redirect: the id under which it now stands, if another.
        is_category: whether it is an instance of "Wikimedia category"; its own instances are then left out.
        topic: of such a category, the item that is its main topic (P301).
        instances: what it is an instance of (P31): ids, best rank only.
        revision: number of the revision read.
        modified: its date, as given.
    """

    key: str
    status: str
    redirect: str | None = None
    is_category: bool = False
    topic: str | None = None
    instances: tuple[str, ...] = ()
    revision: int | None = None
    modified: str | None = None
    stage: ClassVar[Stage] = "item"

    @property
    def leads(self) -> Leads:
        """Its main topic, or its classes."""
        return (("item", self.topic),) if self.topic else tuple(("class", value) for value in self.instances)


@dataclass(frozen=True)
class Label:
    """What an item is called, and in which language; None where no language of the fallback has a label."""

    key: str
    text: str | None
    language: str | None
    stage: ClassVar[Stage] = "label"
    leads: ClassVar[Leads] = ()

    @property
    def status(self) -> str:
        """The language, for counts."""
        return self.language or "no label"


@dataclass(frozen=True)
class Superclasses:
    """What a class is a subclass of (P279): ids, best rank only."""

    key: str
    parents: tuple[str, ...]
    stage: ClassVar[Stage] = "class"

    @property
    def leads(self) -> Leads:
        """The classes above it."""
        return tuple(("class", parent) for parent in self.parents)

    @property
    def status(self) -> str:
        """Whether there are any, for counts."""
        return FOUND if self.parents else "no subclass of"


Fact: TypeAlias = Page | Item | Superclasses | Label
JSON: dict[Stage, TypeAdapter[Fact]] = {kind.stage: TypeAdapter(kind) for kind in (Page, Item, Superclasses, Label)}
