"""A third log that decides where two annotators differ.

It begins with the clusters of the first, written down whole, and the digests of both reviews: it is replayed without
their logs, and never goes on with others. A difference over a label is settled by placing it as one of the two did, or
otherwise; one over a cluster's name, kind or groups by approving the cluster.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from hiertree.errors import ReviewError

from .comparing import Comparison, compare
from .history import Adopt, AdoptedGroup, History, Source
from .session import Session
from .state import Group, State


@dataclass(frozen=True)
class Adjudication:
    """The two reviews that are adjudicated, and how they compare."""

    first: History
    second: History
    comparison: Comparison

    @classmethod
    def of(cls, first: History, second: History) -> Adjudication:
        """Compare two reviews.

        Raises:
            ReviewError: they are of different labels, or by the same annotator.
        """
        if first.annotator == second.annotator:
            raise ReviewError(f"two logs of {first.annotator}", expected="logs of two annotators")
        return cls(first, second, compare(first.state, second.state))

    def begin(self, session: Session) -> None:
        """Adopt the first annotator's clusters in a new log; go on with one that did.

        Raises:
            ReviewError: the log is something else, or one of the two reviews has changed since.
        """
        history = session.news(0).history
        sources = (_source(self.first), _source(self.second))
        if history.seq == 0:
            groups = tuple(map(_adopted, self.first.state.groups.values()))
            session.act(Adopt(sources=sources, groups=groups), seq=0)
        elif history.sources != sources:
            raise ReviewError(
                f"{session.log.path} began from {_told(history.sources)}, not from {_told(sources)}",
                expected="the two logs as they were then",
                remedy="name another --log to begin anew",
            )

    def as_json(self) -> dict[str, Any]:
        """What the page shows: who, how far they agree, and each difference with both sides."""
        first, second = self.first.state, self.second.state
        matches = self.comparison.matches.items()
        there: dict[int | None, int] = {other: one for one, other in matches}  # the second's clusters in the third log
        return {
            "annotators": [self.first.annotator, self.second.annotator],
            "agreement": asdict(self.comparison.agreement),
            "labels": [
                {
                    "label": label.label,
                    "first": _side(first, label.first, label.first),
                    "second": _side(second, label.second, there.get(label.second)),
                }
                for label in self.comparison.labels
            ],
            "clusters": [
                {"first": _side(first, pair.first, pair.first), "second": _side(second, pair.second, pair.first)}
                for pair in self.comparison.clusters
            ],
        }


def _side(state: State, number: int | None, cluster: int | None) -> dict[str, Any] | None:
    """A cluster as one annotator left it, or None; ``cluster`` is its number in the third log, if that has it."""
    if number is None:
        return None
    group = state.group(number)
    return {"cluster": cluster, "name": group.name, "kind": group.kind, "above": group.above}


def _adopted(group: Group) -> AdoptedGroup:
    content = group.as_json()
    return AdoptedGroup.model_validate({name: content[name] for name in AdoptedGroup.model_fields}, strict=False)


def _source(history: History) -> Source:
    return Source(annotator=history.annotator, events=history.seq, digest=history.state.digest)


def _told(sources: tuple[Source, ...]) -> str:
    return " and ".join(f"{source.annotator}'s {source.events} events" for source in sources) or "the proposal"
