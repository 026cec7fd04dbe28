"""The actions of reviewers, on whole clusters and on labels.

An action is a frozen pydantic model: the same class reads it from a request and from the log, and says what it changes
in a state. Wrong types and unknown fields are refused when it is read, what does not fit the state when its change is
asked for.
"""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from hiertree.errors import ReviewError

from ..texts import visible
from .state import Change, ReviewCluster, State

LONGEST_NAME = 200  # characters


def _checked_name(text: str) -> str:
    if visible(text) != text:
        raise ValueError("a name must not hold line breaks or invisible characters")
    return unicodedata.normalize("NFC", text)


Kind: TypeAlias = Literal["natural", "human-made"]
Name: TypeAlias = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_NAME), AfterValidator(_checked_name)
]
Number: TypeAlias = Annotated[int, Field(ge=0)]
Numbers: TypeAlias = Annotated[tuple[Number, ...], Field(min_length=1)]
Labels: TypeAlias = Annotated[tuple[str, ...], Field(min_length=1)]


class StrictModel(BaseModel):
    """Frozen, strict about types, without unknown fields."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class Action(StrictModel):
    """An action of an annotator."""

    def change(self, state: State) -> Change:
        """What it changes."""
        raise NotImplementedError


class Rename(Action):
    """Give a cluster another name."""

    do: Literal["rename"] = "rename"
    cluster: Number
    name: Name

    def change(self, state: State) -> Change:
        """See the base class."""
        cluster = state.cluster(self.cluster)
        state.check_name(self.name, besides=[self.cluster])
        return Change((cluster,), (replace(cluster, name=self.name),), f"Renamed {cluster.name} to {self.name}")


class Merge(Action):
    """Put clusters into one of them, which keeps its name, kind and groups above."""

    do: Literal["merge"] = "merge"
    clusters: Numbers
    into: Number

    def change(self, state: State) -> Change:
        """See the base class."""
        merged = state.select(self.clusters)
        if len(merged) < 2 or self.into not in self.clusters:
            raise ReviewError(f"merging {list(self.clusters)} into {self.into}", expected="two clusters or more")
        into = state.cluster(self.into)
        approved = all(cluster.approved for cluster in merged)
        comment = "\n".join(cluster.comment for cluster in merged if cluster.comment)
        merger = replace(into.joined(merged), approved=approved, comment=comment)
        names = ", ".join(cluster.name for cluster in merged if cluster != into)
        return Change(merged, (merger,), f"Merged {names} into {into.name}")


class SetKind(Action):
    """Set the kind of clusters, natural or human-made.

    A cluster leaves the groups above it where they stay with others of the earlier kind.
    """

    do: Literal["kind"] = "kind"
    clusters: Numbers
    kind: Kind

    def change(self, state: State) -> Change:
        """See the base class."""
        clusters = state.select(self.clusters)
        changed = [replace(cluster, kind=self.kind) for cluster in clusters]
        misplaced = state.misplaced(changed)
        new_clusters = tuple(replace(cluster, above=()) if cluster in misplaced else cluster for cluster in changed)
        state.check_above(new_clusters)
        left = " and ".join(dict.fromkeys(" › ".join(cluster.above) for cluster in misplaced))
        message = f"Made {_named(clusters)} {self.kind}{f' and took it out of {left}' if left else ''}"
        return Change(clusters, new_clusters, message)


class SetAbove(Action):
    """Name the groups between the kind and clusters, coarse → fine; none takes them away."""

    do: Literal["above"] = "above"
    clusters: Numbers
    above: Annotated[tuple[Name, ...], Field(max_length=8)]

    def change(self, state: State) -> Change:
        """See the base class."""
        clusters = state.select(self.clusters)
        new_clusters = tuple(replace(cluster, above=self.above) for cluster in clusters)
        state.check_above(new_clusters)
        path, names = " › ".join(self.above), _named(clusters)
        return Change(clusters, new_clusters, f"Put {names} under {path}" if path else f"Took {names} out of its group")


class Approve(Action):
    """Mark clusters as done, or not."""

    do: Literal["approve"] = "approve"
    clusters: Numbers
    approved: bool

    def change(self, state: State) -> Change:
        """See the base class."""
        clusters = state.select(self.clusters)
        new_clusters = tuple(replace(cluster, approved=self.approved) for cluster in clusters)
        message = f"{'Approved' if self.approved else 'Withdrew approval of'} {_named(clusters)}"
        return Change(clusters, new_clusters, message)


class Comment(Action):
    """Write the comment of a cluster; an empty text takes it away."""

    do: Literal["comment"] = "comment"
    cluster: Number
    text: Annotated[str, StringConstraints(strip_whitespace=True, max_length=2000)]

    def change(self, state: State) -> Change:
        """See the base class."""
        cluster = state.cluster(self.cluster)
        message = f"{'Commented on' if self.text else 'Removed the comment of'} {cluster.name}"
        return Change((cluster,), (replace(cluster, comment=self.text),), message)


def _named(clusters: tuple[ReviewCluster, ...]) -> str:
    return clusters[0].name if len(clusters) == 1 else f"{len(clusters)} clusters"


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
        destination = f"a new cluster, {target.name}" if self.to is None else target.name
        return _moved(state, self.labels, target, f"Moved {_counted(self.labels)} to {destination}", by_hand=True)


class Split(Action):
    """Take labels out of a cluster into a new one of the same kind and groups above.

    ``method`` says who chose the labels; earlier versions could split a cluster by 2-means.
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
            problem = f"splitting {_counted(self.labels)} off {cluster.name!r}"
            raise ReviewError(problem, expected="some of its labels, not all of them")
        state.check_name(self.name)
        new_cluster = ReviewCluster(state.next_number, self.name, cluster.kind, frozenset(), cluster.above)
        message = f"Split {_counted(self.labels)} off {cluster.name} as {self.name}"
        return _moved(state, self.labels, new_cluster, message, by_hand=self.method == "selection")


