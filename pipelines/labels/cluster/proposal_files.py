"""The clusters on disk: ``proposal.json`` for programs, ``clusters.csv`` and ``labels.csv`` for people.

::

    {"format": "hiertree-proposal-1",
     "silhouettes": {"40": 0.31},
     "clusters": [{"id": 0, "name": "lake", "kind": "natural", "margin": 0.5, "doubt": "", "above": [],
                   "labels": [{"label": "pond", "landmarks": 3, "similarity": 0.9, "silhouette": 0.2, "margin": 0.5,
                               "doubt": "", "hypernyms": ["body of water"], "target": "river"}]}]}

A cluster's id is its rank in the file; what is empty or 0 of ``hypernyms``, ``target``, ``either`` and ``vouched`` is
left out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from hiertree.errors import TableError
from hiertree.io.files import AnyPath, write_json
from hiertree.io.reading import read_json, reading_file
from hiertree.io.tables import read_table, write_table

from ...settings import first_complaint
from ..encode.hypernyms import ARROW
from ..encode.place_nouns import KINDS
from ..landmarks import SEPARATOR, KeptLandmark
from ..texts import normalize_label
from .proposing import AssignedCluster, Cluster, LabelPlace, Proposal

_NO_CLUSTER = ("", "-1")  # as HDBSCAN and BERTopic number what is in no cluster
FORMAT = "hiertree-proposal-1"
PROPOSAL = "proposal.json"
CLUSTERS = "clusters.csv"
EITHER = "either"  # of labels that are natural as well as human-made


def write_proposal(path: AnyPath, proposal: Proposal) -> None:
    """Write a proposal, whole or not at all.

    Args:
        path: the file.
        proposal: its clusters, in the order that numbers them.

    Raises:
        TableError: :func:`read_proposal` would refuse it.
    """
    check_proposal(proposal, source=f"{path}, to be written")
    write_json(path, _as_json(proposal))


def read_proposal(path: AnyPath) -> Proposal:
    """Read what :func:`write_proposal` wrote.

    Args:
        path: the file, or a folder that holds ``proposal.json``.

    Raises:
        TableError: no such file, another format or version, a missing, unknown or mistyped value (its place is named),
            ids out of order, or what :func:`check_proposal` refuses.

    >>> import tempfile
    >>> from hiertree.pipelines.labels import LabelPlace
    >>> member = LabelPlace("pond", 3, 0.9, 0.2, 0.5, "")
    >>> proposal = Proposal((Cluster("lake", "natural", 0.5, (member,), ""),), {})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_proposal(Path(folder) / PROPOSAL, proposal)
    ...     read_proposal(folder) == proposal
    True
    """
    file = Path(path) / PROPOSAL if Path(path).is_dir() else Path(path)
    parsed = _parsed(file)
    proposal = Proposal(parsed.clusters, parsed.silhouettes)
    if _as_json(proposal) != read_json(file, expected=f"a proposal in the format {FORMAT}"):
        expected = "cluster ids 0, 1, 2, … in order, and only keys that 'labels cluster' writes"
        raise TableError(f"{file}", expected=expected)
    check_proposal(proposal, source=str(file))
    return proposal


def check_proposal(proposal: Proposal, *, source: str = "proposal") -> None:
    """Refuse a proposal that does not form a tree.

    Args:
        proposal: any.
        source: what error messages call it.

    Raises:
        TableError: no cluster, one without a name or labels, a name or label twice, a kind that is none, numbers that
            are not finite, or groups above some clusters that others lack.
    """
    for complaint in _complaints(proposal):
        raise TableError(f"{source}: {complaint}", expected="clusters that form a tree")


def _complaints(proposal: Proposal) -> Iterator[str]:
    clusters, labels = proposal.clusters, [member for cluster in proposal.clusters for member in cluster.labels]
    if not clusters:
        yield "no cluster"
    yield from (f"cluster {index} has no label" for index, cluster in enumerate(clusters) if not cluster.labels)
    yield from (f"cluster {cluster.name!r} is {cluster.kind!r}" for cluster in clusters if cluster.kind not in KINDS)
    names = [name for cluster in clusters for name in (cluster.name, *cluster.above)]
    names += [member.label for member in labels]
    yield from (f"the name {name!r}" for name in names if not name.strip())
    yield from (f"two clusters named {name!r}" for name in _twice(cluster.name for cluster in clusters))
    yield from (f"the label {label!r} is there twice" for label in _twice(member.label for member in labels))
    if len({len(cluster.above) for cluster in clusters}) > 1:
        yield "clusters with different numbers of groups above them"
    yield from (f"{member.label!r} has {member.landmarks} landmarks" for member in labels if member.landmarks < 0)
    values = [cluster.margin for cluster in clusters] + list(proposal.silhouettes.values())
    values += [v for member in labels for v in (member.similarity, member.silhouette, member.margin, member.vouched)]
    yield from (f"the number {value}" for value in values if not isfinite(value))


def _twice(names: Iterable[str]) -> list[str]:
    return [name for name, times in Counter(names).items() if times > 1]


def _as_json(proposal: Proposal) -> dict[str, Any]:
    clusters = json.loads(json.dumps([asdict(cluster) for cluster in proposal.clusters]))
    for label in (label for cluster in clusters for label in cluster["labels"]):
        for key in [key for key in ("hypernyms", "target", "either", "vouched") if not label[key]]:
            del label[key]
    return {
        "format": FORMAT,
        "silhouettes": {str(k): score for k, score in proposal.silhouettes.items()},
        "clusters": [{"id": index, **cluster} for index, cluster in enumerate(clusters)],
    }


@dataclass(frozen=True)
class _File:
    """The content of the file, for pydantic to check."""

    format: Literal["hiertree-proposal-1"]
    silhouettes: dict[int, float]
    clusters: tuple[Cluster, ...]


def _parsed(file: Path) -> _File:
    try:
        with reading_file(file, expected="a proposal of 'labels cluster'"):
            text = file.read_bytes()
        return TypeAdapter(_File).validate_json(text, strict=True)
    except ValidationError as error:
        raise TableError(f"{file}: {first_complaint(error)}", expected=f"a proposal in the format {FORMAT}") from None


def cluster_of_most(labels: Iterable[str], cluster_of: Mapping[str, Cluster]) -> Cluster:
    """The cluster of a landmark: the one that holds most of its labels, on a tie the first label's."""
    clusters = [cluster_of[label] for label in labels]
    names = [cluster.name for cluster in clusters]
    return max(clusters, key=lambda cluster: names.count(cluster.name))


