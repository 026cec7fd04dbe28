"""The page and what it asks for: everything about the review once, then actions and what they changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from hiertree.errors import ReviewConflictError

from ...local_pages.application import local_app
from ...local_pages.thumbnails import image_response, thumbnail
from ..fill.image_folder import ImageFolder
from .actions import Number, StrictModel
from .adjudication import Adjudication
from .examples import Example
from .session import News, Session
from .splitting import PostedRequest

MOST_BYTES = 4 << 20  # of a request: all labels of a large review, several times


class PostedAction(StrictModel):
    """What the page posts: an action, and the last event that it knows of."""

    seq: Number
    action: PostedRequest


@dataclass(frozen=True)
class Review:
    """What the server shows.

    Attributes:
        session: the annotator's.
        examples: landmarks of each label.
        images: the landmarks' images, if there are any.
        adjudication: the two reviews to decide between, if there are.
    """

    session: Session
    examples: Mapping[str, list[Example]]
    images: ImageFolder | None = None
    adjudication: Adjudication | None = None

    async def everything(self, _: Request) -> Response:
        """All clusters and labels: what the page begins with."""
        news = await run_in_threadpool(self.session.news, 0)
        clusters = {number: cluster.as_json() for number, cluster in news.history.state.clusters.items()}
        return JSONResponse({**self._unchanging(), **_news_json(news), "groups": clusters, "messages": []})

    async def news(self, request: Request) -> Response:
        """What happened since an event."""
        since = request.query_params.get("since", "")
        if not (since.isascii() and since.isdigit()):
            raise HTTPException(400, f"since={since!r}: expected the number of an event")
        return JSONResponse(_news_json(await run_in_threadpool(self.session.news, int(since))))

    async def act(self, request: Request) -> Response:
        """Do something; 409 and the news if the page was not up to date, 422 and the reason if it cannot be done."""
        if request.headers.get("content-type") != "application/json":
            raise HTTPException(415, "expected application/json")
        try:
            posted = PostedAction.model_validate_json(await _body(request))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise HTTPException(400, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        try:
            return JSONResponse(_news_json(await run_in_threadpool(self.session.act, posted.action, seq=posted.seq)))
        except ReviewConflictError as error:
            news = await run_in_threadpool(self.session.news, posted.seq)
            return JSONResponse({"error": str(error), "news": _news_json(news)}, 409)

    async def image(self, request: Request) -> Response:
        """A small image of a landmark."""
        path = self.images and self.images.find(request.path_params["landmark"])
        return image_response(await run_in_threadpool(thumbnail, path) if path else None)

    def _unchanging(self) -> dict[str, Any]:
        clusters = self.session.proposal.clusters
        return {
            "annotator": self.session.annotator,
            "log": str(self.session.log.path),
            "notices": self.session.log.notices,
            "labels": {
                place.label: {
                    "landmarks": place.landmarks,
                    "doubt": place.doubt,
                    "hypernyms": place.hypernyms,
                    "examples": list(map(vars, self.examples.get(place.label, []))),
                }
                for cluster in clusters
                for place in cluster.labels
            },
            "doubts": [cluster.doubt for cluster in clusters],
            "adjudication": self.adjudication and self.adjudication.as_json(),
        }


def review_app(review: Review, *, token: str, port: int) -> ASGIApp:
    """The application behind its guard.

    Args:
        review: what is shown.
        token: the secret of the first address.
        port: that of the server on 127.0.0.1.
    """
    routes = [
        Route("/api/review", review.everything),
        Route("/api/news", review.news),
        Route("/api/act", review.act, methods=["POST"]),
        Route("/images/{landmark:int}", review.image),
    ]
    return local_app(__package__, routes, token=token, port=port, handlers={OSError: _unwritten})


def _news_json(news: News) -> dict[str, Any]:
    history = news.history
    return {
        "seq": history.seq,
        "groups": {number: cluster and cluster.as_json() for number, cluster in news.clusters.items()},
        "messages": news.messages,
        "undo": history.done[-1].message if history.done else None,
        "redo": history.undone[-1].message if history.undone else None,
    }


async def _body(request: Request) -> bytes:
    """The body, refused as soon as it is too long."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise HTTPException(413, f"more than {MOST_BYTES} bytes")
    return bytes(body)


async def _unwritten(_: Request, error: OSError) -> Response:
    return JSONResponse({"error": f"the log could not be written, nothing was done: {error}"}, 507)
