"""A second Wikimedia on loopback, written from its description alone: it shares no code with the package ``wikimedia``.

A universe is built place by place; each kind of place says what a scrape has to find. The server answers for it, splits
answers over continuations, and spoils the answers that it is told to spoil.
"""

from __future__ import annotations

import gzip
import html
import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

Json = dict[str, Any]
Expected = tuple[str, tuple[str, ...]]  # reason, and the texts of the labels
MET_CATEGORY, MET_DISAMBIGUATION = "Q4167836", "Q4167410"
CLASSES = {"Q11": "lake", "Q12": "dam", "Q13": "church building", "Q14": "Turm"}
LOSSES = ("page or entity left out", "continuation without a page", "claims or labels left out", "no end")
SPOILT_API = (*LOSSES, "missing by mistake", "other shape", "maxlag", "ratelimited", "readonly", "internal error")
SPOILT_PAGE = ("another page", "log in", "cut page")
SPOILT_HTTP = ("429", "429 date", "503", "500", "cut", "hung up", "empty", "latin-1", "half gzip", "loop")
RETRY_AFTER = 7


def claim(prop: str, item: str | None, rank: str = "normal", numeric: bool = False) -> Json:
    """A statement."""
    if item is None:
        return {"mainsnak": {"snaktype": "somevalue", "property": prop}, "rank": rank, "type": "statement"}
    value: Json = {"entity-type": "item", "numeric-id": int(item[1:])} | ({} if numeric else {"id": item})
    snak = {"snaktype": "value", "property": prop, "datavalue": {"type": "wikibase-entityid", "value": value}}
    return {"mainsnak": snak, "rank": rank, "type": "statement"}