def landmarks_of_clusters(landmarks: Iterable[KeptLandmark], proposal: Proposal) -> Counter[str]:
    """How many landmarks each cluster has, by its name."""
    cluster_of = proposal.cluster_of()
    return Counter(cluster_of_most(landmark.labels, cluster_of).name for landmark in landmarks)


def write_clusters(path: Path, proposal: Proposal, landmarks: Mapping[str, int]) -> None:
    """Write one row per cluster, with how many landmarks each has, by its name."""
    header = ("cluster", "name", "kind", "kind_margin", "landmarks", "distinct_labels", "labels", "uncertain", "doubt")
    rows = []
    for index, cluster in enumerate(proposal.clusters):
        fields = (index, cluster.name, cluster.kind, cluster.margin)
        sizes = (landmarks.get(cluster.name, 0), len(cluster.labels))
        labels = SEPARATOR.join(member.label for member in cluster.labels)
        chain = next(filter(None, map(_chain, cluster.labels)), "")
        doubts = ("yes" if cluster.doubt else "no", cluster.doubt)
        rows.append((*fields, *sizes, labels, *doubts, SEPARATOR.join(cluster.above), chain))
    write_table(path, (*header, "above", "hypernyms"), rows)


def write_labels(path: Path, proposal: Proposal) -> None:
    """Write one row per label; those of either kind say so."""
    header = ("label", "landmarks", "cluster", "kind", "similarity", "silhouette", "kind_margin", "vouched", "doubt")
    rows = []
    for cluster in proposal.clusters:
        for member in cluster.labels:
            kind = EITHER if member.either else cluster.kind
            numeric = (member.similarity, member.silhouette, member.margin, member.vouched)
            text = (member.doubt, _chain(member), member.target)
            rows.append((member.label, member.landmarks, cluster.name, kind, *numeric, *text))
    write_table(path, (*header, "hypernyms", "target"), rows)


