"""``hiertree browse``: a local server for the search page and its requests."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from hiertree import levels
from hiertree.datasets.readers.images import readable_formats
from hiertree.errors import ImageError, OptionError, raised_as

from ..local_pages.local_server import (
    THUMBNAIL,
    image_response,
    local_app,
    number_of,
    serve_until_interrupted,
    served_in_background,
)
from ..pair_scores import nearest_images
from .embedded_images import BrowsedImages, Model, picture_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

AT_ONCE = 60  # images
LARGE = 640  # pixels of a query
MOST_BYTES = 32 << 20  # of a photograph
_ONE_EMBEDS = threading.Lock()
Node = tuple[int, ...]  # the first numbers of a path; empty for the whole tree


class Searching:
    """Answers the requests of the page; each is answered in a thread of its own."""

    def __init__(self, collection: BrowsedImages) -> None:
        self.collection = collection

    @cached_property
    def _mixed_order(self) -> NDArray[np.int64]:
        """The queries in a fixed random order, which mixes classes."""
        return np.random.default_rng(0).permutation(len(self.collection.models[0].queries))

    @cached_property
    def _photograph(self) -> NDArray[np.int64]:
        """(n,) a number for each photograph, equal if it is both a query and in the gallery."""
        return np.unique(np.asarray(self.collection.names, dtype=str), return_inverse=True)[1].reshape(-1)

    def everything(self, _: Request) -> Response:
        """The initial data of the page."""
        collection = self.collection
        sizes = {
            "images": len(collection.names),
            "gallery": len(collection.gallery_rows) if collection.separate else None,
        }
        names: dict[str, Any] = {
            "models": [model.name for model in collection.models],
            "asks": [model.network is not None for model in collection.models],
            "reads": [model.network is not None and model.network.has_texts for model in collection.models],
            "levels": list(self._level_names),
        }
        return JSONResponse({**names, **sizes, "without": collection.without})

    def children(self, request: Request) -> Response:
        """The nodes below a node, sorted by label: number, label and number of images."""
        node, tree, paths = _node(request, "node"), self.collection.tree, self.collection.paths
        if tree is None or len(node) >= tree.num_levels:
            return JSONResponse([])
        ids = paths[self._inside(node), len(node)]
        nodes_below, counts = np.unique(ids[ids >= 0], return_counts=True)
        labels = [str(tree.labels_of([*node, child])[-1]) for child in nodes_below.tolist()]
        nodes = sorted(zip(labels, nodes_below.tolist(), counts.tolist(), strict=True))
        return JSONResponse([{"label": label, "number": child, "images": count} for label, child, count in nodes])

    def images(self, request: Request) -> Response:
        """Some queries of a node, and their total number."""
        start, rows = (
            number_of(request, "start", limit=len(self.collection.names)),
            self._queries(_node(request, "node")),
        )
        images = [self._image(row) for row in rows[start : start + AT_ONCE].tolist()]
        return JSONResponse({"images": images, "of": len(rows)})

    def random(self, request: Request) -> Response:
        """One query of a node."""
        rows = self._queries(_node(request, "node"))
        if not len(rows):
            raise OptionError("a node without queries", expected="a node with images that are queries")
        return JSONResponse(int(np.random.default_rng().choice(rows)))

    def find(self, request: Request) -> Response:
        """Some images whose names hold a text, whatever its case, and their total number."""
        text = request.query_params.get("name", "").casefold()
        rows = [row for row, name in enumerate(self.collection.names) if text in name.casefold()]
        return JSONResponse({"images": [self._image(row) for row in rows[:AT_ONCE]], "of": len(rows)})

    def text(self, request: Request) -> Response:
        """As :meth:`neighbors`, of a text; no level is shared with it."""
        text, model = request.query_params.get("text", ""), self._model(request)
        if model.network is None or not text.strip():
            raise OptionError("a text without a model that reads it", expected="--model open_clip:…, and a text")
        with _ONE_EMBEDS:
            vector = model.network.embed(texts=[text], templates=["{}"], progress=False)
        return self._nearest(request, model, vector, {"name": text, "labels": []})

    async def photograph(self, request: Request) -> Response:
        """As :meth:`neighbors`, of a photograph in the body of the request."""
        photograph = bytearray()
        async for chunk in request.stream():
            photograph += chunk
            if len(photograph) > MOST_BYTES:
                raise HTTPException(413, f"a photograph of more than {MOST_BYTES >> 20} MiB")
        return await run_in_threadpool(self._neighbors_of, request, bytes(photograph))

    def _neighbors_of(self, request: Request, photograph: bytes) -> Response:
        from PIL import Image

        model = self._model(request)
        if model.network is None:
            raise OptionError("a photograph without a model", expected="--model NAME, that of the embeddings")
        with raised_as(ImageError, "the photograph does not decode", expected="an image", on=OSError):
            image = Image.open(io.BytesIO(photograph), formats=readable_formats())
        with _ONE_EMBEDS:
            vector = model.network.embed(image, progress=False)
        return self._nearest(request, model, vector, {"name": "your photograph", "labels": []})

    def _model(self, request: Request) -> Model:
        return self.collection.models[number_of(request, "model", limit=len(self.collection.models))]

    def neighbors(self, request: Request) -> Response:
        """The gallery's images of a node most similar to an image by cosine, and how many share each level with it.

        ``query`` and each of ``neighbors`` have the row, name and labels; a neighbor also its ``similarity``
        and its ``level``, the depth of the lowest common ancestor. ``at_level`` counts those at each level, 0 … L.
        """
        query = number_of(request, "query", limit=len(self.collection.names))
        model = self._model(request)
        return self._nearest(request, model, model.vector(query), self._image(query))

    def _nearest(self, request: Request, model: Model, vector: NDArray[Any], query: dict[str, Any]) -> Response:
        """The answer for a query: one of the images, which has a row, or something else."""
        collection, rows = self.collection, self.collection.gallery_rows
        is_candidate, depths = self._inside(_node(request, "within"))[rows], np.zeros(len(rows), np.uint8)
        if (row := query.get("row")) is not None:
            is_candidate &= self._photograph[rows] != self._photograph[row]
            depths = levels(collection.paths[[row]], collection.paths[rows])[0] if collection.tree else depths
        left_out = [np.flatnonzero(~is_candidate)]
        (nearest,) = nearest_images(vector, model.gallery, count=AT_ONCE, left_out=left_out)
        similarities = _cosines(vector[0], model.gallery[nearest])
        hits = zip(rows[nearest].tolist(), depths[nearest].tolist(), similarities.tolist(), strict=True)
        neighbors = [{**self._image(hit), "level": level, "similarity": similarity} for hit, level, similarity in hits]
        at_level = np.bincount(depths[is_candidate], minlength=len(self._level_names) + 1).tolist()
        return JSONResponse({"query": query, "neighbors": neighbors, "at_level": at_level})

    def picture(self, request: Request) -> Response:
        """One image: small and square, or larger and whole."""
        text = request.path_params["row"]
        row = int(text) if text.isascii() and text.isdigit() and len(text) < 12 else len(self.collection.names)
        if self.collection.images is None or row >= len(self.collection.names):
            raise HTTPException(404, "no image")
        large = request.url.path.startswith("/large/")
        return image_response(
            picture_of(self.collection.images, row, pixels=LARGE if large else THUMBNAIL, crop=not large)
        )

    @property
    def _level_names(self) -> Sequence[str]:
        """Names of the levels, coarse → fine; none without labels."""
        return () if self.collection.tree is None else self.collection.tree.level_names

    def _image(self, row: int) -> dict[str, Any]:
        return {"row": row, "name": self.collection.names[row], "labels": self.collection.labels(row)}

    def _queries(self, node: Node) -> NDArray[np.int64]:
        return self._mixed_order[self._inside(node)[self._mixed_order]]

    def _inside(self, node: Node) -> NDArray[np.bool_]:
        """(n,) booleans: the images below a node."""
        if len(node) > len(self._level_names):
            raise OptionError(f"node {node}", expected=f"at most {len(self._level_names)} numbers, one per level")
        return np.asarray((self.collection.paths[:, : len(node)] == np.array(node, np.int32)).all(axis=1))


def _cosines(vector: NDArray[Any], vectors: NDArray[Any]) -> NDArray[np.float64]:
    """(k,) cosines, 0 for vectors of zero norm."""
    query, rest = np.asarray(vector, np.float64), np.asarray(vectors, np.float64)
    lengths = np.linalg.norm(query) * np.linalg.norm(rest, axis=1)
    return (rest @ query) / np.where(lengths > 0, lengths, 1.0)


def search_app(collection: BrowsedImages, *, token: str, port: int) -> ASGIApp:
    """The page behind its guard."""
    page = Searching(collection)
    answers = (page.everything, page.children, page.images, page.random, page.find, page.neighbors, page.text)
    routes = [Route(f"/api/{answer.__name__}", answer) for answer in answers]
    routes.append(Route("/api/photograph", page.photograph, methods=["POST"]))
    routes += [Route(f"/{size}/{{row}}", page.picture) for size in ("images", "large")]
    return local_app(__package__, routes, token=token, port=port)


def serve(
    collection: BrowsedImages, *, port: int = 0, open_browser: bool = True, say: Callable[[str], object] = print
) -> None:
    """Show the page on 127.0.0.1 until Ctrl-C, on any free port if that is 0; ``say`` prints the address."""

    def announce(url: str) -> None:
        if collection.without:
            say(f"{collection.without} The page shows names instead; --images names the folder of the images.")
        say(f"{len(collection.names):,} images, {', '.join(model.name for model in collection.models)}: {url}")
        say("Ctrl-C ends it.")

    serve_until_interrupted(partial(search_app, collection), announce=announce, port=port, open_browser=open_browser)


def served(collection: BrowsedImages) -> AbstractContextManager[str]:
    """The address of the page, served in the background until the block ends."""
    return served_in_background(partial(search_app, collection))


def _node(request: Request, name: str) -> Node:
    """The numbers of a node's path, separated by commas."""
    ids = [text for text in request.query_params.get(name, "").split(",") if text]
    if not all(text.isascii() and text.isdigit() and len(text) < 10 for text in ids):
        raise HTTPException(400, f"{name}: expected numbers with commas between them")
    return tuple(map(int, ids))
