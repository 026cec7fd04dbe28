"""An annotator's session: the state, its log, changes made in other tabs, and splits by 2-means."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import import_module
from itertools import chain, count
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from hiertree.errors import OptionError, ReviewConflictError, ReviewError
from hiertree.io.files import AnyPath

from ..cluster.clustering import spherical_kmeans
from ..cluster.naming import propose_names
from ..cluster.proposing import Proposal
from ..encode.place_nouns import PlaceNounEncoder
from ..encode.text_encoders import TextEncoder
from ..texts import visible
from .actions import LONGEST_NAME, Accept, Labels, Name, Number, Placement, Sample, Split, StrictModel
from .log_file import ClusterAction, Event, Header, History, LabelAction, LogAction, LogFile, Redo, Undo, replay
from .sampling import draw, next_sample
from .state import ReviewCluster, State, initial_state


class SplitRequest(StrictModel):
    """Split labels off a cluster: without labels, those that 2-means takes; without a name, one is proposed."""

    do: Literal["split"] = "split"
    cluster: Number
    labels: Labels | None = None
    name: Name | None = None

    def resolved(self, state: State, counts: Mapping[str, int], encoder: TextEncoder) -> Split:
        """The resulting action."""
        labels = self.labels or two_means(state.cluster(self.cluster), counts, encoder)
        name = self.name or new_name(labels, state, counts)
        return Split(cluster=self.cluster, labels=labels, name=name, method="selection" if self.labels else "two-means")


PostedRequest: TypeAlias = Annotated[
    ClusterAction | LabelAction | SplitRequest | Undo | Redo, Field(discriminator="do")
]
AnyRequest: TypeAlias = LogAction | SplitRequest


def two_means(cluster: ReviewCluster, counts: Mapping[str, int], encoder: TextEncoder) -> tuple[str, ...]:
    """The labels of the half with fewer landmarks, when 2-means on the sphere splits a cluster."""
    import numpy as np

    labels = sorted(cluster.labels)
    if len(labels) < 2:
        raise ReviewError(f"{cluster.name!r} has one label", expected="at least two to split")
    weights = 1 + np.log([max(counts[label], 1) for label in labels])
    error = ReviewError(f"2-means finds no two groups in {cluster.name!r}", remedy="select labels and split them off")
    try:
        with np.errstate(divide="ignore", invalid="ignore"):  # labels without any variance
            assignment = spherical_kmeans(encoder.encode(labels), 2, weights=weights)
    except OptionError:
        raise error from None
    halves = [tuple(label for label, half in zip(labels, assignment, strict=True) if half == index) for index in (0, 1)]
    if not all(halves):
        raise error
    return min(halves, key=lambda half: (sum(counts[label] for label in half), len(half), half))


def load_two_means() -> None:
    """Load the packages for 2-means in advance, which takes a second or two."""
    import_module("faiss")
    import_module("sklearn.feature_extraction.text")
    import_module("sklearn.decomposition")


def new_name(labels: Labels, state: State, counts: Mapping[str, int]) -> str:
    """An unused name for a new cluster of labels."""
    state.homes(labels)
    used_names = {cluster.name for cluster in state.clusters.values()}
    names = (*propose_names([{label: counts[label] for label in labels}]), max(sorted(labels), key=counts.__getitem__))
    proposed, commonest = (visible(name)[:LONGEST_NAME].strip() or "cluster" for name in names)
    numbered = (f"{proposed} {suffix}" for suffix in count(2))
    return next(name for name in chain([proposed, commonest], numbered) if name not in used_names)


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
        self._counts = {each.label: each.landmarks for cluster in proposal.clusters for each in cluster.labels}
        self._threads = threading.Lock()
        state = initial_state(proposal)
        self._history = History.beginning(state, annotator=annotator)
        self._touched: list[tuple[str, frozenset[int]]] = []
        self.log = LogFile(log, Header(proposal=state.digest, annotator=annotator, time=clock()))
        self.news(0)

    def accept_targets(self) -> None:
        """Move every label to the cluster proposed for it, if this is the first action of the log."""
        clusters = self.proposal.clusters
        index_of, labels_of = {cluster.name: index for index, cluster in enumerate(clusters)}, defaultdict(list)
        for member in chain.from_iterable(cluster.labels for cluster in clusters):
            if member.target in index_of:
                labels_of[index_of[member.target]].append(member.label)
        if labels_of and self.news(0).history.seq == 0:
            moves = tuple(Placement(labels=tuple(labels), to=index) for index, labels in labels_of.items())
            self.act(Accept(moves=moves, unseen=True), seq=0)

    def draw_sample(self, size: int | None = None) -> None:
        """Draw certain labels to be checked, if there are any."""
        history = self.news(0).history
        labels = draw(self.proposal, history.state, seed=int(history.state.digest, 16), size=size)
        if labels:
            self.act(Sample(labels=labels), seq=history.seq)

    def act(self, request: AnyRequest, *, seq: int) -> News:
        """Perform an action, log it, and return the change."""
        with self._threads, self.log.locked():
            self._catch_up()
            history = self._history
            if seq != history.seq:
                problem = f"an action on event {seq}, but the log is at event {history.seq}"
                raise ReviewConflictError(problem, remedy="look at what changed, then do it again")
            if isinstance(request, SplitRequest):
                request = request.resolved(history.state, self._counts, self._encoder)
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