@dataclass
class Universe:
    """Commons pages by title, Wikidata items by id, and what a scrape must find for each landmark."""

    pages: dict[str, tuple[str, str]] = field(default_factory=dict)  # title → ("item" | "hard" | "soft" | "bare", what)
    items: dict[str, Json] = field(default_factory=dict)
    redirected: dict[str, str] = field(default_factory=dict)
    urls: list[str] = field(default_factory=list)
    api: list[Expected] = field(default_factory=list)
    html: list[Expected] = field(default_factory=list)

    def __post_init__(self) -> None:
        for key, text in CLASSES.items():
            self.item(key, claim("P279", "Q16"), labels={"de" if key == "Q14" else "en": text})
        self.item("Q15", claim("P279", "Q12"))
        self.item("Q16", claim("P279", "Q11"), claim("P279", "Q17"), labels={"en": "thing"})  # a circle
        self.item("Q17", claim("P279", "Q18", "deprecated"))
        self.item(MET_DISAMBIGUATION, labels={"en": "Wikimedia disambiguation page"})

    def item(self, key: str, *claims: Json, labels: dict[str, str] | None = None) -> str:
        """Add an item."""
        grouped: dict[str, list[Json]] = {}
        for made in claims:
            grouped.setdefault(made["mainsnak"]["property"], []).append(made)
        texts = {code: {"language": code, "value": text} for code, text in (labels or {}).items()}
        self.items[key] = {"id": key, "type": "item", "lastrevid": int(key[1:]), "modified": "2026-01-01T00:00:00Z"}
        self.items[key] |= {"claims": grouped or [], "labels": texts or []}
        return key

    def add(self, kind: str) -> None:
        """Add a landmark of a kind."""
        number = len(self.urls)
        name = f'Łuk №{number}, "d\'Or" & +{number}'
        title, item, other = f"Category:{name}", f"Q{1000 + number}", f"Q{5000 + number}"
        self.urls.append("http://commons.wikimedia.org/wiki/" + quote(title.replace(" ", "_")))
        api, page = getattr(self, f"_{kind}")(title, item, other)
        self.api.append(api)
        self.html.append(page or api)

    def _found(self, title: str, item: str, *claims: Json) -> None:
        self.pages[title] = ("item", item)
        self.item(item, *claims)

    def _plain(self, title: str, item: str, other: str) -> tuple[Expected, Expected | None]:
        self._found(title, item, claim("P31", "Q11"))
        return ("", ("lake",)), None

    def _several(self, title: str, item: str, other: str) -> tuple[Expected, Expected | None]:
        self._found(title, item, claim("P31", "Q12"), claim("P31", None), claim("P31", "Q11", numeric=True))
        return ("", ("dam", "lake")), None

    def _ranked(self, title: str, item: str, other: str) -> tuple[Expected, Expected | None]:
        low, bad = claim("P31", "Q11"), claim("P31", "Q12", "deprecated")
        self._found(title, item, low, bad, claim("P31", "Q13", "preferred"))
        return ("", ("church building",)), None

    def _unknown(self, title: str, item: str, other: str) -> tuple[Expected, Expected | None]:
        self._found(title, item, claim("P31", None))
        return ("no instance of", ()), None

    def _without_claims(self, title: str, item: str, other: str) -> tuple[Expected, Expected | None]:
        self._found(title, item)
        return ("no instance of", ()), None

    def _foreign(self, title: str, item: str, other: str) -> tuple[Expected, Expected | None]:
        self._found(title, item, claim("P31", "Q14"), claim("P31", "Q15"))
        return ("", ("Turm", "Q15")), ("", ("Q14", "Q15"))

    def _disambiguation(self, title: str, item: str, other: str) -> tuple[Expected, Expected | None]:
        self._found(title, item, claim("P31", MET_DISAMBIGUATION))
        return ("Wikimedia page", ("Wikimedia disambiguation page",)), None

    def _topic(self, title: str, item: str, other: str) -> tuple[Expected, Expected | None]:
        self._found(title, item, claim("P31", MET_CATEGORY), claim("P301", other))
        self.item(other, claim("P31", "Q13"), claim("P910", item))
        return ("", ("church building",)), None

    def _topic_gone(self, title: str, item: str, other: str) -> tuple[Expected, Expected | None]:
        self._found(title, item, claim("P31", MET_CATEGORY), claim("P301", other))
        return ("missing main topic", ()), ("no infobox", ())

    def _no_topic(self, title: str, item: str, other: str) -> tuple[Expected, Expected | None]:
        self._found(title, item, claim("P31", MET_CATEGORY))
        return ("category without main topic", ()), ("no infobox", ())

    def _redirected(self, title: str, item: str, other: str) -> tuple[Expected, Expected | None]:
        self.pages[title] = ("item", item)
        self.redirected[item] = self.item(other, claim("P31", "Q12"))
        return ("", ("dam",)), None

    def _item_gone(self, title: str, item: str, other: str) -> tuple[Expected, Expected | None]:
        self.pages[title] = ("item", item)
        return ("missing item", ()), ("no infobox", ())

    def _soft(self, title: str, item: str, other: str) -> tuple[Expected, Expected | None]:
        self.pages[title] = ("soft", f"{title} 2")
        self.pages[f"{title} 2"] = ("soft", f"{title} 3")
        self._found(f"{title} 3", item, claim("P31", "Q11"))
        return ("", ("lake",)), None

    def _hard(self, title: str, item: str, other: str) -> tuple[Expected, Expected | None]:
        self.pages[title] = ("hard", f"{title} 2")
        self._found(f"{title} 2", item, claim("P31", "Q12"))
        return ("", ("dam",)), None

    def _circle(self, title: str, item: str, other: str) -> tuple[Expected, Expected | None]:
        self.pages |= {title: ("soft", f"{title} 2"), f"{title} 2": ("soft", title)}
        return ("redirect loop", ()), None

    def _bare(self, title: str, item: str, other: str) -> tuple[Expected, Expected | None]:
        self.pages[title] = ("bare", "")
        return ("no item", ()), ("no infobox", ())

    def _gone(self, title: str, item: str, other: str) -> tuple[Expected, Expected | None]:
        return ("missing page", ()), None

    def dump(self) -> str:
        """All items as Wikidata dumps them; classes have a "subclass of"."""
        titles = {what: title for title, (kind, what) in self.pages.items() if kind == "item"}
        lines = []
        for key, item in self.items.items():
            claims = dict(item["claims"] or {})
            links = {"commonswiki": {"site": "commonswiki", "title": titles[key]}} if key in titles else {}
            lines.append(json.dumps({**item, "claims": claims, "sitelinks": links}, separators=(",", ":")))
        return "[\n" + ",\n".join(lines) + "\n]\n"

    # What the API and the site say.

    def query(self, asked: dict[str, str]) -> Json:
        """``action=query``: every page in every answer, and its properties in one of them."""
        redirects: Json = {}
        final = sorted({self._follow(title, redirects) for title in asked["titles"].split("|")})
        part, parts = int(asked.get("gocontinue", "0")), 1 + len(final) % 3
        pages = [self._page(title, asked, full=place % parts == part) for place, title in enumerate(final)]
        way = [{"from": one, "to": other} for one, other in redirects.items()]
        more = {"continue": {"gocontinue": str(part + 1), "continue": "||"}}
        return {"query": {"redirects": way, "pages": pages}, **({"batchcomplete": True} if part + 1 == parts else more)}

    def _follow(self, title: str, redirects: Json) -> str:
        while self.pages.get(title, ("", ""))[0] == "hard":
            redirects[title] = self.pages[title][1]
            title = redirects[title]
        return title

    def _page(self, title: str, asked: dict[str, str], *, full: bool) -> Json:
        if title not in self.pages:
            return {"ns": 14, "title": title, "missing": True}
        kind, what = self.pages[title]
        page: Json = {"pageid": 7, "ns": 14, "title": title}
        if full and asked["prop"] == "revisions":
            text = f"{{{{Category redirect|1={what}}}}}" if kind == "soft" else "[[Category:Things]]"
            page["revisions"] = [{"slots": {"main": {"contentmodel": "wikitext", "content": text}}}]
        elif full and kind == "soft":
            page["categories"] = [{"ns": 14, "title": "Category:Category redirects"}]
        elif full and kind == "item":
            page["pageprops"] = {"wikibase_item": what}
        return page

    def entities(self, asked: dict[str, str]) -> Json:
        """``action=wbgetentities``."""
        names = ["id", "type", *(["lastrevid", "modified"] if "info" in asked["props"] else [])]
        names += [name for name in ("claims", "labels") if name in asked["props"].split("|")]
        found: Json = {}
        for key in asked["ids"].split("|"):
            item = self.items.get(self.redirected.get(key, key))
            found[key] = {"id": key, "missing": ""} if item is None else {name: item[name] for name in names}
            if key in self.redirected:
                found[key]["redirects"] = {"from": key, "to": self.redirected[key]}
        return {"entities": found, "success": 1}

    def site(self, title: str) -> tuple[int, str]:
        """A category's page."""
        shown = self._follow(title, {})
        origin = (
            f'<span class="mw-redirectedfrom">(<a title="{html.escape(title)}">x</a>)</span>' if shown != title else ""
        )
        if shown not in self.pages:
            return 404, document(shown, "There is no such page.")
        kind, what = self.pages[shown]
        if kind == "soft":
            link = f'<a href="/wiki/{quote(what)}">there</a>'
            return 200, document(shown, f'<div class="category-redirect-header">Now {link}</div>')
        rows = self._rows(what) if kind == "item" else None
        table = "" if rows is None else f'<table id="wdinfobox" class="infobox"><tbody>{rows}</tbody></table>'
        return 200, document(shown, origin + table)

    def _rows(self, key: str) -> str | None:
        item = self.items.get(self.redirected.get(key, key))
        if item is None:
            return None
        values = self._values(item, "P31")
        if MET_CATEGORY in values:
            topics = self._values(item, "P301")
            return self._rows(topics[0]) if topics else None
        names = [(self.items[value]["labels"] or {}).get("en", {"value": value})["value"] for value in values]
        entries = "".join(f'<li><a href="/wiki/Category:X">{html.escape(name)}</a></li>' for name in names)
        head = '<th class="wikidatainfobox-lcell">Instance of</th>'
        return f"<tr>{head}<td><ul>{entries}</ul></td></tr>" if names else "<tr><th>Place</th><td>here</td></tr>"

    @staticmethod
    def _values(item: Json, prop: str) -> list[str]:
        claims = [made for made in (item["claims"] or {}).get(prop, []) if made["rank"] != "deprecated"]
        claims = [made for made in claims if made["rank"] == "preferred"] or claims
        snaks = [made["mainsnak"] for made in claims if made["mainsnak"]["snaktype"] == "value"]
        return [f"Q{snak['datavalue']['value']['numeric-id']}" for snak in snaks]


