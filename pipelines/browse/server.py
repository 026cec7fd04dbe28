"""``hiertree browse``: the search page and what it asks for, on a server of this machine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from ..local_pages.application import local_app
from ..local_pages.serving import serve_until_interrupted, served_in_background
from ..local_pages.thumbnails import THUMBNAIL, image_response
from .embedded_images import EmbeddedImages
from .pictures import picture_of
from .searching import Node, Searching

LARGE = 640  # pixels of a query


class SearchPage:
    """Answers the page's requests.

    Args:
        shown: the images and their embeddings.
    """

    def __init__(self, shown: EmbeddedImages) -> None:
        self.shown, self.searching = shown, Searching(shown)

    async def everything(self, _: Request) -> Response:
        """What the page begins with."""
        shown = self.shown
        sizes = {"images": len(shown.names), "gallery": len(shown.gallery_rows) if shown.separate else None}
        names = {"models": [model.name for model in shown.models], "levels": list(self.searching.level_names)}
        return JSONResponse({**names, **sizes, "without": shown.without})

    async def children(self, request: Request) -> Response:
        """The nodes below a node."""
        return JSONResponse(await run_in_threadpool(self.searching.children, _node(request, "node")))

    async def images(self, request: Request) -> Response:
        """Some images of a node."""
        start = _number(request, "start", below=len(self.shown.names))
        return JSONResponse(await run_in_threadpool(self.searching.images, _node(request, "node"), start=start))

    async def random(self, request: Request) -> Response:
        """One image of a node."""
        return JSONResponse(await run_in_threadpool(self.searching.random, _node(request, "node")))

    async def neighbors(self, request: Request) -> Response:
        """An image, and the most similar ones of a node by a model."""
        query = _number(request, "query", below=len(self.shown.names))
        model = _number(request, "model", below=len(self.shown.models))
        search = partial(self.searching.neighbors, query, model=model, within=_node(request, "within"))
        return JSONResponse(await run_in_threadpool(search))

    async def picture(self, request: Request) -> Response:
        """One image: small and square, or larger and whole."""
        row, images = request.path_params["row"], self.shown.images
        if images is None or row >= len(self.shown.names):
            raise HTTPException(404, "no image")
        large = request.url.path.startswith("/large/")
        side = LARGE if large else THUMBNAIL
        return image_response(await run_in_threadpool(picture_of, images, row, side=side, crop=not large))


def search_app(shown: EmbeddedImages, *, token: str, port: int) -> ASGIApp:
    """The page behind its guard.

    Args:
        shown: the images and their embeddings.
        token: the secret of the first address.
        port: that of the server on 127.0.0.1.
    """
    page = SearchPage(shown)
    routes = [
        Route("/api/everything", page.everything),
        Route("/api/children", page.children),
        Route("/api/images", page.images),
        Route("/api/random", page.random),
        Route("/api/neighbors", page.neighbors),
        Route("/images/{row:int}", page.picture),
        Route("/large/{row:int}", page.picture),
    ]
    return local_app(__package__, routes, token=token, port=port)


def serve(
    shown: EmbeddedImages, *, port: int = 0, open_browser: bool = True, say: Callable[[str], object] = print
) -> None:
    """Show the page on 127.0.0.1 until Ctrl-C.

    Args:
        shown: from :func:`hiertree.pipelines.browse.embedded_images.read_embedded`.
        port: 0 for any that is free.
        open_browser: whether to open the page.
        say: prints the address.

    Raises:
        OptionError: the port is taken.
    """

    def announce(url: str) -> None:
        if shown.without:
            say(f"{shown.without} The page shows names instead; --images names the folder of the images.")
        say(f"{len(shown.names):,} images, {', '.join(model.name for model in shown.models)}: {url}")
        say("Ctrl-C ends it.")

    serve_until_interrupted(partial(search_app, shown), announce=announce, port=port, open_browser=open_browser)


def served(shown: EmbeddedImages) -> AbstractContextManager[str]:
    """The address of the page, served in the background until the block ends."""
    return served_in_background(partial(search_app, shown))


def _number(request: Request, name: str, *, below: int) -> int:
    text = request.query_params.get(name, "0")
    if not (text.isascii() and text.isdigit() and len(text) < 12 and int(text) < below):
        raise HTTPException(400, f"{name}={text!r}: expected an integer below {below}")
    return int(text)


def _node(request: Request, name: str) -> Node:
    """A node as the numbers of its path, with commas between them."""
    parts = [part for part in request.query_params.get(name, "").split(",") if part]
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise HTTPException(400, f"{name}: expected numbers with commas between them")
    return tuple(map(int, parts))
