"""The append-only log: JSON lines, a header and then an event a line (folded here), and where it leads.

::

    {"format": "hiertree-review-1", "proposal": "<digest>", "annotator": "anna", "time": "2025-01-31T09:00:00+00:00"}
    {"seq": 1, "time": "…", "annotator": "anna", "base": "<digest>",
     "action": {"do": "rename", "cluster": 3, "name": "lake"}}

A process that dies while it writes leaves a last line without its end. What is whole of it is kept; the rest is *torn*:
never acknowledged, set aside in a file beside the log. Damage anywhere else is an error that names the line.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import ValidationError

from hiertree.errors import ReviewError
from hiertree.io.files import AnyPath, locked_file
from hiertree.io.reading import Complaint, reading_file

from ...settings import first_complaint
from ..cluster.proposal_files import check_proposal, read_proposal
from ..cluster.proposing import Cluster, LabelPlace, Proposal
from .actions import StrictModel
from .history import Event, History, replay
from .state import ReviewCluster, State, initial_state

LOCK_SECONDS = 10.0
_LOG: Complaint = {"expected": "the log of a review", "kind": ReviewError}
Line = TypeVar("Line", bound=StrictModel)


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
        content = line.model_dump_json().encode() + b"\n"
        _append(self.path, content)
        self._offset += len(content)
        self._line += 1

    def _new_lines(self, *, limit: int | None = None) -> list[bytes]:
        size = self.path.stat().st_size
        if size < self._offset:
            raise ReviewError(f"{self.path} became shorter", expected="a log that only grows", remedy="start again")
        with reading_file(self.path, **_LOG), self.path.open("rb") as file:
            file.seek(self._offset)
            content = file.read(size - self._offset)
        lines, torn = _lines(content)
        if torn:
            self._set_aside(torn, size - len(torn))
        elif content and not content.endswith(b"\n"):
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


def _lines(content: bytes) -> tuple[list[bytes], bytes]:
    """The complete lines, without line ends, and an incomplete rest."""
    *lines, last = content.split(b"\n")
    return ([*lines, last], b"") if _is_object(last) else (lines, last)


def _is_object(line: bytes) -> bool:
    """Whether a line without line end is complete: it parses as a JSON object."""
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _events(lines: list[bytes], source: str, first: int) -> tuple[Event, ...]:
    return tuple(_parsed(Event, line, source, number) for number, line in enumerate(lines, first))


def _parsed(model: type[Line], line: bytes, source: str, number: int) -> Line:
    try:
        return model.model_validate_json(line)
    except ValidationError as error:
        problem = f"{source}, line {number}: {first_complaint(error)}"
        remedy = "only its last line may be cut short; restore the log from a copy"
        raise ReviewError(problem, expected="a line of a review log", remedy=remedy) from None


def _append(path: Path, content: bytes) -> None:
    """Write at the end of a file and wait for the disk; on an error the file is as before."""
    size = path.stat().st_size if path.exists() else 0
    try:
        with path.open("ab", buffering=0) as file:
            if file.write(content) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            os.fsync(file.fileno())
    except OSError:
        os.truncate(path, size)
        raise


@dataclass(frozen=True)
class Reviewed:
    """The result of a review."""

    proposal: Proposal  # its clusters, those of most landmarks first, without the irrelevant labels
    irrelevant: frozenset[str]  # the labels left out
    either: frozenset[str] = frozenset()  # the others that may be natural as well as human-made
    approved: int = 0  # how many of the clusters were approved
    events: int = 0  # how many events the log holds
    torn: int = 0  # bytes at the end of the log that were never acknowledged and do not count


def reviewed(clusters_path: AnyPath, log: AnyPath) -> Reviewed:
    """The clusters that a review led to; the same folder and log give the same.

    An approved cluster and its labels are no longer in doubt. Labels keep the numbers of the proposal, a cluster's
    margin is the mean of its labels'. Where only some clusters were given groups above, the others stand in a group of
    their own name, so that the tree has one depth.

    Args:
        clusters_path: a folder that ``hiertree labels cluster`` made, or its ``proposal.json``.
        log: the log of a review or of an adjudication.

    Raises:
        TableError: no proposal there.
        ReviewError: the log is damaged, of another proposal, or leaves no label.
    """
    proposal = read_proposal(clusters_path)
    history, torn = replayed(proposal, log)
    clusters = history.state.clusters.values()
    return Reviewed(
        reviewed_proposal(proposal, history.state),
        frozenset().union(*(cluster.irrelevant for cluster in clusters)),
        frozenset().union(*(cluster.either & cluster.relevant for cluster in clusters)),
        sum(cluster.approved for cluster in clusters if cluster.relevant),
        history.seq,
        len(torn),
    )


def reviewed_proposal(proposal: Proposal, state: State) -> Proposal:
    """A state of the review as a proposal, without the irrelevant labels."""
    places = {place.label: place for cluster in proposal.clusters for place in cluster.labels}
    relevant = [cluster for cluster in state.clusters.values() if cluster.relevant]
    if not relevant:
        raise ReviewError("every label is marked irrelevant", expected="at least one that is not")
    level = _leveled(relevant)
    State.of(level).check_above(())
    clusters = [_cluster(cluster, places, proposal) for cluster in level]
    by_landmarks = sorted(clusters, key=lambda cluster: (-cluster.landmarks, cluster.name))
    left = Proposal(tuple(by_landmarks), proposal.silhouettes)
    check_proposal(left, source="the reviewed proposal")
    return left


def _leveled(clusters: list[ReviewCluster]) -> list[ReviewCluster]:
    """Give all clusters equally many groups above; missing ones take the cluster's name, and its kind if needed."""
    depth = max(len(cluster.above) for cluster in clusters)

    def filled(cluster: ReviewCluster, name: str) -> ReviewCluster:
        return replace(cluster, above=cluster.above + (name,) * (depth - len(cluster.above)))

    full_depth_state = State.of(cluster for cluster in clusters if len(cluster.above) == depth)
    shallow_clusters = (cluster for cluster in clusters if len(cluster.above) < depth)
    misplaced = full_depth_state.misplaced(filled(cluster, cluster.name) for cluster in shallow_clusters)
    suffix_of = {cluster.number: f" ({cluster.kind})" for cluster in misplaced}
    return [filled(cluster, cluster.name + suffix_of.get(cluster.number, "")) for cluster in clusters]