KINDS = sorted(name[1:] for name in vars(Universe) if name.startswith("_") and name[1:2] != "_")
KINDS = [name for name in KINDS if name not in ("found", "follow", "page", "rows", "values")]


def document(title: str, body: str) -> str:
    """A page of the site."""
    link = f'<link rel="canonical" href="https://commons.wikimedia.org/wiki/{quote(title.replace(" ", "_"))}">'
    head = f"<title>{html.escape(title)} - Wikimedia Commons</title>{link}"
    return f"<!DOCTYPE html><html><head>{head}</head><body>{body}</body></html>\n"


@dataclass
class Behavior:
    """How the server behaves during a run: one entry of ``spoilt`` a request, in turn; then every answer is good."""

    universe: Universe
    now: Callable[[], datetime]
    spoilt: list[str | None] = field(default_factory=list)
    poisoned: frozenset[str] = frozenset()  # keys whose requests are refused
    kill_at: int = -1  # the request at whose arrival the client dies
    on_kill: Callable[[], None] = lambda: None
    killed: bool = False
    requests: int = 0
    earliest: list[datetime] = field(default_factory=list)  # until when the client was asked to wait
    arrivals: list[datetime] = field(default_factory=list)


class Loopback:
    """The server; ``behavior`` may be replaced between runs."""

    behavior: Behavior

    def __init__(self) -> None:
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        self.endpoints = {"commons_api": f"{self.url}/c", "wikidata_api": f"{self.url}/w", "commons_site": self.url}

    @contextmanager
    def running(self) -> Iterator[Loopback]:
        """Serve until the block ends."""
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        try:
            yield self
        finally:
            self.http.shutdown()
            self.http.server_close()


