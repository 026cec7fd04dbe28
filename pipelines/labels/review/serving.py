"""``hiertree labels review``: the server of one annotator, until Ctrl-C."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from hiertree.errors import OptionError

from ...local_pages.serving import serve_until_interrupted, served_in_background
from ..clean.landmark_file import LANDMARKS, read_kept
from ..cluster.proposal_file import read_proposal
from ..encode.text_encoders import TextEncoder
from ..fill.image_folder import ImageFolder
from ..folders import AnyPath
from .adjudication import Adjudication
from .examples import examples
from .reviewing import replayed
from .server import Review, review_app
from .session import Session
from .splitting import load_two_means

_ANNOTATOR = re.compile(r"\w[\w .@-]{0,59}")


def open_review(
    clustered: AnyPath,
    *,
    annotator: str,
    log: AnyPath | None = None,
    images: ImageFolder | None = None,
    adjudicate: tuple[AnyPath, AnyPath] | None = None,
    encoder: TextEncoder | None = None,
) -> Review:
    """Make a review ready to be shown.

    Args:
        clustered: a folder that ``hiertree labels cluster`` made.
        annotator: who reviews.
        log: the log; default :func:`default_log`.
        images: the landmarks' images.
        adjudicate: the logs of two annotators to decide between.
        encoder: for 2-means; default :class:`hiertree.pipelines.labels.PlaceNounEncoder`.

    Raises:
        OptionError: an annotator's name that is none.
        TableError: a proposal that cannot be read.
        ReviewError: a log that cannot be used.
    """
    if not _ANNOTATOR.fullmatch(annotator):
        raise OptionError(f"annotator {annotator!r}", expected="a name of letters, digits, spaces and -.@_")
    proposal = read_proposal(clustered)
    listed = Path(clustered) / LANDMARKS
    shown = examples(read_kept(listed) if listed.is_file() else [], images)
    two = tuple(replayed(proposal, path) for path in adjudicate or ())
    session = Session(proposal, log or default_log(clustered, annotator), annotator, encoder=encoder)
    adjudication = Adjudication.of(*two) if two else None
    if adjudication:
        adjudication.begin(session)
    return Review(session, shown, images, adjudication)


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
