"""What a review led to: the log of the page, or the table of labels that people edited in any program.

The table has a row a label: ``label``, ``landmarks``, ``cluster``, ``kind``, ``group``, ``doubt``, ``target``,
``example`` and ``sample``. Its first rows are a sample of the certain labels, in doubt as *sample*, its next the labels
in doubt. In each row a person writes another cluster, empties that cell to leave the label out, or empties its doubt
where the label is right.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from hiertree.errors import ReviewError, some_of
from hiertree.io.files import AnyPath
from hiertree.io.reading import reading_file
from hiertree.io.tables import write_table

from ..cluster.proposal_files import EITHER, check_proposal, read_assignments, read_proposal
from ..cluster.proposing import Cluster, LabelPlace, Proposal
from ..landmarks import SEPARATOR
from .log_file import BOM, LOG_EXPECTED, replayed
from .sampling import SampleResult, certain_labels, sample_result
from .state import ReviewCluster, State, initial_state

SAMPLED, LOST = "sample", "like those that were wrong"  # doubts
_log = logging.getLogger(__name__)
_HEADER = ("label", "landmarks", "cluster", "kind", "group", "doubt", "target", "example", "sample")


@dataclass(frozen=True)
class Outcome:
    """Where a review stands."""

    annotator: str  # of a log; the name of a table
    state: State
    events: int = 0  # how many the log holds, or how many labels the table changes
    torn: int = 0  # bytes at the end of the log that were never acknowledged and do not count


@dataclass(frozen=True)
class Reviewed:
    """The result of a review."""

    proposal: Proposal  # its clusters, those of most landmarks first, without the irrelevant labels
    irrelevant: frozenset[str]  # the labels left out
    either: frozenset[str] = frozenset()  # the others that may be natural as well as human-made
    approved: int = 0  # how many of the clusters were approved
    sample: SampleResult | None = None  # what a sample of the certain labels showed, if one was drawn
    events: int = 0  # as of the outcome
    torn: int = 0  # bytes at the end of the log that were never acknowledged and do not count


def reviewed(clusters_path: AnyPath, review: AnyPath) -> Reviewed:
    """The clusters that a review led to; the same folder and review give the same.

    Labels that a person moved, left where they were or approved with their cluster are no longer in doubt. Labels keep
    the numbers of the proposal, a cluster's margin is the mean of its labels'. Where only some clusters were given
    groups above, the others stand in a group of their own name, so that the tree has one depth.

    Args:
        clusters_path: a folder that ``hiertree labels cluster`` made, or its ``proposal.json``.
        review: the log of a review, or its table.

    Raises:
        TableError: no proposal there, or a table that does not fit it.
        ReviewError: the log is damaged, of another proposal, or leaves no label.
    """
    proposal = read_proposal(clusters_path)
    outcome = read_outcome(proposal, review)
    state = outcome.state
    sample = sample_result(proposal, state)
    return Reviewed(
        reviewed_proposal(proposal, state),
        state.marked("irrelevant"),
        state.marked("either") - state.marked("irrelevant"),
        sum(cluster.approved for cluster in state.clusters.values() if cluster.relevant),
        sample if sample.size else None,
        outcome.events,
        outcome.torn,
    )


def read_outcome(proposal: Proposal, review: AnyPath) -> Outcome:
    """Where a log or a table leads from a proposal; the file stays as it is."""
    with reading_file(review, **LOG_EXPECTED), Path(review).open("rb") as file:
        is_log = file.read(4).removeprefix(BOM)[:1] in (b"{", b"") or Path(review).suffix == ".jsonl"
    if not is_log:
        state = read_edited(proposal, review)
        names = {cluster.name for cluster in state.clusters.values()} - {cluster.name for cluster in proposal.clusters}
        if names:
            _log.info("%s: new clusters: %d (%s)", Path(review).name, len(names), some_of(sorted(names)))
        rows_before, rows = map(_rows_of_labels, (initial_state(proposal), state))
        return Outcome(Path(review).stem, state, sum(rows[label] != row for label, row in rows_before.items()))
    history, torn = replayed(proposal, review)
    return Outcome(history.annotator, history.state, history.seq, len(torn))


def _rows_of_labels(state: State) -> dict[str, tuple[Any, ...]]:
    """What a table says of each label: where it stands, and whether it is left out, of either kind, or right there."""
    marks_of = attrgetter("irrelevant", "either", "checked")
    return {
        label: (cluster.name, cluster.kind, cluster.above, *(label in marks for marks in marks_of(cluster)))
        for cluster in state.clusters.values()
        for label in cluster.labels
    }


def reviewed_proposal(proposal: Proposal, state: State) -> Proposal:
    """A state of the review as a proposal, without the irrelevant labels."""
    members = {member.label: member for cluster in proposal.clusters for member in cluster.labels}
    relevant = [cluster for cluster in state.clusters.values() if cluster.relevant]
    if not relevant:
        raise ReviewError("every label is marked irrelevant", expected="at least one that is not")
    level = _leveled(relevant)
    State.of(level).check_above(())
    clusters = [_cluster(cluster, members, proposal) for cluster in level]
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


def doubt_of(member: LabelPlace, cluster: ReviewCluster) -> str:
    """What is in doubt about a label under review, in a cluster."""
    label = member.label
    if cluster.approved or label in cluster.checked or label in cluster.moved:
        return ""
    reasons = [reason for reason in member.doubt.split(", ") if reason != "kind" or label not in cluster.either]
    return ", ".join(filter(None, [*reasons, LOST * (label in cluster.doubted)]))


def _cluster(cluster: ReviewCluster, members: Mapping[str, LabelPlace], proposal: Proposal) -> Cluster:
    labels = []
    for label in cluster.relevant:
        doubt = doubt_of(members[label], cluster)
        target = members[label].target if doubt else ""
        labels.append(replace(members[label], doubt=doubt, target=target, either=label in cluster.either))
    ordered = tuple(sorted(labels, key=lambda member: (-member.landmarks, member.label)))
    origin = proposal.clusters[cluster.number] if cluster.number < len(proposal.clusters) else None
    if origin is not None and {member.label for member in origin.labels} == cluster.relevant:
        is_done = cluster.approved or not any(member.doubt for member in ordered)
        margin, doubt = origin.margin, "" if is_done else origin.doubt
    else:
        margin, doubt = round(sum(member.margin for member in ordered) / len(ordered), 4), ""
    return Cluster(cluster.name, cluster.kind, margin, ordered, doubt, cluster.above)


def write_review_table(path: AnyPath, proposal: Proposal, state: State, examples: Mapping[str, str]) -> None:
    """Write the table that people edit: what is to be looked at first, in order, then the other labels."""
    members = {member.label: member for cluster in proposal.clusters for member in cluster.labels}
    rows: list[tuple[Any, ...]] = []
    for cluster in state.clusters.values():
        for label in sorted(cluster.labels):
            member, left_out = members[label], label in cluster.irrelevant
            is_seen = label in cluster.checked or label in cluster.moved or left_out
            doubt = "" if is_seen else SAMPLED if label in cluster.sampled else doubt_of(member, cluster)
            kind = EITHER if label in cluster.either else cluster.kind
            fields = (label, member.landmarks, "" if left_out else cluster.name, kind, SEPARATOR.join(cluster.above))
            target, sampled = member.target if doubt else "", "yes" if label in cluster.sampled else ""
            rows.append((*fields, doubt, target, examples.get(label, ""), sampled))
    rank = {SAMPLED: 0, "": 2}
    rows.sort(key=lambda row: (rank.get(row[5], 1), row[2], -row[1]))
    write_table(path, _HEADER, rows)


def read_edited(proposal: Proposal, path: AnyPath) -> State:
    """The state to which a table of :func:`write_review_table` leads that people edited.

    Raises:
        TableError: a row that does not fit (its line is named), or labels that are missing.
    """
    start = initial_state(proposal)
    assigned = read_assignments(path, start.labels, whole=True)
    rows = {label: row for cluster in assigned for label, row in cluster.rows.items()}
    sampled = {label for label in certain_labels(proposal, start) if rows.get(label, {}).get("sample")}
    in_doubt = {member.label for cluster in proposal.clusters for member in cluster.labels if member.doubt}
    cleared = {label for label in in_doubt | sampled if rows.get(label, {}).get("doubt") == ""}
    home_of = {label: cluster for cluster in start.clusters.values() for label in cluster.labels}
    number_of = {cluster.name: cluster.number for cluster in start.clusters.values()}
    clusters: dict[int, ReviewCluster] = {}
    for index, cluster in enumerate((cluster for cluster in assigned if cluster.labels), start.next_number):
        labels, cluster_id = frozenset(cluster.labels), number_of.get(cluster.name, index)
        stayers = frozenset(label for label in labels if home_of[label].number == cluster_id)
        clusters[cluster_id] = ReviewCluster(
            cluster_id,
            cluster.name,
            cluster.kind or Counter(home_of[label].kind for label in cluster.labels).most_common(1)[0][0],
            labels,
            cluster.above,
            either=cluster.either,
            checked=stayers & cleared,
            moved=labels - stayers,
            sampled=labels & sampled,
        )
    for cluster_id, labels in start.homes(start.labels.difference(*(cluster.labels for cluster in assigned))).items():
        left_out = start.cluster(cluster_id).part(labels).marked(labels, "irrelevant", on=True)
        left_out = left_out.marked(labels & sampled, "sampled", on=True)
        clusters[cluster_id] = clusters[cluster_id].joined([left_out]) if cluster_id in clusters else left_out
    state = State.of(clusters.values())
    state.check_above(())
    return state
