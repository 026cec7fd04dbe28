"""Wikidata's JSON, the same in the API's answers and in the dump: statements by rank, labels by language."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .facts import FOUND, MISSING, Item, Label, Superclasses

INSTANCE_OF, SUBCLASS_OF, MAIN_TOPIC = "P31", "P279", "P301"
WIKIMEDIA_CATEGORY = "Q4167836"
LANGUAGES = ("en", "mul", "en-gb", "en-ca", "de", "fr", "es", "it", "nl", "pt")  # the first that has a label
_ITEM = re.compile(r"Q[1-9][0-9]{0,11}")


def item_fact(key: str, entity: Mapping[str, Any]) -> Item:
    """The classes, main topic and revision of an entity.

    Args:
        key: the id as asked.
        entity: as JSON; one that is not whole raises KeyError or TypeError.

    >>> item_fact("Q1", {"id": "Q1", "missing": ""}).status
    'missing'
    """
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
    """The label of an entity in the first of ``LANGUAGES`` that has one.

    >>> label_fact("Q2", {"labels": {"fr": {"language": "fr", "value": "Terre"}}})
    Label(key='Q2', text='Terre', language='fr')
    """
    labels = _mapping(entity["labels"])
    for language in LANGUAGES:
        text = labels[language]["value"] if language in labels else ""
        if text.strip():
            return Label(key, text, language)
    return Label(key, None, None)


def superclasses_fact(key: str, entity: Mapping[str, Any]) -> Superclasses:
    """What a class is a subclass of; an entity that is not whole raises KeyError or TypeError.

    >>> superclasses_fact("Q1", {"id": "Q1", "claims": {}})
    Superclasses(key='Q1', parents=())
    """
    parents = best_items(_mapping(entity["claims"]).get(SUBCLASS_OF, ()))
    return Superclasses(key, tuple(item for item in parents if item != key))


def best_items(statements: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The items that statements of the best rank name: preferred if there are any, else normal, never deprecated.

    Statements without a value (somevalue, novalue) count for the rank but name nothing. Old answers give an item by
    ``numeric-id`` alone.
    """
    if not isinstance(statements, Sequence):
        raise TypeError(f"statements in a {type(statements).__name__}")
    kept = [statement for statement in statements if statement.get("rank") != "deprecated"]
    preferred = [statement for statement in kept if statement.get("rank") == "preferred"]
    named = (_named_item(statement.get("mainsnak", {})) for statement in preferred or kept)
    return tuple(dict.fromkeys(item for item in named if item is not None))


def is_item_id(text: str) -> bool:
    """Whether a text is the id of an item.

    >>> is_item_id("Q42"), is_item_id("P31"), is_item_id("Q0")
    (True, False, False)
    """
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
    """A mapping; PHP writes an empty one as an empty list."""
    if value == []:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError(f"{type(value).__name__}, not a mapping")
    return value
