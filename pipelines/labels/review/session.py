"""One annotator at work: the state, the log it is kept in, and what other tabs and servers did meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

from hiertree.errors import ReviewConflictError

from ..cluster.proposing import Proposal
from ..encode.place_noun_encoder import PlaceNounEncoder
from ..encode.text_encoders import TextEncoder
from ..folders import AnyPath
from .history import Event, History, replay
from .log_file import Header, LogFile
from .splitting import AnyRequest, SplitRequest
from .state import ReviewCluster, initial_state


def utc_now() -> str:
    """The time as logs write it."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


@dataclass(frozen=True)
class News:
    """What happened since an event.

    Attributes:
        history: where things stand.
        clusters: the clusters touched since, None for those that are gone.
        messages: what was done, one sentence per event.
    """

    history: History
    clusters: Mapping[int, ReviewCluster | None]
    messages: tuple[str, ...]


class Session:
    """A review that goes on in a log.

    Args:
        proposal: what is reviewed.
        log: path of the log; made, or gone on with.
        annotator: whose log it is.
        encoder: for 2-means; default :class:`PlaceNounEncoder`.
        clock: the time as text, injected in tests.

    Raises:
        ReviewError: the log is damaged, or of another proposal or annotator.
    """

    def __init__(
        self,
        proposal: Proposal,
        log: AnyPath,
        annotator: str,
        *,
        encoder: TextEncoder | None = None,
        clock: Callable[[], str] = utc_now,
    ) -> None:
        self.proposal, self.annotator = proposal, annotator
        self._encoder, self._clock = encoder or PlaceNounEncoder(), clock
        self._counts = {place.label: place.landmarks for cluster in proposal.clusters for place in cluster.labels}
        self._threads = threading.Lock()
        state = initial_state(proposal)
        self._history = History.beginning(state, annotator=annotator)
        self._touched: list[tuple[str, frozenset[int]]] = []
        self.log = LogFile(log, Header(proposal=state.digest, annotator=annotator, time=clock()))
        self.news(0)

    def act(self, request: AnyRequest, *, seq: int) -> News:
        """Do something, write it down, and return what changed.

        Args:
            request: what to do.
            seq: the last event that the caller knows of.

        Raises:
            ReviewConflictError: there are later ones.
            ReviewError: it cannot be done.
            OSError: the log cannot be written; nothing was done.
        """
        with self._threads, self.log.locked():
            self._catch_up()
            if seq != self._history.seq:
                raise ReviewConflictError(
                    f"an action on event {seq}, but the log is at event {self._history.seq}",
                    expected="the latest state",
                    remedy="look at what changed, then do it again",
                )
            self._do(request)
            return self._since(seq)

    def news(self, since: int) -> News:
        """What happened since an event, in this server or in another.

        Raises:
            ReviewError: the log was damaged meanwhile.
        """
        with self._threads, self.log.locked():
            self._catch_up()
            return self._since(since)

    def _do(self, request: AnyRequest) -> None:
        before = self._history
        if isinstance(request, SplitRequest):
            request = request.resolved(before.state, self._counts, self._encoder)
        after = before.after(request)
        self.log.append(
            Event(seq=after.seq, time=self._clock(), annotator=self.annotator, base=before.state.digest, action=request)
        )
        self._arrive(after)

    def _catch_up(self) -> None:
        for event in self.log.new_events():
            self._arrive(replay(self._history, [event], source=str(self.log.path)))

    def _arrive(self, history: History) -> None:
        self._history = history
        self._touched.append((history.message, history.touched))

    def _since(self, seq: int) -> News:
        recent = self._touched[max(seq, 0) :]
        clusters = self._history.state.clusters
        touched = sorted(frozenset().union(*(numbers for _, numbers in recent)))
        return News(
            self._history, {number: clusters.get(number) for number in touched}, tuple(message for message, _ in recent)
        )
