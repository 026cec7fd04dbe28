"""Events and the state they lead to: a fold over a log, with undo and redo.

Replaying never computes anything: 2-means wrote down which labels left, adjudication which clusters it began from. Each
event carries the digest of the state it was made in, so that a log which lost or gained a line, or belongs to another
proposal, is refused at the first line that does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from hiertree.errors import ReviewError

from .actions import (
    Accept,
    Action,
    Approve,
    Comment,
    Kind,
    MarkEither,
    MarkLabels,
    Merge,
    Move,
    Number,
    Rename,
    SetAbove,
    SetKind,
    Settle,
    Split,
    StrictModel,
)
from .state import Change, ReviewCluster, State


class Undo(StrictModel):
    """Take back the last action that is not yet undone."""

    do: Literal["undo"] = "undo"


class Redo(StrictModel):
    """Redo the last undone action."""

    do: Literal["redo"] = "redo"


class AdoptedCluster(StrictModel):
    """A cluster in the final state of another log."""

    number: Number
    name: str
    kind: Kind
    labels: tuple[str, ...]
    above: tuple[str, ...]
    irrelevant: tuple[str, ...]
    either: tuple[str, ...] = ()

    def cluster(self) -> ReviewCluster:
        """The cluster as one under review."""
        sets = {name: frozenset(getattr(self, name)) for name in ("labels", "irrelevant", "either")}
        return ReviewCluster(**{**dict(self), **sets})


class LogVersion(StrictModel):
    """A log at some time: its annotator, how many events it held, and the digest of the state they led to."""

    annotator: str
    events: int
    digest: str


class Adopt(StrictModel):
    """Begin an adjudication with the clusters of the first of two annotators; cannot be undone."""

    do: Literal["adopt"] = "adopt"
    sources: tuple[LogVersion, LogVersion]
    groups: tuple[AdoptedCluster, ...]  # the name that logs use for clusters

    def change(self, state: State) -> Change:
        """The change that replaces all clusters."""
        adopted_labels = [label for cluster in self.groups for label in cluster.labels]
        if len(adopted_labels) != len(set(adopted_labels)) or set(adopted_labels) != state.labels:
            raise ReviewError("adopted clusters with other labels", expected="every label of the proposal once")
        names = " and ".join(source.annotator for source in self.sources)
        new_clusters = tuple(map(AdoptedCluster.cluster, self.groups))
        return Change(tuple(state.clusters.values()), new_clusters, f"Began to adjudicate {names}")


ClusterAction: TypeAlias = Rename | Merge | SetKind | SetAbove | Approve | Comment
LabelAction: TypeAlias = Move | MarkLabels | MarkEither | Accept | Settle
LogAction: TypeAlias = Annotated[ClusterAction | LabelAction | Split | Undo | Redo | Adopt, Field(discriminator="do")]


class Event(StrictModel):
    """A line of the log."""

    seq: Annotated[int, Field(ge=1)]  # its number, from 1
    time: str  # UTC, ISO 8601
    annotator: str  # who did it
    base: str  # the digest of the state before it
    action: LogAction  # what was done


@dataclass(frozen=True)
class History:
    """A state, and the steps that can be undone and redone."""

    annotator: str  # whose log it is
    state: State  # the clusters now
    seq: int  # the number of the last event
    done: tuple[Change, ...] = ()  # what can be undone, the latest last
    undone: tuple[Change, ...] = ()  # what can be redone, the next last
    message: str = ""  # what the last event did, in words
    touched: frozenset[int] = frozenset()  # the clusters it changed
    sources: tuple[LogVersion, ...] = ()  # the two logs that are adjudicated, or none

    @classmethod
    def beginning(cls, state: State, *, annotator: str) -> History:
        """The history before the first action."""
        return cls(annotator, state, 0)

    def apply(self, action: Action | Undo | Redo | Adopt) -> History:
        """The history with one more event."""
        match action:
            case Undo():
                change = _last(self.done, "undo")
                return self._record(change.backwards, self.done[:-1], (*self.undone, change))
            case Redo():
                change = _last(self.undone, "redo")
                redone_change = replace(change, message=f"Done again: {change.message}")
                return self._record(redone_change, (*self.done, change), self.undone[:-1])
            case Adopt():
                if self.seq:
                    raise ReviewError("an adjudication begun within a log", expected="only at its first line")
                return replace(self._record(action.change(self.state), (), ()), sources=action.sources)
            case _:
                change = action.change(self.state)
                if set(change.before) == set(change.after):
                    raise ReviewError("that changes nothing", expected="a change")
                return self._record(change, (*self.done, change), ())

    def _record(self, change: Change, done: tuple[Change, ...], undone: tuple[Change, ...]) -> History:
        state = self.state.changed(change)
        return History(self.annotator, state, self.seq + 1, done, undone, change.message, change.numbers, self.sources)


def replay(history: History, events: Iterable[Event], *, source: str) -> History:
    """Apply events in order."""
    for event in events:
        position = f"{source}, line {history.seq + 2}"  # the first line is the header
        if event.seq != history.seq + 1:
            raise ReviewError(f"{position}: event {event.seq}", expected=f"event {history.seq + 1}")
        if event.base != history.state.digest:
            expected = f"{history.state.digest}, to which the proposal and the lines before it lead"
            remedy = "the log was edited, or is of another proposal"
            raise ReviewError(f"{position}: made in state {event.base}", expected=expected, remedy=remedy)
        try:
            history = history.apply(event.action)
        except ReviewError as error:
            raise ReviewError(f"{position}: {error}") from None
    return history


def _last(steps: tuple[Change, ...], verb: str) -> Change:
    if not steps:
        raise ReviewError(f"nothing to {verb}", expected="an action before it")
    return steps[-1]
