"""What people do to labels: move, split off, leave out, and decide where two annotators differ."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from hiertree.errors import ReviewError

from .actions import Action, Kind, Labels, Name, Number, remove_labels
from .state import Change, ReviewCluster, State


class Move(Action):
    """Move labels to a cluster, or to a new one of the name and kind given."""

    do: Literal["move"] = "move"
    labels: Labels
    to: Number | None = None
    name: Name | None = None
    kind: Kind | None = None

    def change(self, state: State) -> Change:
        """See the base class."""
        homes = state.homes(self.labels)
        if self.to is None:
            return _moved(state, homes, _new_cluster(state, self.name, self.kind))
        movers = {number: labels for number, labels in homes.items() if number != self.to}
        return _moved(state, movers, state.cluster(self.to))

    def sentence(self, state: State) -> str:
        """See the base class."""
        target = f"a new cluster, {self.name}" if self.to is None else state.cluster(self.to).name
        return f"Moved {_counted(self.labels)} to {target}"


class Split(Action):
    """Take labels out of a cluster into a new one of the same kind and groups above.

    ``method`` says who chose the labels; those that 2-means chose are written down, so that nothing is computed anew.
    """

    do: Literal["split"] = "split"
    cluster: Number
    labels: Labels
    name: Name
    method: Literal["two-means", "selection"]

    def change(self, state: State) -> Change:
        """See the base class."""
        cluster, leaving = state.cluster(self.cluster), frozenset(self.labels)
        if not leaving < cluster.labels:
            raise ReviewError(
                f"splitting {_counted(self.labels)} off {cluster.name!r}",
                expected="some of its labels, not all of them",
            )
        state.check_name(self.name)
        made = ReviewCluster(state.next_number, self.name, cluster.kind, frozenset(), cluster.above)
        return _moved(state, {self.cluster: leaving}, made)

    def sentence(self, state: State) -> str:
        """See the base class."""
        return f"Split {_counted(self.labels)} off {state.cluster(self.cluster).name} as {self.name}"


class MarkLabels(Action):
    """Leave labels out of the hierarchy, or take them back."""

    do: Literal["mark"] = "mark"
    labels: Labels
    irrelevant: bool

    def change(self, state: State) -> Change:
        """See the base class."""
        homes = state.homes(self.labels)
        clusters = state.select(homes)
        after = tuple(_marked(cluster, homes[cluster.number], irrelevant=self.irrelevant) for cluster in clusters)
        return Change(clusters, after)

    def sentence(self, state: State) -> str:
        """See the base class."""
        names = [state.cluster(number).name for number in state.homes(self.labels)]
        where = names[0] if len(names) == 1 else f"{len(names)} clusters"
        return f"Marked {_counted(self.labels)} of {where} as {'irrelevant' if self.irrelevant else 'relevant'}"


class Settle(Action):
    """Decide on labels that two annotators placed differently: where they belong, or that they are irrelevant."""

    do: Literal["settle"] = "settle"
    labels: Labels
    choice: Literal["first", "second", "own"]
    to: Number | None = None
    name: Name | None = None
    kind: Kind | None = None
    irrelevant: bool = False

    def change(self, state: State) -> Change:
        """See the base class."""
        homes, labels = state.homes(self.labels), frozenset(self.labels)
        target = state.cluster(self.to) if self.to is not None else _new_cluster(state, self.name, self.kind)
        moved = _moved(state, {number: here for number, here in homes.items() if number != self.to}, target)
        before = moved.before if moved.before else (target,)
        after = [cluster for cluster in moved.after if cluster.number != target.number]
        arrived = next((cluster for cluster in moved.after if cluster.number == target.number), target)
        arrived = _marked(arrived, labels, irrelevant=self.irrelevant)
        return Change(before, (*after, replace(arrived, settled=arrived.settled | labels)))

    def sentence(self, state: State) -> str:
        """See the base class."""
        if self.irrelevant:
            return f"Settled {_counted(self.labels)}: irrelevant"
        return f"Settled {_counted(self.labels)}: {self.name if self.to is None else state.cluster(self.to).name}"


def _moved(state: State, homes: dict[int, frozenset[str]], target: ReviewCluster) -> Change:
    """Labels leave their homes for a target, which may be new; marks go with them."""
    if not homes:
        return Change((), ())
    leaving = state.select(homes)
    labels = frozenset().union(*homes.values())
    arrived = replace(
        target,
        labels=target.labels | labels,
        irrelevant=target.irrelevant | frozenset().union(*(cluster.irrelevant & labels for cluster in leaving)),
        settled=target.settled | frozenset().union(*(cluster.settled & labels for cluster in leaving)),
    )
    stays = [left for cluster in leaving for left in remove_labels(cluster, homes[cluster.number])]
    there = (target,) if target.number in state.clusters else ()
    return Change((*leaving, *there), (*stays, arrived))


def _new_cluster(state: State, name: str | None, kind: Kind | None) -> ReviewCluster:
    if name is None or kind is None:
        raise ReviewError("a new cluster without name or kind", expected="both")
    state.check_name(name)
    return ReviewCluster(state.next_number, name, kind, frozenset())


def _marked(cluster: ReviewCluster, labels: frozenset[str], *, irrelevant: bool) -> ReviewCluster:
    return replace(cluster, irrelevant=cluster.irrelevant | labels if irrelevant else cluster.irrelevant - labels)


def _counted(labels: Labels) -> str:
    return labels[0] if len(labels) == 1 else f"{len(labels)} labels"
