"""What this Wikimedia knows: pages of Commons and items of Wikidata, from real files or made up by number."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

CATEGORY, MAIN_TOPIC = "Q4167836", "P301"
WHOLE = {"county hall (": "county hall (United States)"}


@dataclass
class CommonsPage:
    """A category page: its item, or where it has moved to (by a hard or a soft redirect)."""

    item: str | None = None
    hard: str | None = None
    soft: str | None = None
    template: str = "Category redirect"


def statement(value: str | None, *, rank: str = "normal", prop: str = "P31", numeric: bool = False) -> dict[str, Any]:
    """A statement in the form of the recorded answers; no value gives ``novalue``."""
    snak: dict[str, Any] = {"snaktype": "value" if value else "novalue", "property": prop, "datatype": "wikibase-item"}
    if value:
        reference: dict[str, Any] = {"entity-type": "item", "numeric-id": int(value[1:])}
        snak["datavalue"] = {"value": reference if numeric else {**reference, "id": value}, "type": "wikibase-entityid"}
    return {"mainsnak": snak, "type": "statement", "id": f"{prop}${value}", "rank": rank}


def entity(item: str, *statements: dict[str, Any], labels: dict[str, str] | None = None) -> dict[str, Any]:
    """An item; empty mappings are empty lists, as PHP writes them."""
    claims: dict[str, list[dict[str, Any]]] = {}
    for claim in statements:
        claims.setdefault(claim["mainsnak"]["property"], []).append(claim)
    texts = {language: {"language": language, "value": text} for language, text in (labels or {}).items()}
    head = {"pageid": int(item[1:]), "ns": 0, "title": item, "lastrevid": 1000 + int(item[1:])}
    info = {**head, "modified": "2025-01-01T00:00:00Z", "type": "item", "id": item}
    return {**info, "labels": texts or [], "claims": claims or []}


@dataclass
class World:
    """Pages by title, entities by id, and ids that have gone to others."""

    pages: dict[str, CommonsPage] = field(default_factory=dict)
    entities: dict[str, dict[str, Any]] = field(default_factory=dict)
    gone: dict[str, str] = field(default_factory=dict)
    noted: bool = False  # whether infoboxes hold what editors and templates add to the labels

    def add(self, *entities: dict[str, Any]) -> None:
        """Know further entities."""
        self.entities.update({document["id"]: document for document in entities})

    def infobox_values(self, item: str) -> list[str] | None:
        """The labels that the infobox of an item's category shows, or None where there is no infobox."""
        document = self.entities.get(self.gone.get(item, item))
        if document is None:
            return None
        values = _values(document, "P31")
        if CATEGORY in values:
            topics = _values(document, MAIN_TOPIC)
            return self.infobox_values(topics[0]) if topics else None
        return [self.label(value) for value in values]

    def label(self, item: str) -> str:
        labels = self.entities.get(item, {}).get("labels") or {}
        return labels.get("en", {"value": item})["value"]

    @classmethod
    def washington(cls, path: Path, *, subclasses: Path | None = None) -> World:
        """The 844 landmarks of Washington: every title and label real, the items' numbers made up.

        A landmark whose page bears another name today has moved; each tenth item is a category with a main topic. The
        label that the table holds cut, at the link within it, is whole; what stood behind is not known. With the folder
        of Wikidata's own edges, the classes found there have their own numbers and all that really stands above them.
        """
        world = cls()
        classes = {} if subclasses is None else _known_types(subclasses)
        for index, row in enumerate(_rows(path)):
            title = unquote(row["category"].split("/wiki/")[1]).replace("_", " ")
            name, item = "Category:" + unquote(row["name"]), f"Q{7_000_000 + index}"
            label = WHOLE.get(row["supercategory"], row["supercategory"])
            value = classes.setdefault(
                label, CATEGORY if label == "Wikimedia category" else f"Q{9_000_000 + len(classes)}"
            )
            if name != title:
                world.pages[title] = CommonsPage(soft=name)
            world.pages[name] = CommonsPage(item)
            statements = [statement(value)] if label else []
            if index % 10 == 9 and label:
                topic = f"Q{8_000_000 + index}"
                world.add(entity(item, statement(CATEGORY), statement(topic, prop=MAIN_TOPIC)))
                item = topic
            world.add(entity(item, *statements))
        world.add(*(entity(value, labels={"en": label}) for label, value in classes.items() if label))
        if subclasses is None:
            world.add_hypernyms({value: label for label, value in classes.items() if label and value != CATEGORY})
        else:
            world.add_edges(subclasses)
        return world

    def add_edges(self, folder: Path) -> None:
        """Wikidata's own "subclass of", with every cycle; a label that the landmarks' table holds stays."""
        parents: dict[str, list[str]] = {}
        names: dict[str, str] = {}
        for row in _rows(folder / "edges.csv"):
            parents.setdefault(row["child_qid"], []).append(row["parent_qid"])
            names |= {row["child_qid"]: row["child_label"], row["parent_qid"]: row["parent_label"]}
        for item, name in names.items():
            statements = [statement(parent, prop="P279") for parent in parents.get(item, ())]
            text = self.label(item) if item in self.entities else name
            self.add(entity(item, *statements, labels={"en": text} if text else None))

    def add_hypernyms(self, classes: dict[str, str]) -> None:
        """Two layers above classes of these names: what their last word says, and one for each of its letters.

        The uppermost stand in a circle, and every tenth class has a second parent.
        """
        superclasses = {f"Q{6_000_000 + sum(name.split()[-1].encode())}": name.split()[-1] for name in classes.values()}
        tops = sorted({f"Q{6_100_000 + ord(name[0])}" for name in superclasses.values()})
        self.add(
            *(
                entity(top, statement(tops[index - 1], prop="P279"), labels={"en": top})
                for index, top in enumerate(tops)
            )
        )
        for item, name in superclasses.items():
            self.add(entity(item, statement(f"Q{6_100_000 + ord(name[0])}", prop="P279"), labels={"en": name}))
        for index, (item, name) in enumerate(classes.items()):
            parents = [f"Q{6_000_000 + sum(name.split()[-1].encode())}", *([tops[0]] if index % 10 == 9 else [])]
            self.add(entity(item, *(statement(parent, prop="P279") for parent in parents), labels={"en": name}))


def recorded(folder: Path) -> World:
    """The entities of the recorded answers, as they were recorded."""
    world = World()
    for path in sorted(folder.glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        answer = document.get("response", document)
        entities = answer.get("entities", {}) if "id" not in answer else {answer["id"]: answer}
        entries = [entry for entry in entities.values() if "missing" not in entry and "id" in entry]
        world.entities |= {
            entry["id"]: entry for entry in entries if "claims" in entry or entry["id"] not in world.entities
        }
    return world


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def _known_types(folder: Path) -> dict[str, str]:
    """The items of Washington's labels, as far as they are known; an item of two labels has the first."""
    item_of_label = {row["qid"]: row["washington_label"] for row in reversed(_rows(folder / "washington_types.csv"))}
    return {label: item for item, label in item_of_label.items() if item}


def _values(document: dict[str, Any], prop: str) -> list[str]:
    claims = [claim for claim in (document["claims"] or {}).get(prop, []) if claim["rank"] != "deprecated"]
    best = [claim for claim in claims if claim["rank"] == "preferred"] or claims
    values = [claim["mainsnak"]["datavalue"]["value"] for claim in best if claim["mainsnak"]["snaktype"] == "value"]
    return [value.get("id", f"Q{value['numeric-id']}") for value in values]
