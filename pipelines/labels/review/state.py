"""The state of a review: clusters with their labels and marks, and changes from one state to another.

A cluster under review has a number that is never given twice; those of the proposal have its ids. Every action is a
:class:`Change` that names the clusters before and after, so that undoing it is the same change backwards. The digest of
a state is the sum of its clusters' hashes, which are kept: only clusters that changed are hashed anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from hiertree.errors import ReviewError

from ..cluster.proposing import Proposal

_MODULUS = 1 << 128
_MARKS = ("irrelevant", "either", "checked", "moved", "sampled", "doubted")  # fields that are sets of labels


@dataclass(frozen=True)
class ReviewCluster:
    """A cluster under review."""

    number: int  # its identity
    name: str  # unlike that of any other cluster
    kind: str  # ``natural`` or ``human-made``
    labels: frozenset[str]  # all its labels, never none
    above: tuple[str, ...] = ()  # names of the groups between kind and cluster, coarse → fine
    irrelevant: frozenset[str] = frozenset()  # the labels left out of the hierarchy
    either: frozenset[str] = frozenset()  # the labels that may be natural as well as human-made
    checked: frozenset[str] = frozenset()  # the labels of which a person said that they belong here
    moved: frozenset[str] = frozenset()  # the labels that a person put here
    sampled: frozenset[str] = frozenset()  # the certain labels that were drawn last to be checked
    doubted: frozenset[str] = frozenset()  # the labels that lost their certainty by what a sample showed
    approved: bool = False  # whether the annotator is done with it
    comment: str = ""  # anything people should know

    @property
    def relevant(self) -> frozenset[str]:
        """The labels that are not marked irrelevant."""
        return self.labels - self.irrelevant

    def part(self, labels: frozenset[str]) -> ReviewCluster:
        """The cluster with only some of its labels and their marks."""
        return replace(self, **{name: getattr(self, name) & labels for name in ("labels", *_MARKS)})

    def joined(self, clusters: Iterable[ReviewCluster]) -> ReviewCluster:
        """The cluster with the labels and marks of others added."""
        members = (self, *clusters)
        sets: dict[str, Any] = {
            name: frozenset().union(*map(attrgetter(name), members)) for name in ("labels", *_MARKS)
        }
        return replace(self, **sets)

    def marked(self, labels: frozenset[str], mark: str, *, on: bool) -> ReviewCluster:
        """The cluster with some of its labels marked, as irrelevant for instance, or unmarked."""
        marked_labels = getattr(self, mark)
        return replace(self, **{mark: marked_labels | labels if on else marked_labels - labels})

    def as_json(self) -> dict[str, Any]:
        """The content for JSON, sets as sorted lists."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: sorted(value) if isinstance(value, frozenset) else value for name, value in fields.items()}

    @cached_property
    def digest(self) -> int:
        """A hash of the content, below 2¹²⁸."""
        fields = {name: value for name, value in self.as_json().items() if name not in _MARKS or value}
        text = json.dumps(fields, sort_keys=True)
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")


