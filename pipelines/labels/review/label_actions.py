"""What people do to labels: move, split off, leave out, and decide where two annotators differ."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from hiertree.errors import ReviewError

from .actions import Action, Kind, Labels, Name, Number
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
        target = _target(state, self)
        where = f"a new cluster, {target.name}" if self.to is None else target.name
        return _moved(state, self.labels, target, f"Moved {_counted(self.labels)} to {where}")


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
        cluster = state.cluster(self.cluster)
        if not set(self.labels) < cluster.labels:
            raise ReviewError(
                f"splitting {_counted(self.labels)} off {cluster.name!r}",
                expected="some of its labels, not all of them",
            )
        state.check_name(self.name)
        made = ReviewCluster(state.next_number, self.name, cluster.kind, frozenset(), cluster.above)
        message = f"Split {_counted(self.labels)} off {cluster.name} as {self.name}"
        return _moved(state, self.labels, made, message)


class MarkLabels(Action):
    """Leave labels out of the hierarchy, or take them back."""

    do: Literal["mark"] = "mark"
    labels: Labels
    irrelevant: bool

    def change(self, state: State) -> Change:
        """See the base class."""
        homes = state.homes(self.labels)
        clusters = state.select(homes)
        after = tuple(cluster.marked(homes[cluster.number], irrelevant=self.irrelevant) for cluster in clusters)
        where = clusters[0].name if len(clusters) == 1 else f"{len(clusters)} clusters"
        how = "irrelevant" if self.irrelevant else "relevant"
        return Change(clusters, after, f"Marked {_counted(self.labels)} of {where} as {how}")


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
        labels, target = frozenset(self.labels), _target(state, self)
        message = f"Settled {_counted(self.labels)}: {'irrelevant' if self.irrelevant else target.name}"
        moved = _moved(state, self.labels, target, message)
        *stays, arrived = moved.after or (target,)
        arrived = arrived.marked(labels, irrelevant=self.irrelevant)
        settled = replace(arrived, settled=arrived.settled | labels)
        return replace(moved, before=moved.before or (target,), after=(*stays, settled))


def _target(state: State, action: Move | Settle) -> ReviewCluster:
    """The cluster that labels go to, perhaps a new one without labels yet."""
    if action.to is not None:
        return state.cluster(action.to)
    if action.name is None or action.kind is None:
        raise ReviewError("a new cluster without name or kind", expected="both")
    state.check_name(action.name)
    return ReviewCluster(state.next_number, action.name, action.kind, frozenset())


def _moved(state: State, moving: Labels, target: ReviewCluster, message: str) -> Change:
    """Labels leave their homes for a target, the last of the clusters afterwards; marks go with them."""
    homes = {number: labels for number, labels in state.homes(moving).items() if number != target.number}
    if not homes:
        return Change((), (), message)
    leaving = state.select(homes)
    arrived = target.joined(cluster.part(homes[cluster.number]) for cluster in leaving)
    stays = (cluster.part(cluster.labels - homes[cluster.number]) for cluster in leaving)
    there = (target,) if target.number in state.clusters else ()
    return Change((*leaving, *there), (*(cluster for cluster in stays if cluster.labels), arrived), message)


def _counted(labels: Labels) -> str:
    return labels[0] if len(labels) == 1 else f"{len(labels)} labels"
