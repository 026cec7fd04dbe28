"""A world that grows place by place; each kind of place says what a scrape has to find."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from wikimedia.world import CATEGORY, MAIN_TOPIC, CommonsPage, World, entity, statement

Expected = tuple[str, tuple[str, ...]]  # reason, and the texts of the labels
DISAMBIGUATION = "Q4167410"
CLASSES = {"Q11": "lake", "Q12": "dam", "Q13": "church building", "Q14": "Turm"}


@dataclass
class Places(World):
    """What a scrape of the API and of the pages must find for each landmark."""

    titles: str = 'Category:Łuk №{0}, "d\'Or" & +{0}'
    urls: list[str] = field(default_factory=list)
    api: list[Expected] = field(default_factory=list)
    html: list[Expected] = field(default_factory=list)

    def __post_init__(self) -> None:
        for key, text in CLASSES.items():
            self.add(entity(key, statement("Q16", prop="P279"), labels={"de" if key == "Q14" else "en": text}))
        circle = statement("Q11", prop="P279"), statement("Q17", prop="P279")
        self.add(
            entity("Q15", statement("Q12", prop="P279")),
            entity("Q16", *circle, labels={"en": "thing"}),
            entity("Q17", statement("Q18", prop="P279", rank="deprecated")),
            entity(DISAMBIGUATION, labels={"en": "Wikimedia disambiguation page"}),
        )

    def title(self, index: int) -> str:
        """The category of a landmark."""
        return self.titles.format(index)

    @classmethod
    def numbered(cls, count: int, kinds: int = 40) -> Places:
        """Landmarks ``Place 0`` …: plain ones of many classes, and now and then one of a kind of its own."""
        world = cls(titles="Category:Place {}")
        world.add_hypernyms({f"Q{100 + kind}": f"kind {kind}" for kind in range(kinds)})
        for index in range(count):
            default_kind = _with_item(statement(f"Q{100 + index % kinds}"), api=("", (f"kind {index % kinds}",)))
            world.add_place(COMPLICATIONS.get(index % 40, ""), default_kind)
        return world

    def add_place(self, kind: str, default: Any = None) -> None:
        """Add a landmark of a kind."""
        index = len(self.urls)
        title, item, topic = self.title(index), f"Q{10_000 + index}", f"Q{500_000 + index}"
        self.urls.append("http://commons.wikimedia.org/wiki/" + quote(title.replace(" ", "_")))
        pages, entities, api, *html = KINDS.get(kind, default)(title, item, topic)
        self.pages |= pages
        self.add(*entities)
        if kind == "redirected":
            self.gone[item] = topic
        self.api.append(api)
        self.html.append(*(html or [api]))


def _with_item(*statements: dict[str, Any], api: Expected, html: Expected | None = None) -> Any:
    """A kind of place whose item has these statements."""
    return lambda title, item, _: ({title: CommonsPage(item)}, [entity(item, *statements)], api, html or api)


def _with_topic(*, exists: bool) -> Any:
    """A kind of place whose item is a category with a main topic."""

    def pages(title: str, item: str, topic_item: str) -> Any:
        category = entity(item, statement(CATEGORY), statement(topic_item, prop=MAIN_TOPIC))
        if not exists:
            return {title: CommonsPage(item)}, [category], ("missing main topic", ()), ("no infobox", ())
        topic = entity(topic_item, statement("Q13"), statement(item, prop="P910"))
        return {title: CommonsPage(item)}, [category, topic], ("", ("church building",))

    return pages


def _moved(title: str, item: str, value: str, label: str, *moves: CommonsPage) -> Any:
    """A place whose page is found behind one or more redirects."""
    pages = {f"{title} {rank}" if rank > 1 else title: page for rank, page in enumerate(moves, start=1)}
    return {**pages, f"{title} {len(moves) + 1}": CommonsPage(item)}, [entity(item, statement(value))], ("", (label,))


KINDS: dict[str, Any] = {
    "plain": _with_item(statement("Q11"), api=("", ("lake",))),
    "several": _with_item(statement("Q12"), statement(None), statement("Q11", numeric=True), api=("", ("dam", "lake"))),
    "ranked": _with_item(
        statement("Q11"),
        statement("Q12", rank="deprecated"),
        statement("Q13", rank="preferred"),
        api=("", ("church building",)),
    ),
    "unknown": _with_item(statement(None), api=("no instance of", ())),
    "without_claims": _with_item(api=("no instance of", ())),
    "foreign": _with_item(statement("Q14"), statement("Q15"), api=("", ("Turm", "Q15"))),
    "disambiguation": _with_item(statement(DISAMBIGUATION), api=("Wikimedia page", ("Wikimedia disambiguation page",))),
    "no_topic": _with_item(statement(CATEGORY), api=("category without main topic", ()), html=("no infobox", ())),
    "topic": _with_topic(exists=True),
    "topic_gone": _with_topic(exists=False),
    "redirected": lambda title, item, topic: (
        {title: CommonsPage(item)},
        [entity(topic, statement("Q12"))],
        ("", ("dam",)),
    ),
    "item_gone": lambda title, item, _: ({title: CommonsPage(item)}, [], ("missing item", ()), ("no infobox", ())),
    "soft": lambda title, item, _: _moved(
        title, item, "Q11", "lake", CommonsPage(soft=f"{title} 2"), CommonsPage(soft=f"{title} 3")
    ),
    "hard": lambda title, item, _: _moved(title, item, "Q12", "dam", CommonsPage(hard=f"{title} 2")),
    "circle": lambda title, *_: (
        {title: CommonsPage(soft=f"{title} 2"), f"{title} 2": CommonsPage(soft=title)},
        [],
        ("redirect loop", ()),
    ),
    "bare": lambda title, *_: ({title: CommonsPage()}, [], ("no item", ()), ("no infobox", ())),
    "gone": lambda *_: ({}, [], ("missing page", ())),
    "abroad": lambda title, *_: (
        {title: CommonsPage(hard="w:Category:Lake")},
        [],
        ("redirect to another wiki", ()),
    ),
}
COMPLICATIONS = {
    1: "soft",
    2: "hard",
    3: "gone",
    4: "bare",
    5: "topic",
    6: "several",
    7: "ranked",
    8: "unknown",
    10: "foreign",
    11: "redirected",
    12: "item_gone",
    13: "circle",
    14: "disambiguation",
}  # among 40 numbered places
