"""``hiertree labels agreement``: two logs in, numbers and differences out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hiertree.io.files import write_json
from hiertree.io.provenance import manifest

from ..cluster.proposal_file import PROPOSAL, read_proposal
from .adjudication import Adjudication
from .reviewing import replayed

COMMAND = "hiertree labels agreement"
_TOLD = {
    "relevance_kappa": "κ, relevant or not",
    "kind_share": "labels of one kind",
    "kind_kappa": "κ of kinds",
    "place_share": "labels placed alike",
    "place_kappa": "κ of clusters, matched",
    "ari": "adjusted Rand index",
    "nmi": "normalised mutual information",
    "name_share": "matched clusters of one name",
}


def agreement_report(
    clustered: str | os.PathLike[str],
    log_a: str | os.PathLike[str],
    log_b: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """Compare two reviews of one proposal.

    Args:
        clustered: a folder that ``hiertree labels cluster`` made, or its ``proposal.json``.
        log_a: the log of an annotator.
        log_b: the log of another.
        out: a JSON file for the report and its provenance.

    Returns:
        ``annotators``, ``agreement`` (see :class:`hiertree.pipelines.labels.review.Agreement`), and the differences of
        ``labels`` and ``clusters``, each with both sides; None stands for a label left out.

    Raises:
        TableError: no proposal there.
        ReviewError: a log that is damaged, of another proposal, or by the same annotator as the other.
    """
    proposal = read_proposal(clustered)
    compared = Adjudication.of(replayed(proposal, log_a), replayed(proposal, log_b)).as_json()
    if out is not None:
        read = Path(clustered) / PROPOSAL if Path(clustered).is_dir() else Path(clustered)
        record = manifest(command=COMMAND, parameters={}, inputs=[read, log_a, log_b])
        write_json(out, {**compared, "manifest": record})
    return compared


def describe_agreement(report: dict[str, Any]) -> str:
    """The numbers as lines, and how many differences there are."""
    numbers, (first, second) = report["agreement"], report["annotators"]
    kept = f"{numbers['labels']} labels, {numbers['relevant']} kept by both"
    clusters = "{} and {} clusters, {} matched".format(*numbers["clusters"], numbers["matched"])
    lines = [f"{first} and {second}: {kept}; {clusters}"]
    for name, told in _TOLD.items():
        value = numbers[name]
        lines.append(f"{told:31s} {'no value' if value is None else format(value, '.3f'):>8s}")
    lines.append(f"{len(report['labels'])} labels and {len(report['clusters'])} clusters to decide")
    return "\n".join(lines)
