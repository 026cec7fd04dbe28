"""The application behind a local page: its bundled files, what it asks for, and errors as JSON, behind the guard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from hiertree.errors import HiertreeError

from .guard import Guard

_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def local_app(
    package: str, routes: Sequence[Route], *, token: str, port: int, handlers: Mapping[Any, Any] | None = None
) -> ASGIApp:
    """A page with what it asks for, behind its guard.

    Args:
        package: its folder ``page`` holds ``index.html``, a template, and the files that this names as ``/page/NAME``.
        routes: what else the server answers.
        token: the secret of the first address.
        port: that of the server on 127.0.0.1.
        handlers: what else than HTTP's and hiertree's errors become answers.
    """

    async def page(request: Request) -> Response:
        """One of the bundled files; no other name leads anywhere."""
        name = request.path_params.get("name", "index.html")
        content = page_files(package).get(name)
        if content is None:
            raise HTTPException(404, "no such page")
        return Response(content, media_type=_TYPES[Path(name).suffix])

    known: dict[Any, Any] = {HTTPException: _refused, HiertreeError: _impossible, **(handlers or {})}
    found = Starlette(routes=[Route("/", page), Route("/page/{name}", page), *routes], exception_handlers=known)
    return Guard(found, token=token, port=port)


@cache
def page_files(package: str) -> Mapping[str, bytes]:
    """The files of a page by name: those that all pages share, and its own, ``index.html`` inside the common frame."""
    from jinja2 import DictLoader, Environment

    folders = [resources(home) / "page" for home in (__package__, package)]
    found = [file for folder in folders for file in folder.iterdir() if Path(file.name).suffix in _TYPES]
    files = {file.name: file.read_bytes() for file in found}
    templates = DictLoader({name: files.pop(name).decode() for name in ("frame.html", "index.html")})
    page = Environment(autoescape=True, loader=templates).get_template("index.html").render()
    return {**files, "index.html": page.encode()}


async def _refused(_: Request, error: HTTPException) -> Response:
    return JSONResponse({"error": error.detail}, error.status_code)


async def _impossible(_: Request, error: HiertreeError) -> Response:
    return JSONResponse({"error": str(error)}, 422)
