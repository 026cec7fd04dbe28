"""The HTTP server: who asks, how often, how much, and the faults that it is told to commit."""

from __future__ import annotations

import gzip
import json
import random
import re
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from wikimedia.answers import api_answer, page_answer
from wikimedia.world import World

CONTACT = re.compile(r"^hiertree/\S+ \((\S+@\S+\.\S+|https?://\S+)\) python-requests/\S+$")
FAULTS = (
    *("429", "429 date", "429 text", "503", "503 text", "maxlag", "ratelimited", "internal error", "truncated"),
    *("half JSON", "latin-1", "utf-16", "broken gzip", "reset", "hung up", "empty", "HTML", "incomplete"),
    *("other shape", "cut page", "other charset"),
)
LOSSES = ("incomplete", "continuation without a page", "claims or labels left out", "no end")
ENDLESS = {  # answers that never come to a body: how they begin, and what follows again and again
    "endless header": (b"HTTP/1.1 200 OK\r\nX-Padding: ", b"x"),
    "endless 100 Continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
}
FURTHER_FAULTS = (*LOSSES[1:], "missing by mistake", "readonly", "500", "another page", "log in", "loop")


@dataclass
class ReceivedRequest:
    """A request as it came: when, by which path, for which keys, and the fault committed."""

    time: float
    path: str
    parameters: dict[str, str]
    user_agent: str
    fault: str | None

    @property
    def keys(self) -> list[str]:
        key_list = self.parameters.get("titles", self.parameters.get("ids"))
        return key_list.split("|") if key_list else [self.path]


@dataclass
class Wikimedia:
    """The server; a context manager. ``fault(index, asked)`` names one of ``FAULTS``, "slow", "drip" or None."""

    world: World
    fault: Callable[[int], str | None] = lambda index: None
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = lambda: datetime.now(timezone.utc)
    before_answer: Callable[[int], None] = lambda index: None
    after_answer: Callable[[int], None] = lambda index: None
    retry_after: int = 7
    pages_an_answer: int | None = None
    refuse: Callable[[ReceivedRequest], bool] = lambda asked: False
    forbidden: bool = False
    moved: dict[str, str] = field(default_factory=dict)
    asked: list[ReceivedRequest] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    rng: random.Random = field(default_factory=lambda: random.Random(0))

    def __enter__(self) -> Wikimedia:
        self.lock = threading.Lock()
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.http.shutdown()
        self.http.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}"

    @property
    def options(self) -> dict[str, str]:
        """The endpoints."""
        return {
            "commons_api": f"{self.url}/commons/api.php",
            "wikidata_api": f"{self.url}/wikidata/api.php",
            "commons_site": self.url,
        }


