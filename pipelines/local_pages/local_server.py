"""Pages that a server on 127.0.0.1 shows to this machine's browser alone.

A web site elsewhere can make a browser send requests to 127.0.0.1. It is kept out four times: by the Host header (its
own name, which may resolve to 127.0.0.1), by a token that only the printed address and the requests of its page hold,
by the Origin of what changes anything, and by a policy under which the page runs no script, shows no image and is
framed by nothing but its own. No cookie holds the token: browsers would send it to every port of 127.0.0.1, and so to
servers of other users.
"""

from __future__ import annotations

import asyncio
import hmac
import io
import logging
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib.resources import files as resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp
from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol

from hiertree.errors import HiertreeError, ImageError, OptionError
from hiertree.io.reading import reading_file

if TYPE_CHECKING:
    from PIL import Image

THUMBNAIL = 224  # pixels
LOOPBACK = "127.0.0.1"
MakeApp = Callable[..., ASGIApp]  # given the keywords token and port, once the port is known
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
UNSAFE = ("POST", "PUT", "PATCH", "DELETE")


def local_app(
    package: str, routes: Sequence[Route], *, token: str, port: int, handlers: Mapping[Any, Any] | None = None
) -> ASGIApp:
    """The application of a page and its requests, behind the guard.

    The folder ``page`` of the package holds ``index.html``, a template, and the files that this names as
    ``/page/NAME``. ``token`` is the secret of the first address; ``handlers`` answer further errors than HTTP's and
    hiertree's.
    """

    def page(request: Request) -> Response:
        """One of the bundled files; no other name leads anywhere."""
        name = request.path_params.get("name", "index.html")
        file = page_files(package).get(name)
        if file is None:
            raise HTTPException(404, "no such page")
        return Response(file, media_type=_TYPES[Path(name).suffix])

    def refused(_: Request, error: HTTPException) -> Response:
        return JSONResponse({"error": error.detail}, error.status_code)

    def impossible(_: Request, error: HiertreeError) -> Response:
        return JSONResponse({"error": str(error)}, 422)

    def unread(_: Request, __: ClientDisconnect) -> Response:
        return Response(status_code=400)  # nobody is there to read it

    errors = {HTTPException: refused, HiertreeError: impossible, ClientDisconnect: unread, **(handlers or {})}
    app = Starlette(routes=[Route("/", page), Route("/page/{name}", page), *routes], exception_handlers=errors)
    return Guard(app, token=token, port=port)


def number_of(request: Request, name: str, *, limit: int, default: str = "0") -> int:
    """The whole number of a query's parameter; status 400 for any other text."""
    text = request.query_params.get(name, default)
    if not (text.isascii() and text.isdigit() and len(text) < 12 and int(text) < limit):
        raise HTTPException(400, f"{name}={text[:40]!r}: expected an integer below {limit}")
    return int(text)


@cache
def page_files(package: str) -> Mapping[str, bytes]:
    """The files of a page by name: the shared ones and its own, with ``index.html`` inside the common frame."""
    from jinja2 import DictLoader, Environment

    folders = [resources(owner) / "page" for owner in (__package__, package)]
    sources = [file for folder in folders for file in folder.iterdir() if Path(file.name).suffix in _TYPES]
    files = {file.name: file.read_bytes() for file in sources}
    templates = DictLoader({name: files.pop(name).decode() for name in ("frame.html", "index.html")})
    page = Environment(autoescape=True, loader=templates).get_template("index.html").render()
    return {**files, "index.html": page.encode()}


class Guard(BaseHTTPMiddleware):
    """Refuses requests before the application sees them, and adds headers to responses."""

    def __init__(self, app: ASGIApp, *, token: str, port: int) -> None:
        super().__init__(app)
        self._token = token
        ends = (f":{port}", "") if port == 80 else (f":{port}",)  # browsers leave out the port of http itself
        self._hosts = [f"{name}{end}" for name in ("127.0.0.1", "localhost") for end in ends]

    @override
    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        """Answer a request, or let it pass."""
        answer = self._answer(request) or await call_next(request)
        answer.headers.update(HEADERS)
        answer.headers.setdefault("Cache-Control", "no-store")
        return answer

    def _answer(self, request: Request) -> Response | None:
        """A refusal, or None to let a request pass: one with the token, or for the page's scripts and styles."""
        host = request.headers.get("host", "")
        if host not in self._hosts:
            return PlainTextResponse("This server answers to 127.0.0.1 only.", 421)
        if request.method in UNSAFE and request.headers.get("origin") != f"http://{host}":
            return PlainTextResponse("Another site's page asked.", 403)
        token = request.query_params.get("token", "")
        if not (
            request.scope["path"].startswith("/page/") or hmac.compare_digest(token.encode(), self._token.encode())
        ):
            return PlainTextResponse("Open the address that the terminal printed: it holds the token.", 403)
        return None