@dataclass(frozen=True)
class Change:
    """Clusters as they were, and as they are afterwards; a cluster on one side only is made or goes.

    ``message`` tells it in a sentence, in the past tense.
    """

    before: tuple[ReviewCluster, ...]
    after: tuple[ReviewCluster, ...]
    message: str = ""

    @property
    def backwards(self) -> Change:
        """The change that undoes this one."""
        return Change(self.after, self.before, f"Undone: {self.message}")

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of the clusters involved."""
        return frozenset(cluster.number for cluster in (*self.before, *self.after))


@dataclass(frozen=True)
class State:
    """All clusters under review, by number."""

    clusters: Mapping[int, ReviewCluster]
    next_number: int = field(compare=False)  # for a new cluster, above any ever given

    @classmethod
    def of(cls, clusters: Iterable[ReviewCluster]) -> State:
        """A state from its clusters."""
        by_number = {cluster.number: cluster for cluster in clusters}
        return cls(MappingProxyType(by_number), max(by_number, default=-1) + 1)

    @property
    def digest(self) -> str:
        """A hash of the state, 32 hexadecimal digits, independent of order."""
        return f"{sum(cluster.digest for cluster in self.clusters.values()) % _MODULUS:032x}"

    @property
    def labels(self) -> frozenset[str]:
        """The labels of all clusters."""
        return self.marked("labels")

    def marked(self, mark: str) -> frozenset[str]:
        """The labels of all clusters with a mark, "irrelevant" for instance."""
        return frozenset().union(*(getattr(cluster, mark) for cluster in self.clusters.values()))

    def changed(self, change: Change) -> State:
        """The state after a change."""
        gone = {cluster.number for cluster in change.before}
        clusters = {cluster_id: cluster for cluster_id, cluster in self.clusters.items() if cluster_id not in gone}
        clusters |= {cluster.number: cluster for cluster in change.after}
        next_number = max([self.next_number, *(cluster_id + 1 for cluster_id in change.numbers)])
        return State(MappingProxyType(clusters), next_number)

    def cluster(self, cluster_id: int) -> ReviewCluster:
        """A cluster by its number."""
        if cluster_id not in self.clusters:
            raise ReviewError(f"no cluster {cluster_id}", expected="one that was not merged, emptied or undone")
        return self.clusters[cluster_id]

    def select(self, cluster_ids: Iterable[int]) -> tuple[ReviewCluster, ...]:
        """Clusters by their numbers, each once."""
        return tuple(map(self.cluster, dict.fromkeys(cluster_ids)))

    def homes(self, labels: Iterable[str]) -> dict[int, frozenset[str]]:
        """Labels by the number of the cluster that holds them."""
        missing = set(labels)
        labels_by_cluster: dict[int, frozenset[str]] = {}
        for cluster_id, cluster in self.clusters.items():
            if not missing.isdisjoint(cluster.labels):
                labels_by_cluster[cluster_id] = cluster.labels & missing
                missing -= cluster.labels
        if missing:
            raise ReviewError(f"label {min(missing)!r}", expected="one of the proposal's")
        return labels_by_cluster

    def check_name(self, name: str, *, besides: Iterable[int] = ()) -> None:
        """Refuse a name that another cluster has."""
        other_clusters = (cluster for cluster_id, cluster in self.clusters.items() if cluster_id not in set(besides))
        if any(cluster.name == name for cluster in other_clusters):
            raise ReviewError(f"another cluster is named {name!r}", expected="its own", remedy="or merge them")

    def misplaced(self, changed: Iterable[ReviewCluster]) -> list[ReviewCluster]:
        """The changed clusters whose groups above have another place in the tree of the unchanged clusters."""
        new = {cluster.number: cluster for cluster in changed}
        paths_of = _paths_of_groups(cluster for cluster_id, cluster in self.clusters.items() if cluster_id not in new)
        groups = ((cluster, *group) for cluster in new.values() for group in _groups_above(cluster))
        return [cluster for cluster, key, path in groups if paths_of.get(key, {path}) != {path}]

    def check_above(self, changed: Iterable[ReviewCluster]) -> None:
        """Refuse clusters whose groups above would have two places in the tree."""
        new = {cluster.number: cluster for cluster in changed}
        for (_, name), paths in _paths_of_groups({**self.clusters, **new}.values()).items():
            if len(paths) > 1:
                problem = f"{name!r} would lie in {' and in '.join(' › '.join(path) for path in sorted(paths))}"
                remedy = "change all clusters of the group together, or name another"
                raise ReviewError(problem, expected="one place in the tree for each group", remedy=remedy)


def _groups_above(cluster: ReviewCluster) -> Iterator[tuple[tuple[int, str], tuple[str, ...]]]:
    """Depth and name of each group above a cluster, and the path that leads to it."""
    path = (cluster.kind, *cluster.above)
    for depth in range(1, len(path)):
        yield (depth, path[depth]), path[:depth]


def _paths_of_groups(clusters: Iterable[ReviewCluster]) -> dict[tuple[int, str], set[tuple[str, ...]]]:
    """The paths that lead to each group, by its depth and name; in a tree there is one."""
    paths_of: dict[tuple[int, str], set[tuple[str, ...]]] = {}
    for cluster in clusters:
        for group, path in _groups_above(cluster):
            paths_of.setdefault(group, set()).add(path)
    return paths_of


def initial_state(proposal: Proposal) -> State:
    """The proposal, nothing approved, numbered by its ids."""
    return State.of(
        ReviewCluster(
            index,
            cluster.name,
            cluster.kind,
            frozenset(member.label for member in cluster.labels),
            cluster.above,
            either=frozenset(member.label for member in cluster.labels if member.either),
        )
        for index, cluster in enumerate(proposal.clusters)
    )
