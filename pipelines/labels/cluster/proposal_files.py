"""The clusters on disk: ``proposal.json`` for programs, ``clusters.csv`` and ``labels.csv`` for people.

::

    {"format": "hiertree-proposal-1",
     "silhouettes": {"40": 0.31},
     "clusters": [{"id": 0, "name": "lake", "kind": "natural", "margin": 0.5, "doubt": "", "above": [],
                   "labels": [{"label": "pond", "landmarks": 3, "similarity": 0.9, "silhouette": 0.2, "margin": 0.5,
                               "doubt": "", "hypernyms": ["body of water"], "target": "river"}]}]}

A cluster's id is its rank in the file; hypernyms that are not known, and a target where there is none, are left out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from hiertree.errors import TableError
from hiertree.io.files import AnyPath, write_json
from hiertree.io.reading import read_json, reading_file
from hiertree.io.tables import write_table

from ...settings import first_complaint
from ..encode.hypernyms import ARROW
from ..encode.phrases import KINDS
from ..landmarks import SEPARATOR, KeptLandmark
from .embedding import natural_probability
from .proposing import Cluster, LabelPlace, Proposal

FORMAT = "hiertree-proposal-1"
PROPOSAL = "proposal.json"
CLUSTERS = "clusters.csv"
EITHER = "either"  # of labels that people find natural as well as human-made


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
    >>> place = LabelPlace("pond", 3, 0.9, 0.2, 0.5, "")
    >>> proposal = Proposal((Cluster("lake", "natural", 0.5, (place,), ""),), {})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_proposal(Path(folder) / PROPOSAL, proposal)
    ...     read_proposal(folder) == proposal
    True
    """
    file = Path(path) / PROPOSAL if Path(path).is_dir() else Path(path)
    content = _parsed(file)
    proposal = Proposal(content.clusters, content.silhouettes)
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
    clusters, places = proposal.clusters, [place for cluster in proposal.clusters for place in cluster.labels]
    if not clusters:
        yield "no cluster"
    yield from (f"cluster {number} has no label" for number, cluster in enumerate(clusters) if not cluster.labels)
    yield from (f"cluster {cluster.name!r} is {cluster.kind!r}" for cluster in clusters if cluster.kind not in KINDS)
    names = [name for cluster in clusters for name in (cluster.name, *cluster.above)]
    names += [place.label for place in places]
    yield from (f"the name {name!r}" for name in names if not name.strip())
    yield from (f"two clusters named {name!r}" for name in _twice(cluster.name for cluster in clusters))
    yield from (f"the label {label!r} is there twice" for label in _twice(place.label for place in places))
    if len({len(cluster.above) for cluster in clusters}) > 1:
        yield "clusters with different numbers of groups above them"
    yield from (f"{place.label!r} has {place.landmarks} landmarks" for place in places if place.landmarks < 0)
    numbers = [cluster.margin for cluster in clusters] + list(proposal.silhouettes.values())
    numbers += [number for place in places for number in (place.similarity, place.silhouette, place.margin)]
    yield from (f"the number {number}" for number in numbers if not isfinite(number))


def _twice(names: Iterable[str]) -> list[str]:
    return [name for name, times in Counter(names).items() if times > 1]


def _as_json(proposal: Proposal) -> dict[str, Any]:
    clusters = json.loads(json.dumps([asdict(cluster) for cluster in proposal.clusters]))
    for place in (place for cluster in clusters for place in cluster["labels"]):
        for key in [key for key in ("hypernyms", "target") if not place[key]]:
            del place[key]
    return {
        "format": FORMAT,
        "silhouettes": {str(k): score for k, score in proposal.silhouettes.items()},
        "clusters": [{"id": number, **cluster} for number, cluster in enumerate(clusters)],
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
            content = file.read_bytes()
        return TypeAdapter(_File).validate_json(content, strict=True)
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
    for number, cluster in enumerate(proposal.clusters):
        fields = (number, cluster.name, cluster.kind, cluster.margin)
        sizes = (landmarks.get(cluster.name, 0), len(cluster.labels))
        labels = SEPARATOR.join(place.label for place in cluster.labels)
        chain = next(filter(None, map(_chain, cluster.labels)), "")
        doubts = ("yes" if cluster.doubt else "no", cluster.doubt)
        rows.append((*fields, *sizes, labels, *doubts, SEPARATOR.join(cluster.above), chain))
    write_table(path, (*header, "above", "hypernyms"), rows)


def write_labels(path: Path, proposal: Proposal, *, either: Set[str] = frozenset()) -> None:
    """Write one row per label; those of either kind, as people found them, say so."""
    header = ("label", "landmarks", "cluster", "kind", "similarity", "silhouette", "kind_margin", "doubt")
    rows = []
    for cluster in proposal.clusters:
        for place in cluster.labels:
            kind = EITHER if place.label in either else cluster.kind
            numbers = (place.similarity, place.silhouette, place.margin)
            remainder = (round(natural_probability(place.margin), 4), _chain(place), place.target)
            rows.append((place.label, place.landmarks, cluster.name, kind, *numbers, place.doubt, *remainder))
    write_table(path, (*header, "natural_probability", "hypernyms", "target"), rows)


def _chain(place: LabelPlace) -> str:
    return ARROW.join([place.label, *place.hypernyms]) if place.hypernyms else ""
