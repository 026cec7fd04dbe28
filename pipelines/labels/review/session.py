"""An annotator's session: the state, its log, and changes made in other tabs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Annotated, TypeAlias

from pydantic import Field

from hiertree.errors import ReviewConflictError
from hiertree.io.files import AnyPath

from ..cluster.proposing import Proposal
from .actions import Sample, Split
from .log_file import ClusterAction, Event, Header, History, LabelAction, LogAction, LogFile, Redo, Undo, replay
from .sampling import draw, next_sample
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
