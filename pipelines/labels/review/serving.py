"""``hiertree labels review``: the page of one annotator and the server behind it, until Ctrl-C."""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from hiertree.errors import CategoryError, OptionError, ReviewConflictError
from hiertree.io.files import AnyPath

from ...local_pages.local_server import (
    image_response,
    local_app,
    number_of,
    serve_until_interrupted,
    served_in_background,
    thumbnail,
)
from ...settings import first_complaint
from ..cluster.proposal_files import read_proposal
from ..encode.text_encoders import TextEncoder
from ..landmark_images import ImageFolder
from ..landmarks import LANDMARKS, KeptLandmark, read_kept
from ..texts import PREFIX, landmark_key, landmark_name, page_path
from .actions import Number, StrictModel
from .agreement import Adjudication, compare
from .log_file import replayed
from .session import News, PostedRequest, Session, load_two_means

SHOWN, LOOKED_AT = 6, 24  # of a label's landmarks on its card; those with an image come first
MOST_LISTED = 2_000  # of a label's landmarks when they are asked for
MOST_BYTES = 4 << 20  # of a request: all labels of a large review, several times
_ANNOTATOR = re.compile(r"\w[\w .@-]{0,59}")


def _example(landmark: KeptLandmark, images: ImageFolder | None = None) -> dict[str, Any]:
    """A landmark that carries a label: its id, its name, whether there is an image of it, and its page."""
    image = bool(images and images.find(landmark.landmark_id))
    name, link = landmark_name(landmark.category), _link(landmark.category)
    return {"landmark": landmark.landmark_id, "name": name, "image": image, "link": link}


def _link(category: str) -> str:
    """The page of a landmark's category on Commons, or of its item of Wikidata; empty where its cell names neither."""
    try:
        key = landmark_key(category)
    except CategoryError:
        return ""
    on_commons = key.startswith(PREFIX)
    return f"https://commons.wikimedia.org{page_path(key)}" if on_commons else f"https://www.wikidata.org/wiki/{key}"


def group_by_label(landmarks: Iterable[KeptLandmark]) -> dict[str, list[KeptLandmark]]:
    """The landmarks of each label, in the order given."""
    of_label: defaultdict[str, list[KeptLandmark]] = defaultdict(list)
    for landmark in landmarks:
        for label in landmark.labels:
            of_label[label].append(landmark)
    return of_label


def examples(landmarks: Sequence[KeptLandmark], images: ImageFolder | None = None) -> list[dict[str, Any]]:
    """Up to six of the first landmarks of a label, those with an image first."""
    candidates = (_example(landmark, images) for landmark in landmarks[:LOOKED_AT])
    return sorted(candidates, key=lambda example: not example["image"])[:SHOWN]


class PostedAction(StrictModel):
    """A request of the page: an action, and the last event that the page knows."""

    seq: Number
    action: PostedRequest


@dataclass(frozen=True)
class Review:
    """The data behind the server."""

    session: Session  # the annotator's
    landmarks: Mapping[str, list[KeptLandmark]]  # of each label
    images: ImageFolder | None = None  # the landmarks' images, if there are any
    adjudication: Adjudication | None = None  # the two reviews to decide between, if there are

    async def everything(self, _: Request) -> Response:
        """All clusters and labels: what the page begins with."""
        news = await run_in_threadpool(self.session.news, 0)
        clusters = {number: cluster.as_json() for number, cluster in news.history.state.clusters.items()}
        return JSONResponse({**self._unchanging(), **_news_json(news), "groups": clusters, "messages": []})

    async def news(self, request: Request) -> Response:
        """What happened since an event."""
        seq = number_of(request, "since", limit=1 << 31, default="")
        return JSONResponse(_news_json(await run_in_threadpool(self.session.news, seq)))

    async def act(self, request: Request) -> Response:
        """Do something; 409 and the news if the page was not up to date, 422 and the reason if it cannot be done."""
        if request.headers.get("content-type") != "application/json":
            raise HTTPException(415, "expected application/json")
        try:
            posted = PostedAction.model_validate_json(await _body(request))
        except ValidationError as error:
            raise HTTPException(400, first_complaint(error)) from None
        try:
            return JSONResponse(_news_json(await run_in_threadpool(self.session.act, posted.action, seq=posted.seq)))
        except ReviewConflictError as error:
            news = await run_in_threadpool(self.session.news, posted.seq)
            return JSONResponse({"error": str(error), "news": _news_json(news)}, 409)

    async def listed(self, request: Request) -> Response:
        """The landmarks of a label, at most 2,000, and how many it has."""
        landmarks = self.landmarks.get(request.query_params.get("label", ""), [])
        return JSONResponse({"of": len(landmarks), "landmarks": list(map(_example, landmarks[:MOST_LISTED]))})

    async def image(self, request: Request) -> Response:
        """A small image of a landmark."""
        path = self.images and self.images.find(request.query_params.get("landmark", ""))
        return image_response(await run_in_threadpool(thumbnail, path) if path else None)

    @cached_property
    def _examples(self) -> dict[str, list[dict[str, Any]]]:
        return {label: examples(landmarks, self.images) for label, landmarks in self.landmarks.items()}

    def _unchanging(self) -> dict[str, Any]:
        clusters = self.session.proposal.clusters
        numbers = {cluster.name: number for number, cluster in enumerate(clusters)}
        return {
            "annotator": self.session.annotator,
            "log": str(self.session.log.path),
            "notices": self.session.log.notices,
            "labels": {
                place.label: {
                    "landmarks": place.landmarks,
                    "doubt": place.doubt,
                    "hypernyms": place.hypernyms,
                    "target": numbers.get(place.target),
                    "examples": self._examples.get(place.label, []),
                }
                for cluster in clusters
                for place in cluster.labels
            },
            "doubts": [cluster.doubt for cluster in clusters],
            "adjudication": self.adjudication and self.adjudication.as_json(),
        }


