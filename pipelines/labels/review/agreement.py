"""How far two reviews of one proposal agree, and what they differ in, for one of the two to be edited.

Both began from one proposal, so they placed the same labels. Their clusters are matched one to one so that as many
labels as possible lie in matched clusters (the assignment problem); a label is *placed alike* when its two clusters are
matched. Cohen's κ = (p − e)/(1 − e), p the fraction of labels treated alike and e that expected if each annotator drew
at random by their own fractions; it has no value when both use one and the same category throughout.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

from hiertree.errors import ReviewError
from hiertree.io.files import AnyPath, write_json
from hiertree.io.provenance import manifest

from ..cluster.proposal_files import EITHER, PROPOSAL, read_proposal
from ..cluster.step import agreement as partition_agreement
from .results import Outcome, read_outcome
from .state import ReviewCluster

COMMAND = "hiertree labels agreement"
_SHOWN = 40  # differences of each sort that are printed
_NAMES = {
    "relevance_kappa": "κ, relevant or not",
    "kind_share": "labels of one kind",
    "kind_kappa": "κ of kinds",
    "place_share": "labels placed alike",
    "place_kappa": "κ of clusters, matched",
    "ari": "adjusted Rand index",
    "nmi": "normalized mutual information",
    "name_share": "matched clusters of one name",
}


def cohen_kappa(first: Sequence[Hashable], second: Sequence[Hashable]) -> float | None:
    """Cohen's κ of two annotators' categories; None where it has no value, since both use one category throughout."""
    from sklearn.metrics import cohen_kappa_score

    if len({*first, *second}) < 2:
        return None
    return float(cohen_kappa_score(list(first), list(second)))


def compare(first: Outcome, second: Outcome) -> dict[str, Any]:
    """Compare what two annotators made of one proposal, JSON-able.

    ``agreement`` has the measures, ``labels`` those that are placed differently and ``clusters`` the matched ones of
    different name, kind or groups above, each with what it is for the ``first`` and the ``second`` annotator.
    """
    if first.annotator == second.annotator:
        raise ReviewError(f"two reviews of {first.annotator}", expected="reviews of two annotators")
    if first.state.labels != second.state.labels:
        raise ReviewError("two reviews of different labels", expected="two reviews of one proposal")
    all_labels, states = sorted(first.state.labels), (first.state, second.state)
    placements = [{label: group for group in state.clusters.values() for label in group.relevant} for state in states]
    first_groups, second_groups = placements
    common_labels = [label for label in all_labels if all(label in placement for placement in placements)]
    clusters_by_label = [{label: cluster.number for label, cluster in placement.items()} for placement in placements]
    numbered = [[clusters[label] for label in common_labels] for clusters in clusters_by_label]
    kinds = [[_kind_of(label, groups[label]) for label in common_labels] for groups in placements]
    matches = match_clusters(list(zip(*numbered, strict=True)))
    pairs = [(first.state.cluster(index), second.state.cluster(match)) for index, match in sorted(matches.items())]
    # in the second's numbers; a cluster of the first that has no match keeps one that the second cannot have
    matched = [[matches.get(cluster_id, -1 - cluster_id) for cluster_id in numbered[0]], numbered[1]]
    scores = partition_agreement(*numbered) if common_labels else {}
    counterparts: dict[int | None, int | None] = dict([*matches.items(), (None, None)])  # None: left out on both sides
    first_home, second_home = (clusters.get for clusters in clusters_by_label)
    movers = [label for label in all_labels if counterparts.get(first_home(label), "no match") != second_home(label)]
    return {
        "annotators": [first.annotator, second.annotator],
        "agreement": {  # κ, ARI and NMI are 1 where they agree throughout, and None where they have no value
            "labels": len(all_labels),
            "relevant": len(common_labels),  # labels that both kept; what follows is over these
            # over all labels
            "relevance_kappa": cohen_kappa(*([label in placement for label in all_labels] for placement in placements)),
            "kind_share": _fraction_alike(*kinds),
            "kind_kappa": cohen_kappa(*kinds),
            "place_share": _fraction_alike(*matched),
            "place_kappa": cohen_kappa(*matched),
            "ari": scores.get("ari"),
            "nmi": scores.get("nmi"),
            "clusters": [sum(bool(cluster.relevant) for cluster in state.clusters.values()) for state in states],
            "matched": len(matches),
            "name_share": _fraction_alike(*([pair[side].name for pair in pairs] for side in (0, 1))),
        },
        "labels": [
            {"label": label, **_both(first_groups.get(label), second_groups.get(label), label)} for label in movers
        ],
        "clusters": [views for views in (_both(*pair) for pair in pairs) if views["first"] != views["second"]],
    }


def match_clusters(pairs: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Match clusters, first → second, so that as many labels as possible lie in matched ones; all share a label."""
    import pandas as pd
    from scipy.optimize import linear_sum_assignment

    shared_counts = pd.Series(Counter(pairs), dtype="int64").unstack(fill_value=0) if pairs else pd.DataFrame()
    matched_cells = zip(*linear_sum_assignment(shared_counts.to_numpy(), maximize=True), strict=True)
    cells = [(row, column) for row, column in matched_cells if shared_counts.iloc[row, column]]
    return {int(shared_counts.index[row]): int(shared_counts.columns[column]) for row, column in cells}