def _handler(wikimedia: Wikimedia) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30
        disable_nagle_algorithm = True

        def log_message(self, *arguments: object) -> None:
            pass

        def date_time_string(self, timestamp: float | None = None) -> str:
            """The header Date, by this Wikimedia's clock."""
            return format_datetime(wikimedia.now(), usegmt=True)

        def do_GET(self) -> None:
            with wikimedia.lock:
                index = len(wikimedia.asked)
                url = urlsplit(self.path)
                parameters = dict(parse_qsl(url.query, keep_blank_values=True))
                fault = wikimedia.fault(index)
                agent = self.headers.get("User-Agent", "")
                request = ReceivedRequest(wikimedia.clock(), url.path, parameters, agent, fault)
                wikimedia.asked.append(request)
                wikimedia.at_once += 1
                wikimedia.most_at_once = max(wikimedia.most_at_once, wikimedia.at_once)
            wikimedia.before_answer(index)
            with wikimedia.lock:
                wikimedia.at_once -= 1
                status, headers, body = self.answer(request)
            try:
                self.commit(fault, status, headers, body)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True
            wikimedia.after_answer(index)

        def answer(self, call: ReceivedRequest) -> tuple[int, dict[str, str], bytes]:
            if wikimedia.forbidden or not CONTACT.match(call.user_agent):
                return 403, {"Content-Type": "text/plain"}, b"Please set a user-agent with a contact."
            if call.path in wikimedia.moved:
                return 301, {"Location": wikimedia.moved[call.path]}, b""
            if call.path.startswith("/wiki/"):
                if wikimedia.refuse(call):
                    return 414, {"Content-Type": "text/plain"}, b"URI too long"
                title = "Category:Another" if call.fault == "another page" else unquote(call.path[len("/wiki/") :])
                status, text = page_answer(wikimedia.world, title)
                return status, {"Content-Type": "text/html; charset=UTF-8"}, text.encode()
            document = api_answer(wikimedia.world, call.parameters, wikimedia.rng, wikimedia.pages_an_answer)
            if wikimedia.refuse(call):
                document = {"error": {"code": "params-illegal", "info": "Bad parameters."}}
            return 200, {"Content-Type": "application/json; charset=utf-8"}, _dumps(document)

        def commit(self, fault: str | None, status: int, headers: dict[str, str], body: bytes) -> None:
            if fault in CHANGES:
                self.reply(status, headers, CHANGES[fault](body))
            elif fault in ERRORS:
                retry = {"Retry-After": str(wikimedia.retry_after)} if fault == "maxlag" else {}
                self.reply(200, {**retry, "Content-Type": "application/json"}, _dumps({"error": ERRORS[fault]}))
            elif fault == "hung up":
                self.close_connection = True
            elif (answer := self.other_answer(fault, status, headers, body)) is not None:
                self.reply(*answer)
            else:
                self.break_off(str(fault), status, headers, body)

        def other_answer(self, fault: str | None, status: int, headers: dict[str, str], body: bytes) -> Any:
            """The answer that a fault puts in place of the right one, if it gives a whole one."""
            text, page = {"Content-Type": "text/plain"}, {"Content-Type": "text/html"}
            retry = {"Retry-After": str(wikimedia.retry_after)}
            end = wikimedia.now() + timedelta(seconds=wikimedia.retry_after)
            kind = headers.get("Content-Type", "").partition(";")[0]
            time.sleep(1.1 if fault == "slow" else 0)
            return {
                None: (status, headers, body),
                "another page": (status, headers, body),
                "slow": (status, headers, body),
                "429": (429, {**retry, **text}, b"Too many requests"),
                "429 date": (429, {"Retry-After": format_datetime(end, usegmt=True), **text}, b"Too many requests"),
                "429 text": (429, text, b"upstream connect error"),
                "503 text": (503, text, b"upstream connect error"),
                "503": (503, retry, b"<html>Wikimedia Error</html>"),
                "500": (500, page, b"<html><title>Error</title></html>"),
                "HTML": (502, page, b"<html>Bad gateway</html>"),
                "loop": (302, {"Location": self.path}, b""),
                "log in": (200, page, b"<html><title>Please log in</title><p>to this network</p></html>"),
                "empty": (200, headers, b""),
                "latin-1": (status, {"Content-Type": "application/json; charset=latin-1"}, body + b"\xe9"),
                "other charset": (status, {"Content-Type": f"{kind}; charset=windows-1252"}, _in_ascii(body)),
            }.get(fault)

        def reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
            if "gzip" in self.headers.get("Accept-Encoding", "") and len(body) > 100:
                headers, body = {**headers, "Content-Encoding": "gzip"}, gzip.compress(body, 1)
            self.head(status, {**headers, "Content-Length": str(len(body))})
            self.wfile.write(body)

        def head(self, status: int, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

        def break_off(self, fault: str, status: int, headers: dict[str, str], body: bytes) -> None:
            if fault == "broken gzip":
                packed = gzip.compress(body)
                packed = packed[: len(packed) // 2] + bytes(len(packed) - len(packed) // 2)
                self.head(status, {**headers, "Content-Encoding": "gzip", "Content-Length": str(len(packed))})
                self.wfile.write(packed)
                return
            self.close_connection = True
            if fault in ENDLESS:
                self.wfile.write(ENDLESS[fault][0])
                for _ in range(1000):
                    self.wfile.write(ENDLESS[fault][1])
                    time.sleep(0.002)
                return
            self.head(status, {**headers, "Content-Length": str(len(body))})
            if fault == "drip":
                for start in range(len(body)):
                    self.wfile.write(body[start : start + 1])
                    self.wfile.flush()
                    time.sleep(0.002)
                return
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            if fault == "reset":
                linger_off = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_off)
                self.connection.close()

    return Handler


def _in_ascii(body: bytes) -> bytes:
    return body.decode().encode("ascii", "replace")


def _dumps(document: object) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()


def _loads(body: bytes) -> dict[str, Any]:
    """An answer of the API; a page has nothing to lose."""
    try:
        return dict(json.loads(body))
    except ValueError:
        return {}


def _without_one(body: bytes, *, rest_missing: bool = False) -> bytes:
    """An answer that lacks a page or an entity, and perhaps calls the others missing."""
    document = _loads(body)
    if "entities" in document:
        document["entities"].popitem()
        if rest_missing:
            document["entities"] = {key: {"id": key, "missing": ""} for key in document["entities"]}
    elif "query" in document:
        pages = document["query"]["pages"][1:]
        missing = [{"ns": 14, "title": page["title"], "missing": True} for page in pages]
        document["query"]["pages"] = missing if rest_missing else pages
    return _dumps(document)


def _spoilt(body: bytes, fault: str) -> bytes:
    """An answer that lacks what it should say of a page or an entity, or whether it is whole."""
    document = _loads(body)
    entities, pages = document.get("entities"), document.get("query", {}).get("pages")
    if entities:
        key = next((key for key, entity in entities.items() if "missing" not in entity), None)
        if key is None or fault == "continuation without a page":
            entities.popitem()
        else:
            entities[key] = {name: value for name, value in entities[key].items() if name not in ("claims", "labels")}
    elif pages and fault != "no end":
        del pages[0]
        document |= {"batchcomplete": True}
    else:
        document = {name: value for name, value in document.items() if name not in ("batchcomplete", "continue")}
    return _dumps(document)


ERRORS: dict[str | None, dict[str, Any]] = {
    "readonly": {"code": "readonly", "info": "The wiki is currently in read-only mode."},
    "maxlag": {"code": "maxlag", "info": "Waiting for db: 7.2 seconds lagged.", "lag": 7.2},
    "ratelimited": {"code": "ratelimited", "info": "You've exceeded your rate limit."},
    "internal error": {"code": "internal_api_error_DBQueryError", "info": "[x] Caught exception"},
}
CHANGES: dict[str | None, Callable[[bytes], bytes]] = {  # of the body alone
    "half JSON": lambda body: body[: len(body) // 2],
    "utf-16": lambda body: body.decode().encode("utf-16"),
    "cut page": lambda body: body[: len(body) * 2 // 3] + b"</body></html>",
    "incomplete": _without_one,
    "missing by mistake": lambda body: _without_one(body, rest_missing=True),
    **{name: partial(_spoilt, fault=name) for name in LOSSES[1:]},
    "other shape": lambda _: b'{"query":[],"entities":[]}',
}
