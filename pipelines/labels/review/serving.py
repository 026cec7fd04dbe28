"""``hiertree labels review``: an annotator's session, the page and the server behind it, until Ctrl-C."""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import Field, ValidationError
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
from ..cluster.proposing import Proposal
from ..landmark_images import ImageFolder
from ..landmarks import LANDMARKS, KeptLandmark, read_kept
from ..texts import PREFIX, landmark_key, landmark_name, page_path
from .actions import Number, Sample, Split, StrictModel
from .log_file import ClusterAction, Event, Header, History, LabelAction, LogAction, LogFile, Redo, Undo, replay
from .results import read_outcome, write_review_table
from .sampling import draw, features, next_sample, refit, sample_result
from .state import ReviewCluster, initial_state

PostedRequest: TypeAlias = Annotated[ClusterAction | LabelAction | Split | Undo | Redo, Field(discriminator="do")]


def utc_now() -> str:
    """The time as logs write it."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


@dataclass(frozen=True)
class News:
    """The changes since an event."""

    history: History  # where things stand
    clusters: Mapping[int, ReviewCluster | None]  # the clusters touched since, None for those that are gone
    messages: tuple[str, ...]  # what was done, one sentence per event


class Session:
    """A review that goes on in a log."""

    def __init__(self, proposal: Proposal, log: AnyPath, annotator: str, *, clock: Callable[[], str] = utc_now) -> None:
        self.proposal, self.annotator, self._clock = proposal, annotator, clock
        self._threads = threading.Lock()
        state = initial_state(proposal)
        self._history = History.beginning(state, annotator=annotator)
        self._touched: list[tuple[str, frozenset[int]]] = []
        self.log = LogFile(log, Header(proposal=state.digest, annotator=annotator, time=clock()))
        self.news(0)

    def draw_sample(self, size: int | None = None) -> None:
        """Draw certain labels to be checked, if there are any."""
        history = self.news(0).history
        labels = draw(self.proposal, history.state, seed=int(history.state.digest, 16), size=size)
        if labels:
            self.act(Sample(labels=labels), seq=history.seq)

    def act(self, request: LogAction, *, seq: int) -> News:
        """Perform an action, log it, and return the change."""
        with self._threads, self.log.locked():
            self._catch_up()
            history = self._history
            if seq != history.seq:
                problem = f"an action on event {seq}, but the log is at event {history.seq}"
                raise ReviewConflictError(problem, remedy="look at what changed, then do it again")
            self._record(request)
            state = self._history.state
            is_verdict = not isinstance(request, Sample | Undo | Redo)
            if is_verdict and (sample := next_sample(self.proposal, state, seed=int(state.digest, 16))):
                self._record(sample)
            return self._since(seq)

    def _record(self, action: LogAction) -> None:
        history = self._history
        next_history, base = history.apply(action), history.state.digest
        event = Event(seq=next_history.seq, time=self._clock(), annotator=self.annotator, base=base, action=action)
        self.log.append(event)
        self._arrive(next_history)

    def news(self, seq: int) -> News:
        """The changes since an event, made by this server or another."""
        with self._threads, self.log.locked():
            self._catch_up()
            return self._since(seq)

    def _catch_up(self) -> None:
        for event in self.log.new_events():
            self._arrive(replay(self._history, [event], source=str(self.log.path)))

    def _arrive(self, history: History) -> None:
        self._history = history
        self._touched.append((history.message, history.touched))

    def _since(self, seq: int) -> News:
        recent = self._touched[max(seq, 0) :]
        clusters = self._history.state.clusters
        touched = sorted(frozenset().union(*(cluster_ids for _, cluster_ids in recent)))
        changed = {cluster_id: clusters.get(cluster_id) for cluster_id in touched}
        return News(self._history, changed, tuple(message for message, _ in recent))


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
    return sorted((_example(each, images) for each in landmarks[:LOOKED_AT]), key=lambda one: not one["image"])[:SHOWN]


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

    async def everything(self, _: Request) -> Response:
        """All clusters and labels: what the page begins with."""
        news = await run_in_threadpool(self.session.news, 0)
        clusters = {cluster_id: cluster.as_json() for cluster_id, cluster in news.history.state.clusters.items()}
        return JSONResponse({**self._unchanging(), **self._news_json(news), "groups": clusters, "messages": []})

    def _news_json(self, news: News) -> dict[str, Any]:
        history = news.history
        sample = sample_result(self.session.proposal, history.state)
        return {
            "seq": history.seq,
            "groups": {cluster_id: cluster and cluster.as_json() for cluster_id, cluster in news.clusters.items()},
            "messages": news.messages,
            "sample": str(sample) if sample.size else "",
            "undo": history.done[-1].message if history.done else None,
            "redo": history.undone[-1].message if history.undone else None,
        }

    async def news(self, request: Request) -> Response:
        """What happened since an event."""
        seq = number_of(request, "since", limit=1 << 31, default="")
        return JSONResponse(self._news_json(await run_in_threadpool(self.session.news, seq)))

    async def act(self, request: Request) -> Response:
        """Do something; 409 and the news if the page was not up to date, 422 and the reason if it cannot be done."""
        if request.headers.get("content-type") != "application/json":
            raise HTTPException(415, "expected application/json")
        try:
            posted = PostedAction.model_validate_json(await _body(request))
        except ValidationError as error:
            raise HTTPException(400, first_complaint(error)) from None
        try:
            return JSONResponse(
                self._news_json(await run_in_threadpool(self.session.act, posted.action, seq=posted.seq))
            )
        except ReviewConflictError as error:
            news = await run_in_threadpool(self.session.news, posted.seq)
            return JSONResponse({"error": str(error), "news": self._news_json(news)}, 409)

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
        index_of = {cluster.name: index for index, cluster in enumerate(clusters)}
        wrong = refit(features(self.session.proposal), {})
        return {
            "annotator": self.session.annotator,
            "log": str(self.session.log.path),
            "notices": self.session.log.notices,
            "labels": {
                member.label: {
                    "landmarks": member.landmarks,
                    "doubt": member.doubt,
                    "hypernyms": member.hypernyms,
                    "target": index_of.get(member.target),
                    "wrong": round(wrong[member.label], 4),  # how probably
                    "examples": self._examples.get(member.label, []),
                }
                for cluster in clusters
                for member in cluster.labels
            },
            "doubts": [cluster.doubt for cluster in clusters],
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
    sample: int | None = None,
) -> Review:
    """Open a review for the server.

    A new one begins with a sample of the certain labels.
    """
    if not _ANNOTATOR.fullmatch(annotator):
        raise OptionError(f"annotator {annotator!r}", expected="a name of letters, digits, spaces and -.@_")
    proposal = read_proposal(clusters_path)
    landmark_table = Path(clusters_path) / LANDMARKS
    landmarks = group_by_label(read_kept(landmark_table) if landmark_table.is_file() else [])
    session = Session(proposal, log or default_log(clusters_path, annotator), annotator)
    is_new = session.news(0).history.seq == 0
    if is_new and sample != 0:
        session.draw_sample(sample)
    return Review(session, landmarks, images)


def write_table_of(
    clusters_path: AnyPath, table: AnyPath, *, log: AnyPath | None = None, sample: int | None = None
) -> str:
    """Write the table of labels that people edit instead of using the page, and say what it holds."""
    proposal = read_proposal(clusters_path)
    state = initial_state(proposal) if log is None else read_outcome(proposal, log).state
    if sample != 0 and not state.marked("sampled"):
        drawn = Sample(labels=draw(proposal, state, seed=int(state.digest, 16), size=sample))
        state = state.changed(drawn.change(state))
    of_label = group_by_label(read_kept(Path(clusters_path) / LANDMARKS))
    names = {label: landmark_name(landmarks[0].category) for label, landmarks in of_label.items()}
    write_review_table(table, proposal, state, names)
    return f"{len(state.labels)} labels in {table}; {len(state.marked('sampled'))} certain ones to check stand first"


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

    serve_until_interrupted(partial(review_app, review), announce=announce, port=port, open_browser=open_browser)
    say(f"{log.path} holds {review.session.news(0).history.seq} events")


def served(review: Review) -> AbstractContextManager[str]:
    """The address of a review that is served in the background, until the block ends."""
    return served_in_background(partial(review_app, review))
