"""The append-only log: JSON lines, a header and then an event a line (folded here), and the state to which it leads.

::

    {"format": "hiertree-review-1", "proposal": "<digest>", "annotator": "anna", "time": "2025-01-31T09:00:00+00:00"}
    {"seq": 1, "time": "…", "annotator": "anna", "base": "<digest>",
     "action": {"do": "rename", "cluster": 3, "name": "lake"}}

A history is a fold over a log, with undo and redo. Replaying never computes anything: a sample wrote down which labels
were drawn. Each event carries the digest of the state it was made in, so that a log which lost or
gained a line, or belongs to another proposal, is refused at the first line that does not fit.

A process that dies while it writes leaves a last line without its end. What is whole of it is kept; the rest is *torn*:
never acknowledged, set aside in a file beside the log. Damage anywhere else is an error that names the line.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, TypeVar

from pydantic import Field, ValidationError

from hiertree.errors import ReviewError
from hiertree.io.files import AnyPath, locked_file
from hiertree.io.reading import Complaint, reading_file

from ...settings import first_complaint
from ..cluster.proposing import Proposal
from .actions import (
    Accept,
    Action,
    Approve,
    Check,
    Comment,
    MarkEither,
    MarkLabels,
    Merge,
    Move,
    Rename,
    Sample,
    SetAbove,
    SetKind,
    Split,
    StrictModel,
)
from .state import Change, State, initial_state

LOCK_SECONDS, BOM = 10.0, b"\xef\xbb\xbf"
LOG_EXPECTED: Complaint = {"expected": "the log of a review", "kind": ReviewError}
Line = TypeVar("Line", bound=StrictModel)


class Undo(StrictModel):
    """Take back the last action that is not yet undone."""

    do: Literal["undo"] = "undo"


class Redo(StrictModel):
    """Redo the last undone action."""

    do: Literal["redo"] = "redo"


ClusterAction: TypeAlias = Rename | Merge | SetKind | SetAbove | Approve | Comment
LabelAction: TypeAlias = Move | MarkLabels | MarkEither | Check | Accept
LogAction: TypeAlias = Annotated[ClusterAction | LabelAction | Split | Sample | Undo | Redo, Field(discriminator="do")]


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

    @classmethod
    def beginning(cls, state: State, *, annotator: str) -> History:
        """The history before the first action."""
        return cls(annotator, state, 0)

    def apply(self, action: Action | Undo | Redo) -> History:
        """The history with one more event."""
        match action:
            case Undo():
                change = _last(self.done, "undo")
                return self._record(change.backwards, self.done[:-1], (*self.undone, change))
            case Redo():
                change = _last(self.undone, "redo")
                redone_change = replace(change, message=f"Done again: {change.message}")
                return self._record(redone_change, (*self.done, change), self.undone[:-1])
            case _:
                change = action.change(self.state)
                if set(change.before) == set(change.after):
                    raise ReviewError("that changes nothing", expected="a change")
                return self._record(change, (*self.done, change), ())

    def _record(self, change: Change, done: tuple[Change, ...], undone: tuple[Change, ...]) -> History:
        state = self.state.changed(change)
        return History(self.annotator, state, self.seq + 1, done, undone, change.message, change.numbers)


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


class Header(StrictModel):
    """The first line: of which proposal (the digest of its state), by whom, since when."""

    format: Literal["hiertree-review-1"] = "hiertree-review-1"
    proposal: str
    annotator: str
    time: str


class LogFile:
    """A log that is written to, perhaps by several processes: whoever writes holds its lock and has read all of it."""

    def __init__(self, path: AnyPath, header: Header) -> None:
        self.path = Path(path)
        self.notices: list[str] = []
        self._offset = self._line = 0
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.locked():
            self.path.touch()
            lines = self._new_lines(limit=1)
            if lines:
                self._check(_parsed(Header, lines[0], str(self.path), 1), header)
            else:
                self.append(header)

    def locked(self) -> AbstractContextManager[None]:
        """A block in which no other process writes."""
        return locked_file(self.path, seconds=LOCK_SECONDS)

    def new_events(self) -> tuple[Event, ...]:
        """Events not yet read; call this under the lock."""
        line = self._line + 1
        return _events(self._new_lines(), str(self.path), line)

    def append(self, line: Header | Event) -> None:
        """Append a line and flush it to disk; call this under the lock, after reading all events."""
        encoded = line.model_dump_json().encode() + b"\n"
        _append(self.path, encoded)
        self._offset += len(encoded)
        self._line += 1

    def _new_lines(self, *, limit: int | None = None) -> list[bytes]:
        size = self.path.stat().st_size
        if size < self._offset:
            raise ReviewError(f"{self.path} became shorter", expected="a log that only grows", remedy="start again")
        with reading_file(self.path, **LOG_EXPECTED), self.path.open("rb") as file:
            file.seek(self._offset)
            block = file.read(size - self._offset)
        lines, torn = _lines(block)
        if torn:
            self._set_aside(torn, size - len(torn))
        elif block and not block.endswith(b"\n"):
            _append(self.path, b"\n")
        lines = lines[:limit]
        self._offset += sum(len(line) + 1 for line in lines)
        self._line += len(lines)
        return lines

    def _set_aside(self, torn: bytes, whole_size: int) -> None:
        torn_file = self.path.with_name(f"{self.path.name}.torn")
        _append(torn_file, torn + b"\n")
        os.truncate(self.path, whole_size)
        notice = f"its last line was incomplete and never acknowledged: {len(torn)} bytes moved to {torn_file.name}"
        self.notices.append(f"{self.path} {notice}")

    def _check(self, header: Header, expected: Header) -> None:
        if header.proposal != expected.proposal:
            raise ReviewError(f"{self.path} reviews another proposal", remedy="name another --log")
        if header.annotator != expected.annotator:
            problem = f"{self.path} is {header.annotator}'s, not {expected.annotator}'s"
            raise ReviewError(problem, remedy="name another --log")


def _lines(block: bytes) -> tuple[list[bytes], bytes]:
    """The complete lines, without line ends, and an incomplete rest."""
    *lines, last = block.split(b"\n")
    return ([*lines, last], b"") if _is_object(last) else (lines, last)


def _is_object(line: bytes) -> bool:
    """Whether a line without line end is complete: it parses as a JSON object."""
    try:
        return isinstance(json.loads(line.removeprefix(BOM)), dict)
    except (ValueError, RecursionError):
        return False


def _events(lines: list[bytes], source: str, first: int) -> tuple[Event, ...]:
    return tuple(_parsed(Event, line, source, line_number) for line_number, line in enumerate(lines, first))


def _parsed(model: type[Line], line: bytes, source: str, line_number: int) -> Line:
    try:
        return model.model_validate_json(line.removeprefix(BOM) if line_number == 1 else line)
    except ValidationError as error:
        problem = f"{source}, line {line_number}: {first_complaint(error)}"
        remedy = "only its last line may be cut short; restore the log from a copy"
        raise ReviewError(problem, expected="a line of a review log", remedy=remedy) from None


def _append(path: Path, block: bytes) -> None:
    """Write at the end of a file and wait for the disk; on an error the file is as before."""
    size = path.stat().st_size if path.exists() else 0
    try:
        with path.open("ab", buffering=0) as file:
            if file.write(block) != len(block):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            os.fsync(file.fileno())
    except OSError:
        os.truncate(path, size)
        raise


def replayed(proposal: Proposal, log: AnyPath) -> tuple[History, bytes]:
    """The history that a log leads to from a proposal, and a line at its end that was cut short; the log stays."""
    with reading_file(log, **LOG_EXPECTED):
        lines, torn = _lines(Path(log).read_bytes())
    if not lines:
        raise ReviewError(f"{log} holds no complete line", expected="the log of a review")
    header, state = _parsed(Header, lines[0], str(log), 1), initial_state(proposal)
    events = _events(lines[1:], str(log), 2)
    if header.proposal != state.digest:
        raise ReviewError(f"{log} reviews another proposal", expected="the log of a review of this one")
    return replay(History.beginning(state, annotator=header.annotator), events, source=str(log)), torn