def review_app(review: Review, *, token: str, port: int) -> ASGIApp:
    """The application behind its guard."""
    routes = [
        Route("/api/review", review.everything),
        Route("/api/news", review.news),
        Route("/api/act", review.act, methods=["POST"]),
        Route("/api/landmarks", review.listed),
        Route("/images", review.image),
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
    return JSONResponse({"error": f"the log could not be written, so nothing was done: {error}"}, 507)


def open_review(
    clusters_path: AnyPath,
    *,
    annotator: str,
    log: AnyPath | None = None,
    images: ImageFolder | None = None,
    adjudicate: tuple[AnyPath, AnyPath] | None = None,
    accept_targets: bool = False,
    encoder: TextEncoder | None = None,
) -> Review:
    """Open a review for the server; a new one may begin by accepting the clusters proposed for labels in doubt."""
    if not _ANNOTATOR.fullmatch(annotator):
        raise OptionError(f"annotator {annotator!r}", expected="a name of letters, digits, spaces and -.@_")
    if accept_targets and adjudicate:
        raise OptionError(
            "accept_targets with adjudicate", expected="one of them: an adjudication begins with a review"
        )
    proposal = read_proposal(clusters_path)
    landmark_table = Path(clusters_path) / LANDMARKS
    landmarks = group_by_label(read_kept(landmark_table) if landmark_table.is_file() else [])
    two = tuple(replayed(proposal, path)[0] for path in adjudicate or ())
    session = Session(proposal, log or default_log(clusters_path, annotator), annotator, encoder=encoder)
    adjudication = compare(*two) if two else None
    if adjudication:
        adjudication.begin(session)
    if accept_targets:
        session.accept_targets()
    return Review(session, landmarks, images, adjudication)


def default_log(clusters_path: AnyPath, annotator: str) -> Path:
    """Beside the folder, not in it: a folder made anew takes no review with it."""
    folder = Path(clusters_path).resolve() if Path(clusters_path).name in ("", ".", "..") else Path(clusters_path)
    return folder.with_name(f"{folder.name}-review-{annotator}.jsonl")


def serve(review: Review, *, port: int = 0, open_browser: bool = True, say: Callable[[str], object] = print) -> None:
    """Show a review on 127.0.0.1 until Ctrl-C."""
    log = review.session.log

    def announce(url: str) -> None:
        for notice in log.notices:
            say(notice)
        say(f"Review of {review.session.annotator}, kept in {log.path}: {url}")
        say("Ctrl-C ends it; every action is on the disk already.")
        threading.Thread(target=load_two_means, daemon=True).start()

    serve_until_interrupted(partial(review_app, review), announce=announce, port=port, open_browser=open_browser)
    say(f"{log.path} holds {review.session.news(0).history.seq} events")


def served(review: Review) -> AbstractContextManager[str]:
    """The address of a review that is served in the background, until the block ends."""
    return served_in_background(partial(review_app, review))