def _chain(member: LabelPlace) -> str:
    return ARROW.join([member.label, *member.hypernyms]) if member.hypernyms else ""


def read_assignments(path: AnyPath, labels: Iterable[str], *, whole: bool = False) -> list[AssignedCluster]:
    """Clusters from a table of ``label`` and ``cluster``, and perhaps ``name``, ``kind``, ``group`` and ``doubt``.

    A label whose cell of ``cluster`` is empty or −1 stands in none. A cluster that is no number is a name.

    Args:
        path: the table.
        labels: those that there are; spelling is compared as cleaning leaves it, in any case.
        whole: whether the table must hold them all and no other, and the rows of those in no cluster come last, as
            those of a cluster without labels; else others are passed over.

    Raises:
        TableError: a label twice, a label or kind that is none, two names, kinds or groups of one cluster (the line is
            named), or labels that are missing.
    """
    table = read_table(path, required=["label", "cluster"])
    label_of = {normalize_label(label).casefold(): label for label in labels}
    members: dict[str, dict[str, Any]] = {}
    left_out: dict[str, dict[str, str]] = {}
    first: dict[str, str] = {}
    for line, row in zip(table.index, table.to_dict("records"), strict=True):
        source, cells = f"{path}, line {line}", {str(name): str(cell).strip() for name, cell in row.items()}
        label = label_of.get(normalize_label(cells["label"]).casefold())
        if label is None and whole:
            raise TableError(f"{source}: the label {cells['label']!r}", expected="one of those that were clustered")
        if label is None:
            continue
        row_text = f"{cells['label']!r} (cluster {cells['cluster']!r})"
        if label in first:
            raise TableError(
                f"{source}: {row_text} again, after {first[label]}", expected="each label once, in any case"
            )
        first[label] = f"{row_text} on line {line}"
        if cells["cluster"] in _NO_CLUSTER:
            left_out[label] = cells
        else:
            cluster = members.setdefault(cells["cluster"], {"rows": {}, "either": set()})
            _add_label(cluster, label, cells, source)
    if missing := [label for label in label_of.values() if label not in first and (whole or not first)]:
        problem = f"{path} lacks {len(missing)} of {len(label_of)} labels, {missing[0]!r} for one"
        remedy = "to leave a label out, keep its row and empty its cell of 'cluster'" if whole else ""
        raise TableError(problem, expected="a row for each label" if whole else "rows of these labels", remedy=remedy)
    clusters = [_assigned(cluster, cells) for cluster, cells in members.items()]
    return [*clusters, AssignedCluster(rows=left_out)] if whole and left_out else clusters


def _add_label(cluster: dict[str, Any], label: str, cells: Mapping[str, str], source: str) -> None:
    kind = cells.get("kind", "").casefold()
    if kind not in ("", EITHER, *KINDS):
        raise TableError(f"{source}: kind {cells['kind']!r}", expected=f"{', '.join(KINDS)} or {EITHER}")
    cluster["rows"][label] = cells
    if kind == EITHER:
        cluster["either"].add(label)
    facts = {"name": cells.get("name", ""), "kind": kind.replace(EITHER, ""), "group": cells.get("group", "")}
    for name, fact in facts.items():
        if fact and cluster.setdefault(name, fact) != fact:
            problem = f"{source}: {name} {fact!r} for a cluster of {name} {cluster[name]!r}"
            raise TableError(problem, expected=f"one {name} for each cluster")


def _assigned(cluster: str, cells: Mapping[str, Any]) -> AssignedCluster:
    above = tuple(name.strip() for name in cells.get("group", "").split(SEPARATOR) if name.strip())
    name = cells.get("name") or ("" if cluster.lstrip("-").replace(".", "", 1).isdigit() else cluster)
    labels, either = tuple(cells["rows"]), frozenset(cells["either"])
    return AssignedCluster(name, cells.get("kind", ""), above, labels, either, cells["rows"])