def _handler(server: Loopback) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *arguments: object) -> None:
            pass

        def do_GET(self) -> None:
            behavior, parts = server.behavior, urlsplit(self.path)
            place, behavior.requests = behavior.requests, behavior.requests + 1
            behavior.arrivals.append(behavior.now())
            if behavior.killed or place == behavior.kill_at:
                if not behavior.killed:
                    behavior.on_kill()
                behavior.killed = self.close_connection = True
                return
            fault = behavior.spoilt[place] if place < len(behavior.spoilt) else None
            asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
            if parts.path.startswith("/wiki/"):
                title = unquote(parts.path.removeprefix("/wiki/")).replace("_", " ")
                status, body, kind = *self.page(behavior, title, fault), "text/html; charset=UTF-8"
            else:
                status, body, kind = 200, self.json(behavior, asked, fault), "application/json; charset=utf-8"
            self.send(behavior, fault, status, body, {"Content-Type": kind})

        def page(self, behavior: Behavior, title: str, fault: str | None) -> tuple[int, bytes]:
            if title in behavior.poisoned:
                return 414, b"URI too long"
            if fault == "another page":
                return 200, document("Category:Another", "").encode()
            if fault == "log in":
                return 200, b"<html><title>Please log in</title><p>to this network</p></html>"
            status, text = behavior.universe.site(title)
            return status, (text[: len(text) // 2] if fault == "cut page" else text).encode()

        def json(self, behavior: Behavior, asked: dict[str, str], fault: str | None) -> bytes:
            keys = asked.get("titles", asked.get("ids", "")).split("|")
            if fault != "maxlag" and (len(keys) > 50 or behavior.poisoned & set(keys)):
                return json.dumps({"error": {"code": "params-illegal", "info": "Bad title."}}).encode()
            universe = behavior.universe
            content = universe.query(asked) if asked["action"] == "query" else universe.entities(asked)
            return json.dumps(_spoil(content, fault), ensure_ascii=False).encode()

        def send(
            self, behavior: Behavior, fault: str | None, status: int, body: bytes, headers: dict[str, str]
        ) -> None:
            until = behavior.now() + timedelta(seconds=RETRY_AFTER)
            wait = {"Retry-After": str(RETRY_AFTER)}
            if fault in ("429", "503") or (fault == "maxlag" and b'"maxlag"' in body):
                behavior.earliest.append(until)
            match fault:
                case "429" | "503":
                    status, headers, body = int(fault), wait, b"Too many, or down"
                case "429 date":
                    stamp = format_datetime(until.replace(microsecond=0) + timedelta(seconds=1), usegmt=True)
                    status, headers, body = 429, {"Retry-After": stamp}, b"later"
                    behavior.earliest.append(until)
                case "500":
                    status, body = 500, b"<html><title>Error</title></html>"
                case "maxlag":
                    headers |= wait
                case "loop":
                    status, headers, body = 302, {"Location": self.path}, b""
                case "empty":
                    body = b""
                case "latin-1":
                    body += "é".encode("latin-1")
                case "half gzip":
                    body, headers = gzip.compress(body)[:-9], {**headers, "Content-Encoding": "gzip"}
                case "hung up":
                    self.close_connection = True
                    return
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if fault == "cut" else body)
            self.close_connection |= fault == "cut"

    return Handler


def _spoil(content: Json, fault: str | None) -> Json:
    """JSON as a faulty server may send it: never whole, so that it can be known."""
    errors = {"maxlag": "maxlag", "ratelimited": "ratelimited", "readonly": "readonly"}
    if fault in errors:
        return {"error": {"code": errors[fault], "info": "Waiting", "lag": 6.1}}
    if fault == "internal error":
        return {"error": {"code": "internal_api_error_Exception", "info": "[x] Caught"}}
    if fault == "other shape":
        return {"query": {"pages": {}}, "entities": {}, "batchcomplete": True}
    pages, rng = content.get("query", {}).get("pages"), random.Random(str(content))
    if pages is None:
        return _spoil_entities(content, fault, rng)
    if fault in ("page or entity left out", "continuation without a page", "claims or labels left out"):
        del pages[rng.randrange(len(pages))]
        content |= {} if fault == "page or entity left out" else {"batchcomplete": True}
    elif fault == "no end":
        content.pop("batchcomplete", None)
        content.pop("continue", None)
    elif fault == "missing by mistake":
        lost = rng.randrange(len(pages))
        pages[:] = [{"ns": 14, "title": page["title"], "missing": True} for page in pages]
        del pages[lost]
    return content


def _spoil_entities(content: Json, fault: str | None, rng: random.Random) -> Json:
    entities = content["entities"]
    key = rng.choice(sorted(entities))
    if fault in ("page or entity left out", "continuation without a page", "missing by mistake"):
        for other in entities if fault == "missing by mistake" else ():
            entities[other] = {"id": other, "missing": ""}
        del entities[key]
    elif fault in ("claims or labels left out", "no end"):
        whole = [key for key, entity in entities.items() if "missing" not in entity]
        for name in ("claims", "labels"):
            entities[whole[0] if whole else key].pop(name, None)
        if not whole:
            del entities[key]
    return content