def agreement_report(
    clusters_path: AnyPath, review_a: AnyPath, review_b: AnyPath, *, out: AnyPath | None = None
) -> dict[str, Any]:
    """Compare two reviews of one proposal, logs or tables: :func:`compare`, written to ``out`` with its provenance."""
    proposal = read_proposal(clusters_path)
    report = compare(*(read_outcome(proposal, review) for review in (review_a, review_b)))
    if out is not None:
        proposal_file = Path(clusters_path) / PROPOSAL if Path(clusters_path).is_dir() else Path(clusters_path)
        record = manifest(command=COMMAND, parameters={}, inputs=[proposal_file, review_a, review_b])
        write_json(out, {**report, "manifest": record})
    return report


def describe_agreement(report: dict[str, Any]) -> str:
    """The measures as lines, and what the two differ in."""
    measures, (first, second) = report["agreement"], report["annotators"]
    label_counts = f"{measures['labels']} labels, {measures['relevant']} kept by both"
    clusters = "{} and {} clusters, {} matched".format(*measures["clusters"], measures["matched"])
    lines = [f"{first} and {second}: {label_counts}; {clusters}"]
    for name, text in _NAMES.items():
        value = measures[name]
        lines.append(f"{text:31s} {'no value' if value is None else format(value, '.3f'):>8s}")
    labels, pairs = report["labels"], report["clusters"]
    lines.append(f"{len(labels)} labels and {len(pairs)} clusters differ")
    differences = [f"{row['label']}: {_named(row['first'])} | {_named(row['second'])}" for row in labels]
    cluster_lines = [f"{_path(pair['first'])} | {_path(pair['second'])}" for pair in pairs]
    for rows in (differences, cluster_lines):
        lines += [f"  {row}" for row in rows[:_SHOWN]]
        lines += [f"  … {len(rows) - _SHOWN} more, in --out FILE or --json"] * (len(rows) > _SHOWN)
    return "\n".join(lines)


def _both(first: ReviewCluster | None, second: ReviewCluster | None, label: str = "") -> dict[str, Any]:
    """A cluster as either annotator left it, None for a label that was left out."""
    return {"first": _as_json(first, label), "second": _as_json(second, label)}


def _as_json(cluster: ReviewCluster | None, label: str) -> dict[str, Any] | None:
    if cluster is None:
        return None
    return {"name": cluster.name, "kind": _kind_of(label, cluster), "above": list(cluster.above)}


def _named(cluster: dict[str, Any] | None) -> str:
    return "left out" if cluster is None else str(cluster["name"])


def _path(cluster: dict[str, Any]) -> str:
    return " › ".join([cluster["kind"], *cluster["above"], cluster["name"]])


def _kind_of(label: str, cluster: ReviewCluster) -> str:
    return EITHER if label in cluster.either else cluster.kind


def _fraction_alike(first: Sequence[Hashable], second: Sequence[Hashable]) -> float | None:
    """The fraction of equal items, or None without items."""
    return sum(a == b for a, b in zip(first, second, strict=True)) / len(first) if first else None
