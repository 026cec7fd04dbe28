"""From a proposal and the log of its review to the clusters that people left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hiertree.errors import ReviewError

from ..cluster.proposal_file import check_proposal, read_proposal
from ..cluster.proposing import Cluster, LabelPlace, Proposal
from ..folders import AnyPath
from .history import History, replay
from .log_file import read_log
from .state import ReviewCluster, State, initial_state


@dataclass(frozen=True)
class Reviewed:
    """What a review led to.

    Attributes:
        proposal: its clusters, those of most landmarks first, without the irrelevant labels.
        irrelevant: the labels left out.
        approved: how many of the clusters were approved.
        events: how many events the log holds.
        torn: bytes at the end of the log that were never acknowledged and do not count.
    """

    proposal: Proposal
    irrelevant: frozenset[str]
    approved: int = 0
    events: int = 0
    torn: int = 0


def reviewed(clustered: AnyPath, log: AnyPath) -> Reviewed:
    """The clusters that a review led to; the same folder and log give the same.

    An approved cluster and its labels are no longer in doubt. Labels keep the numbers of the proposal, a cluster's
    margin is the mean of its labels'. Where only some clusters were given groups above, the others stand in a group of
    their own name, so that the tree has one depth.

    Args:
        clustered: a folder that ``hiertree labels cluster`` made, or its ``proposal.json``.
        log: the log of a review or of an adjudication.

    Raises:
        TableError: no proposal there.
        ReviewError: the log is damaged, of another proposal, or leaves no label.
    """
    proposal = read_proposal(clustered)
    history, torn = _replayed(proposal, log)
    clusters = history.state.clusters.values()
    return Reviewed(
        reviewed_proposal(proposal, history.state),
        frozenset().union(*(cluster.irrelevant for cluster in clusters)),
        sum(cluster.approved for cluster in clusters if cluster.relevant),
        history.seq,
        len(torn),
    )


def replayed(proposal: Proposal, log: AnyPath) -> History:
    """Where a log leads to from a proposal.

    Raises:
        ReviewError: the log is damaged, or of another proposal; the line is named.
    """
    return _replayed(proposal, log)[0]


def reviewed_proposal(proposal: Proposal, state: State) -> Proposal:
    """A state of the review as a proposal, without the irrelevant labels.

    Raises:
        ReviewError: every label is irrelevant, or a filled-in group would have two places in the tree.
    """
    places = {place.label: place for cluster in proposal.clusters for place in cluster.labels}
    relevant = [cluster for cluster in state.clusters.values() if cluster.relevant]
    if not relevant:
        raise ReviewError("every label is marked irrelevant", expected="one that is left")
    level = _leveled(relevant)
    State.of(level).check_above(())
    clusters = [_cluster(cluster, places, proposal) for cluster in level]
    left = Proposal(
        tuple(sorted(clusters, key=lambda cluster: (-cluster.landmarks, cluster.name))), proposal.silhouettes
    )
    check_proposal(left, source="the reviewed proposal")
    return left


def _leveled(clusters: list[ReviewCluster]) -> list[ReviewCluster]:
    """Clusters with as many groups above each: missing ones bear the name of the cluster, and its kind if need be."""
    depth = max(len(cluster.above) for cluster in clusters)

    def filled(cluster: ReviewCluster, name: str) -> ReviewCluster:
        return replace(cluster, above=cluster.above + (name,) * (depth - len(cluster.above)))

    given = State.of(cluster for cluster in clusters if len(cluster.above) == depth)
    level = [filled(cluster, cluster.name) for cluster in clusters]
    elsewhere = {made.number for made in given.misplaced(one for one in level if one.number not in given.clusters)}
    return [
        filled(cluster, f"{cluster.name} ({cluster.kind})") if cluster.number in elsewhere else made
        for cluster, made in zip(clusters, level, strict=True)
    ]


def _replayed(proposal: Proposal, log: AnyPath) -> tuple[History, bytes]:
    content, state = read_log(log), initial_state(proposal)
    if content.header is None:
        raise ReviewError(f"{log} holds no whole line", expected="the log of a review")
    if content.header.proposal != state.digest:
        raise ReviewError(f"{log} reviews another proposal", expected="the log of a review of this one")
    beginning = History.beginning(state, annotator=content.header.annotator)
    return replay(beginning, content.events, source=str(log)), content.torn


def _cluster(cluster: ReviewCluster, places: Mapping[str, LabelPlace], proposal: Proposal) -> Cluster:
    members = [places[label] for label in cluster.relevant]
    if cluster.approved:
        members = [replace(place, doubt="") for place in members]
    ordered = tuple(sorted(members, key=lambda place: (-place.landmarks, place.label)))
    origin = proposal.clusters[cluster.number] if cluster.number < len(proposal.clusters) else None
    if origin is not None and {place.label for place in origin.labels} == cluster.relevant:
        margin, doubt = origin.margin, "" if cluster.approved else origin.doubt
    else:
        margin, doubt = round(sum(place.margin for place in ordered) / len(ordered), 4), ""
    return Cluster(cluster.name, cluster.kind, margin, ordered, doubt, cluster.above)
