"""``hiertree labels review``: the server of one annotator, until Ctrl-C."""

from __future__ import annotations

import os
import re
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import uvicorn

from hiertree.errors import OptionError

from ..clean.landmark_file import LANDMARKS, read_kept
from ..cluster.proposal_file import read_proposal
from ..encode.text_encoders import TextEncoder
from ..fill.image_folder import ImageFolder
from .adjudication import Adjudication
from .examples import examples
from .reviewing import replayed
from .server import Review, review_app
from .session import Session
from .splitting import load_two_means

AnyPath = str | os.PathLike[str]
LOOPBACK = "127.0.0.1"
_ANNOTATOR = re.compile(r"\w[\w .@-]{0,59}")


def open_review(
    clustered: AnyPath,
    *,
    annotator: str,
    log: AnyPath | None = None,
    images: AnyPath | None = None,
    image_table: AnyPath | None = None,
    adjudicate: tuple[AnyPath, AnyPath] | None = None,
    encoder: TextEncoder | None = None,
) -> Review:
    """Make a review ready to be shown.

    Args:
        clustered: a folder that ``hiertree labels cluster`` made.
        annotator: who reviews.
        log: the log; default :func:`default_log`.
        images: a folder of the landmarks' images.
        image_table: which image shows which landmark, where the files bear the images' ids.
        adjudicate: the logs of two annotators to decide between.
        encoder: for 2-means; default :class:`hiertree.pipelines.labels.PlaceNounEncoder`.

    Raises:
        OptionError: an annotator's name that is none, or no such folder.
        TableError: a proposal or table that cannot be read.
        ReviewError: a log that cannot be used.
    """
    if not _ANNOTATOR.fullmatch(annotator):
        raise OptionError(f"annotator {annotator!r}", expected="a name of letters, digits, spaces and -.@_")
    if image_table is not None and images is None:
        raise OptionError("a table of images", expected="their folder as well", remedy="give --images")
    proposal = read_proposal(clustered)
    folder = ImageFolder(images, image_table) if images is not None else None
    listed = Path(clustered) / LANDMARKS
    shown = examples(read_kept(listed) if listed.is_file() else [], folder)
    two = tuple(replayed(proposal, path) for path in adjudicate or ())
    session = Session(proposal, log or default_log(clustered, annotator), annotator, encoder=encoder)
    adjudication = Adjudication.of(*two) if two else None
    if adjudication:
        adjudication.begin(session)
    return Review(session, shown, folder, adjudication)


def default_log(clustered: AnyPath, annotator: str) -> Path:
    """Beside the folder, not in it: a folder made anew takes no review with it.

    >>> default_log("work/washington", "anna").as_posix()
    'work/washington-review-anna.jsonl'
    """
    folder = Path(clustered).resolve() if Path(clustered).name in ("", ".", "..") else Path(clustered)
    return folder.with_name(f"{folder.name}-review-{annotator}.jsonl")


def serve(review: Review, *, port: int = 0, open_browser: bool = True, say: Callable[[str], object] = print) -> None:
    """Show a review on 127.0.0.1 until Ctrl-C.

    Args:
        review: from :func:`open_review`.
        port: 0 for any that is free.
        open_browser: whether to open the page.
        say: prints the address, and what was found or done.

    Raises:
        OptionError: the port is taken.
    """
    log = review.session.log
    with listening(port) as listener:
        server, url = _server(review, listener)
        for notice in log.notices:
            say(notice)
        say(f"Review of {review.session.annotator}, kept in {log.path}: {url}")
        say("Ctrl-C ends it; every action is on the disk already.")
        threading.Thread(target=load_two_means, daemon=True).start()
        if open_browser:
            webbrowser.open(url)
        with suppress(KeyboardInterrupt):  # uvicorn shuts down, then passes it on
            server.run(sockets=[listener])
    say(f"{log.path} holds {review.session.news(0).history.seq} events")


@contextmanager
def served(review: Review) -> Iterator[str]:
    """The address of a review that is served in the background, until the block ends."""
    with listening(0) as listener:
        server, url = _server(review, listener)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield url
        finally:
            server.should_exit = True
            thread.join()


def _server(review: Review, listener: socket.socket) -> tuple[uvicorn.Server, str]:
    """A quiet server that speaks HTTP alone and ends within two seconds, and the address with its token."""
    token, port = secrets.token_urlsafe(24), listener.getsockname()[1]
    settings = uvicorn.Config(
        review_app(review, token=token, port=port),
        http="h11",
        ws="none",
        loop="asyncio",
        lifespan="off",
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    return uvicorn.Server(settings), f"http://{LOOPBACK}:{port}/?token={token}"


def listening(port: int) -> socket.socket:
    """A socket that listens on 127.0.0.1.

    Raises:
        OptionError: the port is taken, or not ours to take.
    """
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        raise OptionError(f"port {port}: {error.strerror}", expected="a free one", remedy="leave out --port") from None
