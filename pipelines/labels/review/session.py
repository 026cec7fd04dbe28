"""One annotator at work: the state, the log it is kept in, and what other tabs and servers did meanwhile."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

from hiertree.errors import ReviewConflictError

from ..cluster.proposing import Proposal
from ..encode.text_encoders import TextEncoder
from ..encode.tfidf_encoder import TfidfEncoder
from .history import Adopt, Done, Event, History, Redo, Undo, replay
from .log_file import Header, LogFile
from .splitting import Halve, SplitOff, settled
from .state import Group, initial_state


def utc_now() -> str:
    """The time as logs write it."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


@dataclass(frozen=True)
class News:
    """What happened since an event.

    Attributes:
        history: where things stand.
        groups: the clusters touched since, None for those that are gone.
        told: what was done, a sentence an event.
    """

    history: History
    groups: Mapping[int, Group | None]
    told: tuple[str, ...]


class Session:
    """A review that goes on in a log.

    Args:
        proposal: what is reviewed.
        log: path of the log; made, or gone on with.
        annotator: whose log it is.
        encoder: for 2-means; default :class:`TfidfEncoder`.
        clock: the time as text, injected in tests.

    Raises:
        ReviewError: the log is damaged, or of another proposal or annotator.
    """

    def __init__(
        self,
        proposal: Proposal,
        log: str | os.PathLike[str],
        annotator: str,
        *,
        encoder: TextEncoder | None = None,
        clock: Callable[[], str] = utc_now,
    ) -> None:
        self.proposal, self.annotator = proposal, annotator
        self._encoder, self._clock = encoder or TfidfEncoder(), clock
        self._counts = {place.label: place.landmarks for cluster in proposal.clusters for place in cluster.labels}
        self._threads = threading.Lock()
        state = initial_state(proposal)
        self._history = History.beginning(state, annotator=annotator)
        self._touched: list[tuple[str, frozenset[int]]] = []
        self.log = LogFile(log, Header(proposal=state.digest, annotator=annotator, time=clock()))
        self.news(0)

    def act(self, wish: Done | Undo | Redo | Halve | SplitOff | Adopt, *, seq: int) -> News:
        """Do something, write it down, and tell what changed.

        Args:
            wish: what.
            seq: the last event that whoever asks knows of.

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
            self._do(wish)
            return self._since(seq)

    def news(self, since: int) -> News:
        """What happened since an event, in this server or in another.

        Raises:
            ReviewError: the log was damaged meanwhile.
        """
        with self._threads, self.log.locked():
            self._catch_up()
            return self._since(since)

    def _do(self, wish: Done | Undo | Redo | Halve | SplitOff | Adopt) -> None:
        before, action = self._history, self._settled(wish)
        after = before.after(action)
        self.log.append(
            Event(seq=after.seq, time=self._clock(), annotator=self.annotator, base=before.state.digest, action=action)
        )
        self._arrive(after)

    def _settled(self, wish: Done | Undo | Redo | Halve | SplitOff | Adopt) -> Done | Undo | Redo | Adopt:
        return wish if isinstance(wish, Adopt) else settled(wish, self._history.state, self._counts, self._encoder)

    def _catch_up(self) -> None:
        line, events = self.log.new_events()
        for number, event in enumerate(events, line):
            self._arrive(replay(self._history, [event], source=str(self.log.path), line=number))

    def _arrive(self, history: History) -> None:
        self._history = history
        self._touched.append((history.told, history.touched))

    def _since(self, seq: int) -> News:
        recent = self._touched[max(seq, 0) :]
        groups = self._history.state.groups
        touched = sorted(frozenset().union(*(numbers for _, numbers in recent)))
        return News(
            self._history, {number: groups.get(number) for number in touched}, tuple(told for told, _ in recent)
        )