class MarkLabels(Action):
    """Leave labels out of the hierarchy, or take them back."""

    do: Literal["mark"] = "mark"
    labels: Labels
    irrelevant: bool

    def change(self, state: State) -> Change:
        """See the base class."""
        description = "irrelevant" if self.irrelevant else "relevant"
        return _marked(state, self.labels, "irrelevant", on=self.irrelevant, description=description)


class MarkEither(Action):
    """Say that labels may be natural as well as human-made, or take that back.

    A tree knows one kind for each label: that of its cluster, where it stays.
    """

    do: Literal["either"] = "either"
    labels: Labels
    either: bool

    def change(self, state: State) -> Change:
        """See the base class."""
        description = "of either kind" if self.either else "of one kind"
        return _marked(state, self.labels, "either", on=self.either, description=description)


def _marked(state: State, labels: Labels, mark: str, *, on: bool, description: str) -> Change:
    labels_by_cluster = state.homes(labels)
    clusters = state.select(labels_by_cluster)
    new_clusters = tuple(cluster.marked(labels_by_cluster[cluster.number], mark, on=on) for cluster in clusters)
    return Change(clusters, new_clusters, f"Marked {_counted(labels)} of {_named(clusters)} as {description}")


class Check(Action):
    """Say that labels belong where they are, so that they are in doubt no longer."""

    do: Literal["check"] = "check"
    labels: Labels

    def change(self, state: State) -> Change:
        """See the base class."""
        return _marked(state, self.labels, "checked", on=True, description="rightly there")


class Sample(Action):
    """Draw certain labels to be checked, in place of those drawn before; others lose their certainty.

    Who draws them and why: :mod:`hiertree.pipelines.labels.review.sampling`. They are written down, so that nothing is
    computed anew.
    """

    do: Literal["sample"] = "sample"
    labels: tuple[str, ...]
    doubted: tuple[str, ...] = ()

    def change(self, state: State) -> Change:
        """See the base class."""
        state.homes([*self.labels, *self.doubted])
        clusters, labels, doubted = tuple(state.clusters.values()), frozenset(self.labels), frozenset(self.doubted)
        new_clusters = [
            replace(cluster, sampled=cluster.labels & labels, doubted=cluster.doubted | (cluster.labels & doubted))
            for cluster in clusters
        ]
        pairs = [pair for pair in zip(clusters, new_clusters, strict=True) if pair[0] != pair[1]]
        before, after = zip(*pairs, strict=True) if pairs else ((), ())
        doubts = f"; {_counted(self.doubted)} lost certainty" if doubted else ""
        return Change(before, after, f"Drew {_counted(self.labels)} to check{doubts}")


class Placement(StrictModel):
    """Labels, and the cluster to which they go."""

    labels: Labels
    to: Number


class Accept(Action):
    """Move labels to the clusters proposed for them, all at once; they stay in doubt where nobody looked at them."""

    do: Literal["accept"] = "accept"
    moves: Annotated[tuple[Placement, ...], Field(min_length=1)]
    unseen: bool = False

    def change(self, state: State) -> Change:
        """See the base class."""
        number_of = {label: move.to for move in self.moves for label in move.labels}
        labels_by_cluster = state.homes(number_of)
        touched = state.select([*labels_by_cluster, *number_of.values()])
        arriving: dict[int, list[ReviewCluster]] = {cluster.number: [] for cluster in touched}
        for origin, labels in labels_by_cluster.items():
            for label in sorted(labels):
                only_label = frozenset({label})
                member = state.cluster(origin).part(only_label)
                arriving[number_of[label]].append(member.marked(only_label, "moved", on=not self.unseen))
        stays = (cluster.part(cluster.labels - number_of.keys()) for cluster in touched)
        arrived = (cluster.joined(arriving[cluster.number]) for cluster in stays)
        message = f"Moved {_counted(tuple(number_of))} to {_named(state.select(number_of.values()))}, as proposed"
        return Change(touched, tuple(cluster for cluster in arrived if cluster.labels), message)


def _target(state: State, action: Move) -> ReviewCluster:
    """The cluster that labels move to, perhaps a new, empty one."""
    if action.to is not None:
        return state.cluster(action.to)
    if action.name is None or action.kind is None:
        raise ReviewError("a new cluster without name or kind", expected="both")
    state.check_name(action.name)
    return ReviewCluster(state.next_number, action.name, action.kind, frozenset())


def _moved(state: State, moving: Labels, target: ReviewCluster, message: str, *, by_hand: bool) -> Change:
    """Move labels, with their marks, from their clusters to a target, which becomes the last cluster."""
    labels_by_cluster = {
        cluster_id: labels for cluster_id, labels in state.homes(moving).items() if cluster_id != target.number
    }
    if not labels_by_cluster:
        return Change((), (), message)
    origins = state.select(labels_by_cluster)
    arrived = target.joined(cluster.part(labels_by_cluster[cluster.number]) for cluster in origins)
    arrived = arrived.marked(frozenset().union(*labels_by_cluster.values()), "moved", on=True) if by_hand else arrived
    stays = (cluster.part(cluster.labels - labels_by_cluster[cluster.number]) for cluster in origins)
    existing_target = (target,) if target.number in state.clusters else ()
    return Change((*origins, *existing_target), (*(cluster for cluster in stays if cluster.labels), arrived), message)


def _counted(labels: Labels) -> str:
    return labels[0] if len(labels) == 1 else f"{len(labels)} labels"