def serve_until_interrupted(
    make_app: MakeApp, *, announce: Callable[[str], None], port: int = 0, open_browser: bool = True
) -> None:
    """Serve an application on 127.0.0.1 until Ctrl-C, on any free port if that is 0.

    ``announce`` is given the address before the first request is answered.
    """
    with listening(port) as listener:
        server, url = _server(make_app, listener)
        announce(url)
        if open_browser:
            webbrowser.open(url)
        with suppress(KeyboardInterrupt):  # uvicorn shuts down, then passes it on
            server.run(sockets=[listener])


@contextmanager
def served_in_background(make_app: MakeApp) -> Iterator[str]:
    """The address of an application that is served until the block ends."""
    with listening(0) as listener:
        server, url = _server(make_app, listener)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield url
        finally:
            server.should_exit = True
            thread.join()


class _Protocol(H11Protocol):
    """Answers a whole request also where its client has closed its half of the connection."""

    def eof_received(self) -> Any:
        cycle: Any = self.cycle
        is_waiting = cycle is not None and not cycle.response_complete
        if is_waiting and self.conn.their_state is h11.DONE:
            cycle.keep_alive = False
            return True
        return False


class _Server(uvicorn.Server):
    """Closes every connection at its end, also late ones and those whose clients do not read."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        for connection in self.server_state.connections:
            connection.transport.abort()
        await asyncio.sleep(0)  # in which the event loop closes them


def _server(make_app: MakeApp, listener: socket.socket) -> tuple[uvicorn.Server, str]:
    """A quiet HTTP server that stops within two seconds, and its address with the token."""
    token, port = secrets.token_urlsafe(24), listener.getsockname()[1]
    settings = uvicorn.Config(
        make_app(token=token, port=port),
        http=_Protocol,
        ws="none",
        loop="asyncio",
        lifespan="off",
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    logging.getLogger("uvicorn.error").addFilter(_is_of_the_page)
    return _Server(settings), f"http://{LOOPBACK}:{port}/?token={token}"


def _is_of_the_page(record: logging.LogRecord) -> bool:
    """Whether a message is about more than a request that is no HTTP, or one that ends before its answer."""
    error_class = record.exc_info[0] if record.exc_info else None
    is_protocols = error_class is not None and error_class.__module__.startswith("h11.")
    return not is_protocols and record.getMessage() != "Invalid HTTP request received."


def listening(port: int) -> socket.socket:
    """A socket that listens on 127.0.0.1; an OptionError if the port is taken, or not ours to take."""
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        raise OptionError(f"port {port}: {error.strerror}", expected="a free one", remedy="leave out --port") from None


def thumbnail(path: Path, *, pixels: int = THUMBNAIL, crop: bool = True) -> bytes | None:
    """A small JPEG of an image file, or None where it is missing or does not decode; cropped, it is square."""
    from PIL import Image

    from hiertree.datasets.readers.images import eight_bit, readable_formats

    if not path.is_file():  # a pipe would be waited for
        return None
    formats = readable_formats()
    try:
        with reading_file(path, expected="an image", kind=ImageError), Image.open(path, formats=formats) as image:
            image.draft("RGB", (pixels, pixels))
            return shrink(eight_bit(image, name=path.name), pixels=pixels, crop=crop)
    except ImageError:
        return None


def shrink(image: Image.Image, *, pixels: int = THUMBNAIL, crop: bool = True) -> bytes:
    """A small JPEG of an image."""
    from PIL import ImageOps

    picture = image.convert("RGB")
    small = ImageOps.fit(picture, (pixels, pixels)) if crop else ImageOps.contain(picture, (pixels, pixels))
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=82)
    return buffer.getvalue()


def image_response(jpeg: bytes | None) -> Response:
    """A JPEG response that browsers cache for an hour; 404 without an image."""
    if jpeg is None:
        raise HTTPException(404, "no image")
    return Response(jpeg, media_type="image/jpeg", headers={"Cache-Control": "private, max-age=3600"})