def replayed(proposal: Proposal, log: AnyPath) -> tuple[History, bytes]:
    """The history that a log leads to from a proposal, and a line at its end that was cut short; the log stays."""
    with reading_file(log, **_LOG):
        lines, torn = _lines(Path(log).read_bytes())
    if not lines:
        raise ReviewError(f"{log} holds no complete line", expected="the log of a review")
    header, state = _parsed(Header, lines[0], str(log), 1), initial_state(proposal)
    events = _events(lines[1:], str(log), 2)
    if header.proposal != state.digest:
        raise ReviewError(f"{log} reviews another proposal", expected="the log of a review of this one")
    return replay(History.beginning(state, annotator=header.annotator), events, source=str(log)), torn


def _cluster(cluster: ReviewCluster, places: Mapping[str, LabelPlace], proposal: Proposal) -> Cluster:
    members = {label: places[label] for label in cluster.relevant}
    for label in cluster.relevant & cluster.either:
        doubts = (doubt for doubt in members[label].doubt.split(", ") if doubt != "kind")
        members[label] = replace(members[label], doubt=", ".join(doubts))
    if cluster.approved:
        members = {label: replace(place, doubt="", target="") for label, place in members.items()}
    label_places = tuple(sorted(members.values(), key=lambda place: (-place.landmarks, place.label)))
    origin = proposal.clusters[cluster.number] if cluster.number < len(proposal.clusters) else None
    if origin is not None and {place.label for place in origin.labels} == cluster.relevant:
        margin, doubt = origin.margin, "" if cluster.approved else origin.doubt
    else:
        margin, doubt = round(sum(place.margin for place in label_places) / len(label_places), 4), ""
    return Cluster(cluster.name, cluster.kind, margin, label_places, doubt, cluster.above)
